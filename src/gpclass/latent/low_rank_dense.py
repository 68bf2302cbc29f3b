"""The low-rank prior as full matrices, K = A Aᵀ + Λ, for few rows: the exact engine then draws noisy latent values.

Importance weights of draws of u are uneven if rows are few and the signal is strong; draws of the rows' noisy values,
one after another, are not. Each draw z of the noisy values gives one of u, which is Gaussian given z.
Cost: O(n²) memory and O(n³) operations for n rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpclass._typing import Array
from gpclass.latent.basis import Basis
from gpclass.latent.fixed_matrices import FixedMatrices
from gpclass.model.rows import Rows
from gpclass.numerics.linalg import factor

if TYPE_CHECKING:
    from gpclass.model.problem import Problem

MOST_ROWS = 1000  # noisy values per draw


@dataclass(frozen=True, eq=False)
class Summed(FixedMatrices):
    """Full matrices of a low-rank prior, A Aᵀ + Λ."""

    bases: tuple[Basis, ...] = ()

    name: ClassVar[str] = "inducing inputs as full matrices"

    def matrices(self, X: Array) -> list[Array]:
        found = []
        for A, rest in (basis.features(X) for basis in self.bases):
            found.append(A @ A.T)
            found[-1].flat[:: len(X) + 1] += rest
        return found


def as_dense(problem: Problem, bases: list[Basis]) -> Problem | None:
    """The same problem with full matrices; None if it has too many rows, or fractional weights."""
    if problem.n * max(1, problem.n_latents - 1) > MOST_ROWS:
        return None
    rows, form = Rows.in_memory(*problem.rows.everything), Summed(bases=tuple(bases))
    dense = replace(problem, rows=rows, form=form).unrolled()
    return dense if dense.weights is None and dense.n <= MOST_ROWS else None


def draw_inducing(dense: Problem, A: Array, R: list[Array], rng: np.random.Generator) -> Array:
    """Draws of u (M, L m) from R_c z_c (L, n, M), R_c = (K_c + noise)⁻¹: u_c ~ N(AᵀR_c z_c, I − AᵀR_cA)."""
    form, found = dense.form, []
    assert isinstance(form, Summed)
    for c, solved in enumerate(A):
        features = form.bases[min(c, len(form.bases) - 1)].features(dense.X)[0]
        spread = np.eye(features.shape[1]) - features.T @ R[c] @ features
        root, _ = factor(0.5 * (spread + spread.T), what="the covariance of the inducing values", scale=1.0)
        found.append(solved.T @ features + rng.standard_normal((A.shape[2], len(root))) @ root.T)
    return np.hstack(found)
