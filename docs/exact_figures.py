"""Measure all numbers of ``docs/exact.md`` and write them there, between the page's markers.

``python -m docs.exact_figures [block ...]``; without a block all of them (a few minutes on one core). The linear kernel
on one feature is used throughout, because its probabilities and evidence are known in closed form.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from papers import truths
from sklearn.gaussian_process.kernels import DotProduct

from gpclass import GPClassifier
from gpclass.inference import Exact
from gpclass.orthant import orthant_probability
from gpclass.plots._style import PALETTE, pyplot

PAGE = Path(__file__).with_name("exact.md")
FIGURE = Path(__file__).with_name("figures") / "exact.png"
LEVEL = 1.645  # a normal error is within this many standard errors with probability 0.9


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping classes on one feature."""
    x, y, _, _ = truths.LinearProblem(n, 1, (-0.5, 0.5), (1.0, 1.0)).draw(np.random.default_rng(seed))
    return x, y


def fit(x: np.ndarray, y: np.ndarray, seed: int = 0, **settings: object) -> GPClassifier:
    """The estimator with the linear kernel, its parameters fixed."""
    clf = GPClassifier(DotProduct(0.0, "fixed"), hyperparameters="fixed", random_state=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clf.fit(x[:, None], y)


def quiet_uncertainty(clf: GPClassifier, x: np.ndarray) -> object:
    """predict_uncertainty without the warning that tol is not met at some point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clf.predict_uncertainty(x[:, None])


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of Markdown."""
    lines = [columns, tuple("---:" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def two_errors() -> str:
    """Monte Carlo error and credible interval, by amount of data and by tol."""
    rows, x_new = [], np.array([1.0])
    for n in (20, 200, 1000):
        x, y = data(n)
        truth = truths.linear_kernel_probability(x, y, x_new)[0]
        for tol in (1e-2, 1e-3, 1e-4):
            clf = fit(x, y, tol=tol, inference=Exact(tol=tol, first=200))
            u = quiet_uncertainty(clf, x_new)
            p, mcse = u.proba[0, 1], u.mcse[0, 1]
            rows.append(
                (
                    f"{n}", f"{tol:g}", f"{clf.fit_report_.n_samples:,}", f"{truth:.5f}", f"{p:.5f}", f"{mcse:.1e}",
                    f"{abs(p - truth):.1e}", f"[{u.lower[0, 1]:.3f}, {u.upper[0, 1]:.3f}]",
                )
            )  # fmt: skip
    return table(
        ("n", "tol", "draws", "p, closed form", "p, computed", "mcse", "true error", "90 % interval of p(x)"),
        rows,
    )


def calibration(repeats: int = 200, M: int = 500) -> str:
    """Whether reported errors agree with the true ones, over repeats."""
    rows, x_new = [], np.array([0.7])
    for n in (100, 400):
        x, y = data(n)
        truth = truths.linear_kernel_probability(x, y, x_new)[0]
        log_z = truths.linear_kernel_log_evidence(x, y)
        scores: dict[str, list[float]] = {"probability": [], "log evidence": []}
        for seed in range(repeats):
            clf = fit(x, y, seed, inference=Exact(n_samples=M))
            u = quiet_uncertainty(clf, x_new)
            scores["probability"].append((u.proba[0, 1] - truth) / u.mcse[0, 1])
            scores["log evidence"].append((clf.log_evidence_ - log_z) / clf.log_evidence_error_)
        for name, found in scores.items():
            z = np.array(found)
            covered = 100 * np.mean(np.abs(z) < LEVEL)
            rms = np.sqrt(np.mean(z**2))
            rows.append((name, f"{n}", f"{repeats}", f"{rms:.2f}", f"{covered:.0f} %", f"{z.mean():+.2f}"))
    return table(
        ("number", "n", "repeats", "rms of error / reported error", "within 1.645 reported errors", "mean"),
        rows,
    )


def approximations() -> str:
    """Errors of the approximations, which report none."""
    rows = []
    x_new = np.linspace(-3, 3, 61)
    for n in (20, 200):
        x, y = data(n)
        truth, log_z = truths.linear_kernel_probability(x, y, x_new), truths.linear_kernel_log_evidence(x, y)
        for name in ("exact", "ep", "variational", "laplace"):
            clf = fit(x, y, inference=name)
            u = quiet_uncertainty(clf, x_new)
            worst = np.abs(u.proba[:, 1] - truth).max()
            stated = "none (NaN)" if np.isnan(u.mcse).all() else f"{np.nanmax(u.mcse):.1e}"
            rows.append(
                (
                    f"{n}",
                    name,
                    f"{worst:.1e}",
                    stated,
                    f"{clf.log_evidence_ - log_z:+.1e}",
                    clf.evidence_kind_,
                )
            )
    return table(
        (
            "n",
            "inference",
            "largest error of p(x)",
            "largest mcse",
            "error of log evidence",
            "kind of evidence",
        ),
        rows,
    )


def worry(repeats: int = 40) -> str:
    """k-hat and effective size against the true error, for even and uneven weights."""
    d = truths.product_problem(200, np.random.default_rng(0))
    product = truths.product_correlation(d), truths.product_correlation_log_probability(d)
    equal = truths.equicorrelated(100), truths.equicorrelated_log_probability(100)
    x, y = data(400)
    line = truths.probit_orthant(np.outer(x, x), y), truths.linear_kernel_log_evidence(x, y)
    cases = (
        ("linear kernel, n = 400", "guided", 1000, line),
        ("correlations ½, n = 100", "guided", 1000, equal),
        ("correlations d_i d_j, n = 200", "guided", 1000, product),
        ("correlations d_i d_j, n = 200", "sov", 1000, product),
        ("linear kernel, n = 400", "sov", 1000, line),
    )
    rows = []
    for name, method, M, (S, truth) in cases:
        found = [orthant_probability(S, method=method, n_samples=M, random_state=s) for s in range(repeats)]
        gaps = np.array([f.log_probability - truth for f in found])
        stated = np.median([f.standard_error for f in found])
        rms = np.sqrt(np.mean(gaps**2))
        rows.append(
            (
                name, method, f"{100 * np.median([f.ess for f in found]) / M:.1f} %",
                f"{np.median([f.khat for f in found]):.2f}", f"{stated:.1e}", f"{rms:.1e}", f"{rms / stated:.1f}",
            )
        )  # fmt: skip
    return table(
        (
            "problem",
            "method",
            "effective draws",
            "k-hat",
            "reported error",
            "true error",
            "true / reported",
        ),
        rows,
    )


def figure() -> str:
    """Two panels: the credible interval by amount of data, and the Monte Carlo error by number of draws."""
    fig, (left, right) = pyplot().subplots(1, 2, figsize=(10.0, 3.8), layout="constrained")
    grid = np.linspace(-3, 3, 121)
    for colour, n in zip(PALETTE, (20, 200), strict=False):
        x, y = data(n)
        u = quiet_uncertainty(fit(x, y), grid)
        left.fill_between(grid, u.lower[:, 1], u.upper[:, 1], color=colour, alpha=0.25, label=f"90 % interval, n = {n}")
        left.plot(grid, u.proba[:, 1], color=colour, label=f"computed, n = {n}")
        left.plot(grid[::8], truths.linear_kernel_probability(x, y, grid[::8]), ".", color="black", ms=4)
    left.plot([], [], ".", color="black", ms=4, label="closed form")
    left.set_xlabel("x")
    left.set_ylabel("p(y = 1 | x)")
    left.legend(frameon=False, fontsize=8)
    x, y = data(200)
    truth = truths.linear_kernel_probability(x, y, grid)
    sizes = (100, 400, 1600, 6400)
    stated, true = [], []
    for M in sizes:
        found = [quiet_uncertainty(fit(x, y, s, inference=Exact(n_samples=M)), grid) for s in range(8)]
        stated.append(np.mean([np.sqrt(np.mean(u.mcse[:, 1] ** 2)) for u in found]))
        true.append(np.sqrt(np.mean([(u.proba[:, 1] - truth) ** 2 for u in found])))
    right.loglog(sizes, stated, "o-", color=PALETTE[0], label="reported (mcse)")
    right.loglog(sizes, true, "^--", color=PALETTE[1], label="true error")
    right.set_xlabel("draws")
    right.set_ylabel("root mean square over x")
    right.legend(frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    fig.savefig(FIGURE, dpi=100)
    return (
        "![Left: probabilities with credible intervals for 20 and 200 points, the closed form on the curves. "
        "Right: reported and true Monte Carlo error against the number of draws.](figures/exact.png)"
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "two-errors": two_errors,
    "figure": figure,
    "calibration": calibration,
    "approximations": approximations,
    "worry": worry,
}


def update(text: str, name: str, block: str) -> str:
    """The page with the text between the markers of one block replaced."""
    pattern = rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)"
    if not re.search(pattern, text, flags=re.DOTALL):
        raise ValueError(f"docs/exact.md has no marks '<!-- {name}: begin -->' and '<!-- {name}: end -->'")
    return re.sub(pattern, lambda m: m[1] + block + "\n" + m[2], text, flags=re.DOTALL)


def blocks(names: list[str]) -> Iterator[tuple[str, str]]:
    """Measure the named blocks, or all."""
    for name in names or list(BLOCKS):
        if name not in BLOCKS:
            raise SystemExit(f"no block {name!r}; there are {', '.join(BLOCKS)}")
        yield name, BLOCKS[name]()


if __name__ == "__main__":
    for name, block in blocks(sys.argv[1:]):
        print(f"{name}\n{block}\n", flush=True)
        PAGE.write_text(update(PAGE.read_text(encoding="utf-8"), name, block), encoding="utf-8")
