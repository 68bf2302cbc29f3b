"""Valid combinations: inference × strategy × number of classes × form of the prior, computed from offers and needs.

A likelihood offers some functions (:mod:`gpclass.likelihoods.base`), a form of the prior some others
(:mod:`gpclass.latent.base`); an inference needs some of both and provides what strategies need. The errors for invalid
combinations, the tables of the documentation, the choices of the command line and the parameters of the tests come
from these functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from gpclass.hyper.base import Strategy
from gpclass.inference.base import Inference
from gpclass.latent.base import Form
from gpclass.likelihoods import Likelihood, get_likelihood
from gpclass.registry.rows import FORMS, INFERENCES, STRATEGIES, get_inference, likelihoods_for

CLASSES = ("two", "many")


@dataclass(frozen=True)
class Cell:
    """One combination: the likelihood that it runs with, or the reason why it does not run."""

    inference: str
    strategy: str
    classes: str  # "two" or "many"
    form: str
    likelihood: str | None
    reason: str

    @property
    def runs(self) -> bool:
        """Whether the combination runs."""
        return self.likelihood is not None


def why_no_likelihood(inference: Inference, form: type[Form], many: bool) -> str:
    """Why an inference supports no likelihood under a form of the prior and a number of classes."""
    if many and inference.only_two:
        return f"inference={inference.name!r} takes two classes: {inference.only_two}"
    missing = min((way.prior - form.offers for way in inference.ways), key=len)
    if missing:
        reasons = (form.lacks.get(offer, f"it needs {offer!r} of the prior") for offer in sorted(missing))
        return f"inference={inference.name!r} does not run with the prior {form.name!r}: {'; '.join(reasons)}"
    return f"inference={inference.name!r} has no likelihood of {'many' if many else 'two'} classes"


def why_not_strategy(strategy: Strategy, inference: Inference, form: type[Form], many: bool) -> str:
    """Why a strategy does not take an inference or a form of the prior, and what it takes; empty if it takes both."""
    if strategy.takes(inference):
        return strategy.lacks(form)
    here = (row.default for row in INFERENCES.values() if likelihoods_for(row.default, form, many))
    taken = "" if strategy.lacks(form) else ", ".join(repr(other.name) for other in here if strategy.takes(other))
    others = (row.default for row in STRATEGIES.values() if row.default.takes(inference))
    able = ", ".join(repr(other.name) for other in others if not other.lacks(form))
    hints = (f"inference may be {taken}" if taken else "", f"hyperparameters may be {able}")
    return "; ".join([strategy.why_not(inference), " or ".join(hint for hint in hints if hint)])


def cell(inference: Inference, strategy: Strategy, form: type[Form], classes: str) -> Cell:
    """Whether a combination runs, and with which likelihood."""
    many = classes == "many"
    able = likelihoods_for(inference, form, many)
    if not able:
        likelihood, reason = None, why_no_likelihood(inference, form, many)
    else:
        reason = why_not_strategy(strategy, inference, form, many)
        likelihood = None if reason else able[0]
    return Cell(inference.name, strategy.name, classes, form.name, likelihood, reason)


def cells() -> Iterator[Cell]:
    """Every combination of registered parts."""
    every = product(FORMS.values(), CLASSES, INFERENCES.values(), STRATEGIES.values())
    for form, classes, inference, strategy in every:
        yield cell(inference.default, strategy.default, form, classes)


def counts() -> dict[tuple[str, str], tuple[int, int]]:
    """Per (classes, form): inferences that run with some strategy, and cells that run."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for form, classes in product(FORMS, CLASSES):
        running = [c for c in cells() if c.form == form and c.classes == classes and c.runs]
        found[classes, form] = (len({c.inference for c in running}), len(running))
    return found


def inferences_for(strategy: str) -> list[str]:
    """Names of the inferences that a strategy supports, in the registry's order."""
    chosen = STRATEGIES[strategy].default
    return [name for name, row in INFERENCES.items() if chosen.takes(row.default)]


def goes_with(strategy: str, mark: str = "") -> str:
    """The same in words: "any", or the names, each between two marks."""
    names = inferences_for(strategy)
    return "any" if len(names) == len(INFERENCES) else ", ".join(f"{mark}{name}{mark}" for name in names)


# ---- for the estimators ---------------------------------------------------------------------------------------


def choose_likelihood(spec: Any, inference: Inference, n_classes: int, form: type[Form]) -> Likelihood:
    """The likelihood of a setting: "auto" is the inference's own, or its preferred one."""
    many, own = n_classes > 2, inference.own_likelihood
    if isinstance(spec, str) and spec == "auto":
        if own is not None and not many:
            return own
        able = likelihoods_for(inference, form, many)
        if able:
            return get_likelihood(able[0])
        given: Likelihood = own or get_likelihood("probit")
        if not many:
            return given
        if not inference.only_two:  # it takes many classes, but not with this prior
            raise ValueError(_not_with(inference, form, many))
    else:
        given = own if own is not None and spec == own.name else get_likelihood(spec)
        if own is not None and inference.scale_is_given and given.name == own.name and given != own:
            raise ValueError(f"the inference has {own} and likelihood is {given}; give the scale in one place only")
    if many and not given.many:
        able_many = [name for name, row in INFERENCES.items() if likelihoods_for(row.default, form, True)]
        why = f" ({inference.only_two})" if inference.only_two else ""
        raise ValueError(
            f"Only binary classification is supported. The type of the target is multiclass: y has {n_classes} classes "
            f"and inference={inference.name!r} with likelihood={given.name!r} takes two{why}; "
            "use likelihood='auto' with "
            f"inference={' or '.join(map(repr, able_many))}, or sklearn.multiclass.OneVsRestClassifier"
        )
    return given


def check_combination(inference: Inference, strategy: Strategy, likelihood: Likelihood, form: type[Form]) -> None:
    """Refuse a combination that does not run, with the reason."""
    if likelihood.many and inference.only_two:
        raise ValueError(
            f"inference={inference.name!r} does not go with likelihood={likelihood.name!r}, which has a latent value "
            f"for each class: {inference.only_two}; use likelihood='auto'"
        )
    own = inference.own_likelihood
    other = own is not None and own.name != likelihood.name
    if other or inference.way(type(likelihood), form.offers) is None:
        handled = [*likelihoods_for(inference, form, False), *likelihoods_for(inference, form, True)]
        if not handled:
            raise ValueError(_not_with(inference, form, likelihood.many))
        raise ValueError(
            f"inference={inference.name!r} does not support likelihood={likelihood.name!r}; it supports {handled}"
        )
    reason = why_not_strategy(strategy, inference, form, likelihood.many)
    if not reason and strategy.needs == "gradient":
        reason = inference.why_no_gradient(likelihood)
    if reason:
        raise ValueError(reason)


def _not_with(inference: Inference, form: type[Form], many: bool) -> str:
    """Why an inference does not run with a prior, and what does."""
    able = [name for name, row in INFERENCES.items() if likelihoods_for(row.default, form, many)]
    return (
        f"{why_no_likelihood(inference, form, many)}; set inference to one of {', '.join(map(repr, able))}, "
        "or leave out n_inducing, n_neighbors and latent_prior, which gives the dense prior"
    )


def takes_many(inference: Any, likelihood: Any, form: type[Form]) -> bool:
    """Whether an estimator with these settings takes more than two classes."""
    try:
        chosen = get_inference(inference)
    except ValueError:
        return False
    able = likelihoods_for(chosen, form, True)
    named = likelihood.name if isinstance(likelihood, Likelihood) else likelihood
    return bool(able) if named == "auto" else named in able
