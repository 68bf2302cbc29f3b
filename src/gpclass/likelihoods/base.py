r"""What a likelihood offers to inferences.

A row has L latent values f (one for two classes, C for C classes) and the factor p(y | f). All functions work on r rows
at once; arrays of latent values are (L, r), or (M, L, r) for M draws. A likelihood implements some of the functions
below the line; :attr:`Likelihood.offers` lists them, and :mod:`gpclass.registry.matrix` derives the valid
combinations.

==============  =======================================================================  =========================
offer           what it computes                                                         needed by
==============  =======================================================================  =========================
``log``         log p(y | f)                                                             samplers, importance
``slope``       its gradient, for many draws                                             Hamiltonian Monte Carlo
``expand``      gradient and curvature at f                                              Laplace
``third``       contraction of the third derivatives                                     gradients of Laplace in θ
``average``     E log p, gradient and curvature averaged over a Gaussian                 variational
``match``       a new site from a cavity                                                 expectation propagation
``smear``       log of p averaged over independent noise in f                            samplers with inducing inputs
``orthant``     the factor as a box of a noisy latent vector                             exact, gpc-mc
``split``       the factor as noise and a factor of the noisy latent value               exact
==============  =======================================================================  =========================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from gpclass._typing import Array, Generator, IntArray
from gpclass.likelihoods.averages import normal_points
from gpclass.likelihoods.local import RowMarginals, RowSites, symmetric_root
from gpclass.likelihoods.split import Split
from gpclass.model.rows import Labels

POINTS = 512  # of an average over a Gaussian, and their mirror images, if it has no better way
OPTIONAL = ("slope", "expand", "third", "average", "match", "smear", "orthant", "split")


@dataclass(frozen=True)
class Expansion:
    """log p(y | f) to second order at f."""

    log_p: Array  # (r,)
    slope: Array  # (L, r)
    D: Array  # (L, r), minus the curvature, in the short form of :mod:`gpclass.likelihoods.local`


@dataclass(frozen=True)
class Averages:
    """E log p(y | f) over a Gaussian, with derivatives by its mean."""

    value: Array  # (r,)
    slope: Array  # (L, r)
    W: Array  # (r, L, L), minus the average curvature


class Likelihood(ABC):
    """From the latent values of a row to the probability of its label."""

    name: ClassVar[str]  # by which settings and files know it
    many: ClassVar[bool]  # whether there is one latent value per class; else one for two classes
    site_step: ClassVar[float] = 1.0  # step of a matched site if all rows are matched at once
    powers: ClassVar[bool] = True  # whether ``match`` takes powers of the factor; else a weight counts copies
    average_error: ClassVar[float] = 0.0  # of ``average``'s value, by which a bound may fall by itself
    monotone: ClassVar[bool] = False  # whether the probability of the second class rises with the one latent value
    normal_tail: ClassVar[bool] = False  # whether a rare label's Φ⁻¹(p) is about linear in f; else its log p is

    @property
    def scale(self) -> float:
        """The factor of the latent value; 1 if the likelihood has no scale."""
        return 1.0

    @property
    def scale_bounds(self) -> tuple[float, float] | str:
        """Range in which a strategy may move the scale, or "fixed"."""
        return "fixed"

    def with_scale(self, scale: float) -> Self:
        """The same likelihood with another scale."""
        if scale != 1.0:
            raise ValueError(f"likelihood={self.name!r} has no scale")
        return self

    def n_latents(self, n_classes: int) -> int:
        """L, the latent values of a row."""
        return n_classes if self.many else 1

    def n_classes(self, n_latents: int) -> int:
        """C, from the latent values of a row."""
        return n_latents if self.many else 2

    def encode(self, index: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels as this likelihood takes them, from class indices 0 to C − 1."""
        return np.asarray(index, dtype=np.intp) if self.many else np.where(index > 0, 1.0, -1.0)

    def decode(self, y: npt.NDArray[Any]) -> IntArray:
        """Class indices from labels."""
        return np.asarray(y, dtype=np.intp) if self.many else np.asarray(y > 0, dtype=np.intp)

    @classmethod
    def offers(cls) -> frozenset[str]:
        """Names of what this likelihood implements."""
        own = [name for name in OPTIONAL if getattr(cls, name) is not getattr(Likelihood, name)]
        return frozenset(["log", *own])

    # ---- what every likelihood has ----------------------------------------------------------------------------

    @abstractmethod
    def log(self, y: npt.NDArray[Any], f: Array) -> Array:
        """The log p(y | f), (..., r), for f (..., L, r)."""

    @abstractmethod
    def draw_labels(self, f: Array, rng: Generator) -> npt.NDArray[Any]:
        """Labels drawn given f (..., L, r), (..., r)."""

    # ---- for predictions --------------------------------------------------------------------------------------

    def log_classes(self, f: Array) -> Array:
        """Log probability of every class, (..., r, C), for f (..., r, L)."""
        r, L = f.shape[-2:]
        each = [self.encode(np.full(r, c)) for c in range(self.n_classes(L))]
        return np.stack([self.log(y, np.swapaxes(f, -1, -2)) for y in each], axis=-1)

    def log_averaged(self, means: Array, covariances: Array) -> Array:
        """Log probabilities of the classes averaged over Gaussians, (S, m, C); here at fixed points.

        Parameters
        ----------
        means : (S, m, L) array
        covariances : (1 or S, m, L, L) array
        """
        z = normal_points(means.shape[2], POINTS)
        spread = np.einsum("smab,nb->nsma", symmetric_root(covariances), np.vstack([z, -z]))
        return np.asarray(logsumexp(self.log_classes(means + spread), axis=0) - np.log(2 * POINTS))

    def predictive(self, mean: Array, var: Array, sign: Array) -> Array:
        """Probability, (S, r), of the second class where ``sign`` (r,) is 1, of the first where −1 (if ``monotone``).

        Shapes: mean (S, r), var (1 or S, r). To 2e-7, and to 1e-3 of itself above 1e-5; maybe in single precision.
        """
        raise NotOffered(self, "monotone")

    def rough_average(self, means: Array, covariances: Array) -> Array:
        """Probabilities of all classes, or of the second, averaged over Gaussians, (S, m, C or 1): to 1e-6 suffices."""
        if not self.monotone:
            return np.exp(self.log_averaged(means, covariances))
        return self.predictive(means[..., 0], covariances[..., 0, 0], np.ones(means.shape[1]))[:, :, None]

    def log_predictive(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """Log probabilities of the second and of the first class, averaged over N(mean, var) (if ``monotone``)."""
        raise NotOffered(self, "monotone")

    def log_inverse_link(self, f: Array) -> tuple[Array, Array]:
        """Log probabilities of the second and of the first class given f (if ``monotone``)."""
        raise NotOffered(self, "monotone")

    # ---- what some have ---------------------------------------------------------------------------------------

    def slope(self, y: npt.NDArray[Any], f: Array) -> tuple[Array, Array]:
        """The log p(y | f), (M, r), and its gradient, (M, L, r), for f (M, L, r)."""
        raise NotOffered(self, "slope")

    def expand(self, y: npt.NDArray[Any], f: Array) -> Expansion:
        """To second order at f (L, r)."""
        raise NotOffered(self, "expand")

    def third(self, y: npt.NDArray[Any], f: Array, cov: Array) -> Array:
        """½ Σ_ab cov_ab ∂³ log p/∂f_a∂f_b∂f_c, (L, r), for f (L, r) and cov (r, L, L)."""
        raise NotOffered(self, "third")

    def average(self, y: npt.NDArray[Any], mean: Array, cov: Array) -> Averages:
        """Averages over N(mean, cov), mean (L, r) and cov (r, L, L)."""
        raise NotOffered(self, "average")

    def site_numbers(self, L: int) -> int:
        """Numbers per row that describe a site of ``match``."""
        return 2 * L

    def sites(self, y: npt.NDArray[Any], numbers: Array) -> RowSites:
        """The sites that numbers (k, r) describe."""
        raise NotOffered(self, "match")

    def pack_sites(self, numbers: Array) -> Array:
        """Numbers (..., k, r) of sites in coordinates in which they may be mixed."""
        return numbers

    def unpack_sites(self, packed: Array) -> Array:
        """Numbers (k, r) of sites from such coordinates."""
        return packed

    def first_site(self, labels: Labels, at: RowMarginals) -> Array:
        """Numbers (k, r) of sites to start from, given the prior's marginals or a neighbour's."""
        raise NotOffered(self, "match")

    def match(self, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        """Expectation propagation: numbers of the new sites, and each copy's part of log Z at the old ones, (r,)."""
        raise NotOffered(self, "match")

    def smear(self, labels: Labels, g: Array, rest: Array) -> Array:
        """The log ∫ p(y | g + e)^power N(e; 0, rest) de of one copy, (r, M), g (L, r, M), rest (L, r)."""
        raise NotOffered(self, "smear")

    def smear_slopes(self, labels: Labels, g: Array, rest: Array) -> tuple[Array, Array]:
        """First derivatives of that log by g, and second derivatives of its exponential over itself, (L, r, M)."""
        raise NotOffered(self, "smear")

    def orthant(self, y: npt.NDArray[Any], covariances: list[Array]) -> tuple[Array, Array]:
        """The event y as an orthant: correlations (N, N) and standard deviations (N,) of v, where y means v > 0.

        N = r max(1, L − 1); ``covariances`` are those of the latent values, one (r, r) array per latent value.
        """
        raise NotOffered(self, "orthant")

    def split(self, y: npt.NDArray[Any], weights: Array | None) -> Split:
        """The factors, raised to the weights, as noise and a factor of the noisy latent value."""
        raise NotOffered(self, "split")


class NotOffered(NotImplementedError):
    """The error of a likelihood that does not implement what an inference needs."""

    def __init__(self, likelihood: Likelihood, what: str) -> None:
        super().__init__(f"likelihood={likelihood.name!r} does not offer {what!r}")
