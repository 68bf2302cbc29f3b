"""The Aitchison distribution on ]0,1[^n: a field of probabilities given counts.

A field with coordinates φ = logit(f)/c0 ~ N(μ, Σ) and y_i successes of N_i at site i has the posterior
(R eqs. 9 and 17, x = c0 φ the logits, S = c0² Σ)::

    log p(x | y) = Σ_i y_i log σ(x_i) + (N_i − y_i) log σ(−x_i) − ½ (x − c0 μ)ᵀ S⁻¹ (x − c0 μ) − const,

an Aitchison distribution with Ψ = −½ S⁻¹, θ1 = y + S⁻¹ c0 μ, θ2 = N − y − S⁻¹ c0 μ (R §3.2.1 prints μ/σ²,
which holds only for c0 = 1). S is never inverted: x = c0 μ + L u with S = L Lᵀ, and the posterior of u has
the prior N(0, I).

The mode solves −S⁻¹(x − c0 μ) + y − N σ(x) = 0 (R eq. 20) by Newton in the form B = I + W^½ S W^½.
Normaliser and moments come from importance sampling with a mixture of the Gaussian at the mode and the
prior; the prior component bounds the weights. Draws come from elliptical slice chains, one chain per draw.

Cost: O(n³) per Newton step, O(n² M) for M draws. Fails when: n is so large that the weights degenerate, which
the standard error shows.

Reference: R §3.2.2, §4.2; Murray, Adams & MacKay (2010) for the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import expit, log_expit, logit, logsumexp

from gpclass._typing import Array, IntArray
from gpclass.geostat.aitchison.distribution import Aitchison, _check_measure
from gpclass.geostat.aitchison.normal import HypercubeNormal
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.particles import Particles
from gpclass.numerics.linalg import SiteFactor, cholesky, factor

PRIOR_SHARE = 0.1  # of the importance draws: bounds their weights


@dataclass(frozen=True)
class FieldMode:
    """The mode of the posterior (density with respect to Aitchison's measure)."""

    probability: Array  # (n,)
    logits: Array  # (n,)
    iterations: int
    residual: float  # largest entry of the stationarity equation
    converged: bool


@dataclass(frozen=True)
class FieldMoments:
    """Importance-sampling summary of the posterior."""

    log_normaliser: float  # log ∫ likelihood × prior: log p(y)
    standard_error: float  # of log_normaliser
    mean: Array  # (n,), E[f]
    sd: Array  # (n,), of f
    logit_mean: Array  # (n,)
    logit_covariance: Array  # (n, n)
    ess: float  # effective number of draws


@dataclass(frozen=True, eq=False)
class _Logits:
    """What elliptical slices move: logits m + L u given white noise u."""

    m: Array  # (n,)
    L: Array  # (n, n)
    log_ratio: Callable[[Array], Array]

    def spread(self, u: Array) -> Array:
        return np.asarray(u @ self.L.T)

    def of_chains(self, chains: IntArray) -> _Logits:
        return self


@dataclass(frozen=True)
class AitchisonField:
    """Posterior of probabilities at n sites: a normal prior on ]0,1[^n and binomial counts.

    Parameters
    ----------
    successes : array (n,)
        y, successes at each site.
    trials : array (n,)
        N, labels at each site; may be 0.
    prior : HypercubeNormal
        The prior of the probabilities.
    """

    successes: Array
    trials: Array
    prior: HypercubeNormal

    def __post_init__(self) -> None:
        y = np.atleast_1d(np.asarray(self.successes, dtype=float))
        N = np.atleast_1d(np.asarray(self.trials, dtype=float))
        n = len(self.prior.location)
        if y.shape != (n,) or N.shape != (n,):
            raise ValueError(f"successes and trials must have one entry for each of the prior's {n} sites")
        if not np.all((y >= 0) & (y <= N) & np.isfinite(N)):
            raise ValueError("successes must lie between 0 and trials at every site")
        object.__setattr__(self, "successes", y)
        object.__setattr__(self, "trials", N)

    @property
    def _centre(self) -> Array:
        return np.asarray(self.prior.scale * self.prior.location)

    @cached_property
    def _S(self) -> Array:
        return np.asarray(self.prior.scale**2 * self.prior.covariance)

    @cached_property
    def _L(self) -> Array:
        return factor(self._S)[0]

    def _log_likelihood(self, x: Array) -> Array:
        return np.asarray(log_expit(x) @ self.successes + log_expit(-x) @ (self.trials - self.successes))

    def log_density(self, z: npt.ArrayLike, measure: str = "lebesgue") -> Array:
        """Log of likelihood × prior density at z (..., n): the posterior density up to ``log_normaliser``."""
        _check_measure(measure)
        log_likelihood = self._log_likelihood(logit(np.asarray(z, dtype=float)))
        return np.asarray(self.prior.logpdf(z, measure) + log_likelihood)

    def conditional(self, i: int, z: npt.ArrayLike) -> Aitchison:
        """The distribution of site i given z (n,) at the other sites: a one-dimensional Aitchison."""
        x = logit(np.asarray(z, dtype=float)) - self._centre
        others = np.delete(np.arange(len(x)), i)
        explained = shift = 0.0
        if len(others):
            L = factor(self._S[np.ix_(others, others)])[0]
            half = solve_triangular(L, np.column_stack([self._S[others, i], x[others]]), lower=True)
            explained, shift = map(float, half[:, 0] @ half)
        prior = Aitchison.normal(float(self._centre[i]) + shift, float(self._S[i, i]) - explained)
        return prior.update(float(self.successes[i]), float(self.trials[i] - self.successes[i]))

    def mode(self, tol: float = 1e-10, max_iter: int = 100) -> FieldMode:
        """The mode, R eq. 20, by Newton's method with step halving."""
        y, N, S, centre = self.successes, self.trials, self._S, self._centre
        a, x = np.zeros(len(y)), centre.copy()  # a = S⁻¹ (x − centre)
        value = float(self._log_likelihood(x))
        residual, iterations = np.inf, 0
        while iterations < max_iter:
            iterations += 1
            f = expit(x)
            residual = float(np.max(np.abs(y - N * f - a)))
            if residual <= tol:
                break
            W = N * f * (1.0 - f)
            b = W * (x - centre) + y - N * f
            step = b - SiteFactor(S, W).solve(S @ b) - a  # Newton in the space of a
            size = 1.0
            for _ in range(40):
                new_a = a + size * step
                new_x = centre + S @ new_a
                new_value = float(self._log_likelihood(new_x) - 0.5 * new_a @ (new_x - centre))
                if new_value >= value - 1e-12 * abs(value):
                    break
                size /= 2.0
            a, x, value = new_a, new_x, new_value
        return FieldMode(expit(x), x, iterations, residual, residual <= tol)

    @cached_property
    def _laplace(self) -> tuple[Array, Array]:
        """Mode and lower covariance factor of u, where x = centre + L u."""
        f = self.mode().probability
        W = self.trials * f * (1.0 - f)
        u = self._L.T @ (self.successes - self.trials * f)  # at the mode u = Lᵀ S⁻¹(x − c0μ)
        A = np.eye(len(f)) + (self._L.T * W) @ self._L
        R = cholesky(A)  # A = R Rᵀ is the precision; its inverse has the factor R⁻ᵀ
        return u, solve_triangular(R, np.eye(len(f)), lower=True).T

    def sample_weights(self, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Logits (M, n) from the mixture and their log weights: log likelihood × prior / mixture, (M,)."""
        n = len(self.successes)
        centre, C = self._laplace
        n_prior = max(1, round(PRIOR_SHARE * n_samples))
        noise = rng.standard_normal((n_samples, n))
        u = np.concatenate([noise[:n_prior], centre + noise[n_prior:] @ C.T])
        log_prior = -0.5 * np.einsum("ij,ij->i", u, u)
        white = solve_triangular(C, (u - centre).T, lower=False)
        log_gauss = -0.5 * np.einsum("ij,ij->j", white, white) - np.log(np.diag(C)).sum()
        share = n_prior / n_samples
        log_q = np.logaddexp(np.log(share) + log_prior, np.log1p(-share) + log_gauss)
        x = self._centre + u @ self._L.T
        return x, np.asarray(self._log_likelihood(x) + log_prior - log_q)

    def moments(self, rng: np.random.Generator, n_samples: int = 20_000) -> FieldMoments:
        """Normaliser, means and covariances, with the standard error of the normaliser."""
        x, log_w = self.sample_weights(n_samples, rng)
        log_z = float(logsumexp(log_w) - np.log(n_samples))
        w = np.exp(log_w - log_z)  # mean one
        weight = w / w.sum()
        f = expit(x)
        mean = weight @ f
        logit_mean = weight @ x
        spread = x - logit_mean
        return FieldMoments(
            log_normaliser=log_z,
            standard_error=float(np.std(w, ddof=1) / np.sqrt(n_samples)),
            mean=mean,
            sd=np.sqrt(weight @ (f - mean) ** 2),
            logit_mean=logit_mean,
            logit_covariance=(spread * weight[:, None]).T @ spread,
            ess=float(1.0 / np.sum(weight**2)),
        )

    def draws(self, n: int, rng: np.random.Generator, burn_in: int = 100) -> Array:
        """N independent draws of the probabilities (n, sites), from parallel elliptical slice chains."""
        centre, C = self._laplace
        u = centre + rng.standard_normal((n, len(centre))) @ C.T
        x = self._centre + u @ self._L.T
        target, state = _Logits(self._centre, self._L, self._log_likelihood), Particles(u, x, self._log_likelihood(x))
        for _ in range(burn_in):
            state = elliptical_step(target, state, rng)
        return np.asarray(expit(state.f))
