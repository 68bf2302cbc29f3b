"""Every method by name, with what it can do, what it costs and whom to cite.

This table is the only list: the estimator's error messages, the documentation and the tests are derived from
it. To add a method, write its file and add its row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

from gpclass.hyper import EM, HMC, Alternate, CrossValidation, Fixed, Map, Maximize, PseudoMarginal
from gpclass.hyper.base import Inference, Strategy
from gpclass.inference import (
    AMP,
    DSGQ,
    EP,
    GPCMC,
    Annealed,
    ControlVariables,
    EllipticalSlice,
    Exact,
    Gibbs,
    Importance,
    Laplace,
    LatentHMC,
    Variational,
)
from gpclass.likelihoods import BinaryLikelihood, get_likelihood
from gpclass.multiclass import MULTI_LIKELIHOODS, MultiLikelihood, MultinomialProbit, Softmax
from gpclass.multiclass.ep import MultinomialEP
from gpclass.multiclass.exact import MultinomialExact
from gpclass.multiclass.importance import SoftmaxImportance
from gpclass.multiclass.samplers import SoftmaxAnnealed, SoftmaxEllipticalSlice, SoftmaxHMC
from gpclass.multiclass.softmax_laplace import SoftmaxLaplace
from gpclass.names import did_you_mean
from gpclass.sparse.exact import SparseExact
from gpclass.sparse.fixed_point import SparseEP, SparseVariational
from gpclass.sparse.laplace import SparseLaplace
from gpclass.sparse.maximize import SparseFixed, SparseMaximize

T = TypeVar("T")


@dataclass(frozen=True)
class Method:
    """One row: a name and what stands behind it."""

    name: str
    axis: str  # "inference" or "hyperparameters"
    factory: Callable[[], Any]
    summary: str
    cost: str  # in points n, particles or draws M
    reference: str
    exact: bool = False  # converges to the true posterior as the work grows
    likelihoods: tuple[str, ...] = ("probit", "logit")
    evidence: str | None = "approximate"  # kind of its evidence, None if it has none
    gradient: bool = True  # whether the evidence has a gradient, for maximize and map
    many: Any = None  # the inference for more than two classes, with its likelihood; None if there is none
    sparse: Any = (
        None  # the inference, or strategy, under the low-rank prior of inducing inputs; None if there is none
    )


INFERENCES: Mapping[str, Method] = {
    row.name: row
    for row in (
        Method(
            "exact",
            "inference",
            Exact,
            "The exact posterior by draws that EP guides, each number with its Monte Carlo error",
            "EP, then O(n²M) for M draws",
            "Atiya, Abdel-Gawad & Fayed (2020)",
            exact=True,
            evidence="unbiased",
            many=MultinomialExact,
            sparse=SparseExact,
        ),
        Method(
            "ep",
            "inference",
            EP,
            "Expectation propagation: sites that match moments",
            "O(n³) a sweep, 3 to 10 sweeps",
            "Minka (2001); Filippone & Girolami (2014)",
            many=MultinomialEP,
            sparse=SparseEP,
        ),
        Method(
            "gpc-mc",
            "inference",
            GPCMC,
            "The particle algorithm of Atiya et al. with the soft count",
            "O(n²M) for M draws, M of 10⁴ to 10⁶",
            "Atiya, Abdel-Gawad & Fayed (2020)",
            exact=True,
            likelihoods=("probit",),
            gradient=False,
        ),
        Method(
            "gpc-mc-hard",
            "inference",
            partial(GPCMC, soft=False),
            "The same with the hard count, which is unbiased",
            "O(n²M) for M draws, M of 10⁴ to 10⁶",
            "Atiya, Abdel-Gawad & Fayed (2020)",
            exact=True,
            likelihoods=("probit",),
            evidence="unbiased",
            gradient=False,
        ),
        Method(
            "laplace",
            "inference",
            Laplace,
            "Laplace's approximation: a Gaussian at the mode",
            "O(n³) a Newton step, 2 to 6 steps",
            "Williams & Barber (1998)",
            many=SoftmaxLaplace,
            sparse=SparseLaplace,
        ),
        Method(
            "variational",
            "inference",
            Variational,
            "The Gaussian closest in KL divergence; its evidence is a lower bound",
            "O(n³) a step, 5 to 30 steps",
            "Opper & Archambeau (2009)",
            evidence="bound",
            sparse=SparseVariational,
        ),
        Method(
            "amp",
            "inference",
            AMP,
            "Aitchison's maximum posterior: the mode of the latent field, kriged, without averaging",
            "O(n³) a Newton step, 3 to 8 steps",
            "Röder, Tolosana-Delgado & Hamprecht (2011)",
            likelihoods=("logit",),
        ),
        Method(
            "dsgq",
            "inference",
            DSGQ,
            "Doubly stochastic Gaussian quadrature: exact, with the probit stretched to the logistic function",
            "EP, then O(n²M) for M draws",
            "Röder, Tolosana-Delgado & Hamprecht (2011)",
            exact=True,
            likelihoods=("probit",),
            evidence="unbiased",
        ),
        Method(
            "importance",
            "inference",
            Importance,
            "Weighted draws from EP's or Laplace's Gaussian; an unbiased evidence",
            "EP or Laplace, then O(n²M) for M draws",
            "Filippone & Girolami (2014)",
            exact=True,
            evidence="unbiased",
            gradient=False,
            many=SoftmaxImportance,
        ),
        Method(
            "annealed",
            "inference",
            Annealed,
            "Draws carried from a Gaussian to the posterior through temperatures; an unbiased evidence",
            "EP or Laplace, then O(n^2.5 M) for M draws",
            "Neal (2001); Filippone (2014)",
            exact=True,
            evidence="unbiased",
            gradient=False,
            many=SoftmaxAnnealed,
        ),
        Method(
            "elliptical-slice",
            "inference",
            EllipticalSlice,
            "Markov chains along ellipses of a Gaussian; nothing to tune",
            "O(n²) a step and chain",
            "Murray, Adams & MacKay (2010)",
            exact=True,
            evidence=None,
            gradient=False,
            many=SoftmaxEllipticalSlice,
        ),
        Method(
            "hmc",
            "inference",
            LatentHMC,
            "Hamiltonian Monte Carlo over whitened latent values",
            "O(n²) a leapfrog step and chain",
            "Neal (2011)",
            exact=True,
            evidence=None,
            gradient=False,
            many=SoftmaxHMC,
        ),
        Method(
            "gibbs",
            "inference",
            Gibbs,
            "One latent value at a time; slow where neighbours are alike",
            "O(n²) a scan and chain, in n dependent steps",
            "Neal (1999)",
            exact=True,
            evidence=None,
            gradient=False,
        ),
        Method(
            "control-variables",
            "inference",
            ControlVariables,
            "The function moved through its values at a few points; RBF kernels",
            "O(n²C) a sweep and chain, C control points",
            "Titsias, Lawrence & Rattray (2009)",
            exact=True,
            evidence=None,
            gradient=False,
        ),
    )
}

STRATEGIES: Mapping[str, Method] = {
    row.name: row
    for row in (
        Method(
            "fixed",
            "hyperparameters",
            Fixed,
            "Kernel parameters as given",
            "one inference",
            "",
            exact=True,
            sparse=SparseFixed,
        ),
        Method(
            "maximize",
            "hyperparameters",
            Maximize,
            "Kernel parameters that maximise the evidence",
            "20 to 100 inferences",
            "Williams & Barber (1998)",
            sparse=SparseMaximize,
        ),
        Method(
            "map",
            "hyperparameters",
            Map,
            "Kernel parameters that maximise evidence times prior",
            "20 to 100 inferences",
            "Williams & Barber (1998)",
            sparse=partial(SparseMaximize, prior=True),
        ),
        Method(
            "em",
            "hyperparameters",
            EM,
            "Variational EM: a Gaussian posterior, then ascent on the expected log prior",
            "10 to 100 inferences, some factorisations of K each",
            "Cho, Kim & Park (2015)",
        ),
        Method(
            "cv",
            "hyperparameters",
            CrossValidation,
            "Parameters with the best cross-validated score, for any inference and any parameter",
            "candidates × folds inferences, 105 by default",
            "Röder, Tolosana-Delgado & Hamprecht (2011)",
        ),
        Method(
            "hmc",
            "hyperparameters",
            HMC,
            "Kernel parameters sampled by Hamiltonian dynamics on Laplace's or EP's evidence",
            "chains × iterations × leapfrog steps inferences, about 3000",
            "Williams & Barber (1998)",
        ),
        Method(
            "pseudo-marginal",
            "hyperparameters",
            PseudoMarginal,
            "Kernel parameters sampled exactly, with an unbiased evidence",
            "chains × iterations inferences, about 3500",
            "Andrieu & Roberts (2009); Filippone (2014)",
            exact=True,
        ),
        Method(
            "alternate",
            "hyperparameters",
            Alternate,
            "Latent values and kernel parameters sampled in turn",
            "chains × iterations × O(n³), about 3000 iterations",
            "Neal (1999); Yu & Meng (2011)",
            exact=True,
        ),
    )
}


def methods(axis: str | None = None) -> list[Method]:
    """All methods, or those of one axis (``"inference"`` or ``"hyperparameters"``)."""
    return [row for row in (*INFERENCES.values(), *STRATEGIES.values()) if axis in (None, row.axis)]


def get_inference(spec: Any) -> Inference:
    """A configured inference from its name, or the object itself."""
    inference: Inference = _get(spec, INFERENCES, "inference")
    return inference


def get_strategy(spec: Any) -> Strategy:
    """A configured strategy from its name, or the object itself."""
    strategy: Strategy = _get(spec, STRATEGIES, "hyperparameters")
    return strategy


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


def for_many(inference: Inference) -> Any:
    """The inference for many classes that stands behind one for two, with the settings they share."""
    row = INFERENCES.get(inference.name)
    if row is None or row.many is None:
        return inference  # a user's own inference: let it speak for itself
    if isinstance(inference, row.many):
        return inference
    usual = row.factory()  # settings that the caller left alone have their own defaults for many classes
    names = [f.name for f in fields(row.many) if hasattr(inference, f.name)]
    changed = {k: getattr(inference, k) for k in names if getattr(inference, k) != getattr(usual, k)}
    return row.many(**changed)


def for_sparse(inference: Inference, strategy: Strategy) -> tuple[Any, Any]:
    """The inference and the strategy under the low-rank prior that stand behind those for the dense one.

    Settings that both have, and that the caller changed, are kept.
    """
    found: list[Any] = []
    for one, table, what in ((inference, INFERENCES, "inference"), (strategy, STRATEGIES, "hyperparameters")):
        row = table.get(one.name)
        able = [name for name, other in table.items() if other.sparse is not None]
        if row is None or row.sparse is None:
            raise ValueError(
                f"{what}={one.name!r} does not run with inducing inputs; {what} may be {', '.join(map(repr, able))}, "
                "or n_inducing=None for the dense model"
            )
        found.append(one if _is_sparse(one) else _with_settings_of(one, row))
    dense = inference if not _is_sparse(inference) else INFERENCES[inference.name].factory()
    return found[0], replace(found[1], dense=dense)


def _is_sparse(one: Any) -> bool:
    return type(one).__module__.startswith("gpclass.sparse")


def _with_settings_of(one: Any, row: Method) -> Any:
    """The sparse method of a row, with the settings of a dense one that were changed and that both have."""
    usual, made = row.factory(), row.sparse()
    names = [f.name for f in fields(made) if hasattr(one, f.name) and hasattr(usual, f.name)]
    return replace(made, **{k: getattr(one, k) for k in names if getattr(one, k) != getattr(usual, k)})


def takes_many(inference: Any, likelihood: Any) -> bool:
    """Whether an estimator with these settings takes more than two classes."""
    name = inference if isinstance(inference, str) else getattr(inference, "name", None)
    row = INFERENCES.get(str(name))
    named = likelihood.name if isinstance(likelihood, (Softmax, MultinomialProbit)) else likelihood
    return row is not None and row.many is not None and named in ("auto", row.many.likelihood)


def unknown(what: str, given: Any, names: Mapping[str, Any] | list[str]) -> ValueError:
    """The error for a name that does not exist, with the near ones."""
    hint = did_you_mean(given, names)
    return ValueError(f"{what}={given!r} is not known{hint} The names are {', '.join(map(repr, names))}")


def _get(spec: Any, table: Mapping[str, Method], what: str) -> Any:
    if isinstance(spec, str):
        if spec not in table:
            raise unknown(what, spec, table)
        return table[spec].factory()
    if isinstance(spec, type) or not callable(spec) or not hasattr(spec, "name"):
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, table))} or a configured object such as "
            f"{next(iter(table.values())).factory()!r}, got {spec!r}"
        )
    return spec
