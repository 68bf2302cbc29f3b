"""One ascent of the evidence in θ and Z over the rows of one problem, with a look at rows that are left out.

The variables are θ, and the inducing inputs divided by the length scales (or spreads) at the start, so that one unit is
about what matters in each. Each evaluation starts from the sites of the last one. Sites are loose during an ascent;
where their error hides a rise (classes that are easy to tell apart have an evidence of a few nats) they are tightened.
Rows that are left out have no copies: they stay in their shards and add nothing
(:class:`gpclass.latent.low_rank_rows.Labels`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.latent.basis import Basis
from gpclass.latent.inducing import length_scales
from gpclass.latent.low_rank_gaussian import Warm, starting_sites
from gpclass.latent.low_rank_problem import SparseProblem
from gpclass.model.rows import Shard, Sums
from gpclass.numerics.lbfgs import Ascent, step
from gpclass.numerics.linalg import NotPositiveDefiniteError
from gpclass.predict.two import predict_proba
from gpclass.priors import PriorSet

SHARE = 0.02  # of a log loss: what counts as a fall where the loss itself is small
TIGHTER = 0.1  # of the sites' tolerance, where no step raises the evidence
SITES_ERROR = 0.5  # nats of the evidence, about, times the square of the sites' tolerance


@dataclass(frozen=True)
class Rule:
    """When an ascent ends."""

    max_iter: int
    tol: float  # least share of the log evidence that an iteration gains
    window: int = 4  # iterations over which the log loss of the left-out rows must fall
    gain: float = 1e-3  # by at least this, or by ``SHARE`` of it where that is less
    to_the_end: bool = False  # whether sites are tightened where their error may hide a rise


@dataclass(frozen=True)
class Earlier:
    """An ascent over fewer rows, from whose end another begins."""

    state: Ascent
    count: float  # of its rows, by their weights
    unit: Array
    near: Warm | None  # q(u) there; None where the method cannot start from it


@dataclass(frozen=True, eq=False)
class Standing:
    """Where ascents over ever more rows stand, between two of them."""

    problem: SparseProblem
    earlier: Earlier | None
    sizes: tuple[int, ...]  # rows of the ascents to come, before the one over all


@dataclass
class Stage:
    """An ascent under way."""

    problem: SparseProblem  # where it starts
    guide: Any
    rule: Rule
    prior: PriorSet | None = None
    free_Z: bool = True
    absent: IntArray | None = None  # rows to leave out
    left_out: tuple[Array, Array, Array | None] | None = (
        None  # X, y, weights to look at; by default the absent ones
    )
    given_unit: Array | None = None  # (d,), of the inducing inputs; None: from where it starts
    tell: Callable[..., None] | None = None
    gained: float = np.inf  # by the last iteration, as a share of the log evidence
    last: Any = None  # the posterior of the last evaluation
    accepted: Any = None  # that of the last step which was taken: evaluations start from its sites
    losses: list[float] = field(default_factory=list)  # of the left-out rows, after each iteration

    def __post_init__(self) -> None:
        self.unit = start_unit(self.problem) if self.given_unit is None else self.given_unit
        p, free = len(self.problem.theta), self.problem.Z.size if self.free_Z else 0
        self.bounds = np.vstack(
            [self.problem.bounds, np.column_stack([np.full(free, -np.inf), np.full(free, np.inf)])]
        )
        self.p, self.count = p, self.problem.data.count
        if self.absent is not None:
            source = self.problem.data.source
            assert source is not None
            self.left_out = source.take(self.absent)
            weights = self.left_out[2]
            self.count -= float(len(self.absent) if weights is None else np.sum(weights))
            self.problem = self.problem.over(leave_out, self.absent)

    def run(
        self,
        state: Ascent | None = None,
        after: Callable[[Ascent], None] | None = None,
        earlier: Earlier | None = None,
    ) -> Ascent:
        """Climb until the rule says stop; ``after`` is told of each iteration."""
        if state is None:
            memory = (None, 1.0) if earlier is None else (earlier.state, self.count / earlier.count)
            state = Ascent.start(self.variables(), self.objective, self.bounds, *memory)
            self.accepted = self.last
        while self.reason(state) is None or self._hidden(state):
            if self.reason(state) is not None:
                self.guide = replace(self.guide, tol=TIGHTER * self.guide.tol)
                again = state.again(self.objective)
                if again is None:
                    break
                state, self.accepted = again, self.last
            before = state.value
            state = step(state, self.objective, self.bounds)
            self.gained = (state.value - before) / max(1.0, abs(state.value))
            if state.stuck:
                continue
            self.accepted = self.last
            self._look(state)
            if self.tell is not None:
                self.tell(log_evidence=state.value, **({"log_loss": self.losses[-1]} if self.losses else {}))
            if after is not None:
                after(state)
        return state

    def reason(self, state: Ascent) -> str | None:
        """Why the ascent ends here; None if it goes on."""
        if state.stuck:
            return "no step raises the evidence"
        if state.iterations >= self.rule.max_iter:
            return f"max_iter={self.rule.max_iter}"
        if self.gained < self.rule.tol:
            return "the evidence"
        w = self.rule.window
        if len(self.losses) > w:
            before = min(self.losses[:-w])
            if before - min(self.losses[-w:]) < min(self.rule.gain, SHARE * before):
                return "the log loss of rows left out"
        return None

    def _hidden(self, state: Ascent) -> bool:
        """Whether a rise may be hidden by the sites: the evidence ended the ascent, and is less accurate."""
        by_evidence = state.stuck or self.gained < self.rule.tol
        error = SITES_ERROR * self.guide.tol**2
        return (
            self.rule.to_the_end
            and by_evidence
            and state.iterations < self.rule.max_iter
            and error > self.rule.tol * max(1.0, abs(state.value))
        )

    def variables(self) -> Array:
        """Where it starts."""
        Z = (self.problem.Z / self.unit).ravel() if self.free_Z else np.empty(0)
        return np.concatenate([self.problem.theta, Z])

    def at(self, x: Array) -> SparseProblem:
        """The problem at some variables."""
        Z = (x[self.p :].reshape(self.problem.Z.shape) * self.unit) if self.free_Z else None
        return self.problem.at(x[: self.p], Z)

    def chosen(self, state: Ascent) -> SparseProblem:
        """The problem at the end, with all its rows."""
        problem = self.at(state.x)
        return problem if self.absent is None else problem.over(bring_back)

    def back(self) -> Any:
        """The sites of the last evaluation, with all rows back, for the inference that follows."""
        if self.absent is None:
            return self.accepted
        held = starting_sites(self.accepted, self.guide.name)
        if not held:
            return None
        back, _ = self.problem.data.executor.map_reduce(bring_back, held, None, None)
        return Warm(tuple(back), self.guide.name)

    def objective(self, x: Array) -> tuple[float, Array] | None:
        """Log evidence (and log prior) with gradient."""
        problem = self.at(x)
        try:
            found = self.guide(problem, start=self.accepted, gradient=True)
        except (NotPositiveDefiniteError, np.linalg.LinAlgError, FloatingPointError):
            return None
        value, slope = found.evidence.log_z, found.evidence.gradient
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return None
        self.last = found
        if self.prior is not None:
            theta = x[: self.p]
            value, slope = value + self.prior.log_density(theta), slope + self.prior.gradient(theta)
        if self.free_Z:
            slope = np.concatenate([slope, (found.gradient_Z * self.unit).ravel()])
        return (value, slope) if np.isfinite(slope).all() else None

    def _look(self, state: Ascent) -> None:
        """The log loss of the left-out rows."""
        if self.left_out is None:
            return
        X, y, weights = self.left_out
        if weights is not None and not np.any(weights > 0):
            return
        log_p = predict_proba(self.accepted.latent(X), self.at(state.x).likelihood).log_proba
        self.losses.append(-float(np.average(np.where(y > 0, log_p[:, 1], log_p[:, 0]), weights=weights)))


def start_unit(problem: SparseProblem) -> Array:
    """What matters in each column of Z: its length scale, or the rows' own spread where that is huge."""
    spread = problem.Z.std(axis=0)
    return np.minimum(length_scales(problem.kernel, problem.Z), np.where(spread > 0, spread, np.inf))


def leave_out(shard: Shard, basis: Basis | None, likelihood: Any, rows: IntArray) -> tuple[Shard, Sums]:
    """The shard without some of all rows (given in increasing order)."""
    a, b = np.searchsorted(rows, [shard.first, shard.first + len(shard)])
    return replace(shard, absent=rows[a:b] - shard.first if b > a else None), {}


def bring_back(shard: Shard, basis: Basis | None, likelihood: Any) -> tuple[Shard, Sums]:
    """The shard with all its rows."""
    return replace(shard, absent=None), {}


def let_go(shard: Shard, basis: Basis | None, likelihood: Any) -> tuple[Shard, Sums]:
    """The shard without its kept block of A, n m numbers over all shards."""
    shard.scratch.clear()
    return shard, {}


def collect_sites(shard: Shard, basis: Basis | None, likelihood: Any) -> tuple[Shard, Sums]:
    """The sites of all rows, in the order of the shards."""
    return shard, {"sites": [shard.sites]}


def put_sites(shard: Shard, basis: Basis | None, likelihood: Any, sites: Array) -> tuple[Shard, Sums]:
    """The shard with its part of the sites (k, n) of all rows."""
    return shard.with_sites(sites[:, shard.first : shard.first + len(shard)].copy()), {}
