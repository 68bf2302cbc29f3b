r"""The noise of the exact engine's draws: the factors behind (K_c + I/s²)⁻¹, and what a posterior keeps of draws.

The draws z of noisy latent values have the covariance K_c + I/s² (variance one for the utilities of many classes). A
posterior keeps A_c = (K_c + I/s²)⁻¹ z_c, from which E[f*] = k*ᵀA, and var f* = k** − k*ᵀ(K_c + I/s²)⁻¹k*.
Cost: n³/3 for the factor, n² per draw and latent value.
Reference: Atiya, Abdel-Gawad & Fayed (2020), equations 28 and 59-61; for many classes this package's own.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpclass._typing import Array, Generator
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.dense import dense_prior
from gpclass.latent.factors import NEW_POINTS
from gpclass.likelihoods.nested import other_classes
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor, factor
from gpclass.numerics.rounded import EPSILON

PART = 500  # draws that are made together, in a processor's cache
ROUGH = 1.2e-5  # rounding of variances over that of the noise, below which single precision serves


class NoiseFactor:
    """The factors behind (K_c + I/s²)⁻¹, one per latent value."""

    def __init__(self, one: SiteFactor | None = None, coupled: CoupledFactor | None = None) -> None:
        self.one = one  # for one latent value
        self.coupled = coupled  # for several: E_c, and their sum's factor

    def solve(self, z: Array) -> Array:
        """(K_c + I/s²)⁻¹ z_c for z (L, n) or (L, n, M)."""
        if self.one is not None:
            return self.one.solve(z[0])[None]
        assert self.coupled is not None
        return np.asarray(self.coupled.E @ (z if z.ndim == 3 else z[:, :, None])).reshape(z.shape)

    def inverses(self) -> list[Array]:
        """(K_c + I/s²)⁻¹, one (n, n) array per latent value; of one a new array."""
        if self.one is not None:
            return [self.one.inverse_alone()]
        assert self.coupled is not None
        return list(self.coupled.E)

    def variances(self, cross: list[Array], diag: list[Array], rough: bool = False) -> Array:
        """Variances of new latent values given the noisy ones, (m, L).

        ``rough``: of one, in single precision, if its rounding is below ROUGH of the noise's variance. A probability
        moves by less than a millionth then.
        """
        if self.one is not None:
            rounding = EPSILON * np.sqrt(len(cross[0])) * np.max(self.one.root) ** 2 * np.max(diag[0], initial=0.0)
            solve = self.one.rough_half_solve if rough and rounding < ROUGH else self.one.half_solve
            half = solve(cross[0])
            return np.asarray(diag[0] - np.einsum("ij,ij->j", half, half, dtype=np.float64))[:, None]
        assert self.coupled is not None
        taken = [np.einsum("ji,ji->i", k, E @ k) for k, E in zip(cross, self.coupled.E, strict=True)]
        return np.asarray(np.stack(diag, axis=1) - np.stack(taken, axis=1))

    def roots(self, cross: list[Array], prior: list[Array]) -> list[Array]:
        """Roots of the covariances of new latent values given the noisy ones."""
        if self.one is not None:
            half = self.one.half_solve(cross[0])
            scale = float(np.mean(np.diag(prior[0])))
            return [factor(prior[0] - half.T @ half, what=NEW_POINTS, scale=scale)[0]]
        assert self.coupled is not None
        each = zip(cross, prior, self.coupled.E, strict=True)
        own = [p - k.T @ (E @ k) for k, p, E in each]
        return [factor(0.5 * (part + part.T), what=NEW_POINTS)[0] for part in own]


def noise_factor(problem: Problem) -> NoiseFactor:
    """The factor behind (K + Λ⁻¹)⁻¹, Λ the precision of the noise (1 for the utilities of many classes)."""
    prior = dense_prior(problem)
    if prior.L == 1:
        return NoiseFactor(one=SiteFactor(prior.K, noise_precision(problem)))
    return NoiseFactor(coupled=CoupledFactor(prior.covariances, np.ones((prior.L, problem.n))))


def noise_precision(problem: Problem) -> Array:
    """Precision of the noise of every row that the exact engine's draws contain, (n,)."""
    if problem.n_latents > 1:
        return np.ones(problem.n)
    return problem.likelihood.split(problem.y, problem.weights).precision


def noisy_latents(
    problem: Problem, found: NoiseFactor, v: Array, rng: Generator | None, *, level: bool = True
) -> Array:
    """(K_c + I/s²)⁻¹ z_c, (L, n, M), from draws v (N, M) in the orthant.

    Two classes: z = y∘v. More: v fixes the utilities up to one number per row, the true class's own utility η, which is
    Gaussian given v: with E_c = (K_c + I)⁻¹, F = Σ_c E_c and u_c = u⁰_c + η (u⁰ is 0 for the true class and −v_c for
    the others), η ~ N(−F⁻¹ Σ_c E_c u⁰_c, F⁻¹). Each draw of v has one draw of η; then the classes are independent.
    If they share a kernel, the mean of η is that of −u⁰ over the classes, which needs no solve; files of earlier
    versions, for which ``level`` is False, solved for it, with other last digits.
    """
    if found.one is not None:
        return found.one.solve(problem.y[:, None] * v)[None]
    assert found.coupled is not None
    assert rng is not None
    E, L = found.coupled.E, found.coupled.L
    if level and one_kernel(problem):
        made = Levelled(problem, found, v.shape[1], rng)
        made.put(v, slice(0, v.shape[1]))
        return made.A
    u = anchored(problem, v)
    e = E @ u
    centre, _ = lapack.dpotrs(L, e.sum(axis=0), lower=1)
    spread = solve_triangular(L, rng.standard_normal(u.shape[1:]), lower=True, trans=1, check_finite=False)
    e += E @ (spread - np.asarray(centre).reshape(spread.shape))
    return np.asarray(e)


def one_kernel(problem: Problem) -> bool:
    """Whether all latent values of a row share a kernel."""
    return len(dense_prior(problem).kernel_matrices) == 1


class Levelled:
    """The array of :func:`noisy_latents` for a shared kernel: F = C E = L Lᵀ, so that E F^(-½) ξ = L ξ/C.

    Draws are put in as they are made, so that they need not be kept beside it.
    """

    def __init__(self, problem: Problem, found: NoiseFactor, M: int, rng: Generator) -> None:
        assert found.coupled is not None
        self.problem, self.E, self.L = problem, found.coupled.E[0], found.coupled.L
        self.A = np.empty((problem.n_latents, problem.n, M))
        self.xi = rng.standard_normal((problem.n, M))

    def put(self, v: Array, place: slice) -> None:
        """Those of draws v (N, k), at their place among all."""
        for begin in range(place.start, place.stop, PART):
            part = slice(begin, min(begin + PART, place.stop))
            u = anchored(self.problem, v[:, part.start - place.start : part.stop - place.start])
            u -= u.mean(axis=0)
            np.matmul(self.E, u, out=self.A[:, :, part])
            self.A[:, :, part] += self.L @ self.xi[:, part] / len(self.A)


def anchored(problem: Problem, v: Array) -> Array:
    """Utilities u⁰ (C, n, M) with the true class at zero, from draws v (n(C−1), M)."""
    n, C = problem.n, problem.n_latents
    u = np.zeros((C, n, v.shape[1]))
    others = other_classes(problem.y, C)
    u[others, np.arange(n)[:, None]] = -v.reshape(n, C - 1, -1)
    return u
