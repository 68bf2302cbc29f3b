r"""The low-rank prior: m inducing inputs, and an independent residual in every row (FITC).

With the whitened values u_c ~ N(0, I_m) of latent function c at the inducing inputs, f_ic = a_icᵀu_c + e_ic
(:mod:`gpclass.latent.basis`). Sites seen from u (:mod:`gpclass.latent.low_rank_rows`) make of u, all L m numbers of it,

    q(u) = N(μ, P⁻¹),   P = I + Σ_i (S_i ⊗ a_i a_iᵀ),   P μ = Σ_i r_i ⊗ a_i,

so that one pass over the rows gives what the next q needs: a matrix of Lm×Lm and a vector. A new point has
E f_c* = a_c*ᵀμ_c and cov f* = a*ᵀP⁻¹a* + λ*. With Z = X it is the dense prior.
Cost: L(L+1)/2 n m² multiply-adds per pass for P and as many for the covariances, O((Lm)³) for the factor; O((Lm)²)
memory in addition to the rows'.
Fails when: K_zz is singular beyond the allowed jitter (which is reported).
References: Snelson & Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs; Naish-Guzman & Holden (2008).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpclass._typing import Array
from gpclass.latent import base
from gpclass.latent.base import (
    Features,
    Form,
    Gaussian,
    Held,
    LatentPrior,
    SiteRule,
    Swept,
    Target,
    labels_of,
)
from gpclass.latent.basis import Basis, blocks, gram, inverse, whiten
from gpclass.latent.inducing import MOST, choose_inducing, sample_rows
from gpclass.latent.low_rank_gradient import gaussian_gradient, score
from gpclass.latent.low_rank_rows import Seen
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import Labels, Rows, Shard, Source, Sums
from gpclass.numerics.linalg import NotPositiveDefiniteError, factor, mirror_upper
from gpclass.numerics.memory import available_memory
from gpclass.numerics.threads import one_thread
from gpclass.posterior import LatentMixture

if TYPE_CHECKING:
    from gpclass.model.problem import Problem

PREDICT_BLOCK = 512  # new points at once
KEPT = 0.4  # share of the free memory that stored blocks may take


@dataclass(frozen=True, eq=False)
class LowRank(Form):
    """The prior through inducing inputs.

    Parameters
    ----------
    Z : (m, d) array, optional
        The inducing inputs; None until they are placed.
    m : int, optional
        How many to place; None: as many as explain most of the prior variance.
    how : "kmeans", "random" or (m, d) array
        How they are placed, or where.
    keep : bool
        Whether shards store their block of A (n m numbers in all, per kernel).
    """

    Z: Array | None = None
    m: int | None = None
    how: Any = "kmeans"
    keep: bool = True

    name: ClassVar[str] = "inducing"
    offers: ClassVar[frozenset[str]] = frozenset(["given", "whitened"])
    predicts_from_rows: ClassVar[bool] = False

    @classmethod
    def for_rows(cls, n: int, m: int | None, how: Any = "kmeans", kernels: int = 1) -> LowRank:
        """Inducing inputs to be placed for n rows; blocks are stored if memory allows."""
        keep = 8.0 * n * (m or MOST) * kernels < KEPT * available_memory()
        return cls(None, m, how, keep)

    @property
    def inducing(self) -> Array | None:
        """Inducing inputs."""
        return self.Z

    def rows(self, source: Source) -> Rows:
        """Shards, in any process that the source uses."""
        return Rows.of(source)

    def prior(self, problem: Problem) -> LowRankPrior:
        """The prior at the problem's θ."""
        if self.Z is None:
            raise ValueError("the inducing inputs are not placed yet: use problem.placed(rng)")
        return LowRankPrior(problem, [Basis(kernel, self.Z, self.keep) for kernel in problem.kernels])

    def placed(self, problem: Problem, rng: np.random.Generator, at_most: int | None = None) -> LowRank:
        """Inducing inputs placed at the problem's kernel parameters, at most so many of them; once."""
        if self.Z is not None and at_most is None:
            return self
        source, m, how = problem.rows.source, self.m, self.how
        assert source is not None
        if at_most is not None and isinstance(how, str):
            m = at_most if m is None else min(m, at_most)
        Z = choose_inducing(source, problem.kernels[0], m, how, rng)
        if at_most is not None and len(Z) > at_most:
            Z = Z[sample_rows(len(Z), at_most, rng)]
        return replace(self, Z=Z)

    def at(self, Z: Array) -> LowRank:
        """The same with other inducing inputs."""
        return replace(self, Z=Z)


@dataclass(frozen=True, eq=False)
class Spec:
    """What work on a shard needs of the prior. Small: it is sent to the shards."""

    bases: list[Basis]  # one, or one per latent value
    L: int

    @property
    def m(self) -> int:
        """Inducing inputs."""
        return self.bases[0].m

    def per_latent(self, found: list[Array]) -> list[Array]:
        """One item per latent value, from one per basis."""
        return found * self.L if len(found) == 1 else found

    def parts(self, u: Array) -> Array:
        """A vector over u as (L, m)."""
        return u.reshape(self.L, -1)

    def project(self, A: list[Array], x: Array) -> Array:
        """Σ_i x_ic a_ic, (L m,), for x (L, r)."""
        return np.concatenate([A_c.T @ x_c for A_c, x_c in zip(self.per_latent(A), x, strict=True)])

    def spread(self, A: list[Array], u: Array) -> Array:
        """a_icᵀ u_c, (L, r)."""
        return np.stack([A_c @ u_c for A_c, u_c in zip(self.per_latent(A), self.parts(u), strict=True)])

    def rest(self, rest: list[Array]) -> Array:
        """λ, (L, r)."""
        return np.stack(self.per_latent(rest))


@dataclass(frozen=True, eq=False)
class Q:
    """N(mean, (L Lᵀ)⁻¹) over u, all latent functions concatenated."""

    mean: Array  # (L m,)
    L: Array  # (L m, L m), lower factor of the precision, Fortran order
    shift: Array  # (L m,), precision times mean
    gram: Array | None = None  # the precision less the prior's, lower triangle, if stored

    @classmethod
    def of(cls, precision: Array, shift: Array) -> Q:
        """From Σ S ⊗ a aᵀ (its lower triangle) and Σ r ⊗ a."""
        P = np.array(precision, order="F")
        P.flat[:: len(shift) + 1] += 1.0
        L, info = lapack.dpotrf(P, lower=1, clean=1, overwrite_a=1)
        mean, _ = lapack.dpotrs(L, shift, lower=1)
        # Some factorisations propagate NaN silently; the mean then has it.
        if info != 0 or not np.isfinite(mean).all():
            raise NotPositiveDefiniteError(
                "the sites are not finite: check the kernel's parameters and the scale of the data"
            )
        return cls(np.asarray(mean), np.asarray(L), shift, precision)

    @property
    def log_mass(self) -> float:
        """Log ∫ N(u; 0, I) exp(shiftᵀu − ½ uᵀ(P − I)u) du."""
        return float(0.5 * self.shift @ self.mean - np.log(np.diag(self.L)).sum())

    @cached_property
    def covariance(self) -> Array:
        """P⁻¹."""
        return inverse(self.L)

    def marginals(self, spec: Spec, A: list[Array]) -> tuple[Array, Array]:
        """Mean (L, r) and covariance (r, L, L) of g in the rows of A."""
        if spec.L == 1:
            V = whiten(self.L, A[0].copy())
            return (A[0] @ self.mean)[None], np.einsum("ij,ij->i", V, V)[:, None, None]
        m, each = spec.m, spec.per_latent(A)
        V = np.empty((len(each[0]), spec.L, spec.L))
        for a in range(spec.L):
            for b in range(a + 1):
                block = self.covariance[a * m : (a + 1) * m, b * m : (b + 1) * m]
                V[:, a, b] = V[:, b, a] = np.einsum("ij,ij->i", each[a] @ block, each[b])
        return spec.spread(A, self.mean), V

    def distance(self, other: Q) -> float:
        """How far the two are, in standard deviations: means by this precision, and the precisions' relative change."""
        gap = self.L.T @ (self.mean - other.mean)
        ratio = solve_triangular(self.L, other.L, lower=True, check_finite=False)
        change = ratio @ ratio.T
        change.flat[:: len(change) + 1] -= 1.0
        return float(np.sqrt(gap @ gap + 0.5 * np.vdot(change, change)))

    def whitened(self, gram: Array, shift: Array) -> Array:
        """A change of precision (lower triangle) and shift in units of q."""
        whole_gram = mirror_upper(gram.T)
        half = solve_triangular(self.L, whole_gram, lower=True, check_finite=False)
        whole = solve_triangular(self.L, half.T, lower=True, check_finite=False)
        pull = solve_triangular(self.L, shift - whole_gram @ self.mean, lower=True, check_finite=False)
        return np.append(whole.ravel() * np.sqrt(0.5), pull)

    def draws(self, noise: Array) -> Array:
        """u (M, L m) from standard normals (M, L m)."""
        return np.asarray(
            self.mean + solve_triangular(self.L, noise.T, lower=True, trans=1, check_finite=False).T
        )


@dataclass(frozen=True, eq=False)
class LowRankPrior(LatentPrior):
    """f = A u + e, u ~ N(0, I)."""

    problem: Problem
    bases: list[Basis]

    @property
    def spec(self) -> Spec:
        """What is sent to the shards."""
        return Spec(self.bases, self.problem.n_latents)

    @property
    def jitter(self) -> float:
        """The jitter added to the diagonal of K_zz."""
        return max(basis.jitter for basis in self.bases)

    def given(self, held: Held, rule: SiteRule) -> LowRankGaussian:
        """One pass over the rows."""
        _, sums = self.problem.map(gather, held, self.spec, rule)
        return LowRankGaussian(self, Q.of(sums["gram"], sums["shift"]), sums["half_log"])

    def begin(self, rule: SiteRule, near: Gaussian | None = None) -> tuple[Held, Gaussian]:
        """One pass over the rows."""
        q = near.q if isinstance(near, LowRankGaussian) else None
        held, sums = self.problem.map(first_sites, self.problem.rows.held, self.spec, rule, q)
        return held, LowRankGaussian(self, Q.of(sums["gram"], sums["shift"]))

    def times(self, held: Held) -> Held:
        """Two passes over the rows."""
        _, sums = self.problem.map(project_alpha, held, self.spec)
        return self.problem.map(place, held, self.spec, sums["projected"])[0]

    def from_vectors(self, vectors: Array) -> LowRankGaussian:
        """Mean and factor in one row."""
        k = self.white_dimension()
        return self.from_kept({"mean": vectors[0, :k], "L": vectors[0, k:].reshape(k, k)})

    def from_kept(self, kept: dict[str, Array]) -> LowRankGaussian:
        """Mean and factor."""
        return LowRankGaussian(self, Q(kept["mean"], np.asfortranarray(kept["L"]), kept["mean"]))

    def features(self, X_new: Array, roots: list[Array] | None = None) -> Features:
        """Aᵀ and λ of the new points."""
        found = [basis.features(X_new) for basis in self.bases]
        return Features([A.T for A, _ in found], [rest for _, rest in found])

    def white_dimension(self) -> int:
        """m per latent value."""
        return self.problem.n_latents * self.bases[0].m

    def joint_root(self, X_new: Array, features: Features) -> list[Array]:
        """The full covariance, so that draws are smooth functions."""
        return [
            factor(
                basis.covariance(X_new) - V.T @ V,
                what="the covariance of the new points given the inducing values",
                scale=float(np.mean(basis.covariance.diag(X_new))),
            )[0]
            for basis, V in zip(self.bases, features.V, strict=True)
        ]

    def score(self, eta: Array, weights: Array) -> tuple[Array, Array | None]:
        """Sums over the rows."""
        return score(self.problem, self.spec, eta, weights)

    def whitened(self, gaussian: Gaussian | None) -> Target:
        """Coordinates of u (:mod:`gpclass.latent.low_rank_target`)."""
        from gpclass.latent.low_rank_target import LowRankTarget  # it builds on this module

        k = self.white_dimension()
        if gaussian is None:
            return LowRankTarget(self.problem, Q(np.zeros(k), np.asfortranarray(np.eye(k)), np.zeros(k)))
        assert isinstance(gaussian, LowRankGaussian)
        return LowRankTarget(self.problem, gaussian.q)


@dataclass(frozen=True, eq=False)
class LowRankGaussian(Gaussian):
    """The low-rank prior times sites: a Gaussian over u."""

    prior: LowRankPrior
    q: Q
    rows_half_log: float = field(default=np.nan)  # Σ ½ log|I + ΛW| over rows and copies, if computed

    @property
    def half_log_det(self) -> float:
        """½ log |P| and the rows' own part."""
        return float(np.log(np.diag(self.q.L)).sum()) + self.rows_half_log

    @property
    def jitter(self) -> float:
        """That of K_zz."""
        return self.prior.jitter

    @property
    def details(self) -> dict[str, Any]:
        """Classes, with several latent values per row."""
        L = self.prior.spec.L
        return {} if L == 1 else {"n_classes": L}

    def newton(self, held: Held, rule: SiteRule) -> tuple[Held, float]:
        """Newton's target is the mean of this Gaussian: one pass over the rows."""
        held, sums = self.prior.problem.map(aim, held, self.prior.spec, rule, self.q)
        return held, sums["decrement"]

    def sweep(self, held: Held, rule: SiteRule, step: float, remember: int) -> Swept:
        """One pass over the rows gives the new sites and the next q."""
        held, sums = self.prior.problem.map(sweep_rows, held, self.prior.spec, rule, self.q, step, remember)
        after = LowRankGaussian(self.prior, Q.of(sums["gram"], sums["shift"]))
        return Swept(held, after, self.q.log_mass + sums["value"])

    def distance(self, other: Gaussian) -> float:
        """In posterior standard deviations, summed over u."""
        assert isinstance(other, LowRankGaussian)
        return self.q.distance(other.q)

    def difference(self, after: Gaussian) -> tuple[Array, Array]:
        """Changes of q's precision and shift, which are linear in the sites seen from u."""
        assert isinstance(after, LowRankGaussian)
        assert self.q.gram is not None
        assert after.q.gram is not None
        return after.q.gram - self.q.gram, after.q.shift - self.q.shift

    def in_units(self, difference: tuple[Array, Array]) -> Array:
        """In units of q."""
        return self.q.whitened(*difference)

    def gradient(self, held: Held, rule: SiteRule, extra: bool = False) -> tuple[Array, Array | None]:
        """Sums over the rows (:mod:`gpclass.latent.low_rank_gradient`)."""
        problem, spec, nu = self.prior.problem, self.prior.spec, None
        if extra:
            held, sums = problem.map(third_order, held, spec, rule, self.q)
            held, sums = problem.map(times_prior, held, spec, rule, sums["b"])
            held, sums = problem.map(take_out, held, spec, rule, self.q.covariance @ sums["y"])
            nu = sums["nu"]
        return gaussian_gradient(problem, spec, held, rule, self.q, nu)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per point."""
        spec, m = self.prior.spec, len(X_new)
        mean, cov = np.empty((m, spec.L)), np.empty((m, spec.L, spec.L))
        with one_thread():
            for start in range(0, m, PREDICT_BLOCK):
                rows = slice(start, start + PREDICT_BLOCK)
                found = [basis.features(X_new[rows]) for basis in spec.bases]
                g, V = self.q.marginals(spec, [A for A, _ in found])
                mean[rows], cov[rows] = g.T, V
                cov[rows, range(spec.L), range(spec.L)] += spec.rest([rest for _, rest in found]).T
        return LatentMixture(np.ones(1), mean[None], cov[None], np.zeros(1, dtype=np.intp))

    def draw(self, X_new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws over X_new, (n, k, L). Cost: O(k³) for k points."""
        features = self.prior.features(X_new)
        u = self.q.draws(rng.standard_normal((n, len(self.q.mean)))).reshape(n, self.prior.spec.L, -1)
        L = self.prior.spec.L
        V, roots = features.spread(features.V, L), features.spread(self.prior.joint_root(X_new, features), L)
        each = [u[:, c] @ V[c] + rng.standard_normal((n, len(X_new))) @ roots[c].T for c in range(L)]
        return np.stack(each, axis=2)

    def draw_rows(self, rng: np.random.Generator) -> Array:
        """One draw of u."""
        return np.asarray(self.q.draws(rng.standard_normal((1, len(self.q.mean))))[0])

    def vectors(self) -> Array:
        """Mean and factor in one row."""
        return np.concatenate([self.q.mean, self.q.L.ravel()])[None]

    def kept(self) -> dict[str, Array]:
        """Mean and factor."""
        return {"mean": self.q.mean, "L": self.q.L}


# ---- work on shards: pure functions ---------------------------------------------------------------------------


class Accumulator:
    """Σ S ⊗ a aᵀ and Σ r ⊗ a over blocks of rows, copies counted."""

    def __init__(self, spec: Spec) -> None:
        k = spec.L * spec.m
        self.spec = spec
        self.gram = np.zeros((k, k), order="F")
        self.shift = np.zeros(k)

    def add(self, A: list[Array], seen: Seen, labels: Labels) -> None:
        """The rows of one block."""
        spec, m = self.spec, self.spec.m
        if spec.L == 1:
            self.gram += gram(A[0], labels.copies * seen.S[:, 0, 0])
        else:
            each = spec.per_latent(A)
            for a in range(spec.L):
                for b in range(a + 1):
                    weight = labels.copies * seen.S[:, a, b]
                    block = self.gram[a * m : (a + 1) * m, b * m : (b + 1) * m]
                    block += gram(each[a], weight) if a == b else (each[a] * weight[:, None]).T @ each[b]
        self.shift += spec.project(A, labels.copies * seen.shift)

    def result(self) -> Sums:
        """Both sums; of the first the lower triangle counts."""
        return {"gram": self.gram, "shift": self.shift}


def gather(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule) -> tuple[Shard, Sums]:
    """The sums of q for the current sites."""
    sums, k, half_log = Accumulator(spec), rule.numbers(likelihood, spec.L), 0.0
    for rows, A, rest in blocks(shard, spec.bases):
        labels = labels_of(shard, likelihood, rows)
        seen = Seen.of(rule.sites(likelihood, labels, shard.kept[:k, rows]), spec.rest(rest))
        half_log += float(np.sum(labels.copies * seen.half_log))
        sums.add(A, seen, labels)
    return shard, {**sums.result(), "half_log": half_log}


def first_sites(
    shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q | None
) -> tuple[Shard, Sums]:
    """Sites from the marginals under q, or under the prior; the sums of the first q of these rows."""
    numbers = np.empty((rule.numbers(likelihood, spec.L), len(shard)))
    sums, L = Accumulator(spec), spec.L
    for rows, A, rest in blocks(shard, spec.bases):
        labels, lam = labels_of(shard, likelihood, rows), spec.rest(rest)
        if q is None:
            mean, V = np.zeros(lam.shape), np.zeros((lam.shape[1], L, L))
            each = [np.einsum("ij,ij->i", part, part) for part in A]
            V[:, range(L), range(L)] = np.stack(spec.per_latent(each), axis=1)
        else:
            mean, V = q.marginals(spec, A)
        V[:, range(L), range(L)] += lam.T
        flat = RowSites(b=np.zeros_like(mean), D=np.zeros_like(mean))
        first = rule.first(likelihood, labels, RowMarginals(mean, V, flat))
        numbers[:, rows] = labels.clear_absent(first)
        sums.add(A, Seen.of(rule.sites(likelihood, labels, numbers[:, rows]), lam), labels)
    return shard.with_values(numbers), sums.result()


def sweep_rows(
    shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q, step: float, remember: int
) -> tuple[Shard, Sums]:
    """New sites for every row, moved by ``step``, from q of the old ones; their sums, and the evidence of the old.

    After the new sites the shard stores those of the last ``remember`` sweeps, for mixing.
    """
    k = rule.numbers(likelihood, spec.L)
    moved, value = np.empty((k, len(shard))), 0.0
    sums = Accumulator(spec)
    for rows, A, rest in blocks(shard, spec.bases):
        labels, old, lam = labels_of(shard, likelihood, rows), shard.kept[:k, rows], spec.rest(rest)
        seen = Seen.of(rule.sites(likelihood, labels, old), lam)
        new, terms = rule.update(likelihood, labels, old, seen.marginals(*q.marginals(spec, A)))
        value += float(np.sum(labels.copies * (terms + seen.log_rest)))
        new = labels.clear_absent(new)
        moved[:, rows] = new if step == 1.0 else old + step * (new - old)
        sums.add(A, Seen.of(rule.sites(likelihood, labels, moved[:, rows]), lam), labels)
    values = base.remembered(shard.kept, moved, remember)
    return shard.with_values(values), {**sums.result(), "value": value}


def project_alpha(shard: Shard, likelihood: Likelihood, spec: Spec) -> tuple[Shard, Sums]:
    """Aᵀα, for an α found at other parameters."""
    total = np.zeros(spec.L * spec.m)
    view = shard.kept.reshape(base.NEWTON, spec.L, -1)
    for rows, A, _ in blocks(shard, spec.bases):
        total += spec.project(A, labels_of(shard, likelihood, rows).copies * view[base.ALPHA][:, rows])
    return shard, {"projected": total}


def place(shard: Shard, likelihood: Likelihood, spec: Spec, projected: Array) -> tuple[Shard, Sums]:
    """The point f = K α."""
    values = shard.kept.copy()
    view = values.reshape(base.NEWTON, spec.L, -1)
    for rows, A, rest in blocks(shard, spec.bases):
        view[base.F][:, rows] = spec.spread(A, projected) + spec.rest(rest) * view[base.ALPHA][:, rows]
    return shard.with_values(values), {}


def aim(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q) -> tuple[Shard, Sums]:
    """Newton's step, and the decrement."""
    values, decrement = shard.kept.copy(), 0.0
    view, k = values.reshape(base.NEWTON, spec.L, -1), rule.numbers(likelihood, spec.L)
    for rows, A, rest in blocks(shard, spec.bases):
        labels, lam = labels_of(shard, likelihood, rows), spec.rest(rest)
        seen, mean = Seen.of(rule.sites(likelihood, labels, values[:k, rows]), lam), spec.spread(A, q.mean)
        alpha = seen.alpha(mean)
        view[base.STEP_ALPHA][:, rows] = alpha - view[base.ALPHA][:, rows]
        view[base.STEP_F][:, rows] = mean + lam * alpha - view[base.F][:, rows]
        gain = (view[base.STEP_F][:, rows] * view[base.RESIDUAL][:, rows]).sum(axis=0)
        decrement += float(np.sum(labels.copies * gain))
    return shard.with_values(values), {"decrement": decrement}


def third_order(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q) -> tuple[Shard, Sums]:
    """Rows with s = ½ Σ ∂³ log p behind their own numbers; Σ s a."""
    k, L = rule.numbers(likelihood, spec.L), spec.L
    values, total = np.empty((k + 2 * L, len(shard))), np.zeros(L * spec.m)
    values[:k] = shard.kept[:k]
    for rows, A, rest in blocks(shard, spec.bases):
        labels, numbers = labels_of(shard, likelihood, rows), values[:k, rows]
        seen = Seen.of(rule.sites(likelihood, labels, numbers), spec.rest(rest))
        at = seen.marginals(*q.marginals(spec, A))
        s = labels.power * likelihood.third(labels.y, numbers[:L], at.cov)
        values[k : k + L, rows] = s
        total += spec.project(A, labels.copies * s)
    return shard.with_values(values), {"b": total}


def times_prior(
    shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, projected: Array
) -> tuple[Shard, Sums]:
    """Rows with y = K s; Σ (S y) a."""
    k, L = rule.numbers(likelihood, spec.L), spec.L
    values, total = shard.kept.copy(), np.zeros(L * spec.m)
    for rows, A, rest in blocks(shard, spec.bases):
        labels, lam = labels_of(shard, likelihood, rows), spec.rest(rest)
        seen = Seen.of(rule.sites(likelihood, labels, values[:k, rows]), lam)
        y = spec.spread(A, projected) + lam * values[k : k + L, rows]
        values[k + L :, rows] = y
        total += spec.project(A, labels.copies * seen.times(y))
    return shard.with_values(values), {"y": total}


def take_out(
    shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, towards: Array
) -> tuple[Shard, Sums]:
    """Rows with x = s − (K + W⁻¹)⁻¹ y in place of s; Σ x a."""
    k, L = rule.numbers(likelihood, spec.L), spec.L
    values, total = shard.kept.copy(), np.zeros(L * spec.m)
    for rows, A, rest in blocks(shard, spec.bases):
        labels = labels_of(shard, likelihood, rows)
        seen = Seen.of(rule.sites(likelihood, labels, values[:k, rows]), spec.rest(rest))
        x = values[k : k + L, rows] - seen.times(values[k + L :, rows] - spec.spread(A, towards))
        values[k : k + L, rows] = x
        total += spec.project(A, labels.copies * x)
    return shard.with_values(values[: k + L]), {"nu": total}
