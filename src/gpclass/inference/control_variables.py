r"""Control variables: the whole function is moved through its values at a few points.

Control values f_c = f(X_c), M of them, summarise the function. One step changes control i: draw f_ci from
its conditional prior given the other controls, then all latent values f from their conditional prior given
the new f_c, and accept by the ratio of likelihoods alone: both priors cancel against the proposal. X_c
minimises the variance that the controls leave, tr(K − K_fc K_cc⁻¹ K_cf): greedily first, then by
its gradient. Controls are added until the acceptance in short trials is high enough.

In coordinates f = L η and f_c = C u, V = C⁻¹ K_cf L⁻ᵀ has singular values s ≤ 1; with V = Σ_k a_k s_k b_kᵀ,

    η | f_c ~ N(Vᵀu, I − VᵀV),   (I − VᵀV)^½ = I − Σ_k (1 − √(1 − s_k²)) b_k b_kᵀ,

which needs no jitter even if the controls explain the function almost completely.
Cost: M n² once, and M n² per sweep over all controls of one chain.
Fails when: the function is rough on the scale of the data, so that M must be near n: then it is a slow Gibbs
scan. Takes kernels made of constants and RBFs only, because the method relies on their smoothness.
Reference: Titsias, Lawrence & Rattray (2009), Efficient sampling for Gaussian process inference using
control variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product, Sum, WhiteKernel

from gpclass._settings import SHARE
from gpclass._typing import Array, IntArray
from gpclass.inference.around import target_around
from gpclass.inference.base import Way
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.laplace import Laplace
from gpclass.inference.mcmc import ChainSettings, annealed, collect
from gpclass.inference.posteriors import WhiteDraws
from gpclass.latent.dense import dense_prior
from gpclass.latent.sites import Start
from gpclass.latent.whitened import Whitened, whiten
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import factor

TRIALS = 5  # sweeps in which the acceptance of a number of controls is measured
GROWTH = 1.5  # factor by which controls are added
PLACING = 15  # iterations of the optimiser that places them


@dataclass(frozen=True)
class ControlVariables(ChainSettings):
    """Settings of sampling with control variables.

    Parameters
    ----------
    controls : int
        Number of controls to begin with.
    acceptance : float
        Controls are added until this share of proposals is accepted in trials.
    chains, warmup, draws, thin, evidence
        See :class:`~gpclass.inference.mcmc.ChainSettings`; one step is a sweep over all controls. The evidence uses
        elliptical slice steps.
    """

    warmup: int = 50
    draws: int = 125
    controls: int = 8
    acceptance: float = 0.3

    name: ClassVar[str] = "control-variables"
    ways: ClassVar[tuple[Way, ...]] = (Way.needs("log expand", "covariance whitened"),)
    only_two: ClassVar[str] = "it moves one latent function"
    limits: ClassVar = {"acceptance": SHARE}

    def infer(self, problem: Problem, rng: np.random.Generator, start: Start | None, gradient: bool) -> WhiteDraws:
        check_smooth(problem.kernel)
        target = whiten(problem)
        controls, state, accepted = self._choose(problem, target, rng)
        kept = np.empty((self.chains, self.draws, problem.n))
        log_lik = np.empty((self.chains, self.draws))
        rates = [accepted]
        for draw in self.steps_and_draws(problem):
            state, rate = controls.sweep(state, rng)
            if draw is not None:
                rates.append(rate)
                kept[:, draw], log_lik[:, draw] = state.eta, state.r
        evidence = annealed(target_around(problem, None), elliptical_step, rng) if self.evidence else None
        details = {"controls": controls.M, "latent_acceptance": float(np.mean(rates))}
        return collect(self, target, kept.reshape(-1, problem.n), log_lik, evidence, details)

    def _choose(
        self, problem: Problem, target: Whitened, rng: np.random.Generator
    ) -> tuple[Controls, ControlState, float]:
        """Enough controls for the requested acceptance, and the state of the chains after the trials."""
        gaussian = Laplace()(problem)
        distinct = len(np.unique(problem.X, axis=0))
        M = min(self.controls, distinct)
        while True:
            controls = place_controls(target, M)
            f_c = gaussian.draw(controls.X, self.chains, rng)[:, :, 0]
            state = controls.first(f_c, rng)
            rates = []
            for _ in range(TRIALS):
                state, rate = controls.sweep(state, rng)
                rates.append(rate)
            if np.mean(rates[1:]) >= self.acceptance or distinct == M or controls.M < M:
                return controls, state, float(np.mean(rates[1:]))
            M = min(distinct, int(np.ceil(GROWTH * M)))


@dataclass
class ControlState:
    """Control values and latents of all chains."""

    f_c: Array  # (chains, M)
    eta: Array  # (chains, n)
    r: Array  # (chains,), log likelihood


@dataclass(frozen=True, eq=False)
class Controls:
    """Controls at X, and how the latents follow them."""

    target: Whitened
    X: Array  # (M, d)
    to_white: Array  # (n, M): E[η | f_c] = to_white f_c
    precision: Array  # (M, M), K_cc⁻¹
    directions: Array  # (n, k), right singular vectors of V
    shrink: Array  # (k,), 1 − √(1 − s²)

    @property
    def M(self) -> int:
        """Number of controls."""
        return len(self.X)

    @classmethod
    def at(cls, target: Whitened, X: Array) -> Controls:
        """Controls at given points."""
        C, _ = factor(target.problem.covariance(X), what="the covariance of the control points")
        K_fc = target.problem.covariance(target.problem.X, X)
        cross = solve_triangular(target.L, K_fc, lower=True)  # (n, M)
        V = solve_triangular(C, cross.T, lower=True)  # (M, n)
        _, s, directions = np.linalg.svd(V, full_matrices=False)
        s = np.minimum(s, 1.0)
        white = solve_triangular(C, np.eye(len(X)), lower=True)  # C⁻¹
        return cls(target, X, V.T @ white, white.T @ white, directions.T, 1.0 - np.sqrt(1.0 - s**2))

    def rest(self, rng: np.random.Generator, size: int) -> Array:
        """Draws of the variation that the controls leave, (size, n)."""
        z = rng.standard_normal((size, len(self.to_white)))
        return np.asarray(z - ((z @ self.directions) * self.shrink) @ self.directions.T)

    def first(self, f_c: Array, rng: np.random.Generator) -> ControlState:
        """Latents from their conditional prior given the controls."""
        eta = f_c @ self.to_white.T + self.rest(rng, len(f_c))
        return ControlState(f_c, eta, self.target.log_ratio(eta @ self.target.L.T))

    def sweep(self, state: ControlState, rng: np.random.Generator) -> tuple[ControlState, float]:
        """One proposal for every control of every chain, and the share accepted."""
        chains, n = state.eta.shape
        M, L = self.M, self.target.L
        f_c, eta, r = state.f_c.copy(), state.eta.copy(), state.r.copy()
        rest = self.rest(rng, M * chains).reshape(M, chains, n)
        rest_f = (rest.reshape(-1, n) @ L.T).reshape(M, chains, n)
        to_f = L @ self.to_white  # (n, M)
        nu = rng.standard_normal((M, chains)) / np.sqrt(np.diag(self.precision))[:, None]
        log_u = np.log(rng.random((M, chains)))
        count = 0
        for i in range(M):
            tried = f_c.copy()
            tried[:, i] += nu[i] - (f_c @ self.precision[i]) / self.precision[i, i]
            r_tried = self.target.log_ratio(tried @ to_f.T + rest_f[i])
            take = log_u[i] < r_tried - r
            f_c[take], r[take] = tried[take], r_tried[take]
            eta[take] = tried[take] @ self.to_white.T + rest[i, take]
            count += int(take.sum())
        return ControlState(f_c, eta, r), count / (M * chains)


def place_controls(target: Whitened, M: int) -> Controls:
    """M controls that leave the least variance: a greedy choice of data points, then moved by the gradient."""
    problem = target.problem
    first = problem.X[greedy_points(problem, M)]

    def objective(x: Array) -> tuple[float, Array]:
        return left_open(problem, x.reshape(first.shape))

    moved = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": PLACING})
    better = moved.fun < left_open(problem, first)[0]
    return Controls.at(target, moved.x.reshape(first.shape) if better else first)


def greedy_points(problem: Problem, M: int) -> IntArray:
    """Data points, each the one that explains most of the variance left by those before; O(n² M)."""
    R = dense_prior(problem).K.copy()  # covariance given the points chosen
    tiny = 1e-10 * float(np.diag(R).max())
    chosen: list[int] = []
    for _ in range(M):
        left = np.diag(R)
        able = left > tiny
        if not able.any():
            break
        explained = np.where(able, np.einsum("ij,ij->j", R, R) / np.where(able, left, 1.0), -1.0)
        i = int(np.argmax(explained))
        row = R[i] / np.sqrt(R[i, i])
        R -= np.outer(row, row)
        chosen.append(i)
    return np.array(chosen, dtype=np.intp)


def left_open(problem: Problem, X_c: Array) -> tuple[float, Array]:
    """tr(K − K_fc K_cc⁻¹ K_cf) and its gradient in the control points, flat."""
    K_cf, pull_cross = problem.covariance.value_and_vjp(X_c, problem.X)
    K_cc, pull_self = problem.covariance.value_and_vjp(X_c)
    C, _ = factor(K_cc, what="the covariance of the control points")
    V = solve_triangular(C, K_cf, lower=True)
    A = solve_triangular(C, V, lower=True, trans="T")  # K_cc⁻¹ K_cf
    value = float(problem.covariance.diag(problem.X).sum() - np.sum(V**2))
    slope = pull_cross.inputs(-2.0 * A) + pull_self.inputs(A @ A.T)
    return value, np.asarray(slope).ravel()


def check_smooth(kernel: Any) -> None:
    """Reject kernels that are not made of constants, white noise and RBFs."""
    if isinstance(kernel, (Sum, Product)):
        check_smooth(kernel.k1)
        check_smooth(kernel.k2)
    elif type(kernel) not in (RBF, ConstantKernel, WhiteKernel):  # Matern is a subclass of RBF
        raise ValueError(
            f"inference='control-variables' takes kernels made of RBF and ConstantKernel, not {kernel!r}; use "
            "inference='elliptical-slice' or 'exact'"
        )
