"""Effective draws of θ per processor second, beside an earlier commit: ``python -m benchmarks.bayes``.

    git worktree add --detach PATH COMMIT && python -m benchmarks.bayes --before PATH

runs what ``bayes.json`` does not hold yet, a process for each case and side, and writes table and figure of
``docs/bayes.md``. The earlier commit's chains are its own defaults with 500 draws per chain, those of this one with its
own 200; both counts include the warm-up. Filippone's scheme, annealed estimates under a random walk, is the third side;
``alternate``, latent values and θ in turn, is measured on both commits.
Give the names of data sets to run some, ``--sides`` for some sides, ``--page`` to write the page alone.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.common import HERE, between, cpu

KEPT = HERE / "bayes.json"
PAGE = HERE.parent / "docs" / "bayes.md"
FIGURE = HERE.parent / "docs" / "figures" / "bayes.png"
DATA, SMALL, ALTERNATED = ("thyroid", "glass", "pima", "breast"), ("thyroid", "glass"), ("thyroid", "glass", "pima")
SIDES = {
    "before": ("exact", 500), "annealed": ("annealed", 500), "now": ("exact", 200),
    "alternate before": ("alternate", 500), "alternate now": ("alternate", 200),
}  # method and draws per chain  # fmt: skip
LABELS = {"before": "random walk", "annealed": "annealed, random walk", "now": "fitted trajectories"}
MARK = "<!-- measured -->"


def cases():
    """Covariance, data and side of every run; annealed chains on isotropic sets, alternating on small ones."""
    few = {"annealed": DATA, "alternate before": SMALL, "alternate now": ALTERNATED}
    for covariance in ("isotropic", "ard"):
        for data in DATA:
            for side in SIDES:
                if side not in few or (data in few[side] and covariance == "isotropic"):
                    yield covariance, data, side


def kept():
    """The stored results."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def keep(key, result):
    """Store one result."""
    KEPT.write_text(json.dumps({**kept(), key: result}, indent=1) + "\n")


def measure(covariance, data, side, before):
    """One run in its own process, on the earlier commit's sources if the side asks for it."""
    method, draws = SIDES[side]
    root = HERE.parent if side.endswith("now") else Path(before)
    if not side.endswith("now"):
        shutil.copy(HERE / "bayes_run.py", root / "benchmarks" / "bayes_run.py")
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    path = os.pathsep.join([str(root / "src"), str(root)])
    command = [sys.executable, "-m", "benchmarks.bayes_run", data, covariance, method, str(draws)]
    found = subprocess.run(
        command, cwd=root, env={**os.environ, **threads, "PYTHONPATH": path}, check=True, stdout=subprocess.PIPE
    )
    return {**json.loads(found.stdout), "cpu": cpu()}


def rows(stored):
    """One line per case: both sides, their effective draws per second and per iteration, and the ratio."""
    for covariance in ("isotropic", "ard"):
        for data in DATA:
            now, before = (stored.get(f"{covariance} / {data} / {side}") for side in ("now", "before"))
            if now is None or before is None:
                continue
            rate, old = (one["effective"] / one["seconds"] for one in (now, before))
            share, old_share = (one["effective"] / (one["chains"] * one["draws"]) for one in (now, before))
            yield {
                "covariance": covariance, "data": data, "n": now["rows"], "p": now["parameters"], "rhat": now["rhat"],
                "share": share, "old_share": old_share, "rate": rate, "old": old, "ratio": rate / old,
                "gap": agreement(now, before),
            }  # fmt: skip


def agreement(now, before):
    """Largest difference of two posterior means over its Monte Carlo error."""
    each = zip(now["mean"], before["mean"], now["mcse"], before["mcse"], strict=True)
    return max(abs(a - b) / (e * e + f * f) ** 0.5 for a, b, e, f in each)


def table(stored):
    """The table of the page."""
    head = (
        "| covariance | data | n | parameters | effective per draw, before | now | effective per second, before | now "
        "| ratio | R-hat now | difference of means, errors |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    lines = "".join(
        f"| {r['covariance']} | {r['data']} | {r['n']} | {r['p']} | {r['old_share']:.3f} | {r['share']:.2f} | "
        f"{r['old']:.2g} | {r['rate']:.3g} | **{r['ratio']:.0f}** | {r['rhat']:.3f} | {r['gap']:.1f} |\n"
        for r in rows(stored)
    )
    annealed = "".join(
        f"| {data} | {one['effective'] / (one['chains'] * one['draws']):.3f} | "
        f"{one['effective'] / one['seconds']:.2g} | {one['accepted']:.2f} | {one['rhat']:.2f} | "
        f"**{now['effective'] / now['seconds'] / (one['effective'] / one['seconds']):.0f}** |\n"
        for data in DATA
        if (one := stored.get(f"isotropic / {data} / annealed")) and (now := stored.get(f"isotropic / {data} / now"))
    )
    if annealed:
        annealed = (
            "\nAnnealed estimates under a random walk (ten particles from Laplace's Gaussian, Filippone 2014):\n\n"
            "| data | effective per draw | effective per second | accepted | R-hat | `pseudo-marginal` over it |\n"
            "|---|---|---|---|---|---|\n" + annealed
        )
    return head + lines + annealed + alternating(stored)


def alternating(stored):
    """The table of latent values and θ in turn."""
    lines = ""
    for data in ALTERNATED:
        old, new, default = (
            stored.get(f"isotropic / {data} / {s}") for s in ("alternate before", "alternate now", "now")
        )
        if new and default:
            rates = [one["effective"] / one["seconds"] if one else np.nan for one in (old, new, default)]
            shares = [
                one["effective"] / (one["chains"] * one["draws"]) if one else np.nan for one in (old, new, default)
            ]
            before = (f"{shares[0]:.3f}", f"{rates[0]:.2g}", f"**{rates[1] / rates[0]:.0f}**") if old else ("",) * 3
            lines += (
                f"| {data} | {before[0]} | {shares[1]:.2f} | {shares[2]:.2f} | {before[1]} | {rates[1]:.3g} | "
                f"{before[2]} | {rates[2] / rates[1]:.1f} | {new['rhat']:.3f} | {agreement(new, default):.1f} |\n"
            )
    head = (
        "\nLatent values and θ in turn (`alternate` around EP's Gaussian), and how many times faster `pseudo-marginal` "
        "is:\n\n| data | effective per draw, before | now | `pseudo-marginal` | effective per second, before | now "
        "| ratio | `pseudo-marginal` over it | R-hat now | difference of means, errors |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n"
    )
    return lines and head + lines


def figure(stored):
    """Effective draws per second of all sides."""
    from gpclass.plots._style import PALETTE, pyplot

    fig, ax = pyplot().subplots(figsize=(7.5, 3.2), layout="constrained")
    names = [f"{r['data']}\n{r['covariance']}" for r in rows(stored)]
    for k, side in enumerate(LABELS):
        for i, r in enumerate(rows(stored)):
            one = stored.get(f"{r['covariance']} / {r['data']} / {side}")
            if one:
                ax.bar(i + 0.27 * (k - 1), one["effective"] / one["seconds"], 0.25, color=PALETTE[k])
    for k, label in enumerate(LABELS.values()):
        ax.bar(0, 0, color=PALETTE[k], label=label)
    ax.set_xticks(range(len(names)), names, fontsize=8)
    ax.set_yscale("log")
    ax.set_ylabel("effective draws per\nprocessor second")
    ax.legend(fontsize=8, frameon=False)
    fig.savefig(FIGURE, dpi=150)


def page():
    """Write table and figure."""
    stored = kept()
    between(PAGE, MARK, table(stored))
    figure(stored)
    print(table(stored))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", help=f"of {', '.join(DATA)}; all by default")
    parser.add_argument("--sides", nargs="*", choices=SIDES, default=list(SIDES), help="all by default")
    parser.add_argument("--before", help="checkout of an earlier commit")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    asked = parser.parse_args()
    for covariance, data, side in () if asked.page else cases():
        key = f"{covariance} / {data} / {side}"
        wanted = data in (asked.data or DATA) and side in asked.sides
        if key in kept() or not wanted or (not side.endswith("now") and asked.before is None):
            continue
        keep(key, measure(covariance, data, side, asked.before))
        print(key, kept()[key]["effective"], kept()[key]["seconds"], flush=True)
    page()


if __name__ == "__main__":
    main()
