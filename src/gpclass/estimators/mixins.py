"""What every classifier does in addition to fit and predict: save, decide, estimate the cost of a fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpclass.decisions import Decision
    from gpclass.estimators.planner import Plan


class Savable:
    """Mixin: ``save``."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model to one file, which :func:`gpclass.load_model` reads.

        Arrays and JSON with checksums, no pickle; an existing file is replaced at once or not at all.

        Parameters
        ----------
        path : path
            ``.gpclass`` is the usual ending.

        Returns
        -------
        Path
        """
        from gpclass.persistence import save_model

        return save_model(self, path)


class Deciding:
    """Mixin: ``decide``, from ``predict_uncertainty``."""

    classes_: Any

    def decide(
        self,
        X: Any,
        cost: Any,
        *,
        reject: float | None = None,
        actions: Sequence[Any] | None = None,
        errors: float = 3.0,
    ) -> Decision:
        """The action of least expected cost at each row of X.

        Parameters
        ----------
        X : array or data frame of shape (m, d)
        cost : array of shape (C, A), or mapping of action to costs
            Cost of each action (column) for each true class (row, in the order of ``classes_``); or
            ``{"treat": {"ill": 1, "well": 5}, "wait": {"ill": 50, "well": 0}}``.
        reject, actions, errors
            As in :func:`gpclass.decisions.decide`.

        Returns
        -------
        Decision
            ``action``, ``expected_cost``, ``could_turn`` (whether the Monte Carlo error could change the
            action), ``margin`` to the next best action and its error, and the costs of all actions.
        """
        from gpclass.decisions import decide

        found = self.predict_uncertainty(X)  # type: ignore[attr-defined]  # of the estimator
        return decide(found.proba, cost, self.classes_, mcse=found.mcse, reject=reject, actions=actions, errors=errors)


class Planning:
    """Mixin: ``plan``."""

    def plan(self, X: Any, y: Any, *, budget: float = 2.0, classes: Any = None) -> Plan:
        """What ``fit(X, y)`` is expected to cost in seconds and memory, from a short calibration.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : labels of shape (n,)
        budget : float, default=2.0
            Approximate seconds for the calibration.
        classes : array of shape (C,), default=None
            As of ``fit``: all classes, if y may lack some.

        Returns
        -------
        Plan
            ``seconds``, ``memory`` in bytes, ``fits`` (whether there is enough memory), and their basis.
            Accurate within a factor of two or three; several times too low at worst if n_inducing is "auto" and
            there are several classes.
        """
        from gpclass.estimators.planner import plan_fit

        return plan_fit(self, X, y, budget=budget, classes=classes)
