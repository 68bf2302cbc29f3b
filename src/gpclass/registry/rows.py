"""The rows: every method with what it can do, what it costs and whom to cite. A new method adds its row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, Generic, TypeVar

from gpclass import hyper, inference
from gpclass._html import Tabular
from gpclass.hyper.base import Strategy
from gpclass.inference.base import Inference
from gpclass.latent.base import Form
from gpclass.latent.dense import Dense
from gpclass.latent.local import LocalBlocks
from gpclass.latent.low_rank import LowRank
from gpclass.latent.neighbours import Neighbours
from gpclass.likelihoods import LIKELIHOODS
from gpclass.names import did_you_mean

T_co = TypeVar("T_co", bound=Inference | Strategy, covariant=True)


@dataclass(frozen=True)
class Method(Generic[T_co]):
    """One row: a method, by its name. Valid combinations are computed from what the class declares."""

    factory: Callable[[], T_co]
    summary: str
    cost: str  # in points n, particles or draws M
    reference: str
    exact: bool = False  # converges to the true posterior as the work grows
    leaves: tuple[float, float] = (0.0, 0.0)  # errors of a probability, and nats of the evidence, on a small problem

    @cached_property
    def default(self) -> T_co:
        """A configured object with the default settings."""
        return self.factory()

    @property
    def name(self) -> str:
        """As the class declares it."""
        return self.default.name

    @property
    def axis(self) -> str:
        """What it is a choice of, "inference" or "hyperparameters"."""
        return "inference" if isinstance(self.default, Inference) else "hyperparameters"

    @property
    def brief(self) -> Inference | Strategy:
        """Settings for a run of seconds, for tests."""
        return self.default.brief()

    @property
    def evidence(self) -> str | None:
        """Kind of an inference's evidence, None if it has none."""
        return self.default.evidence_kind if isinstance(self.default, Inference) else None

    @property
    def gradient(self) -> bool:
        """Whether an inference's evidence has a gradient, for maximize and map."""
        return isinstance(self.default, Inference) and self.default.gradient

    @property
    def likelihoods(self) -> tuple[str, ...]:
        """Names of the likelihoods that an inference supports, under some prior."""
        if not isinstance(self.default, Inference):
            return ()
        cases = product(FORMS.values(), (False, True))
        able = {name for form, many in cases for name in likelihoods_for(self.default, form, many)}
        return tuple(name for name in LIKELIHOODS if name in able)

    def as_data(self) -> dict[str, Any]:
        """The row as plain data."""
        shared = ("name", "axis", "summary", "cost", "reference", "exact")
        if isinstance(self.default, Strategy):
            return {key: getattr(self, key) for key in shared} | {"needs": self.default.needs}
        own = {"likelihoods": list(self.likelihoods), "evidence": self.evidence, "gradient": self.gradient}
        return {key: getattr(self, key) for key in shared} | own


FORMS: Mapping[str, type[Form]] = {cls.name: cls for cls in (Dense, LowRank, Neighbours, LocalBlocks)}
"""How the prior over latent values is represented."""

INFERENCES: Mapping[str, Method[Inference]] = {
    row.name: row
    for row in (
        Method(
            inference.Exact,
            "The exact posterior by draws guided by EP, each number with its Monte Carlo error",
            "EP, then O(n²M) for M draws",
            "Atiya, Abdel-Gawad & Fayed (2020)",
            exact=True,
        ),
        Method(
            inference.EP,
            "Expectation propagation: sites that match moments",
            "O(n³) per sweep, 4 to 16 sweeps",
            "Minka (2001); Filippone & Girolami (2014)",
            leaves=(0.01, 0.05),
        ),
        Method(
            inference.LocalExact,
            "EP, and predictions that are exact for the rows near each new point, for any number of rows",
            "EP, then O(n²k + k²M) per group of new points for k rows near it",
            "Minka (2001)",
            leaves=(0.002, 0.05),
        ),
        Method(
            inference.GPCMC,
            "The particle algorithm of Atiya et al. with the soft count",
            "O(n²M) for M draws, M of 10⁴ to 10⁶",
            "Atiya, Abdel-Gawad & Fayed (2020)",
            exact=True,
        ),
        Method(
            partial(inference.GPCMC, soft=False),
            "The same with the hard count, which is unbiased",
            "O(n²M) for M draws, M of 10⁴ to 10⁶",
            "Atiya, Abdel-Gawad & Fayed (2020)",
            exact=True,
        ),
        Method(
            inference.Laplace,
            "Laplace's approximation: a Gaussian at the mode",
            "O(n³) per Newton step, 2 to 6 steps",
            "Williams & Barber (1998)",
            leaves=(0.08, 0.5),
        ),
        Method(
            inference.Variational,
            "The Gaussian closest in KL divergence; its evidence is a lower bound",
            "O(n³) per step, 5 to 30 steps",
            "Opper & Archambeau (2009)",
            leaves=(0.05, 0.35),
        ),
        Method(
            inference.AMP,
            "Aitchison's maximum posterior: the mode of the latent field, kriged, without averaging",
            "O(n³) per Newton step, 3 to 8 steps",
            "Röder, Tolosana-Delgado & Hamprecht (2011)",
            leaves=(0.16, 0.5),
        ),
        Method(
            inference.DSGQ,
            "Doubly stochastic Gaussian quadrature: exact, with the probit stretched to the logistic function",
            "EP, then O(n²M) for M draws",
            "Röder, Tolosana-Delgado & Hamprecht (2011)",
            exact=True,
        ),
        Method(
            inference.Importance,
            "Weighted draws from EP's or Laplace's Gaussian; an unbiased evidence",
            "EP or Laplace, then O(n²M) for M draws",
            "Filippone & Girolami (2014)",
            exact=True,
        ),
        Method(
            inference.Annealed,
            "Draws carried from a Gaussian to the posterior through temperatures; an unbiased evidence",
            "EP or Laplace, then O(n^2.5 M) for M draws",
            "Neal (2001); Filippone (2014)",
            exact=True,
        ),
        Method(
            inference.EllipticalSlice,
            "Markov chains along ellipses of a Gaussian; nothing to tune",
            "O(n²) per step and chain",
            "Murray, Adams & MacKay (2010)",
            exact=True,
        ),
        Method(
            inference.LatentHMC,
            "Hamiltonian Monte Carlo over whitened latent values",
            "O(n²) per leapfrog step and chain",
            "Neal (2011)",
            exact=True,
        ),
        Method(
            inference.Gibbs,
            "One latent value at a time; slow if neighbours are strongly correlated",
            "O(n²) per scan and chain, in n dependent steps",
            "Neal (1999)",
            exact=True,
        ),
        Method(
            inference.ControlVariables,
            "The function moved through its values at a few points; RBF kernels",
            "O(n²C) per sweep and chain, C control points",
            "Titsias, Lawrence & Rattray (2009)",
            exact=True,
        ),
    )
}

STRATEGIES: Mapping[str, Method[Strategy]] = {
    row.name: row
    for row in (
        Method(hyper.Fixed, "Kernel parameters as given", "one inference", "", exact=True),
        Method(
            hyper.Maximize,
            "Kernel parameters that maximise the evidence",
            "5 to 50 inferences",
            "Williams & Barber (1998)",
        ),
        Method(
            hyper.Map,
            "Kernel parameters that maximise evidence times prior",
            "5 to 50 inferences",
            "Williams & Barber (1998)",
        ),
        Method(
            hyper.EM,
            "Variational EM: a Gaussian posterior, then ascent on the expected log prior",
            "10 to 100 inferences, some factorisations of K each",
            "Cho, Kim & Park (2015)",
        ),
        Method(
            hyper.NelderMead,
            "Kernel parameters that maximise an evidence without gradient, over common random numbers",
            "20 to 40 inferences per parameter",
            "Nelder & Mead (1965); Atiya, Abdel-Gawad & Fayed (2020)",
        ),
        Method(
            hyper.CrossValidation,
            "Parameters with the best cross-validated score, for any inference and any parameter",
            "candidates × folds inferences, 105 by default",
            "Röder, Tolosana-Delgado & Hamprecht (2011)",
        ),
        Method(
            hyper.HMC,
            "Kernel parameters sampled by Hamiltonian dynamics on Laplace's or EP's evidence",
            "chains × iterations × leapfrog steps inferences, 3000 or more",
            "Williams & Barber (1998)",
        ),
        Method(
            hyper.PseudoMarginal,
            "Kernel parameters sampled exactly, with an unbiased evidence",
            "chains × iterations inferences, 1000 or more",
            "Andrieu & Roberts (2009); Filippone (2014)",
            exact=True,
        ),
        Method(
            hyper.Alternate,
            "Latent values and kernel parameters sampled in turn",
            "chains × iterations × O(n³), 1200 iterations or more",
            "Neal (1999); Yu & Meng (2011)",
            exact=True,
        ),
    )
}


class Methods(Tabular, list[Method[Any]]):
    """A list of methods that is printed as a table."""

    _MOST = 100

    def _head(self) -> Sequence[str]:
        return "axis", "name", "what it is", "cost"

    def _rows(self) -> Sequence[Sequence[str]]:
        return [(row.axis, row.name, row.summary, row.cost) for row in self]


def methods(axis: str | None = None) -> Methods:
    """All methods, or those of one axis (``"inference"`` or ``"hyperparameters"``), a list shown as a table."""
    rows: list[Method[Any]] = [*INFERENCES.values(), *STRATEGIES.values()]
    return Methods(row for row in rows if axis in (None, row.axis))


def get_inference(spec: Any) -> Inference:
    """A configured inference from its name, or the object itself."""
    return spec if isinstance(spec, Inference) else _configured(spec, "inference", INFERENCES)


def get_strategy(spec: Any) -> Strategy:
    """A configured strategy from its name, or the object itself."""
    return spec if isinstance(spec, Strategy) else _configured(spec, "hyperparameters", STRATEGIES)


def get_form(spec: Any) -> Form:
    """A configured form of the prior from its name, or the object itself."""
    return spec if isinstance(spec, Form) else _configured(spec, "latent_prior", FORMS)


def _configured(spec: Any, what: str, table: Mapping[str, Any]) -> Any:
    """What a name of a table stands for, with its default settings."""
    if not isinstance(spec, str) or spec not in table:
        hint = did_you_mean(spec, table) if isinstance(spec, str) else "."
        known = ", ".join(map(repr, table))
        raise ValueError(f"{what}={spec!r} is not known{hint} It must be one of {known}, or a configured object")
    row = table[spec]
    return row.factory() if isinstance(row, Method) else row()


def likelihoods_for(inference: Inference, form: type[Form], many: bool) -> list[str]:
    """Likelihoods that an inference supports under a form of the prior, the preferred ones first."""
    own = inference.own_likelihood
    if many and inference.only_two:
        return []
    able = [
        name
        for name, cls in LIKELIHOODS.items()
        if cls.many == many and (own is None or own.name == name) and inference.way(cls, form.offers) is not None
    ]
    order = inference.prefers
    return sorted(able, key=lambda name: order.index(name) if name in order else len(order))
