"""One function for P(lower < v < upper), v ~ N(mean, cov), by any of the methods of this package.

===============  ======================================================================= ===================
method           what it is                                                              error
===============  ======================================================================= ===================
guided           sequential draws steered by EP's sites; the default                     unbiased, known
sov              separation of variables, greedy order, randomised lattice               unbiased, known
bootstrap-hard   the particle algorithm of Atiya et al. (2020), hard count               unbiased, known
bootstrap-soft   the same, soft count                                                    biased O(1/M), known
ep               expectation propagation                                                 unknown
===============  ======================================================================= ===================

All computations use logarithms, so probabilities such as 10^-1000 are no problem. Cost: see each method's module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._html import Tabular
from gpclass._settings import check
from gpclass._typing import Array, IntArray
from gpclass.names import did_you_mean
from gpclass.orthant.batches import batches
from gpclass.orthant.bootstrap import BootstrapResult, bootstrap
from gpclass.orthant.box import Box, standard_form
from gpclass.orthant.enough import RootLaw, enough
from gpclass.orthant.plan import Order, Plan, coordinate_order, fit_sites, make_plan, permutation
from gpclass.orthant.proposal import propose
from gpclass.orthant.sov import greedy_order
from gpclass.orthant.uniforms import POINT_SETS, PointSet
from gpclass.orthant.weights import effective_size, heavy, log_mean, pareto_khat, relative_error
from gpclass.propagation.sites import Sites

N_SAMPLES = {"guided": 2000, "sov": 20_000, "bootstrap-hard": 100_000, "bootstrap-soft": 100_000}
MAX_SAMPLES = 200_000  # default budget with tol=
FEWEST_EFFECTIVE = 50  # fewer effective draws make a standard error unreliable
SLIGHT = 1e-2  # nats that jitter may change log P by without a remark
ROUNDING = 1e-6  # nats of rounding error that are not reported
FIRST = 2000  # draws of the first pilot with tol=; errors of fewer lattice points are too noisy
NAN = float("nan")


@dataclass(frozen=True, repr=False)
class OrthantEstimate(Tabular):
    """An estimate of log P(lower < v < upper), with its error."""

    log_probability: float
    standard_error: float  # of log_probability; NaN if the method does not estimate it
    method: str
    n_samples: int = 0
    ess: float = NAN  # effective number of draws
    khat: float = NAN  # Pareto shape of the weights' tail
    converged: bool = True  # tol met (if given), weights reliable, EP at its fixed point
    message: str = ""
    samples: Array | None = None  # (M, n), on request
    log_weights: Array | None = None  # (M,); their log mean exp is log_probability
    group: IntArray | None = None  # (M,), draws that depend on each other share a group
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)  # site power, defensive share, jitter, ...

    @property
    def probability(self) -> float:
        """The probability itself; 0 where it is smaller than any floating-point number, about 10⁻³⁰⁸."""
        return float(np.exp(self.log_probability))

    def _head(self) -> Sequence[str]:
        return "of the probability", "estimate"

    def _rows(self) -> Sequence[Sequence[str]]:
        draws = [("draws", str(self.n_samples)), ("effective draws", f"{self.ess:.4g}"), ("khat", f"{self.khat:.3g}")]
        return [
            ("probability", f"{self.probability:.6g}"),
            ("log probability", f"{self.log_probability:.6g}"),
            ("standard error of the log", "unknown" if np.isnan(self.standard_error) else f"{self.standard_error:.2g}"),
            ("method", self.method),
            *(draws if self.n_samples else []),
            ("converged", "yes" if self.converged else f"no: {self.message}"),
        ]


def orthant_probability(
    cov: npt.ArrayLike,
    lower: npt.ArrayLike = 0.0,
    upper: npt.ArrayLike = np.inf,
    mean: npt.ArrayLike = 0.0,
    *,
    method: str = "guided",
    n_samples: int | None = None,
    tol: float | None = None,
    max_samples: int = MAX_SAMPLES,
    order: Order | npt.ArrayLike | None = None,
    points: PointSet = "lattice",
    runs: int | None = None,
    random_state: int | np.random.Generator | None = None,
    return_samples: bool = False,
) -> OrthantEstimate:
    """Probability that a Gaussian vector lies in a box, in logs and with its standard error.

    Parameters
    ----------
    cov : (n, n) array
        Covariance, in any units; may be singular (see :mod:`gpclass.orthant.box` for what is done then).
    lower, upper : float or (n,) array
        Limits, possibly infinite; the positive orthant by default.
    mean : float or (n,) array
        Mean of the Gaussian.
    method : {"guided", "sov", "bootstrap-hard", "bootstrap-soft", "ep"}
        See the module.
    n_samples : int, optional
        Number of draws. By default 2000 for ``guided``, more for the others.
    tol : float, optional
        Target standard error of the log probability, instead of n_samples. Pilots, which are discarded, decide how
        many draws it needs, with room for the noise of error estimates, ``max_samples`` at most; the draws that count
        are not looked at, so that the probability stays unbiased. ``message`` tells if their error is above ``tol``.
    max_samples : int
        Maximum number of draws with ``tol``.
    order : {"sites", "given", "random", "interleaved"} or permutation, optional
        Order in which coordinates are drawn. By default largest site precision first (``guided``), greedy (``sov``),
        random (bootstrap).
    points : {"lattice", "random", "sobol"}
        Uniforms used by ``guided`` and ``sov``.
    runs : int, optional
        Number of independent runs of the bootstrap methods; by default the fewest that fit in memory.
    random_state : int or Generator, optional
        Source of randomness; the same integer gives the same answer.
    return_samples : bool
        Return the weighted draws.

    Returns
    -------
    OrthantEstimate
    """
    begin = time.perf_counter()
    _check_settings(method, n_samples, tol, max_samples, points, runs)
    box = standard_form(cov, lower, upper, mean)
    if box.empty:
        return OrthantEstimate(-np.inf, 0.0, method, message=f"{box.empty}: the probability is 0")
    if not (order is None or isinstance(order, str)):
        rows = box.row[permutation(order, len(box.row))]
        order = rows[np.sort(np.unique(rows, return_index=True)[1])]
    task = _Task(
        box, method, n_samples, tol, max_samples, order, points, runs, return_samples,
        np.random.default_rng(random_state),
    )  # fmt: skip
    estimate = METHODS[method](task)
    details = {**estimate.details, "jitter": box.jitter}
    if box.blur > (SLIGHT if tol is None else tol):
        told = f"cov is singular, and the jitter that it needs may change the result by {box.blur:.1g}"
        estimate = replace(estimate, converged=False, message="; ".join(filter(None, [estimate.message, told])))
    error = float(np.hypot(estimate.standard_error, box.blur))
    return replace(estimate, standard_error=error, details=details, seconds=time.perf_counter() - begin)


@dataclass(frozen=True)
class _Task:
    box: Box
    method: str
    n_samples: int | None
    tol: float | None
    max_samples: int
    order: Any
    points: PointSet
    runs: int | None
    keep: bool
    rng: np.random.Generator

    def unmet(self, error: float, spent: int) -> list[str]:
        """What to say of the error of the final draws, if it is above ``tol``."""
        if self.tol is None or error <= self.tol:
            return []
        remedy = "raise max_samples" if spent >= self.max_samples else "ask for a smaller tol"
        return [f"the standard error {error:.3g} is above tol={self.tol:g} after {spent} draws; {remedy} or accept it"]


def _guided(task: _Task) -> OrthantEstimate:
    ep = fit_sites(task.box)
    plan = make_plan(task.box, ep, task.rng, order="sites" if task.order is None else task.order)
    estimate = _sequential(task, plan)
    details = {
        "site_power": plan.power,
        "defensive_share": plan.shares[1] if len(plan.shares) > 1 else 0.0,
        "ep_log_z": ep.log_z,
        "ep_sweeps": ep.sweeps,
    }
    return replace(estimate, details=details)


def _sov(task: _Task) -> OrthantEstimate:
    box = task.box
    place = greedy_order(box) if task.order is None else coordinate_order(task.order, box, task.rng)
    box = box.take(place)
    flat = propose(box.S, Sites.flat(box.n), box.lower, box.upper)
    return _sequential(task, Plan(box, place, (flat,), (1.0,), 0.0, NAN, False))


def _sequential(task: _Task, plan: Plan) -> OrthantEstimate:
    """As many draws as n_samples or tol ask for, in independent randomisations, and check the weights."""

    def draw(M: int, rng: np.random.Generator, keep: bool = task.keep) -> _Weighted:
        x, log_w, group = zip(*batches(plan, task.points, M, rng), strict=True)
        kept = np.hstack([plan.box.restore(part) for part in x]).T if keep else None
        each = task.points == "random" and len(plan.shares) == 1  # all draws are independent
        return _Weighted(np.concatenate(log_w), np.arange(M) if each else np.concatenate(group), kept)

    def pilot(M: int, rng: np.random.Generator) -> RootLaw:
        made = draw(M, rng, keep=False)
        return RootLaw(made.error, M, len(np.unique(made.group)))

    if task.tol is None:
        drawn = draw(task.n_samples or N_SAMPLES[task.method], task.rng.spawn(1)[0])
    else:
        most = task.max_samples
        drawn = enough(draw, pilot, task.rng, tol=task.tol, first=min(FIRST, most), most=most).drawn
    return _judged(task, drawn, plan.bounded, _rounding(plan))


@dataclass(frozen=True)
class _Weighted:
    """Weighted draws."""

    log_w: Array  # (M,)
    group: IntArray  # (M,)
    samples: Array | None  # (M, N)

    @property
    def error(self) -> float:
        return relative_error(self.log_w, self.group)


def _rounding(plan: Plan) -> float:
    """Size of the rounding error of log P: quadratic forms of the sites cancel if the limits are far out."""
    terms = [np.abs(p.mean) @ np.abs(p.quadratic[1]) + np.abs(p.quadratic[0]).sum() for p in plan.proposals]
    return float(np.finfo(float).eps * max(terms))


def _judged(task: _Task, drawn: _Weighted, bounded: bool, rounding: float) -> OrthantEstimate:
    log_w, group, error = drawn.log_w, drawn.group, drawn.error
    remarks = task.unmet(error, len(log_w))
    if heavy(log_w) and not bounded:
        remarks.append("the weights have a heavy tail (k-hat > 0.7): the standard error may be too small")
    ess, log_p = effective_size(log_w), log_mean(log_w)
    if ess < min(FEWEST_EFFECTIVE, 0.5 * len(log_w)):
        remarks.append(f"only {ess:.0f} effective draws of {len(log_w)}: the standard error may be much too small")
    if not np.isfinite(log_p) or rounding > max(error, ROUNDING):
        size = f"by {rounding:.1g}" if np.isfinite(log_p) else "to anything"
        remarks.append(f"the limits are so far out that rounding may change the result {size}")
    error = float(np.hypot(error, rounding)) if rounding > ROUNDING else error
    return OrthantEstimate(
        log_p, error, task.method, len(log_w), ess, pareto_khat(log_w),
        not remarks, "; ".join(remarks), drawn.samples, log_w, group,
    )  # fmt: skip


def _bootstrap(task: _Task) -> OrthantEstimate:
    place = coordinate_order("random" if task.order is None else task.order, task.box, task.rng)
    soft, box = task.method == "bootstrap-soft", task.box.take(place)
    M = task.n_samples or min(N_SAMPLES[task.method], task.max_samples)

    def draw(M: int, keep: bool = task.keep) -> BootstrapResult:
        return bootstrap(box, M, task.rng.spawn(1)[0], soft=soft, runs=task.runs, keep=keep)

    spent = M
    if task.tol is not None:  # a pilot, which is discarded, decides
        pilot = draw(M, keep=False)
        law = RootLaw(pilot.error, M, pilot.groups)
        spent = law.wanted(task.tol, M, max(M, task.max_samples))
    sizes = np.diff(np.linspace(0, spent, -(-spent // M) + 1).astype(int))
    parts = [draw(size) for size in sizes.tolist()]
    shares, log_ps = sizes / spent, np.array([p.log_p for p in parts])
    log_p = float(np.logaddexp.reduce(log_ps + np.log(shares)))
    relative = shares * np.exp(log_ps - log_p) if log_p > -np.inf else shares * np.nan
    error = float(np.sqrt(np.nansum((relative * [p.error for p in parts]) ** 2)))
    steps = [k for p in parts for k in p.extinct]
    extinct = [int(np.argmax(box.row == k)) for k in steps]
    remarks = []
    if extinct:
        remarks.append(
            f"no point survived coordinate {extinct[0]} (step {steps[0] + 1} of {box.n}) in "
            f"{len(extinct)} run(s), counted as 0; use more samples or method='guided'"
        )
    remarks += task.unmet(error, spent)
    log_w = np.concatenate([p.log_w for p in parts])
    samples = None
    if task.keep:
        x = np.hstack([p.x for p in parts if p.x is not None])
        samples = box.restore(x).T
    return OrthantEstimate(
        log_p, error if log_p > -np.inf else NAN, task.method, spent,
        effective_size(log_w) if len(log_w) else 0.0, NAN, not remarks, "; ".join(remarks), samples, log_w,
        np.concatenate([p.group + 1000 * i for i, p in enumerate(parts)]),
        details={"extinct": tuple(extinct)},
    )  # fmt: skip


def _ep(task: _Task) -> OrthantEstimate:
    ep = fit_sites(task.box, tol=1e-8, max_sweeps=60)
    message = "" if ep.converged else f"EP's sites still changed by {ep.change:.1e} after {ep.sweeps} sweeps"
    details = {"ep_sweeps": ep.sweeps}
    return OrthantEstimate(ep.log_z, NAN, "ep", converged=ep.converged, message=message, details=details)


METHODS: dict[str, Callable[[_Task], OrthantEstimate]] = {
    "guided": _guided,
    "bootstrap-hard": _bootstrap,
    "bootstrap-soft": _bootstrap,
    "sov": _sov,
    "ep": _ep,
}


def _check_settings(
    method: str, n_samples: int | None, tol: float | None, max_samples: int, points: str, runs: int | None
) -> None:
    if method not in METHODS:
        raise ValueError(
            f"unknown method {method!r}{did_you_mean(method, METHODS)} The methods are {', '.join(METHODS)}."
        )
    check("points", points, "str", POINT_SETS)
    for name, count in (("n_samples", n_samples), ("max_samples", max_samples), ("runs", runs)):
        check(name, count, "int | None")
    check("tol", tol, "float | None")
    if tol is not None and n_samples is not None:
        raise ValueError("give n_samples or tol, not both; max_samples limits the draws used by tol")
