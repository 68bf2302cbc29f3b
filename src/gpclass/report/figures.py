"""Figures of the report as inline SVG that uses the page's light or dark colours.

A figure is drawn with one placeholder ink colour, which is then replaced by ``currentColor``, the page's text
colour. Text stays text, so that it can be searched, read aloud and enlarged; dense parts are embedded images.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpclass import metrics, plots
from gpclass.compare import Comparison, MethodResult
from gpclass.estimators.pipelines import final_step
from gpclass.plots._style import plain, pyplot
from gpclass.plots.dependence import influence, numeric_column

INK = "#010203"
# Marks on the page background use its CSS variables, which are lighter in dark mode.
ADAPTED = {plots.PALETTE[0]: "--blue", plots.PALETTE[1]: "--orange", plots.PALETTE[5]: "--sky"}
MAX_FEATURES = 9  # in partial dependence plots
MAX_RANKED = 60  # features among which those are chosen


@dataclass(frozen=True)
class Figure:
    """One figure: its SVG, its alternative text, and its caption."""

    svg: str
    alt: str
    caption: str


def _page_style() -> dict[str, Any]:
    """matplotlib's defaults, so that a user's own style cannot change the colours, in the page's; off screen."""
    axes = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
    style = dict.fromkeys(("text.color", *axes), INK) | {
        "svg.fonttype": "none",
        "svg.hashsalt": "gpclass",  # the same ids in every run, for reproducible files
        "font.family": "sans-serif",
        "font.size": 9.5,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.dpi": 110,
    }
    return {**pyplot().rcParamsDefault, **style, "backend": "agg"}


def draw(
    name: str,
    size: tuple[float, float],
    paint: Callable[..., Any],
    alt: str = "",
    caption: str = "",
    adapt: bool = False,
) -> Figure:
    """Run ``paint(ax=axes)`` and return the figure.

    ``name`` makes the SVG ids unique on the page; ``adapt`` makes the marks follow the page's colours.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with pyplot().rc_context(_page_style()):
        canvas = Canvas(figsize=size, layout="constrained")
        FigureCanvasSVG(canvas)
        paint(ax=canvas.subplots())
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return Figure(_inline(buffer.getvalue(), name, adapt), alt, caption)


def _inline(svg: str, name: str, adapt: bool) -> str:
    """The <svg> element alone, scaled by the page, with unique ids and the page's ink."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    for colour, variable in ADAPTED.items() if adapt else ():
        svg = svg.replace(colour.lower(), f"var({variable})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"', r"<svg \1\2", svg, count=1)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def is_plane(c: Comparison) -> bool:
    """Whether a map can be drawn: two features, both numeric."""
    return len(c.feature_names) == 2 and len(numeric_features(c)) == 2


def decision_figures(c: Comparison) -> list[Figure]:
    """Two features: the map of the advised method and, where it provides it, the uncertainty."""
    r = c.results.get(c.recommended or "")
    if r is None or not is_plane(c):
        return []
    wrong = int(np.sum(np.asarray(r.estimator.predict(c.X)) != c.y))
    x, y = c.feature_names
    alt = (
        f"Map of the probability of the classes over {x} and {y} by {r.name}, with the decision line; "
        f"{wrong} of {len(c.y)} samples lie on the wrong side."
    )
    caption = (
        f"{r.name}, fitted to all rows. Black: decision line. Rings: {wrong} samples on its wrong side, although they "
        "were part of the fit (in sample; the table counts rows that were not)."
    )
    paint = partial(plots.decision_map, r.estimator, c.X, c.y, feature_names=c.feature_names)
    found = [draw("map", (5.6, 4.6), paint, alt, caption)]
    if hasattr(final_step(r.estimator), "predict_uncertainty"):
        alt = f"Width of the 90 % credible interval of the probability over {x} and {y}."
        caption = f"{r.name}: width of the 90 % credible interval of the probability. White: decision line."
        paint = partial(plots.uncertainty_map, r.estimator, c.X, feature_names=c.feature_names)
        found.append(draw("width", (5.6, 4.6), paint, alt, caption))
    return found


def difference_figures(c: Comparison) -> list[Figure]:
    """Two features, two classes: where each method differs from the reference."""
    ref = c.results.get(c.reference or "")
    if ref is None or ref.error is not None or len(c.classes) != 2 or not is_plane(c):
        return []
    others, reference = [r for r in c.succeeded if r is not ref], _Once(ref.estimator)
    return [_difference_figure(c, r, ref.name, reference, f"dif{k}") for k, r in enumerate(others)]


@dataclass
class _Once:
    """A fitted classifier that is asked about the same points again and again, and answers once."""

    clf: Any
    proba: Any = None

    def predict_proba(self, points: Any) -> Any:
        self.proba = self.clf.predict_proba(points) if self.proba is None else self.proba
        return self.proba


def _difference_figure(c: Comparison, r: MethodResult, base: str, reference: _Once, name: str) -> Figure:
    largest = 0.0

    def paint(ax: Any) -> None:
        nonlocal largest
        axes = plots.difference_map(r.estimator, reference, c.X, feature_names=c.feature_names, ax=ax)
        axes.set_title(plain(f"{r.name} − {base}"), fontsize=10)
        largest = float(axes.collections[0].norm.vmax)

    figure = draw(name, (4.4, 3.6), paint)
    alt = f"Difference of probability between {r.name} and {base} over the plane: at most {largest:.2g}."
    caption = f"Difference between {r.name} and {base}: at most {largest:.2g} on this map."
    return replace(figure, alt=alt, caption=caption)


def numeric_features(c: Comparison) -> list[int]:
    """Numeric columns of X."""
    found = []
    for k in range(len(c.feature_names)):
        with suppress(ValueError):
            numeric_column(c.X, k)
            found.append(k)
    return found


def dependence_figures(c: Comparison) -> list[Figure]:
    """More than two features: probability against those that move it most, for the advised method."""
    best = c.results.get(c.recommended or "")
    if best is None or is_plane(c):
        return []
    found = []
    numeric = numeric_features(c)
    seen = range(min(len(c.feature_names), MAX_RANKED))
    height = {k: influence(best.estimator, c.X, k) for k in seen}
    for k in sorted(seen, key=lambda k: -height[k])[:MAX_FEATURES]:
        name = c.feature_names[k]
        paint = partial(plots.partial_dependence, best.estimator, c.X, k, feature_name=name, max_rows=24)
        alt = f"Mean probability of class {c.classes[-1]} against {name}, with a thin line for each row."
        unit = "in its own units" if k in numeric else "by category"
        caption = f"{name}, {unit}: the mean probability moves by {height[k]:.2g} ({best.name})"
        found.append(draw(f"dep{k}", (3.8, 2.9), paint, alt, caption, adapt=True))
    return found


def reliability_figures(c: Comparison) -> list[Figure]:
    """One reliability diagram per method, from its out-of-fold probabilities."""
    found = []
    for k, r in enumerate(c.succeeded):
        proba, s = r.proba, r.scores
        if proba is None or s is None:
            continue
        paint = partial(plots.reliability_diagram, c.y, proba, classes=c.classes, name=r.name)
        curve = metrics.reliability_curve(c.y, proba, c.classes)
        miss = int(np.sum((curve.observed < curve.lower) | (curve.observed > curve.upper)))
        alt = (
            f"Reliability diagram of {r.name}: {miss} of {len(curve.count)} bins lie outside the 90 % band "
            f"of calibrated forecasts; calibration error {s.ece:.3f}."
        )
        caption = (
            f"{r.name}: ECE {s.ece:.3f} [{s.ece_lower:.3f}, {s.ece_upper:.3f}]; calibrated forecasts would "
            f"show {s.ece_perfect:.3f}. {miss} of {len(curve.count)} bins outside the band."
        )
        found.append(draw(f"rel{k}", (4.0, 3.9), paint, alt, caption, adapt=True))
    return found


def distance_figure(c: Comparison) -> Figure | None:
    """|Δp| of every row, per method, on a logarithmic axis."""
    ref = c.results.get(c.reference or "")
    others = [r for r in c.succeeded if r.agreement is not None]
    if ref is None or ref.proba is None or not others:
        return None
    delta = [np.abs(r.proba - ref.proba).max(axis=1) for r in others if r.proba is not None]
    floor = 1e-6
    dots: Any = {"s": 5, "color": plots.PALETTE[0], "alpha": 0.45, "linewidths": 0}
    dots["rasterized"] = len(c.y) * len(delta) > 4000  # images do not follow the page

    def paint(ax: Any) -> None:
        jitter = np.random.default_rng(0).uniform(-0.28, 0.28, size=len(c.y))  # only separates the dots
        for k, d in enumerate(delta):
            ax.scatter(np.maximum(d, floor), k + jitter, **dots)
            ax.plot([max(d.mean(), floor)] * 2, [k - 0.36, k + 0.36], color=plots.PALETTE[1], linewidth=2.5)
        ax.axvline(0.02, color=INK, linestyle="--", linewidth=0.9)
        ax.text(0.02, len(delta) - 0.42, " 0.02", fontsize=8, va="bottom")
        ax.set(xscale="log", xlabel=f"|Δp| from {plain(ref.name)}, one dot per row")
        ax.set_yticks(range(len(delta)), [plain(r.name) for r in others])
        ax.set_ylabel("method")
        ax.set_ylim(-0.6, len(delta) - 0.2)

    worst = "; ".join(f"{r.name} at most {r.agreement.largest:.2g}" for r in others if r.agreement)
    alt = f"Distance of each method's probabilities from {ref.name}'s: {worst}."
    caption = (
        "Out of fold, each method with its own kernel parameters. Orange: mean. Dashed: 0.02. "
        f"Differences below {floor:g} are at the left edge."
    )
    return draw("dist", (5.2, 1.1 + 0.45 * len(delta)), paint, alt, caption, adapt=True)
