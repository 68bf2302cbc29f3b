r"""The low-rank prior: m inducing inputs, and an independent residual in every row (FITC).

With the whitened values u_c ~ N(0, I_m) of latent function c at the inducing inputs, f_ic = a_icᵀu_c + e_ic
(:mod:`gpclass.latent.basis`). Sites seen from u (:mod:`gpclass.latent.low_rank_rows`) make of u a Gaussian q
(:mod:`gpclass.latent.low_rank_q`), so that one pass over the rows gives what the next q needs: a matrix of Lm×Lm and a
vector. A new point has E f_c* = a_c*ᵀμ_c and cov f* = a*ᵀP⁻¹a* + λ*. With Z = X it is the dense prior.
Cost: L(L+1)/2 n m² multiply-adds per pass for P and as many for the covariances, O((Lm)³) for the factor; O((Lm)²)
memory in addition to the rows'.
Loose sites of two classes, as in an ascent of the evidence, are found in single precision where its rounding is small
(:mod:`gpclass.latent.basis`), which moves the evidence by some thousandths of a nat; all else is in double precision.
Fails when: K_zz is singular beyond the allowed jitter (which is reported).
References: Snelson & Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs; Naish-Guzman & Holden (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._typing import Array, Generator
from gpclass.latent import low_rank_passes as passes
from gpclass.latent.base import ExpectedPrior, Form, Gaussian, LatentPrior, per_latent
from gpclass.latent.basis import Basis, rounds_well
from gpclass.latent.coordinates import Features, GivenLatents, Target
from gpclass.latent.inducing import FEW_COLUMNS, because, check_inducing, choose_inducing, most_inducing, sample_rows
from gpclass.latent.low_rank_gradient import gaussian_gradient, score
from gpclass.latent.low_rank_q import Q, Spec
from gpclass.latent.sites import Held, SiteRule, Swept
from gpclass.model.rows import Rows, Source
from gpclass.numerics.linalg import factor
from gpclass.numerics.memory import available_memory
from gpclass.numerics.threads import one_thread
from gpclass.posterior import LatentMixture

if TYPE_CHECKING:
    from gpclass.latent.joint import Joint, SitedRows
    from gpclass.model.problem import Problem

PREDICT_BLOCK = 512  # new points at once
KEPT = 0.4  # share of the free memory that stored blocks may take
ROUGH = 0.01  # tolerance of sites, from which passes over the rows are in single precision
LARGE = 1e9  # bytes of blocks in double precision that a few sweeps store


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
        Whether shards store their block of A (n m numbers in all, per kernel). EP and variational methods
        that begin near their fixed point, as after an ascent, store none above 10⁹ bytes.
    """

    Z: Array | None = None
    m: int | None = None
    how: Any = "kmeans"
    keep: bool = True

    name: ClassVar[str] = "inducing"
    offers: ClassVar[frozenset[str]] = frozenset(["given", "evidence", "joint", "whitened", "expected", "latents"])
    lacks: ClassVar = {
        "box": "it draws the noisy latent values of all rows, whose n × n covariance inducing inputs avoid",
        "covariance": "it works with the n × n covariance of the latent values, which inducing inputs avoid",
        "latent_slope": "the values at the inducing inputs have no gradient in θ here; use move='metropolis'",
    }
    predicts_from_rows: ClassVar[bool] = False
    moves: ClassVar[bool] = True

    @classmethod
    def asked(cls, settings: Any) -> LowRank | None:
        """With ``n_inducing`` or an array ``inducing``."""
        m, how = settings.n_inducing, settings.inducing
        if m is None and isinstance(how, str):
            return None
        return cls(m=None if isinstance(m, str) and m == "auto" else m, how=how)

    @classmethod
    def example(cls, X: Array) -> LowRank:
        return cls(X[:3] + 0.1, 3)

    def checked(self, n: int, d: int, kernels: int) -> LowRank:
        """Blocks are stored if memory allows."""
        m = check_inducing("auto" if self.m is None else self.m, self.how, n, d)
        return replace(self, m=m, keep=8.0 * n * (m or most_inducing(n)[0]) * kernels < KEPT * available_memory())

    @property
    def marks(self) -> tuple[Any, ...]:
        return (self.m, self.how) if self.Z is None else (self.Z,)

    @property
    def cure(self) -> str:
        if self.Z is None:
            return ""
        few = ", or, in so few columns, take inference='ep' with n_neighbors='auto'"
        few = few if self.Z.shape[1] <= FEW_COLUMNS else ""
        if isinstance(self.how, str):
            return f"raise n_inducing, for instance to {2 * len(self.Z)}{few}"
        return f"give more inducing inputs than these {len(self.Z)}{few}"

    def for_few_rows(self) -> LowRank:
        return replace(self, keep=True)

    @property
    def inducing(self) -> Array | None:
        return self.Z

    def rows(self, source: Source) -> Rows:
        """Shards, in any process that the source uses."""
        return Rows.of(source)

    def prior(self, problem: Problem) -> LowRankPrior:
        if self.Z is None:
            raise ValueError("the inducing inputs are not placed yet: use problem.placed(rng)")
        return LowRankPrior(problem, [Basis(kernel, self.Z, self.keep) for kernel in problem.kernels])

    def placed(self, problem: Problem, rng: Generator, at_most: int | None = None) -> LowRank:
        """Inducing inputs placed at the problem's kernel parameters, at most so many of them; once."""
        if self.Z is not None and at_most is None:
            return self
        source, m, how = problem.rows.source, self.m, self.how
        assert source is not None
        if at_most is not None and isinstance(how, str):
            m = at_most if m is None else min(m, at_most)
        Z = choose_inducing(source, problem.kernels[0], m, how, rng, problem.n_latents)
        if at_most is not None and len(Z) > at_most:
            Z = Z[sample_rows(len(Z), at_most, rng)]
        return replace(self, Z=Z)

    def at(self, Z: Array) -> LowRank:
        """The same with other inducing inputs."""
        return replace(self, Z=Z)


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

    def roughly(self, tol: float, rule: SiteRule, near: bool) -> LowRankPrior:
        """Loose sites of two classes in single precision; strict ones by few sweeps without storing very large blocks.

        With more classes no row tells of the sum of the latent values, whose precision is then rounding alone. A weight
        multiplies the rounding of its row.
        """
        n, L, keep = self.problem.n, self.problem.n_latents, self.bases[0].keep
        single = tol >= ROUGH and L == 1 and not self.problem.rows.weighted
        single = single and rounds_well(n, self.bases, self.problem.likelihood.scale)
        if tol < ROUGH and near:
            keep = keep and 8.0 * n * len(self.bases) * self.bases[0].m <= LARGE
        return replace(self, bases=[basis.kept_as(keep, single) for basis in self.bases])

    def given(self, held: Held, rule: SiteRule) -> LowRankGaussian:
        _, sums = self.problem.map(passes.gather, held, self.spec, rule)
        return LowRankGaussian(self, Q.of(sums["gram"], sums["shift"]), sums["half_log"])

    def begin(self, rule: SiteRule, near: Gaussian | None = None) -> tuple[Held, Gaussian]:
        q = near.q if isinstance(near, LowRankGaussian) else None
        held, sums = self.problem.map(passes.first_sites, self.problem.rows.held, self.spec, rule, q)
        return held, LowRankGaussian(self, Q.of(sums["gram"], sums["shift"]))

    def times(self, held: Held) -> Held:
        _, sums = self.problem.map(passes.project_alpha, held, self.spec)
        return self.problem.map(passes.place, held, self.spec, sums["projected"])[0]

    def from_vectors(self, vectors: Array) -> LowRankGaussian:
        """Mean and factor in one row."""
        k = self.white_dimension()
        return self.from_kept({"mean": vectors[0, :k], "L": vectors[0, k:].reshape(k, k)})

    def from_kept(self, kept: dict[str, Array]) -> LowRankGaussian:
        return LowRankGaussian(self, Q(kept["mean"], np.asfortranarray(kept["L"]), kept["mean"]))

    def features(self, X_new: Array, roots: list[Array] | None = None) -> Features:
        """Aᵀ and λ of the new points."""
        found = [basis.features(X_new) for basis in self.bases]
        return Features([A.T for A, _ in found], [rest for _, rest in found])

    def survey(self) -> dict[str, Any]:
        """Far rows, and the mean share of the prior variance that the inducing inputs do not explain."""
        problem, Z, covariance = self.problem, self.bases[0].Z, self.problem.covariance
        K = covariance(Z, Z.copy())  # as of different points: without white noise
        floor = max(float(K.min()), 0.0) if len(Z) > 1 else 0.0
        noise = float(np.mean(covariance.diag(Z) - np.diag(K)))
        once = Spec([basis.kept_as(False, False) for basis in self.bases], problem.n_latents)
        _, sums = problem.map(passes.survey, problem.rows.held, once, floor, noise)
        figures = {"n_inducing": len(Z), "far_rows": sums["far"], "prior_variance_left": sums["left"] / problem.n}
        if isinstance(problem.form, LowRank) and problem.form.m is None:
            figures["n_inducing_because"] = because(len(Z), problem.n, problem.n_latents)
        return figures

    def as_dense(self) -> Problem | None:
        from gpclass.latent.low_rank_dense import as_dense  # it builds on the dense prior

        return as_dense(self.problem, self.bases)

    def white_dimension(self) -> int:
        return self.problem.n_latents * self.bases[0].m

    def joint_root(self, X_new: Array, features: Features) -> list[Array]:
        """The full covariance, so that draws are smooth functions."""
        what, roots = "the covariance of the new points given the inducing values", []
        for basis, V in zip(self.bases, features.V, strict=True):
            scale = float(np.mean(basis.covariance.diag(X_new)))
            roots.append(factor(basis.covariance(X_new) - V.T @ V, what=what, scale=scale)[0])
        return roots

    def given_latents(self) -> GivenLatents:
        from gpclass.latent.given_latents import InducingLatents  # it builds on this module

        return InducingLatents(self, self.spec.per_latent([basis.L for basis in self.bases]))

    def score(self, eta: Array, weights: Array) -> tuple[Array, Array | None]:
        return score(self.problem, self.spec, eta, weights)

    def whitened(self, gaussian: Gaussian | None, power: float = 1.0) -> Target:
        """Coordinates of u (:mod:`gpclass.latent.low_rank_target`)."""
        from gpclass.latent.low_rank_target import LowRankTarget  # it builds on this module

        k = self.white_dimension()
        if gaussian is None:
            return LowRankTarget(self.problem, Q(np.zeros(k), np.asfortranarray(np.eye(k)), np.zeros(k)))
        assert isinstance(gaussian, LowRankGaussian)
        return LowRankTarget(self.problem, gaussian.q.widened(power))


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
        return self.prior.jitter

    @property
    def details(self) -> dict[str, Any]:
        L = self.prior.spec.L
        return {} if L == 1 else {"n_classes": L}

    def newton(self, held: Held, rule: SiteRule) -> tuple[Held, float]:
        """Newton's target is the mean of this Gaussian: one pass over the rows."""
        held, sums = self.prior.problem.map(passes.aim, held, self.prior.spec, rule, self.q)
        return held, sums["decrement"]

    def sweep(self, held: Held, rule: SiteRule, step: float, remember: int) -> Swept:
        """One pass over the rows gives the new sites and the next q."""
        problem, spec = self.prior.problem, self.prior.spec
        held, sums = problem.map(passes.sweep_rows, held, spec, rule, self.q, step, remember)
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

    def in_units(self, difference: Sequence[Array]) -> Array:
        gram, shift = difference
        return self.q.whitened(gram, shift)

    def gradient(self, held: Held, rule: SiteRule, extra: bool = False) -> tuple[Array, Array | None]:
        """Sums over the rows (:mod:`gpclass.latent.low_rank_gradient`)."""
        problem, spec, nu = self.prior.problem, self.prior.spec, None
        if extra:
            held, third = problem.map(passes.third_order, held, spec, rule, self.q)
            _, sums = problem.map(passes.times_prior, held, spec, rule, third["b"])
            towards = self.q.covariance @ sums["y"]
            held, sums = problem.map(passes.take_out, held, spec, rule, third["b"], towards)
            nu = sums["nu"]
        return gaussian_gradient(problem, spec, held, rule, self.q, nu)

    def expected_prior(self, held: Held, rule: SiteRule) -> ExpectedPrior:
        from gpclass.latent.expected_prior import LowRankExpected  # it builds on this module

        return LowRankExpected.of_gaussian(self, held, rule)

    def means(self, X_new: Array) -> Array:
        spec = self.prior.spec
        return spec.spread([basis.features(X_new)[0] for basis in spec.bases], self.q.mean).T

    def latent(self, X_new: Array) -> LatentMixture:
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

    def joint(self, rows: SitedRows, X_new: Array) -> Joint:
        """Given u, a row has mean (a·u + λh)/(1 + λt) and variance λ/(1 + λt), λ its residual's variance."""
        from gpclass.latent.joint import Joint  # it builds on the dense prior

        (basis,), L, mu = self.prior.bases, self.q.L, self.q.mean
        (A, rest), (new, own) = basis.features(rows.X), basis.features(X_new)
        shrink = 1.0 / (1.0 + rest * rows.t)
        V, N = (solve_triangular(L, part.T, lower=True, check_finite=False) for part in (shrink[:, None] * A, new))
        covariance = V.T @ V
        covariance.flat[:: len(rest) + 1] += rest * shrink
        mean = shrink * (A @ mu + rest * rows.h)
        return Joint(mean, covariance, V.T @ N, new @ mu, own + np.einsum("ij,ij->j", N, N))

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, k, L). Cost: O(k³) for k points."""
        features, L = self.prior.features(X_new), self.prior.spec.L
        u = self.q.draws(rng.standard_normal((n, len(self.q.mean)))).reshape(n, L, -1)
        V, roots = per_latent(features.V, L), per_latent(self.prior.joint_root(X_new, features), L)
        each = [u[:, c] @ V[c] + rng.standard_normal((n, len(X_new))) @ roots[c].T for c in range(L)]
        return np.stack(each, axis=2)

    def draw_rows(self, rng: Generator) -> Array:
        return np.asarray(self.q.draws(rng.standard_normal((1, len(self.q.mean))))[0])

    def vectors(self) -> Array:
        """Mean and factor in one row."""
        return np.concatenate([self.q.mean, self.q.L.ravel()])[None]

    def kept(self) -> dict[str, Array]:
        return {"mean": self.q.mean, "L": self.q.L}


def low_rank_prior(problem: Problem) -> LowRankPrior:
    """The prior of a problem whose form has inducing inputs."""
    prior = problem.prior
    assert isinstance(prior, LowRankPrior)
    return prior
