"""From probabilities to actions: least expected cost, a reject option, and sensitivity to the Monte Carlo error.

With cost(c, a) the cost of action a if the class is c, the best action at x is

    argmin_a  Σ_c p_c(x) cost(c, a).

For an alternative b to the chosen action a the difference of expected costs is Δ = Σ_c p_c d_c, d_c = cost(c, b)
− cost(c, a). The probabilities sum to one, so any constant may be subtracted from d, and the Monte Carlo error of Δ
is at most

    min_k Σ_c |d_c − d_k| mcse_c,

which for two classes is |d_1 − d_0| mcse, the error itself. The decision could change if Δ is below ``errors`` of
these for any alternative. This covers only the Monte Carlo error: a deterministic approximation has none, but
another error that is unknown here.

Cost: O(m A C²) for m points, C classes, A actions.
Reference: Berger (1985), Statistical Decision Theory and Bayesian Analysis; Chow (1970), On optimum
recognition error and reject tradeoff.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, BoolArray, IntArray

REJECT = "reject"


@dataclass(frozen=True)
class Decision:
    """The action of least expected cost at each of m points."""

    action: npt.NDArray[Any]  # (m,), one of ``actions``
    expected_cost: Array  # (m,), of that action
    could_turn: BoolArray  # (m,), whether the Monte Carlo error could change the action
    margin: Array  # (m,), additional cost of the next best action
    margin_error: Array  # (m,), Monte Carlo standard error of the margin; NaN for a deterministic method
    costs: Array  # (m, A), expected cost of every action
    actions: tuple[Any, ...]  # (A,)
    index: IntArray  # (m,), index of the action in ``actions``

    def __str__(self) -> str:
        count = np.bincount(self.index, minlength=len(self.actions))
        taken = ", ".join(f"{a} {k}" for a, k in zip(self.actions, count, strict=True))
        turn = int(self.could_turn.sum())
        return (
            f"{len(self.index)} decisions: {taken}; mean expected cost {self.expected_cost.mean():.4g}; "
            f"the Monte Carlo error could change {turn}"
        )


def decide(
    proba: Any,
    cost: Any,
    classes: Sequence[Any] | npt.NDArray[Any],
    *,
    mcse: Any = None,
    reject: float | None = None,
    actions: Sequence[Any] | None = None,
    errors: float = 3.0,
) -> Decision:
    """Actions of least expected cost.

    Parameters
    ----------
    proba : array of shape (m, C)
        Class probabilities.
    cost : array of shape (C, A), or mapping of action to costs
        Cost of each action (column) for each true class (row, in the order of ``classes``). A mapping names
        the actions: ``{"treat": {"ill": 1, "well": 5}, "wait": {"ill": 50, "well": 0}}``, or with a sequence
        in the order of ``classes`` in place of the inner mapping.
    classes : sequence of C labels
    mcse : array of shape (m, C), optional
        Monte Carlo standard errors of ``proba``; NaN or None for a deterministic method.
    reject : float, optional
        Adds the action ``"reject"`` with this cost for every class.
    actions : sequence of A names, optional
        Names of the columns of an array; by default the classes, if there are as many.
    errors : float
        Number of standard errors within which a decision "could turn".

    Examples
    --------
    >>> found = decide([[0.9, 0.1], [0.45, 0.55]], [[0, 1], [20, 0]], ["well", "ill"], reject=0.5)
    >>> found.action.tolist()
    ['reject', 'ill']
    """
    p = np.asarray(proba, dtype=float)
    labels = list(classes)
    if p.ndim != 2 or p.shape[1] != len(labels):
        raise ValueError(f"proba must have shape (m, {len(labels)}), one column per class, not {p.shape}")
    table, names = cost_table(cost, labels, reject, actions)
    costs = p @ table
    index = np.argmin(costs, axis=1)
    error = np.full(p.shape, np.nan) if mcse is None else np.asarray(mcse, dtype=float)
    margin, margin_error, turn = _rivals(costs, index, table, error, errors)
    chosen = np.empty(len(p), dtype=object)
    chosen[:] = [names[k] for k in index]
    alike = len({type(name) for name in names}) == 1 and np.isscalar(names[0])  # then an array of that type
    return Decision(
        action=np.array(chosen.tolist(), dtype=type(names[0])) if alike else chosen,
        expected_cost=costs[np.arange(len(p)), index],
        could_turn=turn,
        margin=margin,
        margin_error=margin_error,
        costs=costs,
        actions=names,
        index=index.astype(np.intp),
    )


def cost_table(
    cost: Any, classes: Sequence[Any], reject: float | None = None, actions: Sequence[Any] | None = None
) -> tuple[Array, tuple[Any, ...]]:
    """Costs as an array (C, A) and the names of the actions, checked."""
    names: list[Any]
    if isinstance(cost, Mapping):
        if actions is not None:
            raise ValueError("a mapping already names its actions: omit actions")
        names = list(cost)
        columns = [_column(action, cost[action], classes) for action in names]
        table = np.array(columns, dtype=float).T.reshape(len(classes), len(names))
    else:
        table = np.asarray(cost, dtype=float)
        if table.ndim != 2 or len(table) != len(classes):
            raise ValueError(
                f"cost must have one row per class ({len(classes)}: {_plain(classes)}) and one column "
                f"per action, not shape {table.shape}"
            )
        own = classes if table.shape[1] == len(classes) else range(table.shape[1])
        names = list(own if actions is None else actions)
        if len(names) != table.shape[1]:
            raise ValueError(f"{len(names)} names for {table.shape[1]} actions: give one per column")
    if reject is not None:
        names.append(REJECT)
        table = np.column_stack([table, np.full(len(classes), float(reject))])
    if table.shape[1] == 0 or not np.all(np.isfinite(table)):
        raise ValueError("costs must be finite numbers, for at least one action")
    if len(set(map(str, names))) < len(names):
        raise ValueError(f"two actions have the same name: {names}")
    return table, tuple(names)


def _column(action: Any, prices: Any, classes: Sequence[Any]) -> list[float]:
    """The costs of one action, in the order of the classes."""
    if not isinstance(prices, Mapping):
        column = list(np.atleast_1d(np.asarray(prices, dtype=float)))
        if len(column) != len(classes):
            raise ValueError(f"action {action!r} has {len(column)} costs for {len(classes)} classes")
        return column
    missing = [c for c in classes if c not in prices]
    extra = [c for c in prices if c not in list(classes)]
    if missing or extra:
        raise ValueError(
            f"action {action!r} must have a cost for each of {_plain(classes)}"
            + (f"; it lacks {_plain(missing)}" if missing else "")
            + (f"; {extra} are not classes" if extra else "")
        )
    return [float(prices[c]) for c in classes]


def _plain(classes: Sequence[Any]) -> list[Any]:
    """Labels as a user wrote them: 'clay', not np.str_('clay')."""
    return [c.item() if isinstance(c, np.generic) else c for c in classes]


def _rivals(costs: Array, index: IntArray, table: Array, error: Array, errors: float) -> tuple[Array, Array, BoolArray]:
    """Margin to the next best action, its error, and whether any alternative could be better."""
    m, A = costs.shape
    rows = np.arange(m)
    if A == 1:
        return np.full(m, np.inf), np.zeros(m), np.zeros(m, dtype=bool)
    gap = costs - costs[rows, index][:, None]  # (m, A)
    d = table.T[None, :, :] - table.T[index][:, None, :]  # (m, A, C)
    bounds = [np.einsum("mac,mc->ma", np.abs(d - d[:, :, [k]]), error) for k in range(d.shape[2])]
    spread = np.min(bounds, axis=0)  # (m, A)
    other = np.ones((m, A), dtype=bool)
    other[rows, index] = False
    turn = np.any(other & (gap < errors * spread), axis=1)  # NaN compares as False
    next_best = np.argmin(np.where(other, gap, np.inf), axis=1)
    return gap[rows, next_best], spread[rows, next_best], turn
