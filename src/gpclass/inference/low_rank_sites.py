"""EP and the variational Gaussian under the low-rank prior: all sites at once, one pass over the rows a sweep.

Given q(u), every row computes its own new site from its marginal (EP: from its cavity) and adds its part to the next
precision and shift of u. With many rows for each inducing input no single site moves q much, and a parallel sweep does
what a sequential one would. Where sweeps converge slowly they are mixed by Anderson's method; where they cycle, or the
variational bound falls, steps are damped. The sites are at their fixed point when q stands still: its distance from one
sweep to the next, in posterior standard deviations summed over u, is below ``tol``. The evidence, stationary in the
sites, is then right to the square of it.
Cost: 2 n m² multiply-adds a sweep; 5 to 15 sweeps, 1 to 4 from the sites of neighbouring parameters; O(m²) memory
beside the rows' own.
Fails when: the steps had to be damped and ``max_sweeps`` were not enough (reported).
References: Naish-Guzman & Holden (2008), The generalized FITC approximation; Opper & Archambeau (2009).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import solve_triangular

from gpclass._settings import check_settings
from gpclass._typing import Array
from gpclass.latent.low_rank_gaussian import (
    Q,
    SparseGaussian,
    Warm,
    begin,
    gather,
    mix,
    starting_sites,
    sweep,
)
from gpclass.latent.low_rank_gradient import Slope, gaussian_gradient
from gpclass.latent.low_rank_problem import SparseProblem
from gpclass.model.rows import Sums
from gpclass.numerics.anderson import smallest_residual
from gpclass.numerics.linalg import mirror_upper
from gpclass.posterior import Evidence, Posterior, Report

SLOWEST = 0.05  # smallest step of a damped sweep
FIRST = 0.7  # step of a sweep of EP while q still moves far: sites all at once overshoot
FAR = 3.0  # that far, in standard deviations
SLOW = 0.25  # a sweep that leaves more than this of the last change is helped by mixing
NEAR = 3.0  # of a change, in standard deviations: farther off, mixing helps little
PATIENCE = 8  # sweeps before steps are damped, and mixed however far off
LOOSE = 0.5  # of ``tol`` during an ascent: the evidence is then wrong by a tenth of a nat or so
WILDEST = 50.0  # shares of a mixture whose absolute values sum to more are rounding's


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Where the sweeps ended."""

    held: tuple[Any, ...]  # shards with the sites of q
    q: Q
    value: float  # evidence, or bound
    sweeps: int
    converged: bool
    change: float


def iterate(problem: SparseProblem, kind: str, start: Any, max_sweeps: int, tol: float) -> FixedPoint:
    """Sweep until q stands still, from a neighbouring posterior if there is one."""
    sites = starting_sites(start, kind)
    if sites:
        held, sums = problem.map_reduce(gather, sites)
    else:
        near = start.q if isinstance(start, Warm) else None
        held, sums = problem.map_reduce(begin, problem.data.held, kind, near)
    history, far = Mixing(), kind == "ep" and not sites
    q, step, last, best, safe = Q.of(sums["gram"], sums["shift"]), 1.0, np.inf, -np.inf, (held, sums)
    value, change, sweeps, rises, slow = -np.inf, np.inf, 0, 0, False
    for sweeps in range(1, max_sweeps + 1):
        careful = FIRST if far else 1.0
        moved, out = problem.map_reduce(sweep, held, kind, q, careful * step, history.depth)
        value = q.log_mass + out["value"]
        if kind == "variational" and value < best - 1e-10 * abs(best) and step > SLOWEST:
            # The bound fell: back to the sites before, in a smaller step.
            (held, sums), step, value = safe, 0.5 * step, best
            history.clear()
            q = Q.of(sums["gram"], sums["shift"])
            continue
        new = Q.of(out["gram"], out["shift"])
        change = q.distance(new) / (careful * step)
        far = kind == "ep" and change > FAR
        if change <= tol:
            break
        best, safe = max(value, best), (held, sums)
        if careful * step != 1.0:
            history.clear()  # outcomes of shortened steps stand between
        slow = slow or (change > SLOW * last and (change < NEAR or sweeps >= PATIENCE))
        shares = history.shares(q, sums, out) if careful * step == 1.0 and slow else None
        if shares is not None:
            moved, out = problem.map_reduce(mix, moved, shares)
            new = Q.of(out["gram"], out["shift"])
        rises = rises + 1 if change > last else 0
        if sweeps >= PATIENCE and rises >= 2:  # it cycles
            step, rises = max(0.5 * step, SLOWEST), 0
            history.clear()
        elif step < 1.0 and change < 0.7 * last:
            step = min(1.0, 1.5 * step)
        held, sums, q, last = moved, out, new, change
    return FixedPoint(held, q, value, sweeps, change <= tol, change)


class Mixing:
    """Anderson's mixing (:mod:`gpclass.numerics.anderson`) as shares of the last outcomes.

    The residuals are looked at through q's precision and shift, which are linear in the sites seen from u: m×m numbers
    here stand for the 2n of the rows, which only take the shares.
    """

    def __init__(self, depth: int = 8) -> None:
        self.depth = depth
        self.residuals: list[tuple[Array, Array]] = []

    def shares(self, q: Q, into: Sums, out: Sums) -> Array | None:
        """One share an outcome, newest first, that sum to one; None while there is nothing to mix."""
        self.residuals.append((out["gram"] - into["gram"], out["shift"] - into["shift"]))
        del self.residuals[: -self.depth]
        if len(self.residuals) < 2:
            return None
        gamma = smallest_residual([_whitened(q, *residual) for residual in self.residuals])
        shares = np.diff(gamma, prepend=0.0, append=1.0)[::-1]
        return shares if np.abs(shares).sum() < WILDEST else None

    def clear(self) -> None:
        """Forget: the steps no longer tell of where the sites are."""
        self.residuals = []


def _whitened(q: Q, gram: Array, shift: Array) -> Array:
    """A change of precision (lower triangle) and shift in units of q."""
    whole_gram = mirror_upper(gram.T)
    half = solve_triangular(q.L, whole_gram, lower=True, check_finite=False)
    whole = solve_triangular(q.L, half.T, lower=True, check_finite=False)
    pull = solve_triangular(q.L, shift - whole_gram @ q.mean, lower=True, check_finite=False)
    return np.append(whole.ravel() * np.sqrt(0.5), pull)


@dataclass(frozen=True, kw_only=True)
class SiteSettings(ABC):
    """What both settings share: one site for a row, refined until q(u) rests."""

    tol: float = 1e-6

    name: ClassVar[str]
    kind: ClassVar[str]

    @property
    @abstractmethod
    def passes(self) -> int:
        """Largest number of passes over all rows."""

    @property
    def guide(self) -> Self:
        """Itself with looser sites, for the ascent in θ and Z."""
        return replace(self, tol=max(self.tol, LOOSE))

    def __call__(
        self,
        problem: SparseProblem,
        noise: np.random.Generator | None = None,
        *,
        start: Posterior | None = None,
        gradient: bool = False,
    ) -> SparseGaussian:
        """Approximate the posterior of ``problem``; ``noise`` is not used."""
        return run(problem, self.name, self.kind, self.passes, self.tol, start, gradient)


@dataclass(frozen=True, kw_only=True)
class SparseEP(SiteSettings):
    """Settings of expectation propagation under the low-rank prior.

    Parameters
    ----------
    max_sweeps : int
        Largest number of passes over all rows.
    tol : float
        Stop when q(u) moves by less than this, in its standard deviations.
    """

    max_sweeps: int = 100

    name: ClassVar[str] = "ep"
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        check_settings(self, positive=("tol",), whole=("max_sweeps",))

    @property
    def passes(self) -> int:
        """Largest number of passes over all rows."""
        return self.max_sweeps


@dataclass(frozen=True, kw_only=True)
class SparseVariational(SiteSettings):
    """Settings of the variational Gaussian under the low-rank prior.

    Parameters
    ----------
    max_iter : int
        Largest number of natural-gradient steps.
    tol : float
        Stop when q(u) moves by less than this, in its standard deviations.
    """

    max_iter: int = 200

    name: ClassVar[str] = "variational"
    kind: ClassVar[str] = "bound"

    def __post_init__(self) -> None:
        check_settings(self, positive=("tol",), whole=("max_iter",))

    @property
    def passes(self) -> int:
        """Largest number of passes over all rows."""
        return self.max_iter


def run(
    problem: SparseProblem,
    name: str,
    kind: str,
    max_sweeps: int,
    tol: float,
    start: Posterior | None,
    gradient: bool,
) -> SparseGaussian:
    """The fixed point as a posterior."""
    began = time.perf_counter()
    found = iterate(problem, name, start, max_sweeps, tol)
    slope, slope_Z = gaussian_gradient(problem, found.held, Slope(found.q)) if gradient else (None, None)
    return SparseGaussian(
        basis=problem.basis,
        mean=found.q.mean,
        L=found.q.L,
        evidence=Evidence(found.value, kind=kind, gradient=slope),
        report=Report(
            method=name,
            converged=found.converged,
            reason=""
            if found.converged
            else f"q(u) still moved by {found.change:.1e} standard deviations after {found.sweeps} sweeps",
            iterations=found.sweeps,
            jitter=problem.basis.jitter,
            seconds=time.perf_counter() - began,
        ),
        gradient_Z=slope_Z,
        held=found.held,
    )
