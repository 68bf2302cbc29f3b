"""Real maps beside GPBoost: ``python -m benchmarks.scale_real --peer path/to/its/python``.

Three maps of ``GPCLASS_DATA``, coordinates alone, divided by the larger side: *walker*, 10,000 random cells of the
exhaustive grid (V above 500 ppm) and 2,000 others to predict; *jura*, Kimmeridgian rock on its grid, 2,000 of 5,957
cells to predict; *storms*, fixes of Atlantic storms of hurricane force, a fifth of the storms to predict. Fits, times,
storing and stopping are those of :mod:`benchmarks.scale`; results are in ``scale_real.json``, and ``--page`` writes the
table of docs/scale.md.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import HERE, cpu
from benchmarks.scale import PAGE, replaced, run

KEPT = HERE / "scale_real.json"
BEGIN, END = "<!-- real maps: begin -->", "<!-- real maps: end -->"
METHODS = (
    "inducing 300, ep",
    "neighbours 15, laplace",
    "neighbours 15, ep",
    "local 60, ep",
    "GPBoost Vecchia 20",
    "GPBoost VIF 20, 200",
)
SEED = 0


def folder():
    """Where the tables are."""
    return Path(os.environ.get("GPCLASS_DATA", HERE.parent.parent / "shared" / "data"))


def walker(rng):
    table = pd.read_csv(folder() / "walker_exhaustive.csv.gz")
    rows = rng.permutation(len(table))[:12_000]
    return table[["x_m", "y_m"]].to_numpy(float)[rows], table["label"].to_numpy()[rows], np.arange(12_000) >= 10_000


def jura(rng):
    table = pd.read_csv(folder() / "jura_grid.csv")
    test = np.zeros(len(table), dtype=bool)
    test[rng.permutation(len(table))[:2_000]] = True
    return table[["x_km", "y_km"]].to_numpy(float), (table["rock"] == 2).to_numpy().astype(int), test


def storms(rng):
    table = pd.read_csv(folder() / "atlantic_storms.csv.gz")
    names = table["id_storm"].unique()
    some = rng.permutation(names)[: len(names) // 5]
    return table[["lon", "lat"]].to_numpy(float), table["label"].to_numpy(), table["id_storm"].isin(some).to_numpy()


MAPS = {"walker": walker, "jura": jura, "storms": storms}
SAID = {
    "walker": "10,000 cells of Walker Lake (V above 500 ppm)",
    "jura": "the Kimmeridgian rock of the Jura on its grid",
    "storms": "places where Atlantic storms had hurricane force, a fifth of the storms to predict",
}


def split(name):
    """Arrays of one map, in the form of :func:`benchmarks.scale.field` without the true probabilities."""
    X, y, test = MAPS[name](np.random.default_rng(SEED))
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0).max()
    return {"X": X[~test], "y": y[~test], "X_test": X[test], "y_test": y[test]}


def write_page(kept):
    """The table of docs/scale.md."""
    said = "; ".join(text for name, text in SAID.items() if any(key.startswith(f"{name} ") for key in kept))
    lines = [f"Real maps, by `python -m benchmarks.scale_real`: {said}.", ""]
    lines += ["| map | rows | method | log loss | CPU s | peak MB |", "|---|" + 5 * "---|"]
    for key, row in sorted(kept.items(), key=lambda item: (list(MAPS).index(item[0].split()[0]), item[0])):
        name, method = key.split(" ", 1)
        if "stopped" in row:
            cells = ["stopped", row["stopped"], ""]
        else:
            cells = [f"{row['log_loss']:.4f}", f"{row['seconds']:.0f}", f"{row['memory_mb']:.0f}"]
        lines.append(f"| {name} | {row['rows']:,} | {method} | {' | '.join(cells)} |")
    replaced(PAGE, BEGIN, END, [*lines, "", f"One thread, {cpu()}, beside other work."])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=sys.executable, help="a Python that has gpboost")
    parser.add_argument("--maps", nargs="+", default=list(MAPS))
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--most", type=int, default=900, help="CPU seconds of a fit")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in [] if given.page else given.maps:
        data = split(name)
        for method in given.methods:
            key = f"{name} {method}"
            if key in kept:
                continue
            kept[key] = {**run(method, data, given.peer, given.most), "rows": len(data["y"])}
            print(key, kept[key], flush=True)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    write_page(kept)


if __name__ == "__main__":
    main()
