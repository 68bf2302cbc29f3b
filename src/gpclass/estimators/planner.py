"""The cost of a fit in advance: seconds and memory, from a short calibration on this machine.

The fit itself is run on a few small subsets of the rows, so that a new method needs no cost model. The seconds of
each of its inferences are then modelled as

    a + b n + c n² + d n³ e(n),

and their number as the largest observed; a to d come from the subsets, e(n) n³ is a Cholesky factorisation of
that size on this machine, because small matrices are slower per flop than large ones. On small subsets the cubic
term is hidden by the others and by noise; so d, the factorisations of one inference, is regularised towards about
ten. The peak of memory is a n + b n², from traced allocations.

An inference that draws until a tolerance is met is timed with a fixed number of draws. The seconds of one more draw
come from two such numbers, and the number of draws from the error of the second: few rows leave probabilities more
uncertain and need more draws than many, so it falls with the root of n. Their arrays are counted.
Chains are timed by short ones. Subsets and random numbers are the same at every call; only the clock differs.
Cost: about ``budget`` seconds, and at least a fit of 60 rows; with chains some short ones of 60 and 120 rows.
Fails when: the search for the kernel parameters is much harder at n than on the subset, or a sampler needs many more
draws there: ``low`` and ``high`` allow for a factor of ``SPREAD``, and for the fewest and most draws. Chains that have
not mixed are doubled, up to three times, which is not included.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import nnls
from sklearn.base import clone

from gpclass._typing import Array, IntArray
from gpclass.data.sources import in_files
from gpclass.estimators.task import chosen_inference, form_of
from gpclass.hyper.full_bayes import FullBayes
from gpclass.hyper.maximize import Maximize
from gpclass.latent.dense import MANY
from gpclass.latent.local import LocalBlocks
from gpclass.latent.neighbours import Neighbours
from gpclass.numerics.memory import available_memory
from gpclass.numerics.threads import few_threads
from gpclass.orthant.enough import SPARE
from gpclass.registry import get_strategy

SMALLEST = 60  # rows of the first subset
LARGEST = 800
GROWTH = 0.3  # power of n with which the draws for a tolerance grow: 3,000 at n = 100, 7,000 at n = 800
DENSE = 3  # n×n matrices that every dense fit holds: the covariance, its factor, workspace
clock = time.perf_counter
SHORTEST, LONGEST = 4, 128  # iterations of the chains that are timed
SPEED_SIZE = 1000  # Cholesky factorisations reach about their full speed from here on
UNTIL_MIXED = "chains that have not mixed then are doubled, up to three times"
FACTORISATIONS = 10.0  # prior guess for an inference: Newton steps or sweeps, and the gradient
SPREAD = 2.5  # factor within which a time is known that is not drawn
ON_ALL = 8  # evaluations over all rows of an ascent that began on a part of them
DRAW_ARRAYS = 6  # numbers per draw and latent value at the peak: normals, uniforms, draws and copies in other units
MORE = 4  # multiple of the first draws that is timed as well
PILOTS = 1.5  # draws that are made, over those that are kept
NOISE = 0.1  # relative noise of a time; the prior guess of the factorisations has a relative error of one


@dataclass(frozen=True)
class Plan:
    """What a fit is expected to cost; prints as a sentence."""

    n: int
    d: int
    inference: str
    hyperparameters: str
    memory: float  # bytes at the peak
    inferences: int  # calls of the inference
    seconds_each: float
    sizes: tuple[int, ...]  # rows of the timed subsets
    available_memory: float = field(default_factory=lambda: available_memory())
    last: float = 0.0  # seconds after the inferences
    note: str = ""
    seconds: float = field(init=False)  # of the whole fit, one process
    low: float = 0.0  # seconds between which the whole fit is expected
    high: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether there is enough memory."""
        return self.memory < self.available_memory

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", self.inferences * self.seconds_each + self.last)
        object.__setattr__(self, "low", self.low or self.seconds / SPREAD)
        object.__setattr__(self, "high", self.high or self.seconds * SPREAD)

    def __str__(self) -> str:
        text = (
            f"{self.inference} with {self.hyperparameters} on {self.n} rows of {self.d} features: about "
            f"{_duration(self.seconds)}, between {_duration(self.low)} and {_duration(self.high)} "
            f"({self.inferences} × {_duration(self.seconds_each)}"
            + (f", then {_duration(self.last)}" if self.last else "")
            + f"), and {_bytes(self.memory)} of memory"
        )
        text += "" if self.fits else f", of which {_bytes(self.available_memory)} are free: it would fail"
        text += f"; judged from {', '.join(map(str, self.sizes))} rows"
        return text + (f"; {self.note}" if self.note else "")


def plan_fit(clf: Any, X: Any, y: Any, *, budget: float = 2.0, classes: Any = None) -> Plan:
    """Expected cost of ``fit(X, y, classes=classes)`` of ``clf``, which stays as it is; see ``GPClassifier.plan``."""
    if in_files(X):
        raise ValueError("a plan is made from an array or a data frame: give some rows of the folder as one")
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    if X.ndim != 2 or len(X) != len(y):
        raise ValueError(f"X must be (n, d) and y (n,), not {X.shape} and {y.shape}")
    if form_of(clf).moves:
        from gpclass.estimators.scale_plan import plan_inducing  # it builds on this module

        return plan_inducing(clf, X, y, classes)
    if isinstance(form_of(clf), Neighbours):
        from gpclass.estimators.neighbour_plan import plan_neighbours  # likewise

        return plan_neighbours(clf, X, y, classes)
    if isinstance(form_of(clf), LocalBlocks):
        from gpclass.estimators.local_plan import plan_local  # likewise

        return plan_local(clf, X, y, classes)
    n = len(y)
    strategy: Any = get_strategy(clf.hyperparameters)
    sampled = isinstance(strategy, FullBayes)
    inference: Any = chosen_inference(clf)
    calm = clone(clf).set_params(n_jobs=None, verbose=0, random_state=0)
    draws = Draws()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about a subset, not about the data
        found: Any
        if sampled:
            found = _calibrate_chains(calm, strategy, X, y, classes)
        else:
            drawn = inference.for_search != inference  # as many draws as a tolerance needs, after the search
            if drawn:
                calm.set_params(inference=inference.for_search)
            *found, fitted = _calibrate(calm, X, y, budget, classes)
            if drawn:
                rows = class_subset(y, int(found[0][-1]))
                draws = Draws.measured(fitted, inference, X[rows], y[rows], classes)
    sizes, seconds, calls, traced, peaks = found
    most = int(calls[-1] if sizes[-1] == n else calls.max())
    if n >= MANY > sizes[-1] and isinstance(strategy, Maximize):  # the ascent then begins on a part of the rows
        most = min(most, ON_ALL)
    each = _extrapolate(sizes, seconds / calls, n)
    last, least, longest = draws.seconds(n)
    return Plan(
        n=n,
        d=X.shape[1],
        inference=str(inference.name),
        hyperparameters=str(strategy.name),
        low=most * each / SPREAD + least,
        high=most * each * SPREAD + longest,
        last=last,
        memory=max(_memory(traced, peaks, n), DENSE * 8.0 * n * n) + draws.memory(n),
        inferences=most,
        seconds_each=each,
        sizes=tuple(int(k) for k in sizes),
        note=UNTIL_MIXED if sampled and strategy.draws is None else "",
    )


@dataclass(frozen=True)
class Draws:
    """What draws cost beyond the first ones, of an inference that makes as many as its tolerance needs."""

    rows: int = 1  # of the subset that they were measured on
    each: float = 0.0  # seconds of one there
    latents: int = 0  # per row
    wanted: float = 0.0  # draws that the tolerance needs there
    inference: Any = None

    @classmethod
    def measured(cls, fitted: Any, inference: Any, X: Array, y: Any, classes: Any = None) -> Draws:
        """From fits with two numbers of draws to the subset X (k, d), y (k,) that ``fitted`` was fitted to."""
        fixed = {"kernel": fitted.kernel_, "likelihood": fitted.likelihood_, "hyperparameters": "fixed"}
        M = (inference.first, MORE * inference.first)
        fits = [clone(fitted).set_params(inference=replace(inference, n_samples=m), **fixed) for m in M]
        seconds = [_timed(partial(fit.fit, X, y, classes=classes), 0.3)[0] for fit in fits]
        error = float(fits[1].predict_uncertainty(X).mcse.max())
        wanted = SPARE * M[1] * (error / inference.tol) ** 2
        latents = fitted._problem.n_latents
        each = max(seconds[1] - seconds[0], 0.0) / (M[1] - M[0])
        return cls(len(y), each, latents, wanted, inference)

    def most(self, n: int) -> float:
        """Largest number for n rows, beyond the first."""
        if self.inference is None:
            return 0.0
        return float(self.inference.most(SimpleNamespace(n=n, n_latents=self.latents)) - self.inference.first)

    def number(self, n: int) -> float:
        """Draws for n rows, beyond the first."""
        return self._beyond(self.wanted * (n / self.rows) ** GROWTH, n)

    def _beyond(self, wanted: float, n: int) -> float:
        return 0.0 if self.inference is None else float(np.clip(wanted - self.inference.first, 0.0, self.most(n)))

    def seconds(self, n: int) -> tuple[float, float, float]:
        """Expected for n rows, at least and at most; between linear and square in the rows."""
        ratio, M = n / self.rows, self.number(n)
        most = self._beyond(2.0 * self.wanted * ratio**GROWTH, n)
        return PILOTS * M * self.each * ratio**1.5, 0.0, PILOTS * most * self.each * ratio**2.0

    def memory(self, n: int) -> float:
        """Bytes for n rows."""
        return self.number(n) * n * self.latents * DRAW_ARRAYS * 8.0


def _calibrate(clf: Any, X: Array, y: Any, budget: float, classes: Any) -> tuple[Any, ...]:
    """Sizes, seconds and calls of fits to subsets; sizes and bytes of the traced ones; the last fitted."""
    largest = min(len(y), LARGEST)
    timed: list[tuple[int, float, int]] = []
    brief = get_strategy(clf.hyperparameters).brief()  # a few inferences hold as much memory as many

    def fit(rows: IntArray, **changes: Any) -> Any:
        return clone(clf).set_params(**changes).fit(X[rows], y[rows], classes=classes)

    rows = class_subset(y, min(SMALLEST, largest))
    fit(rows)  # not timed: pays for initialisation at first use
    began = clock()
    while True:
        last, fitted = _timed(partial(fit, rows), budget / 30)
        timed.append((len(rows), last, getattr(fitted.fit_report_, "evaluations", None) or 1))
        spent = clock() - began
        # The next costs up to eight times as much; two sizes are needed even at twice the budget.
        allowed = 2 * budget if len(timed) == 1 else budget - 6 * last
        if len(rows) >= largest or spent > allowed:
            break
        rows = class_subset(y, min(2 * len(rows), largest))
    sizes, seconds, calls = np.array(timed, dtype=float).T
    peaks = [_traced(partial(fit, class_subset(y, int(k)), hyperparameters=brief)) for k in sizes[:2]]  # n and n²
    return sizes, seconds, calls, sizes[:2], np.array(peaks), fitted


def _calibrate_chains(clf: Any, strategy: Any, X: Array, y: Any, classes: Any) -> tuple[Array, ...]:
    """The same of fits with chains, which take long: an iteration is the difference of two short runs."""
    bare = {name: 0 for name in ("warmup", "discard") if hasattr(strategy, name)} | {"checkpoint": None}
    sizes = sorted({min(k * SMALLEST, len(y)) for k in (1, 2)})

    def timed(size: int, draws: int) -> tuple[float, int]:
        rows = class_subset(y, size)
        work = clone(clf).set_params(hyperparameters=replace(strategy, draws=draws, **bare))
        seconds, fitted = _timed(partial(work.fit, X[rows], y[rows], classes=classes), 0.0)
        return seconds, fitted.fit_report_.evaluations

    seconds, calls = [], []
    peak = _traced(partial(timed, sizes[0], SHORTEST))  # pays for initialisation at first use
    for size in sizes:
        (first, spent), draws = timed(size, SHORTEST), 4 * SHORTEST
        while True:
            second, more_spent = timed(size, draws)
            if second > 1.5 * first or draws >= LONGEST:  # the difference is more than noise
                break
            draws *= 2
        more = (strategy.dropped + strategy.length - SHORTEST) / (draws - SHORTEST)
        seconds.append(first + more * max(second - first, 0.0))
        calls.append(spent + more * max(more_spent - spent, 1))
    k = np.array(sizes, dtype=float)
    return k, np.array(seconds), np.array(calls), k[:1], np.array([peak])


def class_subset(y: Any, size: int) -> IntArray:
    """Rows of a subset with every class in its share (at least two of each), the same at every call."""
    rng = np.random.default_rng(0)
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        take = min(len(rows), max(2, round(size * len(rows) / len(y))))
        chosen.append(rng.permutation(rows)[:take])
    return np.sort(np.concatenate(chosen))


def _timed(work: Callable[[], Any], worth: float = np.inf) -> tuple[float, Any]:
    """Least seconds of three calls, of one if that took more than ``worth``; and the result of the last."""
    best = np.inf
    for _ in range(3):
        began = clock()
        result = work()
        best = min(best, clock() - began)
        if best > worth:
            break
    return best, result


def seconds_of(work: Callable[[], Any]) -> float:
    """Seconds of one call."""
    began = clock()
    work()
    return clock() - began


def _traced(work: Callable[[], Any]) -> float:
    gc.collect()  # what earlier work left is not counted, and does not decide when it is collected
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        work()
        return float(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.start()
    try:
        work()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def _extrapolate(sizes: Array, seconds: Array, n: int) -> float:
    """Seconds at n rows, from seconds at fewer."""
    if sizes[-1] == n:
        return float(seconds[-1])
    if len(sizes) == 1:  # between a fixed number of draws per row, n, and the cube of factorisations
        return float(seconds[0] * (n / sizes[0]) ** 2.0)
    slowness = {int(k): _cholesky_slowness(int(k)) for k in {*sizes.tolist(), min(n, SPEED_SIZE)}}
    cubes = [k**3.0 * slowness[int(k)] for k in sizes]
    terms = np.column_stack([np.ones(len(sizes)), sizes, sizes**2.0, cubes])
    # Relative errors, with the largest weight on the largest size, which is nearest to n.
    weight = sizes / sizes[-1] / seconds
    known = [0.0, 0.0, 0.0, NOISE / FACTORISATIONS]
    (a, b, c, d), _ = nnls(np.vstack([terms * weight[:, None], known]), np.append(seconds * weight, NOISE))
    return float(a + b * n + c * n**2 + d * n**3 * slowness[min(n, SPEED_SIZE)])


def _cholesky_slowness(n: int) -> float:
    """Seconds of a factorisation of size n over n³, the best of three, with the threads of a fit."""
    A = np.eye(n, order="F") + 0.5 / n
    with few_threads(n):
        best, _ = _timed(partial(lapack.dpotrf, A, lower=1, overwrite_a=0))
    return best / n**3


def _memory(sizes: Array, peaks: Array, n: int) -> float:
    terms = np.column_stack([sizes, sizes**2.0])
    (a, b), _ = nnls(terms / peaks[:, None], np.ones(len(peaks)))
    return float(max(a * n + b * n**2, 0.0))


def _duration(seconds: float) -> str:
    for limit, unit, name in ((1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 3600:.3g} h"


def _bytes(count: float) -> str:
    return f"{count / 2**20:.0f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"
