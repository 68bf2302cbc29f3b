r"""Exact predictions from the rows near each new point; all other rows count through EP's sites.

Importance weights over all rows die as n grows, but p(x*) depends on the rows near x*. For a group of new points L are
the k most correlated rows (:mod:`gpclass.inference.local_rows`). EP's Gaussian over f_L and f*, with the sites of L
divided out, is prior times the sites of all other rows (:mod:`gpclass.latent.joint`); with the exact factors of L it is
a small classification problem with a dense covariance, and the exact engine draws from it
(:mod:`gpclass.inference.exact`). EP's sites of L are its guide: they are at EP's fixed point there too. Any prior works
whose Gaussian gives the joint distribution of some rows and new points.

Two errors are stated. The Monte Carlo error is that of the draws. The truncation error is what the sites of the other
rows leave. It is an estimate from halvings, which may be too small: predictions with k, k/2 and k/4 rows, of which the
larger of the two root mean square differences over the group counts, and no less than the Monte Carlo errors of these
predictions, below which a difference says nothing (that of few points is near 0 by chance).

The evidence, and with it the kernel parameters, are EP's. Joint draws of latent values at new points are EP's too.
Predictions are made of a seed fixed at the fit: the same points give the same answer, and a point among others another
one within the stated errors.
Cost: EP, then for each group of new points the joint distribution (O(n²k) under a dense prior, O(k m²) with m inducing
inputs, k sparse solves with neighbours), O(k³), and 1.25 k²M for M draws. All rows are kept in memory.
Fails when: as ``exact`` does, in the group's problem; the stated errors do not know of a poor EP far away.
Reference: the cavity of Minka (2001), of a set of rows instead of one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.inference.base import Inference, Way
from gpclass.inference.draws import HEAVY
from gpclass.inference.ep import EP, RULE
from gpclass.inference.exact import Exact
from gpclass.inference.local_rows import groups, most_correlated
from gpclass.inference.looked import Looked
from gpclass.inference.posteriors import GaussianPosterior
from gpclass.inference.redraw import POINTS
from gpclass.inference.sweeps import FixedPoint
from gpclass.latent.joint import Joint, SitedRows, cavity_problem
from gpclass.latent.sites import Held, Start, labels_of
from gpclass.likelihoods.base import Likelihood
from gpclass.model.problem import Problem
from gpclass.orthant.uniforms import PointSet
from gpclass.posterior import LatentMixture, Posterior
from gpclass.predict import predict_proba


@dataclass(frozen=True)
class LocalExact(Inference):
    """Settings of local exactness.

    Parameters
    ----------
    rows : int
        Rows whose exact factors count at a new point.
    tol : float
        Target Monte Carlo standard error of the probabilities at new points. The estimator sets it from its own
        ``tol``.
    n_samples : int, optional
        A fixed number of draws instead of ``tol``.
    max_samples : int, optional
        Largest number of draws for ``tol``; by default that of ``exact``.
    """

    rows: int = 500
    tol: float = 1e-3
    n_samples: int | None = None
    max_samples: int | None = None

    limits: ClassVar = {"rows": 2}
    name: ClassVar[str] = "local-exact"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("split match", "given joint"),)
    only_two: ClassVar[str] = "the sites of the other rows couple the classes, which the sampler takes as independent"
    gradient: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True

    @property
    def sampler(self) -> Exact:
        """The exact engine, for the rows near a group of points."""
        return Exact(tol=self.tol, n_samples=self.n_samples, max_samples=self.max_samples)

    def guide(self, likelihood: Likelihood) -> EP:
        """EP, whose evidence is the one that counts."""
        return EP()

    def brief(self) -> LocalExact:
        return replace(self, rows=6, n_samples=60)

    def with_tol(self, tol: float) -> LocalExact:
        return self if self.n_samples is not None else replace(self, tol=tol)

    def coarser(self, tol: float) -> LocalExact:
        return self.with_tol(max(self.tol, tol))

    def posterior_type(self, problem: Problem) -> type[Posterior]:
        return LocalPosterior

    def infer(self, problem: Problem, rng: Generator, start: Start | None, gradient: bool) -> LocalPosterior:
        """EP, and what predictions need of it."""
        if not problem.form.predicts_from_rows and problem.rows.weighted:
            problem, start = problem.unrolled(), None  # copies of a row have residuals of their own
        found = EP().infer(problem, rng, start, gradient)
        return LocalPosterior(
            problem,
            found.gaussian,
            found.evidence,
            replace(found.report, method=self.name),
            found.start,
            rows=sited_rows(problem, found.sites[1]),
            settings=self,
            seed=int(rng.integers(2**63)),
        )


def sited_rows(problem: Problem, held: Held) -> SitedRows:
    """All rows in memory, with their sites."""
    X, y, weights = problem.rows.everything
    shards = sorted(problem.rows.executor.fetch(held), key=lambda shard: shard.first)
    t, h = np.hstack([labels_of(shard, problem.likelihood).copies * shard.kept[:2] for shard in shards])
    return SitedRows(X, y, weights, t, h, np.arange(len(y)))


@dataclass(frozen=True, eq=False)
class LocalPosterior(GaussianPosterior):
    """EP's Gaussian, with exact factors for the rows near the points of a prediction."""

    rows: SitedRows | None = None
    settings: LocalExact | None = None
    seed: int = 0
    points: PointSet = POINTS  # of the draws
    earlier: bool = False  # whether they are planned as by earlier versions, which wrote the file

    def blocks(self, X_new: Array, most: int) -> list[IntArray]:
        """Groups that share their rows."""
        assert self.rows is not None
        assert self.settings is not None
        return groups(self.problem, self.rows.X, X_new, self.settings.rows)

    def latent(self, X_new: Array) -> LatentMixture:
        """From the rows that are most correlated with any of the points, and from fewer of them for the error.

        All points share these rows and their draws, so they should be one of :meth:`blocks`: of points far apart, none
        has many rows near it. :func:`gpclass.predict.in_blocks` takes any points.
        """
        assert self.rows is not None
        assert self.settings is not None
        k = self.settings.rows
        rows = self.rows.take(most_correlated(self.problem, self.rows.X, X_new, k))
        joint = self.gaussian.joint(rows, X_new)
        whole = self.drawn(rows, joint)
        if k >= len(self.rows.y):
            return replace(whole, truncation=np.zeros(len(X_new)))
        fewer = [self.drawn(rows.take(np.arange(few)), joint.first(few)) for few in (k // 2, k // 4) if few]
        found = [predict_proba(part, self.problem.likelihood) for part in (whole, *fewer)]
        estimates = [
            max(np.mean((p.proba - q.proba)[:, 1] ** 2), np.mean(p.mcse[:, 1] ** 2 + q.mcse[:, 1] ** 2))
            for p, q in pairwise(found)
        ]
        return replace(whole, truncation=np.full(len(X_new), np.sqrt(max(estimates))))

    def drawn(self, rows: SitedRows, joint: Joint) -> LatentMixture:
        """Latent values at new points with the exact factors of some rows."""
        assert self.settings is not None
        cavity = joint.without(rows.t, rows.h)
        problem = cavity_problem(self.problem, rows, cavity)
        (shard,) = problem.rows.held
        sites = np.stack([rows.t, rows.h - rows.t * cavity.mean]) / labels_of(shard, problem.likelihood).copies
        held = (shard.with_values(sites),)
        found = FixedPoint(held, problem.prior.given(held, RULE), np.nan, 0, True, 0.0)
        sampler, look = self.settings.sampler, Looked([cavity.cross], [cavity.new_variance], cavity.new_mean)
        guided, rng = sampler.guided(problem, found), np.random.default_rng(self.seed)
        drawn = sampler.complete(guided, rng, look=look, points=self.points, earlier=self.earlier)
        if HEAVY in drawn.report.warnings:
            warnings.warn(HEAVY, UserWarning, stacklevel=2)
        mixture = drawn.mixture(look.cross, look.variances)
        return replace(mixture, means=mixture.means + cavity.new_mean[:, None].astype(mixture.means.dtype))

    def state(self) -> dict[str, Any]:
        """What a file stores; features and labels here if the problem does not store them."""
        assert self.rows is not None
        own = {name: getattr(self, name) for name in ("settings", "seed", "points", "earlier")}
        kept = {**super().state(), "t": self.rows.t, "h": self.rows.h, **own}
        if self.problem.form.predicts_from_rows:
            return kept
        return {**kept, "X": self.rows.X, "y": self.rows.y, "weights": self.rows.weights}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> LocalPosterior:
        problem: Problem = state["problem"]
        X, y, weights = (
            problem.rows.everything if problem.form.predicts_from_rows else (state["X"], state["y"], state["weights"])
        )
        return cls(
            problem,
            problem.prior.from_kept(state["numbers"]),
            state["evidence"],
            state["report"],
            rows=SitedRows(X, y, weights, state["t"], state["h"], np.arange(len(y))),
            settings=state["settings"],
            seed=state["seed"],
            points=state.get("points", "orthogonal"),  # as earlier versions drew
            earlier=state.get("earlier", True),
        )
