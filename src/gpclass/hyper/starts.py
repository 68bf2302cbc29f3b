"""Where a search of the kernel parameters begins: length scales from the distances of the data, or as given.

A length scale that is not fixed is a starting value, and one in other units than the data (1.0 for coordinates in
metres) makes every pair of rows independent, or all equal: the evidence is flat there, and an ascent ends where it
began. So the kernel as given is compared with the same kernel at the median distances of the rows, by Laplace's
evidence (EP's where there is none), and the search begins at the better of the two. If neither explains the labels
better than their frequencies do, more rows tell, and if these do not either, shorter and longer lengths are tried too.

Length scales of the same columns keep their ratios, so that a sum of a short and a long kernel stays one.
Cost: two inferences on at most ROWS rows; none if the kernel starts from the data already.
Fails when: the bounds exclude the distances of the data (the start is then the nearest bound).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.gaussian_process.kernels import ExpSineSquared

from gpclass._typing import Array
from gpclass.inference.around import guide_for
from gpclass.kernels import On, median_distance
from gpclass.latent.dense import Dense
from gpclass.latent.inducing import sample_rows
from gpclass.model.problem import Problem
from gpclass.numerics.spread import spreads
from gpclass.priors import PriorSet

ROWS, MORE = 100, 200  # most rows on which starts are compared, and on which they are if the former show nothing
LADDER = (0.01, 0.03, 0.1, 0.3, 3.0)  # multiples of the median distance that are tried where it shows nothing
NOTHING, PER_ROW = 1.0, 0.01  # nats, at most and per row, above the labels' frequencies that show nothing learned
SAME = 1e-3  # difference of log lengths that counts as none


def base_rate(problem: Problem) -> float:
    """Log likelihood of the labels' own frequencies, weights counted: what a fit without features reaches."""
    labels, weights = problem.rows.labels()
    counts = np.bincount(np.unique(labels, return_inverse=True)[1], weights)
    return float(np.sum(xlogy(counts, counts / counts.sum())))


def learned_nothing(problem: Problem, log_evidence: float) -> bool:
    """Whether the labels are explained no better than by their frequencies, which no feature is needed for."""
    return log_evidence < base_rate(problem) + min(NOTHING, PER_ROW * problem.rows.count)


def found_nothing(problem: Problem, value: float, prior: PriorSet | None, theta: Array) -> bool:
    """Whether an ascent that ended with ``value``, log prior included, at ``theta`` has learned nothing."""
    return learned_nothing(problem, value - (0.0 if prior is None else prior.log_density(theta)))


def like_a_coin(problem: Problem, log_evidence: float) -> bool:
    """Whether the labels are explained as by a coin (a die, for more classes)."""
    count = problem.rows.count
    return bool(abs(log_evidence + count * np.log(problem.n_classes)) < min(NOTHING, PER_ROW * count))


def begun(problem: Problem) -> Problem:
    """The problem at the best start: the kernel as given, or with its length scales from the data."""
    some = _some(problem, MORE)
    data = from_data(problem, some.X)
    if np.allclose(data, problem.theta, atol=SAME, rtol=0.0):
        return problem
    starts = [problem.theta, data]
    for few in (_some(problem, ROWS), some):
        values = [_evidence(few, theta) for theta in starts]
        if not learned_nothing(few, max(values)):
            break
    else:
        more = ladder(problem, data)
        starts, values = [*starts, *more], values + [_evidence(some, theta) for theta in more]
    return problem.at(starts[int(np.argmax(values))])


def elsewhere(problem: Problem) -> Array | None:
    """The best other start, for a second ascent where the first found nothing; None if no length scale is free."""
    some = _some(problem, MORE)
    data = from_data(problem, some.X)
    found = [theta for theta in (data, *ladder(problem, data)) if np.abs(theta - problem.theta).max(initial=0) > SAME]
    return max(found, key=lambda theta: _evidence(some, theta), default=None)


def starting_points(problem: Problem, n_restarts: int, rng: np.random.Generator) -> list[Array]:
    """The kernel's own parameters, then random ones within the bounds."""
    low, high = problem.bounds.T
    starts = [np.clip(problem.theta, low, high)]
    if n_restarts > 0:
        if not np.isfinite(problem.bounds).all():
            raise ValueError("n_restarts > 0 needs finite bounds for every kernel parameter")
        starts += list(rng.uniform(low, high, size=(n_restarts, len(low))))
    return starts


def ladder(problem: Problem, data: Array) -> list[Array]:
    """Starts at shorter and longer length scales than those of the data."""
    free = [i for group in _lengths(problem).values() for i in group]
    return [_within(problem, data + np.log(factor) * np.isin(np.arange(len(data)), free)) for factor in LADDER]


def from_data(problem: Problem, X: Array) -> Array:
    """θ with its free length scales at the median distances of the rows X (n, d), within the bounds."""
    theta = np.array(problem.theta)
    X = np.unique(X, axis=0)  # a weight of two is the row twice
    for (columns, own), entries in _lengths(problem).items():
        points = X[:, list(columns) or slice(None)]
        if own is None:
            length = median_distance(points)
        else:  # one length per column
            unit = spreads(points)
            length = median_distance(points / unit) * unit[own]
        theta[entries] += np.log(length) - np.mean(theta[entries])
    return _within(problem, theta)


def _lengths(problem: Problem) -> dict[tuple[tuple[int, ...], int | None], list[int]]:
    """Entries of θ that are length scales, by the columns that they measure and, of one per column, its position."""
    found, at = defaultdict(list), 0
    for kernel in problem.kernels:
        for h in kernel.hyperparameters:
            if h.fixed:
                continue
            *path, last = h.name.split("__")
            chain: list[Any] = [kernel]
            for step in path:
                chain.append(getattr(chain[-1], step))
            if last == "length_scale" and not isinstance(chain[-1], ExpSineSquared):  # whose length has no unit
                chosen = [part.columns for part in chain if isinstance(part, On)]
                columns = reduce(lambda outer, inner: [outer[i] for i in inner], chosen) if chosen else ()
                for i in range(h.n_elements):
                    found[tuple(columns), None if h.n_elements == 1 else i].append(at + i)
            at += h.n_elements
    return found


def _some(problem: Problem, rows: int) -> Problem:
    """At most so many of the rows, under the dense prior."""
    X, y, weights = problem.rows.take(sample_rows(problem.n, rows, np.random.default_rng(0)))
    if weights is not None:
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    return replace(problem, form=Dense()).on(X, y, weights)


def _evidence(problem: Problem, theta: Array) -> float:
    try:
        found = guide_for(problem.likelihood).roughly()(problem.at(theta)).evidence
    except ValueError:
        return -np.inf
    return found.log_z if found is not None and np.isfinite(found.log_z) else -np.inf


def _within(problem: Problem, theta: Array) -> Array:
    return np.clip(theta, *problem.bounds.T) if len(theta) else theta
