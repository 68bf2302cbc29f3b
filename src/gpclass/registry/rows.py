"""The rows: every method with what it can do, what it costs and whom to cite. A new method adds its row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpclass.hyper import EM, HMC, Alternate, CrossValidation, Fixed, Map, Maximize, PseudoMarginal
from gpclass.hyper.staged.maximize import SparseFixed, SparseMaximize
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
from gpclass.inference.low_rank_exact import SparseExact
from gpclass.inference.low_rank_laplace import SparseLaplace
from gpclass.inference.low_rank_sites import SparseEP, SparseVariational
from gpclass.inference.many_ep import MultinomialEP
from gpclass.inference.many_exact import MultinomialExact
from gpclass.inference.many_importance import SoftmaxImportance
from gpclass.inference.many_laplace import SoftmaxLaplace
from gpclass.inference.many_samplers import SoftmaxAnnealed, SoftmaxEllipticalSlice, SoftmaxHMC


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
    sparse: Any = None  # what stands for it under the low-rank prior of inducing inputs; None if nothing does


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
            "chains × iterations × leapfrog steps inferences, 3000 or more",
            "Williams & Barber (1998)",
        ),
        Method(
            "pseudo-marginal",
            "hyperparameters",
            PseudoMarginal,
            "Kernel parameters sampled exactly, with an unbiased evidence",
            "chains × iterations inferences, 3500 or more",
            "Andrieu & Roberts (2009); Filippone (2014)",
            exact=True,
        ),
        Method(
            "alternate",
            "hyperparameters",
            Alternate,
            "Latent values and kernel parameters sampled in turn",
            "chains × iterations × O(n³), 3000 iterations or more",
            "Neal (1999); Yu & Meng (2011)",
            exact=True,
        ),
    )
}


def methods(axis: str | None = None) -> list[Method]:
    """All methods, or those of one axis (``"inference"`` or ``"hyperparameters"``)."""
    return [row for row in (*INFERENCES.values(), *STRATEGIES.values()) if axis in (None, row.axis)]
