"""The result of a comparison: frozen records, and the tables made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from gpclass._html import columns, html_table
from gpclass._typing import Array, IntArray
from gpclass.metrics import Scores

LEFT_OUT = "left out"  # prefix of an "error" that only means the method was skipped
HEAD = ("method", "accuracy", "log loss", "Brier", "AUC", "ECE", "max |dp|", "seconds", "converged")
FOLD_SCORES = ("accuracy", "log_loss", "brier")


@dataclass(frozen=True)
class Agreement:
    """How far a method's probabilities are from the reference's: |Δp|, the largest over the classes."""

    reference: str
    mean: float
    largest: float
    points: IntArray  # rows of X with the largest differences, largest first, from 0
    delta: Array  # (len(points),) |Δp| there
    proba: Array  # (len(points), C) the method's
    proba_reference: Array  # (len(points), C)
    flips: int  # points whose predicted class differs
    confidence: float = 0.0  # mean largest probability minus the reference's; < 0: underconfident
    rows: tuple[str, ...] = ()  # names of the points: the data frame's index, else row numbers

    def most_changed(self, k: int) -> int:
        """The class whose probability differs most at the k-th of the points; of two classes the second."""
        delta = np.abs(self.proba[k] - self.proba_reference[k])
        return int(np.flatnonzero(delta >= (1.0 - 1e-9) * delta.max())[-1])


@dataclass(frozen=True)
class MethodResult:
    """One method. If ``error`` is set, the fit failed and the numbers are missing."""

    name: str
    error: str | None = None
    proba: Array | None = None  # (n, C), out of fold, mean over the repeats
    scores: Scores | None = None  # out of fold, mean over the repeats
    fold_scores: Mapping[str, Array] = field(default_factory=dict)  # score to (folds * repeats,)
    standard_error: Mapping[str, float] = field(default_factory=dict)  # over the folds of one repeat
    point_log_loss: Array | None = None  # (n,), mean over the repeats, for paired differences
    seconds_fit: float = float("nan")  # mean over the folds
    seconds_predict: float = float("nan")
    estimator: Any = None  # fitted on all rows
    log_evidence: float | None = None  # on all rows
    log_evidence_error: float | None = None
    evidence_kind: str | None = None
    converged: bool = True  # in every fold and on all rows
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    parameters: tuple[tuple[str, float], ...] = ()  # on all rows; the posterior median where sampled
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # 90 %, where sampled
    agreement: Agreement | None = None  # out of fold, each method with its own kernel
    same_kernel: Agreement | None = None  # all rows, with the reference's kernel: the approximation alone
    same_kernel_evidence: float | None = None  # log evidence there minus the reference's

    @property
    def state(self) -> str:
        """One of: converged, did not converge, left out, failed."""
        if self.error is not None:
            return LEFT_OUT if self.error.startswith(LEFT_OUT) else "failed"
        return "converged" if self.converged else "did not converge"

    @property
    def seconds(self) -> float:
        """Time to fit and predict, mean over the folds."""
        return self.seconds_fit + self.seconds_predict


@dataclass(frozen=True)
class Comparison:
    """Methods compared on one data set. ``table()`` gives the numbers, ``advice`` says which method to use."""

    X: Any
    y: Any
    classes: Any
    feature_names: tuple[str, ...]
    results: Mapping[str, MethodResult]
    reference: str | None
    n_folds: int
    n_repeats: int
    blocked: bool
    advice: str
    recommended: str | None
    splitter: str = ""  # that made the folds, if not this package

    @property
    def succeeded(self) -> list[MethodResult]:
        """Methods without an error, in the order given."""
        return [r for r in self.results.values() if r.error is None]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per method: scores with standard errors, evidence, seconds, distance."""
        return [_row(r) for r in self.results.values()]

    def table(self) -> Any:
        """:meth:`rows` as a pandas DataFrame indexed by method (a list of rows without pandas)."""
        try:
            import pandas as pd
        except ImportError:
            return self.rows()
        return pd.DataFrame(self.rows()).set_index("method")

    def _repr_html_(self) -> str:
        """The advice and the table, in notebooks."""
        return f"<p>{escape(self.advice)}</p>" + html_table(map(_short, self.results.values()), HEAD)

    def __str__(self) -> str:
        """A short table for the terminal, and the advice."""
        table = columns(HEAD, [_short(r) for r in self.results.values()])
        failed = [f"{r.name}: {r.error}" for r in self.results.values() if r.error is not None]
        return "\n".join([table, *failed, "", self.advice])


def _row(r: MethodResult) -> dict[str, Any]:
    nan = float("nan")
    s, a = r.scores, r.agreement
    row: dict[str, Any] = {"method": r.name}
    for name in FOLD_SCORES:
        row[name] = getattr(s, name) if s else nan
        row[f"{name}_se"] = r.standard_error.get(name, nan)
    for name in ("reliability", "resolution", "uncertainty", "ece", "ece_lower", "ece_upper", "auc"):
        row[name] = getattr(s, name) if s else nan
    row |= {
        "log_evidence": nan if r.log_evidence is None else r.log_evidence,
        "log_evidence_error": nan if r.log_evidence_error is None else r.log_evidence_error,
        "evidence_kind": r.evidence_kind or "",
        "seconds_fit": r.seconds_fit,
        "seconds_predict": r.seconds_predict,
        "mean_abs_dp": a.mean if a else nan,
        "max_abs_dp": a.largest if a else nan,
        "converged": r.converged and r.error is None,
        "warnings": len(r.warnings),
        "error": r.error or "",
    }
    return row


def _short(r: MethodResult) -> tuple[str, ...]:
    if r.scores is None:
        return (r.name, *["-"] * 7, r.state)
    s, se, a = r.scores, r.standard_error, r.agreement

    def with_error(name: str) -> str:
        return f"{getattr(s, name):.3f} ± {se.get(name, np.nan):.3f}"

    return (
        r.name,
        *(with_error(name) for name in FOLD_SCORES),
        f"{s.auc:.3f}",
        f"{s.ece:.3f}",
        f"{a.largest:.1e}" if a else "(reference)",
        f"{r.seconds:.3g}",
        "yes" if r.converged else "NO",
    )
