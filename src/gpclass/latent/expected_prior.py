r"""The M-step's objective of EM: E_q[log p(f | θ)] for a Gaussian q, dense and with inducing inputs.

    Q(θ) = −½ Σ_c (log|K_c| + tr K_c⁻¹ S_c) + constant,  S_c = m_c m_cᵀ + V_cc,  ∂Q/∂K_c = ½ (K_c⁻¹ S_c K_c⁻¹ − K_c⁻¹).

Inducing inputs: K = A Aᵀ + D with D diagonal (the rests), and the posterior has V_cc = F_c Σ F_cᵀ + diag(v_c), Σ the
covariance of u. With P = I + AᵀD⁻¹A = L Lᵀ and U = D⁻¹A L⁻ᵀ: K⁻¹ = D⁻¹ − U Uᵀ, so that all matrices are n×m or smaller.
Cost: dense O(n³) per kernel and evaluation; with inducing inputs O(L² n m²).
Fails when: K has no factor; EM adds a small jitter to prevent that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpclass._typing import Array
from gpclass.latent.dense import dense_prior
from gpclass.latent.dense_gaussian import DenseGaussian
from gpclass.latent.low_rank import LowRankGaussian, low_rank_prior
from gpclass.latent.low_rank_gradient import AllSums, finish
from gpclass.latent.low_rank_rows import seen_blocks
from gpclass.latent.sites import Held, SiteRule
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import cholesky, mirror_lower


@dataclass(frozen=True, eq=False)
class DenseExpected:
    """With the moments S_c of the latent values at the rows."""

    moments: list[Array]  # (n, n) per kernel; latent values that share one are summed
    copies: int  # latent values per kernel

    @classmethod
    def of_gaussian(cls, gaussian: DenseGaussian) -> DenseExpected:
        """From mean and spread of the posterior."""
        prior, found = gaussian.prior, []
        for K, M, m in zip(prior.covariances, gaussian.factor.blocks(), gaussian.mean, strict=True):
            found.append(np.outer(m, m) + K - K @ M @ K)
        if len(prior.kernel_matrices) == 1:
            return cls([np.sum(found, axis=0)], prior.L)
        return cls(found, 1)

    def __call__(self, problem: Problem) -> tuple[float, Array]:
        prior, value, G = dense_prior(problem), 0.0, []
        for K, S in zip(prior.kernel_matrices, self.moments, strict=True):
            L = cholesky(K)
            inverse = mirror_lower(np.asarray(lapack.dpotri(L, lower=1)[0]))
            KS = inverse @ S
            value += -self.copies * np.log(np.diag(L)).sum() - 0.5 * np.trace(KS)
            G.append(0.5 * (KS @ inverse - self.copies * inverse))
        return float(value), prior.pull(G)


@dataclass(frozen=True, eq=False)
class LowRankExpected:
    """With the moments of the latent values at the rows in low-rank form, S_c = M_c M_cᵀ + diag(v_c)."""

    X: Array  # (n, d)
    M: list[Array]  # (n, 1 + L m) per latent value
    v: Array  # (L, n)

    @classmethod
    def of_gaussian(cls, gaussian: LowRankGaussian, held: Held, rule: SiteRule) -> LowRankExpected:
        """From q(u) and the rows' sites."""
        q, problem, spec = gaussian.q, gaussian.prior.problem, gaussian.prior.spec
        root, L = cholesky(q.covariance), spec.L
        M: list[list[Array]] = [[] for _ in range(L)]
        v, X = [], []
        for shard in problem.rows.executor.fetch(held):
            X.append(shard.rows())
            for block, seen in seen_blocks(shard, problem.likelihood, spec, rule):
                mean, lam = seen.marginals(*q.marginals(spec, block.A)).mean, block.rest
                H = np.eye(L) - lam.T[:, :, None] * seen.S
                own = np.einsum("rcc->cr", seen.S)
                v.append(np.maximum(lam - lam**2 * own, 0.0))
                each = spec.per_latent(block.A)
                for c in range(L):
                    F = np.hstack([H[:, c, d, None] * each[d] for d in range(L)]) @ root
                    M[c].append(np.column_stack([mean[c], F]))
        return cls(np.vstack(X), [np.vstack(part) for part in M], np.concatenate(v, axis=1))

    def __call__(self, problem: Problem) -> tuple[float, Array]:
        spec = low_rank_prior(problem).spec
        found = [basis.features(self.X) for basis in spec.bases]
        value, sums, bars, lams = 0.0, AllSums(spec, False), [], []
        for c in range(spec.L):
            A, D = found[c if len(found) > 1 else 0]
            one, A_bar, D_bar = _low_rank_terms(A, D, self.M[c], self.v[c])
            value += one
            bars.append(A_bar)
            lams.append(D_bar)
        sums.add(self.X, [A for A, _ in found], bars, [rest for _, rest in found], np.stack(lams))
        return float(value), finish(problem, spec, sums.result(), False)[0]


def _low_rank_terms(A: Array, D: Array, M: Array, v: Array) -> tuple[float, Array, Array]:
    """−½ (log|K| + tr K⁻¹S), K = A Aᵀ + D, S = M Mᵀ + diag(v); its derivatives by A (D held) and by D."""
    scaled = A / D[:, None]
    P = A.T @ scaled
    P.flat[:: len(P) + 1] += 1.0
    L = cholesky(P)
    U = solve_triangular(L, scaled.T, lower=True, check_finite=False).T
    KM = M / D[:, None] - U @ (U.T @ M)  # K⁻¹M
    own = 1.0 / D - np.einsum("ij,ij->i", U, U)  # diag K⁻¹
    value = -np.log(np.diag(L)).sum() - 0.5 * np.log(D).sum() - 0.5 * (np.vdot(M, KM) + v @ own)
    T = solve_triangular(L, U.T, lower=True, trans="T", check_finite=False).T  # K⁻¹A
    vT = v[:, None] * T
    A_bar = KM @ (M.T @ T) + vT / D[:, None] - U @ (U.T @ vT) - T  # 2 G A
    spread = U.T @ (v[:, None] * U)
    squares = v / D**2 - 2.0 * v / D * (1.0 / D - own) + np.einsum("ij,jk,ik->i", U, spread, U, optimize=True)
    D_bar = 0.5 * (np.einsum("ij,ij->i", KM, KM) + squares - own)
    return float(value), np.ascontiguousarray(A_bar), D_bar
