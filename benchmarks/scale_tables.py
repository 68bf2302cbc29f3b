"""The local prior on tables: magic, htru2 and electricity. ``python -m benchmarks.scale_tables --peer PYTHON``.

Splits are those of :mod:`benchmarks.sparse`, whose runs of GPyTorch's SVGP, tuned on the test rows, stand beside; with
inducing inputs the evidence is climbed to its end, and until held-out rows no longer improve. Fits are those of
:mod:`benchmarks.scale_covtype`, LightGBM by the Python of ``--peer``.
Results are stored in ``scale_tables.json`` and not computed again; ``--page`` only writes the table of docs/scale.md.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import HERE, cpu
from benchmarks.scale import PAGE, replaced
from benchmarks.scale_covtype import METHODS, apart
from benchmarks.sparse import known, load_split

KEPT = HERE / "scale_tables.json"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
SETS = ("magic", "htru2", "electricity")
SAME = 1e-4  # difference of the log losses of two runs of one setting, whose sums may round otherwise


def svgp(runs):
    """The name of the peer's best setting, tuned on the test rows, and its last race if that was with this setting."""
    best = min(runs.get("grid", []), key=lambda run: run["log_loss"], default=None)
    if best is None:
        return "SVGP", runs.get("peer")
    raced = runs.get("peer", best)
    same = abs(raced["log_loss"] - best["log_loss"]) < SAME
    return f"SVGP, m = 300, {best['steps']:,} steps", raced if same else best


def write_page(kept):
    """The table of docs/scale.md."""
    lines = ["The tables of the races above, by `python -m benchmarks.scale_tables`:", ""]
    lines += ["| table | rows | method | test log loss | CPU s |", "|---|---:|---|---:|---:|"]
    for name in SETS:
        own = [(method, kept.get(f"{name} {method}")) for method in METHODS]
        if not any(row for _, row in own):
            continue
        n = next(row["rows"] for _, row in own if row)
        for method, row in [*own, svgp(known().get(name, {}))]:
            if row:
                method = method.replace("auto", f"auto ({row.get('m')})")
                lines.append(f"| {name} | {n:,} | {method} | {row['log_loss']:.4f} | {row['seconds']:.0f} |")
    note = f"One thread, {cpu()}, beside other work. SVGP at its best rate, with as many steps as lower its loss."
    replaced(PAGE, BEGIN, END, [*lines, "", note])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=sys.executable, help="a Python that has lightgbm")
    parser.add_argument("--tables", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in [] if given.page else given.tables:
        X, y, X_test, y_test = load_split(name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.npz"
            np.savez(path, X=X, y=y, X_test=X_test, y_test=y_test)
            for method in given.methods:
                if f"{name} {method}" not in kept:
                    kept[f"{name} {method}"] = {**apart(method, path, len(y), given.peer), "rows": len(y)}
                    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    write_page(kept)


if __name__ == "__main__":
    main()
