"""The page on speed, docs/speed.md, from what :mod:`benchmarks.default_speed` has measured."""

import numpy as np

from benchmarks.common import HERE, cpu

PAGE = HERE.parent / "docs" / "speed.md"
FIGURE = HERE.parent / "docs" / "figures" / "speed.png"
SIZES = (50, 100, 200, 400, 800)
LONG = (100, 200, 500, 1000, 2000, 5000, 10_000)
NEW_ROWS = 2000
REPEATS = 5
ROWS_OF_MEMORY = 2000
RESTARTS = 5
SEEDS = 16  # repeated fits at the parameters found, whose spread is the true error
INFERENCES = ("laplace", "ep", "exact")
LIMITS = {  # multiples of scikit-learn's time that we want to stay below, by n
    "laplace": {200: 0.5, 400: 0.5, 800: 0.5},
    "ep": dict.fromkeys(SIZES, 1.5),
    "exact": {50: 5, 100: 5, 200: 5, 400: 5, 800: 1.2},
    "predict": {50: 15, 100: 15, 200: 15, 400: 5, 800: 5},
    "uncertainty": dict.fromkeys(SIZES, 2.0),
}


def write(kept):
    """The page, from what has been measured."""
    lines = [
        "# How fast is the default?",
        "",
        f"Made by `make bench-default` on {kept.get('cpu', cpu())}. All methods fit the kernel `1.0 * RBF(1.0)` by",
        "maximising their evidence.",
        "",
    ]
    if "small" in kept:
        lines += small_table(kept["small"])
    if "earlier" in kept:
        lines += [
            "",
            "## Against an earlier commit",
            "",
            f"Processor time of default fits, both in one run ({kept['earlier']['commit']} before).",
            "",
            "| data | before, s | now, s | times faster |",
            "|---|---:|---:|---:|",
            *(
                f"| {name} | {t['before']:.2f} | {t['now']:.2f} | {t['before'] / t['now']:.2f} |"
                for name, t in kept["earlier"]["times"].items()
            ),
        ]
    if "losses" in kept:
        lines += [
            "",
            "Held-out log loss of both, default fits on five folds:",
            "",
            "| data | before | now | difference |",
            "|---|---:|---:|---:|",
            *(
                f"| {name} | {t['before']:.4f} | {t['now']:.4f} | {t['now'] - t['before']:+.4f} |"
                for name, t in kept["losses"].items()
            ),
        ]
    if "threads" in kept:
        lines += [
            "",
            "## Threads",
            "",
            "Elapsed time of a default fit of the problem above with one and with two threads of the linear algebra",
            f"library; medians of {REPEATS}.",
            "",
            "| n | one thread, s | two threads, s | times faster |",
            "|---:|---:|---:|---:|",
            *(f"| {n} | {t['1']:.2f} | {t['2']:.2f} | {t['1'] / t['2']:.2f} |" for n, t in kept["threads"].items()),
        ]
    if "memory" in kept:
        lines += [
            "",
            "## Memory",
            "",
            f"Peak of a fit with n = {ROWS_OF_MEMORY:,} rows of the problem above, in n² numbers of eight bytes;",
            "`exact` keeps its draws, n numbers each, of four bytes where these serve.",
            "",
            "| method | peak | draws | without them |",
            "|---|---:|---:|---:|",
            *(
                f"| {name} | {top:.1f} | {draws:.1f} | {top - draws:.1f} |"
                for name, (top, draws) in kept["memory"].items()
            ),
        ]
    if "curve" in kept:
        lines += [
            "",
            "## Time against n",
            "",
            "Processor seconds of one fit of the problem above with n rows, one thread, in its own process, as far",
            "as a fit takes minutes at most; and the slope of log time against log n over the largest three sizes.",
            "GPyTorch's variational GP ends when its bound gains less than a ten-thousandth in 20 steps of Adam.",
            "Measured in several runs, `exact` last; its largest size beside other work, and so too long.",
            "",
            "![Time of a fit against n](figures/speed.png)",
            "",
            "| n | " + " | ".join(kept["curve"]) + " |",
            "|---:|" + "---:|" * len(kept["curve"]),
        ]
        for n in map(str, LONG):
            row = [f"{kept['curve'][method][n]:.2f}" if n in kept["curve"][method] else "" for method in kept["curve"]]
            if any(row):
                lines.append(f"| {n} | " + " | ".join(row) + " |")
        lines.append("| slope | " + " | ".join(f"{slope(t):.1f}" for t in kept["curve"].values()) + " |")
        draw(kept["curve"])
    PAGE.write_text("\n".join(lines) + "\n")


def small_table(found):
    """Multiples of scikit-learn's times."""
    lines = [
        "## Small problems",
        "",
        f"Multiples of scikit-learn's `GaussianProcessClassifier` (fit, and `predict_proba` of {NEW_ROWS:,} rows;",
        f"three features, one thread, processor time, medians of {REPEATS} with their own random numbers),",
        "`predict_uncertainty` as a multiple of",
        "`predict_proba`. In brackets what we aim at. The last columns: draws of the exact fit; at the training rows,",
        "where `tol` is 0.001, the largest stated Monte Carlo error, which is itself known to a fifth, and the true",
        f"one, of {SEEDS} fits at the same parameters, over the twentieth of the rows with the largest stated errors;",
        f"and by how many nats the best of {RESTARTS} restarts of EP surpasses one ascent.",
        "",
        "| n | laplace fit | ep fit | exact fit | exact predict | uncertainty | draws | largest mcse | true error "
        "| restarts gain |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for n, one in found.items():
        t = one["times"]
        row = [(name, t[f"{name} fit"] / t["scikit-learn fit"]) for name in INFERENCES]
        row += [
            ("predict", t["exact predict"] / t["scikit-learn predict"]),
            ("uncertainty", t["exact uncertainty"] / t["exact predict"]),
        ]
        cells = [f"{value:.2g}" + _aim(name, int(n)) for name, value in row]
        tail = f"{one['draws']:,} | {one['mcse']:.1e} | {one['true']:.1e} | {one['behind']:.3f}"
        lines.append(f"| {n} | " + " | ".join(cells) + f" | {tail} |")
    return lines


def _aim(name, n):
    limit = LIMITS[name].get(n)
    return "" if limit is None else f" ({limit:g})"


def slope(times):
    """Of log time against log n, over the largest three sizes."""
    n, t = np.array([(float(n), value) for n, value in times.items()][-3:]).T
    return float(np.polyfit(np.log(n), np.log(t), 1)[0])


def draw(curves):
    """The figure."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6, 4))
    for method, times in curves.items():
        ax.loglog([int(n) for n in times], list(times.values()), "o-", label=f"{method} (slope {slope(times):.1f})")
    ax.set(xlabel="rows", ylabel="seconds of a fit")
    ax.legend(frameon=False)
    fig.savefig(FIGURE, dpi=120, bbox_inches="tight")
