"""The report: one self-contained HTML file that loads nothing from the network.

``render_report`` turns a :class:`~gpclass.compare.Comparison` into text, ``write_report`` writes it to a file.
Cost: the figures, a second or two each. Needs the extra ``report`` (jinja2, matplotlib).
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpclass._version import __version__
from gpclass.compare import Comparison, MethodResult
from gpclass.compare.advice import base_rate_log_loss, what_went_wrong
from gpclass.compare.result import FOLD_SCORES
from gpclass.estimators.pipelines import final_step
from gpclass.numerics.files import replacing
from gpclass.plots.dependence import numeric_column
from gpclass.report import figures

MAX_FEATURE_ROWS = 40


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and the number it sorts by (None: sort by text)."""

    text: str
    key: float | None = None
    note: str = ""  # a standard error, an interval

    @classmethod
    def number(cls, value: float | None, form: str = ".3f", note: str = "") -> Cell:
        """A number, or a dash where it is missing (sorted last)."""
        if value is None or not math.isfinite(value):
            return cls("–", math.inf)
        return cls(format(value, form), float(value), note)


@dataclass(frozen=True)
class Table:
    """Head, rows of cells and caption. ``head`` pairs a column's title with its explanation."""

    caption: str
    head: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]


def render_report(comparison: Comparison, *, title: str = "Comparison of methods", description: str = "") -> str:
    """The report as a string of HTML.

    Parameters
    ----------
    comparison : Comparison
        The result of :func:`gpclass.compare.compare`.
    title : str
        Heading of the page.
    description : str
        A sentence or two about the data, shown below the heading.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install 'gpclass[report]'") from error
    environment = Environment(
        loader=PackageLoader("gpclass.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    c = comparison
    return environment.get_template("report.html").render(
        title=title,
        description=description,
        version=__version__,
        comparison=c,
        facts=_facts(c),
        features=_features(c),
        words=_words(c),
        scores=_scores(c),
        wrong=[(r.name, what_went_wrong(r, c.reference)) for r in c.results.values()],
        maps=figures.decision_figures(c),
        differences=figures.difference_figures(c),
        dependence=figures.dependence_figures(c),
        n_hidden=max(0, len(c.feature_names) - figures.MAX_FEATURES),
        reliability=figures.reliability_figures(c),
        distance=figures.distance_figure(c),
        worst=_worst(c),
        parameters=_parameters(c),
        diagnostics=_diagnostics(c),
    )


def write_report(
    comparison: Comparison, path: str | os.PathLike[str], *, title: str = "Comparison of methods", description: str = ""
) -> Path:
    """Write the report to ``path`` (creating folders) and return it. The file is written atomically."""
    with warnings.catch_warnings():
        # Warnings of the fits are in the report; those for artificial points of a figure are irrelevant.
        warnings.simplefilter("ignore", UserWarning)
        text = render_report(comparison, title=title, description=description)
    path = Path(path)
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path


WORDS = (
    ("Probability", "0.7 for a class means: of many such rows, seven in ten should have that class."),
    ("Out of fold", "Each row is predicted by a fit that did not see it, as new rows would be. So are all scores."),
    ("In sample", "Predictions of rows that the fit has seen. They look better than new rows will."),
    ("Log loss, Brier", "How far the probabilities are from what happened. Smaller is better; the base rate, which "
     "predicts the classes' shares for every row, is under Data."),
    ("AUC", "How often a row of the class gets a larger probability than a row of another. 0.5 is a coin, 1 perfect."),
    ("ECE", "Mean distance between predicted probabilities and observed frequencies. Smaller is better."),
    ("Reference", "The method that the others are compared with: exact, if it is among them."),
    ("Δp", "Difference of a method's probability from the reference's, for the same row."),
    ("Kernel", "How alike the probabilities of near and far points are. Its parameters are learned from the rows."),
    ("Log evidence", "How probable the labels are under the model. Larger is better, on the same data only. It is "
     "counted in nats: one more nat is 2.7 times as probable."),
)  # fmt: skip


def _words(c: Comparison) -> list[tuple[str, str]]:
    """The words of the page, and what the methods on it are."""
    from gpclass.registry import INFERENCES

    return [*WORDS, *((name, f"{INFERENCES[name].summary}.") for name in c.results if name in INFERENCES)]


def _facts(c: Comparison) -> list[tuple[str, str]]:
    index = np.searchsorted(c.classes, c.y)
    count = np.bincount(index, minlength=len(c.classes))
    each = zip(c.classes, count, strict=True)
    shares = ", ".join(f"{label}: {k} ({100 * k / len(c.y):.0f} %)" for label, k in each)
    scores = [r.scores for r in c.succeeded if r.scores is not None]
    kind = f"folds by {c.splitter}" if c.splitter else f"{'blocked, ' if c.blocked else ''}stratified folds"
    folds = f"{c.n_folds} {kind}"
    if c.n_repeats > 1:
        folds += f", repeated {c.n_repeats} times"
    return [
        ("Rows", str(len(c.y))),
        ("Features", str(len(c.feature_names))),
        ("Classes", shares),
        ("Cross-validation", folds),
        ("Log loss of the base rate", f"{base_rate_log_loss(index):.3f}"),
        *[("Brier score of the base rate", f"{s.uncertainty:.3f}") for s in scores[:1]],
        ("Reference of |Δp|", c.reference or "none"),
    ]


def _features(c: Comparison) -> Table:
    numeric = set(figures.numeric_features(c))
    rows = []
    for k, name in enumerate(c.feature_names[:MAX_FEATURE_ROWS]):
        if k in numeric:
            column = numeric_column(c.X, k)[1]
            facts = (column.mean(), column.std(), column.min(), np.median(column), column.max())
            cells = [Cell.number(float(v), ".4g") for v in facts]
        else:
            cells = [Cell("not numeric", math.inf), *[Cell.number(None)] * 4]
        rows.append((Cell(name), *cells))
    head = ("feature", "mean", "sd", "least", "median", "largest")
    more = len(c.feature_names) - len(rows)
    caption = "Features as given" + (f" (the first {len(rows)}; {more} more)" if more else "")
    return Table(caption, tuple((h, "") for h in head), tuple(rows))


SCORE_HEAD = (
    ("method", ""),
    ("accuracy", "share of rows whose most probable class is right"),
    ("log loss", "mean −log p(label); lower is better"),
    ("Brier", "mean squared error of p = reliability − resolution + the base rate's; lower is better"),
    ("reliability", "part of Brier: distance of frequencies from probabilities; lower is better"),
    ("resolution", "part of Brier: spread of frequencies between bins; higher is better"),
    ("ECE", "expected calibration error, with its 95 % bootstrap interval"),
    ("AUC", "area under the ROC curve"),
    ("log evidence", "estimate of log p(y | X), all rows, with its Monte Carlo error"),
    ("mean |Δp|", "from the reference, out of fold"),
    ("max |Δp|", "from the reference, out of fold"),
    ("seconds", "wall-clock, to fit one fold and (below) to predict the rest"),
)


def _scores(c: Comparison) -> Table:
    rows = []
    for r in c.results.values():
        s, a = r.scores, r.agreement
        if s is None:
            rows.append((Cell(r.name, None, r.state), *[Cell.number(None)] * (len(SCORE_HEAD) - 1)))
            continue
        error = "" if r.log_evidence_error is None else f"± {r.log_evidence_error:.2g}"
        kind = "" if r.evidence_kind in (None, "approximate") else str(r.evidence_kind)
        row = (
            Cell(r.name, None, "" if r.converged else r.state),
            *(Cell.number(getattr(s, name), note=f"± {r.standard_error[name]:.3f}") for name in FOLD_SCORES),
            Cell.number(s.reliability, ".4f"),
            Cell.number(s.resolution, ".4f"),
            Cell.number(s.ece, ".3f", f"[{s.ece_lower:.3f}, {s.ece_upper:.3f}]"),
            Cell.number(s.auc),
            Cell.number(r.log_evidence, ".2f", f"{error} {kind}".strip()),
            Cell.number(a.mean if a else None, ".2g"),
            Cell.number(a.largest if a else None, ".2g"),
            Cell.number(r.seconds_fit, ".2g", f"+ {r.seconds_predict:.1g}"),
        )
        rows.append(row)
    caption = "Out of fold; ± is the standard error over the folds. Click a heading to sort."
    return Table(caption, SCORE_HEAD, tuple(rows))


def _worst(c: Comparison) -> Table | None:
    """The rows where a method differs most from the reference, three per method."""
    rows = []
    for r in c.succeeded:
        if r.agreement is None:
            continue
        a = r.agreement
        for k in range(min(3, len(a.points))):
            top = a.most_changed(k)
            row = (
                Cell(r.name),
                Cell(a.rows[k], float(a.points[k])),
                Cell(str(c.y[a.points[k]])),
                Cell(str(c.classes[top])),
                Cell.number(a.proba[k, top]),
                Cell.number(a.proba_reference[k, top]),
                Cell.number(a.delta[k], ".2g"),
            )
            rows.append(row)
    if not rows:
        return None
    head = (
        ("method", ""),
        ("row", "label in the table's index; numbered from 0 without one"),
        ("label", "observed"),
        ("class", "whose probability differs most"),
        ("p", "by the method"),
        ("p of the reference", ""),
        ("|Δp|", ""),
    )
    return Table("Rows where each method differs most from the reference, out of fold", head, tuple(rows))


def _parameters(c: Comparison) -> Table | None:
    with_kernel = [r for r in c.succeeded if r.parameters]
    names = list(dict.fromkeys(name for r in with_kernel for name, _ in r.parameters))
    if not names:
        return None
    rows = tuple((Cell(name), *(_parameter(r, name) for r in with_kernel)) for name in names)
    head = (("parameter", ""), *((r.name, "") for r in with_kernel))
    caption = "Kernel parameters found on all rows. "
    caption += "Where features were standardised, lengths are in their standard deviations."
    if any(r.intervals for r in with_kernel):
        caption += " Where they were sampled: the posterior median and, in brackets, 90 % of the posterior."
    return Table(caption, head, rows)


def _parameter(r: MethodResult, name: str) -> Cell:
    interval = "[{:.3g}, {:.3g}]".format(*r.intervals[name]) if name in r.intervals else ""
    return Cell.number(dict(r.parameters).get(name), ".4g", interval)


def _diagnostics(c: Comparison) -> list[dict[str, Any]]:
    """Each method's state as text: failed, not converged, warnings, or nothing to report."""
    found = []
    for r in c.results.values():
        said = [text for text in r.warnings if not any(reason in text for reason in r.reasons)]
        texts = [r.error] if r.error is not None else [*r.reasons, *said]
        report: Any = getattr(final_step(r.estimator), "fit_report_", None)
        figures_ = report.rows() if hasattr(report, "rows") else []
        plain = [(label, text) for label, text in figures_ if label not in ("warning", "kernel")]
        found.append({"name": r.name, "state": r.state, "texts": texts, "figures": plain})
    return found
