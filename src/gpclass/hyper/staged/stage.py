"""One ascent of the evidence in θ and Z over the rows of one problem, monitored on held-out rows.

The variables are θ, and the inducing inputs divided by the length scales (or spreads) at the start, so that one unit is
about the scale of each. Each evaluation starts from the sites of the last one. Sites are loose during an ascent;
if their error hides a rise (well separated classes have an evidence of a few nats) they are tightened.
Held-out rows have no copies: they stay in their shards and add nothing (:class:`gpclass.model.rows.Labels`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.hyper.climb import value_and_slope
from gpclass.inference.base import Inference
from gpclass.latent.inducing import common_length, length_scales
from gpclass.latent.sites import Start
from gpclass.model.problem import Problem
from gpclass.model.rows import Work, bring_back, leave_out
from gpclass.numerics.lbfgs import Ascent, step
from gpclass.numerics.linalg import NotPositiveDefiniteError
from gpclass.numerics.spread import is_constant, spreads
from gpclass.posterior import Posterior
from gpclass.predict import in_blocks, predict_proba
from gpclass.priors import PriorSet

SHARE = 0.005  # share of a log loss that counts as a fall if the loss is small
TIGHTER = 0.1  # of the sites' tolerance, if no step raises the evidence
SITES_ERROR = 0.5  # nats of the evidence, about, times the square of the sites' tolerance


@dataclass(frozen=True)
class Rule:
    """When an ascent ends."""

    max_iter: int
    tol: float  # least share of the log evidence that an iteration gains
    window: int = 12  # iterations over which the log loss of the held-out rows must fall
    gain: float = 3e-4  # by at least this, or by ``SHARE`` of it if that is less
    gradient_tol: float = 0.0  # largest component of the gradient at which it ends
    to_the_end: bool = False  # whether sites are tightened if their error may hide a rise
    reserved: int = 0  # of the iterations, for another ascent

    @property
    def most(self) -> int:
        """Iterations of this ascent."""
        return self.max_iter - self.reserved


@dataclass(frozen=True)
class Earlier:
    """An ascent over fewer rows, from whose end another begins."""

    state: Ascent
    count: float  # of its rows, by their weights
    unit: Array
    near: Start | None  # q(u) there; None if the method cannot start from it


@dataclass(frozen=True, eq=False)
class Standing:
    """State between two ascents over more and more rows."""

    problem: Problem
    earlier: Earlier | None
    sizes: tuple[int, ...]  # rows of the ascents to come, before the one over all


@dataclass
class Stage:
    """An ascent under way."""

    problem: Problem  # where it starts
    guide: Inference
    rule: Rule
    prior: PriorSet | None = None
    free_Z: bool = True
    absent: IntArray | None = None  # rows to hold out
    left_out: tuple[Array, Array, Array | None] | None = None  # X, y, weights to monitor; else those absent
    earlier: Earlier | None = None  # an ascent that this one continues
    tell: Callable[..., None] | None = None
    gained: float = np.inf  # by the last iteration, as a share of the log evidence
    last: Posterior | None = None  # the posterior of the last evaluation
    accepted: Posterior | None = None  # that of the last accepted step
    near: Start | None = None  # start of evaluations before the first accepted step; else that of ``earlier``
    losses: list[float] = field(default_factory=list)  # of the held-out rows, after each iteration

    def __post_init__(self) -> None:
        Z = inducing(self.problem)
        if self.earlier is None:  # the scale of each column of Z: its length scale, or the spread if that is huge
            lengths = length_scales(self.problem.kernels[0], Z)
            alone = common_length(self.problem.kernels[0]) or lengths  # of a column in which all Z are equal
            self.unit = np.where(is_constant(Z), alone, np.minimum(lengths, spreads(Z)))
        else:
            self.unit, self.near = self.earlier.unit, self.earlier.near
        p, free = len(self.problem.theta), Z.size if self.free_Z else 0
        self.bounds = np.vstack([self.problem.bounds, np.tile([-np.inf, np.inf], (free, 1))])
        self.p, self.count = p, self.problem.rows.count
        if self.absent is not None:
            self.left_out = self.problem.rows.take(self.absent)
            weights = self.left_out[2]
            self.count -= float(len(self.absent) if weights is None else np.sum(weights))
            self.problem = over(self.problem, leave_out, self.absent)

    def run(self, state: Ascent | None = None, after: Callable[[Ascent], None] = lambda state: None) -> Ascent:
        """Maximise until the rule stops it; ``after`` is called after each iteration."""
        if state is None:
            earlier = self.earlier
            memory = (None, 1.0) if earlier is None else (earlier.state, self.count / earlier.count)
            state = Ascent.start(self.variables(), self.objective, self.bounds, *memory)
            self.accepted = self.last
        while self.reason(state) is None or self._hidden(state):
            if self.reason(state) is not None:
                self.guide = self.guide.with_site_tol(TIGHTER * self.guide.site_tol)
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
            after(state)
        return state

    def reason(self, state: Ascent) -> str | None:
        """Why the ascent ends here; None if it continues."""
        if not len(state.x):
            return "nothing to learn"
        if state.stuck:
            return "no step raises the evidence"
        if state.iterations >= self.rule.most:
            return f"max_iter={self.rule.max_iter}"
        if self.gained < self.rule.tol:
            return "the evidence"
        if self._steepest(state) <= self.rule.gradient_tol:
            return "the gradient"
        w = self.rule.window
        if len(self.losses) > w:
            before = min(self.losses[:-w])
            if before - min(self.losses[-w:]) < min(self.rule.gain, SHARE * before):
                return "the log loss of held-out rows"
        return None

    def _hidden(self, state: Ascent) -> bool:
        """Whether a rise may be hidden by the sites: the evidence ended the ascent, and is less accurate."""
        error = SITES_ERROR * self.guide.site_tol**2
        by_evidence = state.stuck or self.gained < self.rule.tol
        hidden = by_evidence and error > self.rule.tol * max(1.0, abs(state.value))
        hidden |= self._steepest(state) <= self.rule.gradient_tol < error
        return self.rule.to_the_end and hidden and len(state.x) > 0 and state.iterations < self.rule.most

    def _steepest(self, state: Ascent) -> float:
        """Largest component of the gradient along which a variable can move."""
        return float(np.max(np.abs(np.clip(state.x + state.slope, *self.bounds.T) - state.x), initial=0.0))

    def variables(self) -> Array:
        """Where it starts."""
        Z = (inducing(self.problem) / self.unit).ravel() if self.free_Z else np.empty(0)
        return np.concatenate([self.problem.theta, Z])

    def at(self, x: Array) -> Problem:
        """The problem at some variables."""
        moved = self.problem.at(x[: self.p])
        if not self.free_Z:
            return moved
        return with_inducing(moved, x[self.p :].reshape(inducing(moved).shape) * self.unit)

    def chosen(self, state: Ascent) -> Problem:
        """The problem at the end, with all its rows."""
        problem = self.at(state.x)
        return problem if self.absent is None else over(problem, bring_back)

    def back(self) -> Start | None:
        """Start of the following inference: the last step's sites, with all rows."""
        start = self._from()
        if start is None or self.absent is None or not start.held:
            return start
        held, _ = self.problem.rows.map(bring_back, start.held)
        return replace(start, held=held)

    def objective(self, x: Array) -> tuple[float, Array] | None:
        """Log evidence (and log prior) with gradient."""
        problem = self.at(x)
        try:
            found = self.guide(problem, start=self._from(), gradient=True)
        except (NotPositiveDefiniteError, np.linalg.LinAlgError, FloatingPointError):
            return None
        value, slope = value_and_slope(found, self.prior, x[: self.p])
        if self.free_Z:
            assert found.evidence is not None
            assert found.evidence.gradient_Z is not None
            slope = np.concatenate([slope, (found.evidence.gradient_Z * self.unit).ravel()])
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return None
        self.last = found
        return value, slope

    def _from(self) -> Start | None:
        """Where an evaluation starts: the last step's sites, or q(u) of an ascent over fewer rows."""
        return self.near if self.accepted is None else self.accepted.start

    def _look(self, state: Ascent) -> None:
        if self.left_out is None or self.accepted is None:
            return
        X, y, weights = self.left_out
        if weights is not None and not np.any(weights > 0):
            return
        likelihood = self.at(state.x).likelihood
        log_p = in_blocks(X, self.accepted, lambda latent: predict_proba(latent, likelihood)).log_proba
        own = log_p[np.arange(len(y)), likelihood.decode(y)]
        self.losses.append(-float(np.average(own, weights=weights)))


def inducing(problem: Problem) -> Array:
    """The inducing inputs, which are placed."""
    Z = problem.inducing
    assert Z is not None
    return Z


def with_inducing(problem: Problem, Z: Array) -> Problem:
    """The same problem with other inducing inputs, and the very bits of θ, which a file keeps."""
    return replace(problem, form=problem.form.at(Z)).at(problem.theta)


def over(problem: Problem, work: Work, *arguments: Any) -> Problem:
    """The same problem with every shard changed by some work."""
    held, _ = problem.rows.map(work, problem.rows.held, *arguments)
    return replace(problem, rows=replace(problem.rows, held=held))
