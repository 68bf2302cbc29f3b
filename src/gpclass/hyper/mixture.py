"""The posterior over latent values when θ was sampled: a mixture over draws of θ.

For each kept draw of θ a few vectors describe the latent values given θ (:meth:`gpclass.posterior.Posterior.pack`); the
factor that turns them into predictions is recomputed when needed, one at a time.

If the scale of the link is sampled too, latents are rescaled to the reported likelihood, a function of scale · f.
Cost: memory S·r·k for S draws of θ with r vectors of k numbers each, and one factor; a prediction factors S matrices,
O(S n³) for a dense prior.
Reference: Filippone (2014), eq. 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.inference.mcmc import chain_batches
from gpclass.model.labels import copies_of
from gpclass.model.problem import Problem
from gpclass.posterior import Evidence, LatentMixture, Posterior, Report
from gpclass.priors import PriorSet


@dataclass(frozen=True, eq=False)
class ThetaMixture(Posterior):
    """Equally weighted draws of θ, each with vectors for its latent values."""

    problem: Problem  # at the reported parameters
    of: type[Posterior]  # what the vectors represent
    theta: Array  # (S, p)
    vectors: Array  # (S, r, k)
    chain: IntArray  # (S,)
    evidence: Evidence | None
    report: Report
    prior: PriorSet | None = None  # of θ; None in files of earlier versions

    @property
    def n_components(self) -> int:
        return len(self.theta) * self.of.packed_components(self.vectors[0])

    def posteriors(self) -> Iterator[tuple[int, float, Problem, Posterior]]:
        """Group, weight, problem and posterior of each draw of θ; equal neighbours, after rejections, are merged.

        Groups are batches within chains, as long as the chains' effective size asks for.
        """
        S, group = len(self.theta), chain_batches(self.chain, self.report.ess or 0.0)
        same = np.zeros(S, dtype=bool)
        same[1:] = (
            np.all(self.theta[1:] == self.theta[:-1], axis=1)
            & np.all(self.vectors[1:] == self.vectors[:-1], axis=(1, 2))
            & (group[1:] == group[:-1])
        )
        starts = np.flatnonzero(~same)
        for start, stop in zip(starts, np.append(starts[1:], S), strict=True):
            problem = self.problem.at(self.theta[start])
            posterior = self.of.unpack(problem, self.vectors[start])
            yield int(group[start]), float(stop - start) / S, problem, posterior

    def latent(self, X_new: Array) -> LatentMixture:
        """All components of all draws of θ, in the groups of the draws."""
        parts = []
        for batch, weight, problem, posterior in self.posteriors():
            part = posterior.latent(X_new)
            ratio = self._ratio(problem)
            size = len(part.weights)
            spread = np.broadcast_to(ratio**2 * part.covariances, (size, *part.covariances.shape[1:]))
            group = np.full(size, batch, dtype=np.intp)
            parts.append((weight * part.weights, ratio * part.means, spread, group))
        return LatentMixture(*map(np.concatenate, zip(*parts, strict=True)))

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        parts = list(self.posteriors())
        counts = rng.multinomial(n, np.array([weight for _, weight, _, _ in parts]))
        drawn = [
            self._ratio(problem) * posterior.draw(X_new, int(count), rng)
            for (_, _, problem, posterior), count in zip(parts, counts, strict=True)
            if count
        ]
        return np.asarray(rng.permutation(np.concatenate(drawn)))

    def _ratio(self, problem: Problem) -> float:
        """Scale of the link at a draw over that of the reported likelihood."""
        return problem.likelihood.scale / self.problem.likelihood.scale


def latent_draw(problem: Problem, of: type[Posterior], vectors: Array, rng: np.random.Generator) -> Array:
    """One draw of f at the rows, (L n,), from vectors that stand for the posterior."""
    f = of.unpack(problem, vectors).latent_draw(rng)
    if not problem.form.predicts_from_rows or len(f) == problem.n * problem.n_latents:
        return f
    assert problem.weights is not None  # the posterior has its rows repeated: take each once
    return np.asarray(f.reshape(problem.n_latents, -1)[:, np.cumsum(copies_of(problem.weights)) - 1].ravel())
