"""Maps of many samples, beside GPBoost: ``python -m benchmarks.scale --peer path/to/its/python``.

A Gaussian field on the unit square, Matérn-3/2 with variance 4 and a range of .02, .08 or .3, gives probit labels at n
random places; 2,000 further places are predicted, whose true probabilities p are known: the log loss expected under
them has no noise of the test labels. Each fit learns the variance and the range from the labels, in a process of its
own with one thread; its CPU seconds include the start of Python, the fit and the prediction. A run that takes longer
than ``--most`` CPU seconds is stopped and counted as such, and more rows of its kind are not tried. Results are stored
after every fit in ``scale.json``, and a fit that is stored is not repeated; ``--page`` writes the table and the figure
of docs/scale.md from it.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.fft import fft2
from scipy.ndimage import map_coordinates
from scipy.special import ndtr

from benchmarks.common import HERE, cpu, record
from benchmarks.scale_child import METHODS

KEPT = HERE / "scale.json"
PAGE = HERE.parent / "docs" / "scale.md"
FIGURE = HERE.parent / "docs" / "figures" / "scale_maps.png"
SIZES, RANGES = (2_000, 10_000, 50_000, 200_000, 1_000_000), (0.02, 0.08, 0.3)
FROM = 10_000  # rows from which exponents are measured
TEST, GRID, VARIANCE = 2_000, 2048, 4.0
COLUMNS = {"log_loss": 4, "expected": 4, "error_of_p": 4, "seconds": 0, "memory_mb": 0}  # and their digits
BEGIN, END = "<!-- scale: begin -->", "<!-- scale: end -->"


def field(n, reach, seed=0):
    """Places, labels and probabilities of n + ``TEST`` samples: a periodic field on a grid, read by cubic splines."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n + TEST, 2))
    width = 2.0 if reach < 0.15 else 4.0  # of the periodic square, so that opposite sides are independent
    step = width / GRID
    gap = np.minimum(np.arange(GRID), GRID - np.arange(GRID)) * step
    t = np.sqrt(3.0 * (gap[:, None] ** 2 + gap**2)) / reach
    spectrum = np.maximum(fft2(VARIANCE * (1.0 + t) * np.exp(-t)).real, 0.0)
    noise = rng.standard_normal((GRID, GRID)) + 1j * rng.standard_normal((GRID, GRID))
    f = map_coordinates(fft2(np.sqrt(spectrum) / GRID * noise).real, X.T / step, order=3, mode="grid-wrap")
    p = ndtr(f)
    y = (rng.uniform(size=len(p)) < p).astype(int)
    return {"X": X[:n], "y": y[:n], "p": p[:n], "X_test": X[n:], "y_test": y[n:], "p_test": p[n:]}


def hopeless(kept, n, reach, method, most):
    """Why a fit need not be tried: what fewer rows took."""
    for fewer in SIZES:
        row = kept.get(f"{fewer} {reach:g} {method}", {})
        if fewer < n and row.get("seconds", row.get("limit", 0.0)) >= most:
            return f"not tried: {fewer:,} rows take more than {most} s"
    return None


def run(method, data, peer, most):
    """The figures of one fit, or what stopped it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **data)
        python = peer if method.startswith("GPBoost") else sys.executable
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most))  # noqa: E731
        child = subprocess.run(
            [python, str(HERE / "scale_child.py"), method, str(path)], capture_output=True, text=True, preexec_fn=limit
        )
    if child.returncode == 0:
        return json.loads(child.stdout.splitlines()[-1])
    if child.returncode in (-24, -9):  # the limit of CPU seconds
        return {"stopped": f"more than {most} s", "limit": most}
    return {"stopped": child.stderr.strip().splitlines()[-1]}


def best(data):
    """Log loss of the true probabilities."""
    p = data["p_test"]
    return -float(np.mean(np.log(np.where(data["y_test"] == 1, p, 1.0 - p))))


def figure(kept):
    """Log loss above that of the true p, against CPU seconds, one panel per range."""
    from gpclass.plots._style import PALETTE, pyplot

    fig, axes = pyplot().subplots(1, len(RANGES), figsize=(11.0, 3.6), layout="constrained", sharey=True)
    for ax, reach in zip(axes, RANGES, strict=True):
        for colour, method in zip(PALETTE, METHODS, strict=False):
            rows = [kept.get(f"{n} {reach} {method}", {}) for n in SIZES]
            rows = [row for row in rows if "seconds" in row]
            if rows:
                above = [row["log_loss"] - row["best"] for row in rows]
                ax.plot([row["seconds"] for row in rows], above, "o-", color=colour, label=method, ms=4, lw=1)
        ax.set(xscale="log", yscale="log", xlabel="CPU seconds, fit and prediction", title=f"range {reach:g}")
    axes[0].set_ylabel("log loss above that of the true p")
    lines = {line.get_label(): line for ax in axes for line in ax.get_lines()}
    axes[-1].legend(handles=[lines[method] for method in METHODS if method in lines], fontsize=7)
    fig.savefig(FIGURE, dpi=110)


def table(kept):
    """Rows of the page."""
    lines = [
        "| rows | range | method | log loss | expected under the true p | mean error of p | CPU s | peak MB |",
        "|---|---|---|" + 5 * "---:|",
    ]
    for key, row in sorted(kept.items(), key=lambda item: (*map(float, item[0].split()[:2]), item[0])):
        n, reach, method = key.split(" ", 2)
        if method not in METHODS:
            continue
        if "stopped" in row:
            cells = ["stopped", row["stopped"], "", "", ""]
        else:
            cells = [f"{row[name]:.{digits}f}" for name, digits in COLUMNS.items()]
        lines.append(f"| {int(n):,} | {reach} | {method} | {' | '.join(cells)} |")
    return lines


def exponents(kept, reach=0.08):
    """Powers of the rows with which the CPU seconds of each method grow, from ``FROM`` rows to its most."""
    said = []
    for method in METHODS:
        found = {n: kept.get(f"{n} {reach:g} {method}", {}).get("seconds") for n in SIZES if n >= FROM}
        found = {n: seconds for n, seconds in found.items() if seconds}
        if len(found) > 1:
            least, most = min(found), max(found)
            power = np.log(found[most] / found[least]) / np.log(most / least)
            said.append(f"{power:.2f} for {method} ({least:,} to {most:,} rows)")
    return f"CPU seconds grow with the rows to the power {'; '.join(said)}, at a range of {reach:g}." if said else ""


def processors(kept):
    """The kinds of processor, with the ranges that were run on each if there are several."""
    ranges = {}
    for key, row in kept.items():
        ranges.setdefault(row["cpu"], set()).add(key.split()[1])
    if len(ranges) == 1:
        return next(iter(ranges))
    return " and ".join(f"{kind} (range {', '.join(sorted(at))})" for kind, at in sorted(ranges.items()))


def write_page(kept):
    """The table and the figure of docs/scale.md."""
    figure(kept)
    losses = [row["best"] for row in kept.values()]
    note = (
        f"Log loss of the true probabilities: {min(losses):.4f} to {max(losses):.4f}. One thread, {processors(kept)}."
    )
    replaced(PAGE, BEGIN, END, [*table(kept), "", note, "", exponents(kept)])


def replaced(page, begin, end, lines):
    """Write a page with other lines between two marks."""
    head, _, rest = page.read_text().partition(begin)
    page.write_text("\n".join([f"{head}{begin}", *lines, f"{end}{rest.partition(end)[2]}"]))


def store_headline(kept, n=50_000, most=1_000_000, reach=0.08):
    """Log loss and time beside GPBoost's, and the cost of the most rows, for the README."""
    ours, theirs = (kept.get(f"{n} {reach:g} {method}", {}) for method in ("neighbours 15, ep", "GPBoost VIF 20, 200"))
    largest = kept.get(f"{most} {reach:g} neighbours 15, ep", {})
    if not all("log_loss" in row for row in (ours, theirs, largest)):
        return
    losses = ", ".join(f"{row['log_loss']:.4f}" for row in (ours, theirs))
    cost = f"{largest['seconds'] / 60:.0f} minutes, {largest['memory_mb'] / 1024:.1f} GiB"
    rows = [
        (f"n = {n:,}: log loss, GPBoost's", losses, ""),
        ("time as a multiple of GPBoost's", f"{ours['seconds'] / theirs['seconds']:.2f}", ""),
        (f"n = {most:,}: time of one core, peak memory", cost, ""),
    ]
    record("Maps with neighbours", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=sys.executable, help="a Python that has gpboost")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--ranges", type=float, nargs="+", default=RANGES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--most", type=int, default=900, help="CPU seconds of a fit")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if not given.page:
        for n in given.sizes:
            for reach in given.ranges:
                data = None
                for method in given.methods:
                    key = f"{n} {reach:g} {method}"
                    if key in kept:
                        continue
                    data = field(n, reach) if data is None else data
                    why = hopeless(kept, n, reach, method, given.most)
                    found = {"stopped": why} if why else run(method, data, given.peer, given.most)
                    found |= {"best": best(data), "cpu": cpu()}
                    print(key, found, flush=True)
                    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
                    KEPT.write_text(json.dumps({**kept, key: found}, indent=1) + "\n")
                    kept = json.loads(KEPT.read_text())
    write_page(kept)
    store_headline(kept)


if __name__ == "__main__":
    main()
