"""The posterior over latent values when θ was sampled: a mixture over draws of θ.

For each kept draw of θ a few vectors of n numbers describe the latent values given θ; the n×n factor that
turns them into predictions is computed again when it is asked for, one at a time. Four kinds of vectors:

- ``noisy``: (K + I/s²)⁻¹z for draws z of the noisy latents (the exact probit engine);
- ``white``: η for draws f = L η (importance, annealed, elliptical slice, Hamiltonian);
- ``sites``: precisions and shifts (t, h) of a Gaussian approximation (Laplace, EP);
- ``coupled``: for many classes, D and α of :mod:`gpclass.latent.coupled`; ``white`` has η of all classes in a row.

Where the scale of the link is sampled too, latents are brought to the scale of the reported likelihood,
which sees scale · f.
Cost: memory S·r·n for S draws of θ with r vectors each, and one n×n matrix; a prediction factors S matrices,
O(S n³).
Reference: Filippone (2014), eq. 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.inference.gaussian import GaussianPosterior
from gpclass.inference.particles import ParticlePosterior, noise_factor
from gpclass.inference.samples import SamplePosterior
from gpclass.inference.whitened import whiten
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.many_gaussian import MultiGaussianPosterior
from gpclass.latent.many_samples import MultiSamplePosterior
from gpclass.latent.many_whitened import whiten_many
from gpclass.model.many_problem import MultiProblem
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import factor
from gpclass.posterior import Evidence, LatentMixture, Posterior, Report

KINDS = ("noisy", "white", "sites", "coupled")
GAUSSIAN = ("sites", "coupled")  # those of one Gaussian a draw of θ
GAUSSIANS = (GaussianPosterior, MultiGaussianPosterior)
_ANY = Evidence(np.nan)  # of a posterior rebuilt for prediction alone


@dataclass(frozen=True, eq=False)
class ThetaMixture:
    """Equally weighted draws of θ, each with vectors for its latent values."""

    problem: Problem  # at the parameters that are reported
    kind: str  # one of KINDS
    theta: Array  # (S, p)
    vectors: Array  # (S, r, n), or (S, r, C n)
    chain: IntArray  # (S,)
    evidence: Evidence | None
    report: Report

    @property
    def n_components(self) -> int:
        """Number of Gaussians in the mixture, at most."""
        return len(self.theta) * (1 if self.kind in GAUSSIAN else self.vectors.shape[1])

    def posteriors(self) -> Iterator[tuple[int, float, Posterior]]:
        """Chain, weight and posterior of each draw of θ; equal neighbours, after rejections, taken together."""
        S = len(self.theta)
        same = np.zeros(S, dtype=bool)
        same[1:] = (
            np.all(self.theta[1:] == self.theta[:-1], axis=1)
            & np.all(self.vectors[1:] == self.vectors[:-1], axis=(1, 2))
            & (self.chain[1:] == self.chain[:-1])
        )
        starts = np.flatnonzero(~same)
        for start, stop in zip(starts, np.append(starts[1:], S), strict=True):
            posterior = rebuild(self.problem.at(self.theta[start]), self.kind, self.vectors[start])
            yield int(self.chain[start]), float(stop - start) / S, posterior

    def latent(self, X_new: Array) -> LatentMixture:
        """All components of all draws of θ; draws of one chain share a group."""
        weights, means, variances, group = [], [], [], []
        for chain, weight, posterior in self.posteriors():
            part = posterior.latent(X_new)
            ratio = self._ratio(posterior)
            size = len(part.weights)
            weights.append(weight * part.weights)
            means.append(ratio * part.means)
            shape = (size, *part.covariances.shape[1:])
            variances.append(np.broadcast_to(ratio**2 * part.covariances, shape))
            group.append(np.full(size, chain, dtype=np.intp))
        return LatentMixture(
            np.concatenate(weights), np.concatenate(means), np.concatenate(variances), np.concatenate(group)
        )

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, m, L), θ and f integrated."""
        parts = list(self.posteriors())
        counts = rng.multinomial(n, np.array([weight for _, weight, _ in parts]))
        drawn = [
            self._ratio(posterior) * posterior.draw(X_new, int(count), rng)
            for (_, _, posterior), count in zip(parts, counts, strict=True)
            if count
        ]
        return np.asarray(rng.permutation(np.concatenate(drawn)))

    def _ratio(self, posterior: Posterior) -> float:
        """Scale of the link at a draw over that of the reported likelihood."""
        likelihood = posterior.problem.likelihood  # type: ignore[attr-defined]  # rebuilt ones have it
        scale: float = getattr(likelihood, "scale", 1.0)  # links of many classes have none
        return scale / getattr(self.problem.likelihood, "scale", 1.0)


def kind_of(posterior: Posterior) -> str:
    """Which kind of vectors stands for a posterior."""
    if isinstance(posterior, ParticlePosterior):
        return "noisy"
    if isinstance(posterior, (SamplePosterior, MultiSamplePosterior)):
        return "white"
    if isinstance(posterior, GaussianPosterior):
        return "sites"
    if isinstance(posterior, MultiGaussianPosterior):
        return "coupled"
    raise ValueError(
        f"{type(posterior).__name__} cannot be integrated over kernel parameters; use inference='exact', "
        "'annealed', 'importance', 'ep' or 'laplace'"
    )


def distil(posterior: Posterior, r: int, rng: np.random.Generator) -> Array:
    """R vectors, chosen by their weights, that stand for a posterior, (r, n); all of them for a Gaussian."""
    if isinstance(posterior, GAUSSIANS):
        return gaussian_vectors(posterior)
    rows = posterior.A.T if isinstance(posterior, ParticlePosterior) else posterior.eta  # type: ignore[attr-defined]  # kind_of has looked
    weights: Array = posterior.weights  # type: ignore[attr-defined]  # as above
    return np.asarray(rows[rng.choice(len(weights), size=r, p=weights)])


def gaussian_vectors(posterior: GaussianPosterior | MultiGaussianPosterior) -> Array:
    """The vectors t and h, (2, n); D and α, (2C, n), for many classes."""
    if isinstance(posterior, MultiGaussianPosterior):
        return np.vstack([posterior.factor.D, posterior.alpha])
    return np.stack([posterior.t, posterior.h])


def rebuild(problem: Problem | MultiProblem, kind: str, vectors: Array) -> Posterior:
    """The posterior that vectors stand for, at the θ of ``problem``."""
    report = Report(method=kind)
    if isinstance(problem, MultiProblem):
        return _rebuild_many(problem, kind, vectors)
    if kind == "sites":
        t, h = vectors
        site_factor = problem.prior.with_sites(t)
        Kh = problem.prior.K @ h
        mean = Kh - problem.prior.K @ site_factor.solve(Kh)
        return GaussianPosterior(problem, mean, h - t * mean, t, h, site_factor, _ANY, report)
    r = len(vectors)
    weights, group = np.full(r, 1.0 / r), np.zeros(r, dtype=np.intp)
    if kind == "noisy":
        rows = problem.repeated()
        assert rows is not None  # whole weights: the particles came from repeated rows
        return ParticlePosterior(rows, noise_factor(rows), vectors.T, weights, group, _ANY, report)
    L, _ = factor(problem.prior.K)
    return SamplePosterior(problem, L, vectors, weights, group, None, report)


def _rebuild_many(problem: MultiProblem, kind: str, vectors: Array) -> Posterior:
    report, r = Report(method=kind), len(vectors)
    if kind == "coupled":
        D, alpha = np.split(vectors, 2)
        site_factor = CoupledFactor(problem.K, D)
        return MultiGaussianPosterior(problem, problem.times_K(alpha), alpha, site_factor, _ANY, report)
    L = whiten_many(problem).L
    weights, group = np.full(r, 1.0 / r), np.zeros(r, dtype=np.intp)
    return MultiSamplePosterior(problem, L, vectors, weights, group, None, report)


def latent_draw(
    problem: Problem | MultiProblem, kind: str, vectors: Array, rng: np.random.Generator
) -> Array:
    """One draw of f at the training points, (n,) or (C n,), from the first of the vectors (or from the sites)."""
    if isinstance(problem, MultiProblem):
        if kind == "white":
            return np.asarray(whiten_many(problem).latents(vectors[:1])[0])
        many = whiten_many(problem, *np.split(vectors, 2)[::-1])
        return np.asarray(many.latents(rng.standard_normal((1, many.dimension)))[0])
    if kind == "sites":
        target = whiten(problem, vectors[0], vectors[1])
        return np.asarray(target.latents(rng.standard_normal((1, problem.n)))[0])
    L, _ = factor(problem.prior.K)
    if kind == "white":
        return np.asarray(L @ vectors[0])
    rows = problem.repeated()
    assert rows is not None
    # f given z by Matheron's rule: a prior draw, corrected by what z says beyond its own simulated z.
    where = np.arange(problem.n) if rows is problem else _positions(problem)
    f = L @ rng.standard_normal(problem.n)
    simulated = f[where] + rng.standard_normal(rows.n) / problem.likelihood.scale
    correction = vectors[0] - noise_factor(rows).solve(simulated)
    return np.asarray(f + problem.prior.K[:, where] @ correction)


def _positions(problem: Problem) -> IntArray:
    """Which point each repeated row is."""
    assert problem.weights is not None
    return np.repeat(np.arange(problem.n), np.rint(problem.weights).astype(int))
