r"""The posteriors that inferences return: a Gaussian, or weighted draws.

- :class:`GaussianPosterior`: the prior times Gaussian sites (Laplace, EP, variational), for any prior.
- :class:`WhiteDraws`: weighted draws in white coordinates η of the prior (f = L η for a dense one, the whitened values
  at the inducing inputs for a low-rank one). A draw makes the values at a new point Gaussian, E[f*] = vᵀη and
  var f* = k** − vᵀv, the same for every draw.
- :class:`NoisyDraws`: weighted draws z of the noisy latent values (the exact probit engine), a dense prior behind them:
  E[f*] = k*ᵀ(K + I/s²)⁻¹z and var f* = k** − k*ᵀ(K + I/s²)⁻¹k*. No second integral is needed.

Each answers predictions as a mixture of Gaussians (:mod:`gpclass.posterior`), and packs itself into a few vectors for
mixtures over θ (``pack`` and ``unpack``).
Cost: O(n²) per new point, and O(S n) for S draws; :func:`gpclass.predict.in_blocks` keeps memory bounded.
Reference: Neal (1999); Atiya, Abdel-Gawad & Fayed (2020), equations 28 and 59-61, for the noisy draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.inference.noise import NoiseFactor, noise_factor, noise_precision
from gpclass.inference.redraw import LatentRecipe, Recipe
from gpclass.latent.base import Gaussian, per_latent
from gpclass.latent.dense import dense_prior
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.numerics.products import MANY, Draws
from gpclass.numerics.rounded import Rounded, columns
from gpclass.numerics.threads import few_threads
from gpclass.posterior import Evidence, LatentMixture, Posterior, Report

LARGE = 500_000  # numbers (4 MB) above which a file stores the recipe of draws instead of the draws
_NONE = Evidence(np.nan)  # of an unpacked posterior, for prediction alone


@dataclass(frozen=True, eq=False)
class GaussianPosterior(Posterior):
    """A Gaussian over the latent values."""

    problem: Problem
    gaussian: Gaussian
    evidence: Evidence
    report: Report
    start: Start | None = field(default=None, repr=False)  # rows' values, for a neighbouring θ

    @property
    def n_components(self) -> int:
        return 1

    def blocks(self, X_new: Array, most: int) -> list[IntArray]:
        return self.gaussian.blocks(X_new, most) or super().blocks(X_new, most)

    def latent(self, X_new: Array) -> LatentMixture:
        return self.gaussian.latent(X_new)

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        return self.gaussian.draw(X_new, n, rng)

    def pack(self, r: int, rng: Generator) -> Array:
        return self.gaussian.vectors()

    @classmethod
    def unpack(cls, problem: Problem, vectors: Array) -> GaussianPosterior:
        return cls(problem, problem.prior.from_vectors(vectors), _NONE, Report(method="gaussian"))

    @classmethod
    def packed_components(cls, vectors: Array) -> int:
        return 1

    def latent_draw(self, rng: Generator) -> Array:
        return self.gaussian.draw_rows(rng)

    def state(self) -> dict[str, Any]:
        """What a file stores."""
        kept = {name: getattr(self, name) for name in ("problem", "evidence", "report")}
        return kept | {"numbers": self.gaussian.kept()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> GaussianPosterior:
        """The posterior of a file; its factor is recomputed."""
        problem: Problem = state["problem"]
        return cls(problem, problem.prior.from_kept(state["numbers"]), state["evidence"], state["report"])


@dataclass(frozen=True, eq=False)
class ModePosterior(GaussianPosterior):
    """The mode of the latent field as if it were known: one component without variance."""

    def latent(self, X_new: Array) -> LatentMixture:
        """The kriged mode, with variance zero."""
        return LatentMixture.single(self.gaussian.means(X_new)[:, 0], np.zeros(len(X_new)))

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """The kriged mode n times, (n, m, 1)."""
        return np.repeat(self.latent(X_new).means, n, axis=0)


class WeightedDraws(Posterior):
    """What posteriors of weighted draws share."""

    weights: Array  # (S,), sums to one
    recipe: Recipe | LatentRecipe | None  # of the draws; a file may store it instead of them
    draws: ClassVar[str]  # name of the array of draws
    stored: ClassVar[tuple[str, ...]]  # names of what a file stores

    @property
    def n_components(self) -> int:
        return len(self.weights)

    def chosen(self, n: int, rng: Generator) -> IntArray:
        """Indices of n draws, chosen by their weights."""
        return rng.choice(len(self.weights), size=n, p=self.weights)

    def state(self) -> dict[str, Any]:
        """What a file stores: a recipe instead of many draws, if there is one."""
        kept = {name: getattr(self, name) for name in self.stored}
        if self.recipe is not None and kept[self.draws].size > LARGE:
            kept[self.draws] = None
        return kept


@dataclass(frozen=True, eq=False)
class WhiteDraws(WeightedDraws):
    """Weighted draws in white coordinates of the prior."""

    problem: Problem
    eta: Array  # (S, k)
    weights: Array  # (S,), sums to one
    group: IntArray  # (S,), chain or batch of each draw
    evidence: Evidence | None
    report: Report
    roots: list[Array] | None = None  # of the prior, if not the problem's own
    recipe: LatentRecipe | None = None  # recipe of the draws; a file may store it instead of eta
    guide: Start | None = field(default=None, repr=False)  # of the Gaussian behind the draws

    draws = "eta"
    stored = ("problem", "eta", "weights", "group", "evidence", "report", "roots", "recipe")

    @property
    def start(self) -> Start:
        return replace(self.guide or Start(), eta=self.eta, weights=self.weights)

    @cached_property
    def _draws(self) -> list[Draws]:
        """Of every latent value, for products."""
        return [Draws(eta.T, self.weights) for eta in self._per_latent()]

    @property
    def f(self) -> Array:
        """The draws of the latent values at the rows of a dense prior, (S, L, n)."""
        prior = dense_prior(self.problem)
        roots = prior.per_latent(self.roots or prior.roots)
        return np.stack([eta @ L.T for eta, L in zip(self._per_latent(), roots, strict=True)], axis=1)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per draw and point, its latent values independent; all draws share the variances."""
        L, found = self.problem.n_latents, self.problem.prior.features(X_new, self.roots)
        each = [draws.times(V) for draws, V in zip(self._draws, per_latent(found.V, L), strict=True)]
        means = each[0][:, :, None] if L == 1 else np.stack(each, axis=2)
        variances = np.stack(per_latent(found.rest, L), axis=1)
        return LatentMixture(self.weights, means, variances[None, :, :, None] * np.eye(L), self.group)

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, m, L): a draw at the rows, then f* given it."""
        L, prior = self.problem.n_latents, self.problem.prior
        found = prior.features(X_new, self.roots)
        roots = per_latent(prior.joint_root(X_new, found), L)
        chosen = self.chosen(n, rng)
        each = [
            (eta @ V)[chosen] + rng.standard_normal((n, len(X_new))) @ root.T
            for eta, V, root in zip(self._per_latent(), per_latent(found.V, L), roots, strict=True)
        ]
        return np.stack(each, axis=2)

    def pack(self, r: int, rng: Generator) -> Array:
        return np.asarray(self.eta[self.chosen(r, rng)])

    @classmethod
    def unpack(cls, problem: Problem, vectors: Array) -> WhiteDraws:
        return cls(problem, vectors, *_even(len(vectors)), None, Report(method="draws"))

    def latent_draw(self, rng: Generator) -> Array:
        """The first draw at the rows, (L n,); the coordinates themselves if the prior does not hold the rows."""
        if not self.problem.form.predicts_from_rows:
            return np.asarray(self.eta[0])
        return np.asarray(replace(self, eta=self.eta[:1], weights=np.ones(1)).f[0].ravel())

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> WhiteDraws:
        """The draws, remade if the file does not hold them."""
        if state["eta"] is None:
            from gpclass.inference.exact import latents_drawn_again  # it builds on this module

            with few_threads(state["problem"].n):
                state = {**state, "eta": latents_drawn_again(state["problem"], state["recipe"])}
        return cls(**state)

    def _per_latent(self) -> list[Array]:
        """η_c (S, k) of every latent value."""
        L = self.problem.n_latents
        k = self.eta.shape[1] // L
        return [self.eta[:, c * k : (c + 1) * k] for c in range(L)] if L > 1 else [self.eta]


@dataclass(frozen=True, eq=False)
class NoisyDraws(WeightedDraws):
    """Weighted draws of the noisy latent values at the rows of a dense prior."""

    problem: Problem  # with its rows repeated by their weights
    factor: NoiseFactor  # behind (K_c + I/s²)⁻¹
    A: Array | Rounded  # (L, n, M), (K_c + I/s²)⁻¹ z_c for each draw
    weights: Array  # (M,), sum to one
    group: IntArray  # (M,)
    evidence: Evidence
    report: Report
    start: Start | None = field(default=None, repr=False)  # EP's sites on the rows
    recipe: Recipe | LatentRecipe | None = None  # of the draws; a file may store it instead of A

    draws = "A"
    stored = ("problem", "A", "weights", "group", "evidence", "report", "recipe")

    @cached_property
    def _draws(self) -> list[Draws]:
        """Of every latent value, for products."""
        covariances = dense_prior(self.problem).covariances
        each = [self.A] if isinstance(self.A, Rounded) else list(self.A)
        return [Draws(a, self.weights, K) for a, K in zip(each, covariances, strict=True)]

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per draw, its latent values independent; all draws share the variances."""
        prior = dense_prior(self.problem)
        return self.mixture(prior.per_latent(prior.cross(X_new)), prior.per_latent(prior.variances(X_new)))

    def mixture(self, cross: list[Array], diag: list[Array]) -> LatentMixture:
        """The same from covariances with the rows (n, m) and variances (m,) of new points, per latent value."""
        L = len(cross)
        each = [draws.times(k) for draws, k in zip(self._draws, cross, strict=True)]
        means = each[0][:, :, None] if L == 1 else np.stack(each, axis=2)
        variances = np.maximum(self.factor.variances(cross, diag, len(self.weights) >= MANY), 0.0)  # (m, L)
        return LatentMixture(self.weights, means, variances[None, :, :, None] * np.eye(L), self.group)

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, m, L). Cost: O(L m³) for m points."""
        prior = dense_prior(self.problem)
        cross = prior.per_latent(prior.cross(X_new))
        roots = self.factor.roots(cross, prior.per_latent(prior.joint(X_new)))
        chosen = columns(self.A, self.chosen(n, rng))
        each = [
            a.T @ k + rng.standard_normal((n, len(X_new))) @ root.T
            for a, k, root in zip(chosen, cross, roots, strict=True)
        ]
        return np.stack(each, axis=2)

    def pack(self, r: int, rng: Generator) -> Array:
        """R draws, chosen by their weights, (r, L n)."""
        return np.asarray(columns(self.A, self.chosen(r, rng)).reshape(-1, r).T)

    @classmethod
    def unpack(cls, problem: Problem, vectors: Array) -> NoisyDraws:
        rows = problem.unrolled()
        A = vectors.T.reshape(problem.n_latents, rows.n, len(vectors))
        return cls(rows, noise_factor(rows), A, *_even(len(vectors)), _NONE, Report(method="draws"))

    def latent_draw(self, rng: Generator) -> Array:
        """One draw of f at the rows given the first z, (L n,), by Matheron's rule."""
        problem, prior = self.problem, dense_prior(self.problem)
        n, sd = problem.n, noise_precision(problem) ** -0.5
        f = np.stack([root @ rng.standard_normal(n) for root in prior.per_latent(prior.roots)])
        simulated = f + sd * rng.standard_normal(f.shape)
        correction = columns(self.A, np.zeros(1, dtype=np.intp))[:, :, 0] - self.factor.solve(simulated)
        return np.asarray((f + prior.product(correction)).ravel())

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> NoisyDraws:
        """The draws with their factor; the draws are remade if the file does not hold them."""
        problem, state = state["problem"], {name: state[name] for name in cls.stored}
        with few_threads(problem.n):
            found = noise_factor(problem)
            if state["A"] is None:
                from gpclass.inference.exact import drawn_again  # it builds on this module

                state = {**state, "A": drawn_again(problem, found, state["recipe"], state["weights"])}
        return cls(**state, factor=found)


def _even(r: int) -> tuple[Array, IntArray]:
    """Equal weights of one group."""
    return np.full(r, 1.0 / r), np.zeros(r, dtype=np.intp)
