"""The table and the figure of docs/sbc.md, from the counts in sbc.json: ``python -m benchmarks.sbc_page``."""

import json
from textwrap import fill

import numpy as np

from benchmarks.common import HERE, cpu
from benchmarks.sbc import KEPT, L_THETA, L, N, cases
from benchmarks.uniformity import chi_square, envelope, gaps, holm, largest_gap
from gpclass.plots._style import PALETTE, pyplot

PAGE = HERE.parent / "docs" / "sbc.md"
FIGURE = HERE.parent / "docs" / "figures" / "sbc.png"
ENOUGH, FEW = 500, 100  # simulations of a case that is shown; few suffice to find a spoiled one
PANELS = {
    "two classes, dense": lambda c: (c.classes, c.form) == ("two", "dense"),
    "many classes, dense": lambda c: (c.classes, c.form) == ("many", "dense"),
    "two classes, inducing": lambda c: (c.classes, c.form) == ("two", "inducing"),
    "many classes, inducing": lambda c: (c.classes, c.form) == ("many", "inducing"),
}


def judged(kept):
    """Per case with enough simulations: the smallest p-value of both tests, for the number of quantities (Bonferroni).

    Then corrected for the number of exact cases (Holm); spoiled and approximate ones are judged on their own.
    """
    found = []
    for case in cases():
        run = kept.get(case.key, {"simulations": 0})
        if run["simulations"] >= (FEW if case.kind == "spoiled" else ENOUGH):
            counts = list(run["counts"].values())
            chi, gap = (min(1.0, len(counts) * min(test(c) for c in counts)) for test in (chi_square, largest_gap))
            found.append({"case": case, "run": run, "chi": chi, "gap": gap, "p": min(1.0, 2 * min(chi, gap))})
    exact = [row for row in found if row["case"].kind == "exact"]
    for row, p in zip(exact, holm([row["p"] for row in exact]), strict=True):
        row["p"] = p
    return found


def figure(found):
    """Gaps of the distribution functions of all ranks, with the envelope of uniform ones."""
    fig, axes = pyplot().subplots(2, 3, figsize=(11.0, 5.6), layout="constrained", sharex=True)
    panels = {name: [r for r in found if r["case"].strategy == "fixed" and r["case"].kind == "exact" and of(r["case"])]
              for name, of in PANELS.items()}  # fmt: skip
    panels["chains over θ"] = [r for r in found if r["case"].strategy != "fixed" and r["case"].kind != "spoiled"]
    panels["spoiled"] = [r for r in found if r["case"].kind == "spoiled"]
    for ax, (name, rows) in zip(axes.flat, panels.items(), strict=True):
        for row in rows:
            for counts in row["run"]["counts"].values():
                t = np.arange(len(counts) + 1) / len(counts)
                ax.plot(t, np.r_[0.0, gaps(counts), 0.0], color=PALETTE[name == "spoiled"], alpha=0.5, lw=0.8)
        bins = {(len(c), row["run"]["simulations"]) for row in rows for c in row["run"]["counts"].values()}
        for size, simulations in bins:
            limit = np.r_[0.0, envelope(size, simulations), 0.0]
            t = np.arange(size + 1) / size
            ax.fill_between(t, -limit, limit, color="0.85", zorder=0, lw=0)
        ax.set_title(f"{name} ({sum(len(r['run']['counts']) for r in rows)} curves)", fontsize=9)
        ax.axhline(0.0, color="0.5", lw=0.5)
        ax.label_outer()
    for ax in axes[:, 0]:
        ax.set_ylabel("share of ranks below − t")
    for ax in axes[-1]:
        ax.set_xlabel("t, rank over its largest value")
    FIGURE.parent.mkdir(exist_ok=True)
    fig.savefig(FIGURE, dpi=100)


def table(rows):
    """One line per case."""
    lines = [
        "| inference | θ | classes | prior | likelihood | simulations | χ² | largest gap | corrected | run again |",
        "|---|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        c, run = row["case"], row["run"]
        lines.append(
            f"| {c.inference} | {c.strategy} | {c.classes} | {c.form} | {c.likelihood} | {run['simulations']} "
            f"| {row['chi']:.2g} | {row['gap']:.2g} | {row['p']:.2g} | {run['longer']} |"
        )
    return "\n".join(lines)


def write(kept):
    """The page and its figure."""
    found = judged(kept)
    figure(found)
    by = {kind: [row for row in found if row["case"].kind == kind] for kind in ("exact", "approximate", "spoiled")}
    curves = sum(len(row["run"]["counts"]) for row in by["exact"])
    least = min((row["p"] for row in by["exact"]), default=1.0)
    total = sum(case.kind == "exact" for case in cases())
    parts = [
        "# Do the samplers sample the posterior?",
        _wrapped(
            f"""Simulation-based calibration: θ and the latent values are drawn from the prior, {N} labels from the
            likelihood, and the true values are ranked among {L} draws of the posterior ({L_THETA} where θ is sampled as
            well). If the method samples the posterior, all ranks have the same probability. Ranked are the latent value
            at a new point, log p(y | f) of all rows and of one, and θ; with inducing inputs log p(y | u) instead. The
            likelihoods depend on the labels: a method that returns the prior fails by them alone."""
        ),
        _wrapped(
            """Draws are taken by their weights from ten times as many effective ones, and chains over θ are thinned to
            their effective size; a run that is too short for this is replaced by one of twice the length (*run again*).
            Columns *χ²* and *largest gap* are the smallest p-values of the χ² test and of the largest gap between the
            distribution function of the ranks and the uniform one, multiplied by the number of ranked quantities;
            *corrected* is the smaller of both, corrected for there being two tests and, by Holm's method, for the
            number of exact combinations."""
        ),
        _wrapped(
            f"""Of {total} exact combinations {len(by["exact"])} have run, with {curves} sets of ranks; the smallest
            corrected p-value is {least:.2g}. Made by `python -m benchmarks.sbc` on {cpu()}."""
        ),
        "![Distribution functions of ranks less the uniform one](figures/sbc.png)",
        _wrapped(
            """Each curve is the distribution function of the ranks of one quantity under one method, less the uniform
            one. Uniform ranks stay within the grey band with probability 0.95, curve by curve."""
        ),
        table(by["exact"]),
        "## Approximate",
        _wrapped(
            """`hmc` over θ samples the posterior under EP's evidence, not the exact one. With so few rows EP's error is
            smaller than what these simulations can show, so that they do test the dynamics; only θ is ranked.
            `laplace`, `ep`, `variational` and `amp` draw nothing at a fixed θ, and are left out."""
        ),
        table(by["approximate"]),
        "## Spoiled on purpose",
        _wrapped(
            """The tests must find these: elliptical slices under the square root of the likelihood, draws of the prior
            in place of the posterior, and a pseudo-marginal chain that believes in another prior of θ."""
        ),
        table(by["spoiled"]),
    ]
    PAGE.write_text("\n\n".join(parts) + "\n")


def _wrapped(text):
    return fill(" ".join(text.split()), 120)


if __name__ == "__main__":
    write(json.loads(KEPT.read_text()))
