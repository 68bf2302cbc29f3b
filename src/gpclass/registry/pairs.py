"""What goes together: an inference, a strategy, a likelihood and a number of classes."""

from __future__ import annotations

from typing import Any

from gpclass.hyper.base import Inference, Strategy
from gpclass.likelihoods import MULTI_LIKELIHOODS, MultiLikelihood, MultinomialProbit, Softmax
from gpclass.likelihoods.binary import BinaryLikelihood, get_likelihood
from gpclass.registry.rows import INFERENCES


def check_pair(inference: Inference, strategy: Strategy, likelihood: str) -> None:
    """Refuse a combination that makes no sense, with the reason."""
    row = INFERENCES.get(inference.name)
    if row is None:
        return  # a user's own inference: let it speak for itself
    handled = [*row.likelihoods, *([] if row.many is None else [row.many.likelihood])]
    if likelihood not in handled:
        raise ValueError(
            f"inference={row.name!r} does not handle likelihood={likelihood!r}; it handles {handled}"
        )
    if strategy.name in ("maximize", "map") and not row.gradient:
        raise ValueError(
            f"hyperparameters={strategy.name!r} climbs the evidence's gradient, which inference={row.name!r} "
            "does not have; use hyperparameters='fixed', or fit the kernel parameters with inference='ep' first"
        )


def choose_likelihood(spec: Any, inference: Inference, n_classes: int) -> BinaryLikelihood | MultiLikelihood:
    """The likelihood that a setting means: "auto" is that of the inference for the number of classes."""
    row = INFERENCES.get(inference.name)
    auto = isinstance(spec, str) and spec == "auto"
    if isinstance(spec, (Softmax, MultinomialProbit)):
        return spec
    if isinstance(spec, str) and spec in MULTI_LIKELIHOODS:
        return MULTI_LIKELIHOODS[spec]()
    own = getattr(inference, "likelihood", None)
    if auto and isinstance(own, str):  # an inference for many classes, given as such
        return MULTI_LIKELIHOODS[own]()
    if n_classes > 2 and auto and row is not None and row.many is not None:
        return MULTI_LIKELIHOODS[row.many.likelihood]()
    likelihood = _binary_likelihood(spec, inference)
    if n_classes > 2:
        able = [name for name, row in INFERENCES.items() if row.many is not None]
        raise ValueError(
            f"Only binary classification is supported. The type of the target is multiclass: y has {n_classes} classes "
            f"and inference={inference.name!r} with likelihood={likelihood.name!r} takes two; "
            "use likelihood='auto' with "
            f"inference={' or '.join(map(repr, able))}, or sklearn.multiclass.OneVsRestClassifier"
        )
    return likelihood


def _binary_likelihood(spec: Any, inference: Inference) -> BinaryLikelihood:
    """The likelihood of two classes: an inference that brings its own (AMP's c0, DSGQ's k0) is heard first."""
    own: BinaryLikelihood | None = getattr(inference, "likelihood", None)
    if isinstance(spec, str):
        if own is not None and spec in ("auto", own.name):
            return own
        return get_likelihood("probit" if spec == "auto" else spec)
    given = get_likelihood(spec)
    if own is not None and getattr(inference, "scale_is_given", False) and given != own:
        raise ValueError(
            f"the inference says {own} and likelihood says {given}; give the scale in one place only"
        )
    return given


def takes_many(inference: Any, likelihood: Any) -> bool:
    """Whether an estimator with these settings takes more than two classes."""
    name = inference if isinstance(inference, str) else getattr(inference, "name", None)
    row = INFERENCES.get(str(name))
    named = likelihood.name if isinstance(likelihood, (Softmax, MultinomialProbit)) else likelihood
    return row is not None and row.many is not None and named in ("auto", row.many.likelihood)
