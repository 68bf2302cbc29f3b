r"""The neighbour prior times sites, and the gradient of its evidence.

With the sites' precision W (an L×L matrix per row) and shift b, S = Q + W (:mod:`gpclass.numerics.dissection`),

    G = S⁻¹W A,   H = A − G = S⁻¹Q A,   P = I + AᵀW H,   P μ = Hᵀb,
    E f = S⁻¹b + H μ,   E r = E f − A μ,   cov f = S⁻¹ + H P⁻¹Hᵀ,   cov r = S⁻¹ + G P⁻¹Gᵀ,   cov(f, u) = H P⁻¹,
    log |I + K W| = log |S| − log |Q| + log |P|.

A new point has f* = a*ᵀu + b*ᵀr_N + N(0, d*), so that with w* = a* − G_Nᵀb* its variance is d* + b*ᵀS⁻¹b* + w*ᵀP⁻¹w*.

Gradient. The evidence is stationary in the sites, or the implicit part is added: x = s − W v, v = cov(f) s, ν = Aᵀx.
Then, with α = b − W E f,

    ∂ log Z/∂A = (α + x) μᵀ + α νᵀ − W H P⁻¹,
    ∂ log Z/∂R = ∂/∂R E[log N(r; 0, Q⁻¹)]  with  E[r rᵀ] = cov r + r̂ r̂ᵀ + g r̂ᵀ + r̂ gᵀ,   r̂ = E r,   g = v − A ν,

and R = k − a aᵀ takes the latter to the kernel at the pairs and to A once more.
Cost: one sparse factor, and S⁻¹ at its entries (twice a factor) where marginals or the gradient are needed; L²n m² for
the inducing inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from gpclass._typing import Array, Generator
from gpclass.latent.basis import BLOCK
from gpclass.latent.in_memory import GaussianByMean, only
from gpclass.latent.low_rank_gradient import RowSums, finish
from gpclass.latent.low_rank_q import Spec
from gpclass.latent.near_sites import SparseResponse, matching, settled
from gpclass.latent.neighbour_prior import PAIRS, NeighbourPrior
from gpclass.latent.sites import Held, SiteRule
from gpclass.model.rows import Labels
from gpclass.model.sums import Sums
from gpclass.numerics.dissection import SparseFactor
from gpclass.numerics.linalg import cholesky
from gpclass.posterior import LatentMixture

if TYPE_CHECKING:
    from gpclass.latent.joint import Joint, SitedRows


RESPONSIVE = 2000  # rows from which a sweep goes as far as one factor tells


@dataclass(frozen=True, eq=False)
class NeighbourGaussian(GaussianByMean):
    """The neighbour prior times sites."""

    prior: NeighbourPrior

    # ---- the distribution -------------------------------------------------------------------------------------

    @cached_property
    def factor(self) -> SparseFactor:
        """Of S."""
        Q = self.prior.per_latent([found.Q for found in self.prior.conditionals])
        return SparseFactor(self.prior.cliques.tree, Q, self.W)

    @cached_property
    def G(self) -> Array:
        """S⁻¹W A, (n, L, L m)."""
        A, W, L, m = self.prior.per_latent(self.prior.A), self.W, self.prior.L, self.prior.m
        WA = np.empty((self.prior.problem.n, L, L * m))
        for c, part in enumerate(A):
            WA[:, :, c * m : (c + 1) * m] = W[:, :, c, None] * part[:, None, :]
        return self.factor.solve(WA) if m else WA

    @cached_property
    def H(self) -> Array:
        """A − G, (n, L, L m)."""
        m, H = self.prior.m, -self.G
        for c, part in enumerate(self.prior.per_latent(self.prior.A)):
            H[:, c, c * m : (c + 1) * m] += part
        return H

    @cached_property
    def WH(self) -> Array:
        """W H, (n, L, L m)."""
        return np.asarray(self.W @ self.H)

    @cached_property
    def root(self) -> Array:
        """Lower factor of P."""
        A, m = self.prior.per_latent(self.prior.A), self.prior.m
        P = np.concatenate([part.T @ self.WH[:, c] for c, part in enumerate(A)])
        P.flat[:: len(P) + 1] += 1.0
        return cholesky(0.5 * (P + P.T)) if m else np.zeros((0, 0))

    def white(self, X: Array) -> Array:
        """X P^(-½) for X (..., L m): the products of its rows are x P⁻¹xᵀ."""
        if not self.prior.m:
            return X
        flat = X.reshape(-1, X.shape[-1])
        return solve_triangular(self.root, flat.T, lower=True, check_finite=False).T.reshape(X.shape)

    @cached_property
    def mu(self) -> Array:
        """Mean of u, (L m,)."""
        shift = np.einsum("ncM,nc->M", self.H, self.b)
        half = solve_triangular(self.root, shift, lower=True, check_finite=False) if self.prior.m else shift
        return solve_triangular(self.root, half, lower=True, trans=1, check_finite=False) if self.prior.m else half

    @cached_property
    def mean_f(self) -> Array:
        """At the rows, (n, L)."""
        return np.asarray(self.factor.solve(self.b[:, :, None])[:, :, 0] + self.H @ self.mu)

    @property
    def mean_r(self) -> Array:
        """Of what the inducing inputs leave, (n, L)."""
        return np.asarray(self.mean_f - self._spread(self.mu))

    @cached_property
    def _inverse(self) -> tuple[list[Array], Array]:
        return self.factor.inverse()

    @cached_property
    def covariance(self) -> Array:
        """Of the latent values of each row, (n, L, L)."""
        V = self.white(self.H)
        return np.asarray(self._inverse[1] + V @ V.transpose(0, 2, 1))

    def _spread(self, u: Array) -> Array:
        """A u, (n, L)."""
        each = zip(self.prior.per_latent(self.prior.A), u.reshape(self.prior.L, -1), strict=True)
        return np.asarray(np.stack([part @ own for part, own in each], axis=1))

    @cached_property
    def half_log_det(self) -> float:
        prior = sum(found.half_log_det for found in self.prior.per_latent(self.prior.conditionals))
        return float(self.factor.half_log_det - prior + np.log(np.diag(self.root)).sum())

    @property
    def log_mass(self) -> float:
        """Log ∫ prior × sites."""
        return 0.5 * float(np.vdot(self.b, self.mean_f)) - self.half_log_det

    @property
    def jitter(self) -> float:
        return self.prior.jitter

    # ---- sweeps and steps -------------------------------------------------------------------------------------

    def moved_to(self, held: Held) -> NeighbourGaussian:
        moved = replace(self, sites=self.sites_at(held))
        for name in ("factor", "G", "H", "WH", "root", "half_log_det", "_inverse", "covariance"):
            if name in vars(self):
                vars(moved)[name] = vars(self)[name]
        return moved

    def responds(self, rule: SiteRule) -> bool:
        """Whether sites need care, and a factor with its inverse costs more than some solves."""
        return rule.careful and self.prior.L == 1 and not self.prior.m and self.prior.problem.n >= RESPONSIVE

    def ahead(self, old: Array, new: Array, rule: SiteRule, labels: Labels) -> Array:
        """By the response of this Gaussian (:mod:`gpclass.latent.near_sites`)."""
        if not self.responds(rule):
            return new
        return settled(self.response(labels.copies), old, new, matching(rule, self.prior.problem.likelihood, labels))

    def response(self, copies: Array | float) -> SparseResponse:
        """How marginals follow sites, with what S⁻¹ is at the pairs of the cliques; one latent value, no inducing."""
        n, i, j = self.prior.problem.n, self.prior.cliques.i, self.prior.cliques.j
        off = i != j
        both = np.concatenate([i[off], j[off]]), np.concatenate([j[off], i[off]])
        squares = csr_array((np.tile(self._inverse[0][0][off] ** 2, 2), both), shape=(n, n))
        return SparseResponse(self._solve, squares, self.mean_f[:, 0], self.covariance[:, 0, 0], copies)

    def _solve(self, x: Array) -> Array:
        """S⁻¹x for x (n,)."""
        return np.asarray(self.factor.solve(x[:, None, None])[:, 0, 0])

    # ---- the gradient -----------------------------------------------------------------------------------------

    def gradient(self, held: Held, rule: SiteRule, extra: bool = False) -> tuple[Array, Array | None]:
        prior, L, m = self.prior, self.prior.L, self.prior.m
        alpha, residual = self.alpha, self.mean_r
        along, other = alpha, residual
        nu = np.zeros(L * m)
        if extra:
            x, nu, g = self._implicit(held)
            along, other = alpha + x, residual + 2.0 * g
        PH = self.white(self.WH)
        if m:
            PH = solve_triangular(self.root, PH.reshape(-1, L * m).T, lower=True, trans=1, check_finite=False)
            PH = PH.T.reshape(self.WH.shape)
        G = self.white(self.G)
        second, kernels = self._inverse[0], len(prior.A)
        by_pair = [np.zeros(len(prior.cliques.i)) for _ in range(kernels)]
        A_bar = [np.zeros(A.shape) for A in prior.A]
        for c in range(L):
            own, kernel = slice(c * m, (c + 1) * m), min(c, kernels - 1)
            found, A = prior.conditionals[kernel], prior.A[kernel]
            U = np.column_stack([G[:, c], residual[:, c]])
            V = np.column_stack([G[:, c], other[:, c]])
            pairs, Y, w = found.slope(second[c], U, V)
            by_pair[kernel] += pairs
            near = found.B @ A
            bar = np.outer(along[:, c], self.mu[own]) + np.outer(alpha[:, c], nu[own]) - PH[:, c, own]
            bar -= found.B.T @ (w[:, None] * near + Y @ A) + Y.T @ near
            A_bar[kernel] += bar
        return self._pulled(by_pair, A_bar), None

    def _implicit(self, held: Held) -> tuple[Array, Array, Array]:
        """x (n, L), ν (L m,) and g (n, L) of Laplace's evidence."""
        likelihood = self.prior.problem.likelihood
        _, labels = only(held, likelihood)
        weight = np.asarray(labels.copies) * np.asarray(labels.power)
        s = (weight * likelihood.third(labels.y, np.ascontiguousarray(self.mean_f.T), self.covariance)).T
        V = self.white(self.H)
        v = self.factor.solve(np.ascontiguousarray(s)[:, :, None])[:, :, 0] + V @ np.einsum("ncM,nc->M", V, s)
        x = s - np.einsum("nab,nb->na", self.W, v)
        each = enumerate(self.prior.per_latent(self.prior.A))
        nu = np.concatenate([part.T @ x[:, c] for c, part in each])
        return x, nu, v - self._spread(nu)

    def _pulled(self, by_pair: list[Array], A_bar: list[Array]) -> Array:
        """From derivatives by the kernel at the pairs and by A to those by θ."""
        prior, problem = self.prior, self.prior.problem
        X, i, j = problem.X, prior.cliques.i, prior.cliques.j
        own = np.flatnonzero(i == j)
        off = np.flatnonzero(i != j)
        parts, scale = [], 0.0
        for covariance, weights in zip(problem.covariances, by_pair, strict=True):
            theta = covariance.diag_vjp(X[i[own]], weights[own])
            scale += 2.0 * float(weights[own] @ covariance.diag(X[i[own]]))
            for begin in range(0, len(off), PAIRS):
                some = off[begin : begin + PAIRS]
                K, pull = covariance.pairs(X[i[some]], X[j[some]])
                theta += pull(weights[some])
                scale += 2.0 * float(weights[some] @ K)
            parts.append(theta)
        total = np.concatenate(parts)
        if not prior.m:
            return np.append(total, scale) if problem.scale_is_free else total
        spec = Spec(prior.bases, prior.L)
        sums: Sums = {}
        for kernel, (basis, A, bar) in enumerate(zip(prior.bases, prior.A, A_bar, strict=True)):
            rows = RowSums(basis, move_Z=False)
            for begin in range(0, problem.n, BLOCK):
                block = slice(begin, begin + BLOCK)
                none = np.zeros(len(X[block]))
                rows.add(X[block], A[block], np.ascontiguousarray(bar[block]), none, none)
            sums |= {f"{name} {kernel}": getattr(rows, name) for name in ("theta", "Z", "cross", "scale")}
        slope = finish(problem, spec, sums, move_Z=False)[0]
        slope[: len(total)] += total
        if problem.scale_is_free:
            slope[-1] += scale
        return slope

    # ---- new points -------------------------------------------------------------------------------------------

    def means(self, X_new: Array) -> Array:
        near = self.prior.nearest(X_new)
        return self._means(near, self.prior.per_latent(self.prior.new(self.prior.problem.X, near, X_new)))

    def _means(self, near: Any, each: list[tuple[Array, Array, Array]]) -> Array:
        r, mu = self.mean_r, self.mu.reshape(self.prior.L, -1)
        out = [a @ mu[c] + np.einsum("pk,pk->p", b, r[near, c]) for c, (a, b, _) in enumerate(each)]
        return np.stack(out, axis=1)

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per point, from its nearest rows."""
        prior, L, m = self.prior, self.prior.L, self.prior.m
        near = prior.nearest(X_new)
        each = prior.per_latent(prior.new(prior.problem.X, near, X_new))
        cov = self.factor.quadratic(near, [b for _, b, _ in each])
        w = np.empty((len(X_new), L, L * m))
        for c, (a, b, d) in enumerate(each):
            w[:, c] = -np.einsum("pk,pkM->pM", b, self.G[near, c]) if m else 0.0
            w[:, c, c * m : (c + 1) * m] += a
            cov[:, c, c] += d
        V = self.white(w)
        cov += V @ V.transpose(0, 2, 1)
        return LatentMixture(np.ones(1), self._means(near, each)[None], cov[None], np.zeros(1, dtype=np.intp))

    def joint(self, rows: SitedRows, X_new: Array) -> Joint:
        """With one solve for all k rows. Cost: that of k solves."""
        from gpclass.latent.joint import Joint  # it builds on the dense prior

        prior, k = self.prior, len(rows.index)
        near = prior.nearest(X_new)
        ((a, b, _),) = each = prior.new(prior.problem.X, near, X_new)
        unit = np.zeros((prior.problem.n, 1, k))
        unit[rows.index, 0, np.arange(k)] = 1.0
        solved = self.factor.solve(unit)[:, 0]  # S⁻¹ at the rows' columns, (n, k)
        V = self.white(self.H[rows.index, 0])
        N = self.white(a - np.einsum("pk,pkM->pM", b, self.G[near, 0]))
        cross = V @ N.T + np.einsum("pk,pkr->rp", b, solved[near])
        own = self.latent(X_new).covariances[0, :, 0, 0]
        return Joint(
            self.mean_f[rows.index, 0], solved[rows.index] + V @ V.T, cross, self._means(near, each)[:, 0], own
        )

    def _draws(self, n: int, rng: Generator) -> tuple[Array, Array]:
        """Joint draws of u (L m, n) and r (n rows, L, n)."""
        rows, L, m = self.prior.problem.n, self.prior.L, self.prior.m
        z = rng.standard_normal((L * m, n))
        u = self.mu[:, None] + (solve_triangular(self.root, z, lower=True, trans=1, check_finite=False) if m else z)
        noise = self.factor.backward(rng.standard_normal((rows, L, n)))
        own = self.factor.solve(self.b[:, :, None])
        return u, own + noise - (self.G @ u if m else 0.0)

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, p, L): each new point given its nearest rows and earlier new points."""
        prior, L, rows = self.prior, self.prior.L, self.prior.problem.n
        u, r = self._draws(n, rng)
        near, found = prior.joint(X_new)
        each = prior.per_latent(found)
        out = np.empty((n, len(X_new), L))
        u = u.reshape(L, -1, n)
        for c, (a, b, d) in enumerate(each):
            values = np.vstack([r[:, c], np.zeros((len(X_new), n))])  # r at the rows, then at the new points
            noise = np.sqrt(d)[:, None] * rng.standard_normal((len(X_new), n))
            for p in range(len(X_new)):
                values[rows + p] = b[p] @ values[near[p]] + noise[p]
            out[:, :, c] = (a @ u[c] + values[rows:]).T
        return out

    def draw_rows(self, rng: Generator) -> Array:
        u, r = self._draws(1, rng)
        return np.asarray((self._spread(u[:, 0]) + r[:, :, 0]).T.ravel())

    def vectors(self) -> Array:
        """W and b, (L² + L, n)."""
        L = self.prior.L
        return np.vstack([self.W.transpose(1, 2, 0).reshape(L * L, -1), self.b.T])

    def kept(self) -> dict[str, Array]:
        """Sites, all copies together."""
        return {"W": self.W, "b": np.ascontiguousarray(self.b.T)}
