"""Maps over several fields, with standard errors. ``python -m benchmarks.scale_fields --peer path/to/its/python``.

Log losses of :mod:`benchmarks.scale` are those of one field at 2,000 places, where differences of a thousandth may be
chance. Here ``FIELDS`` fields of each size and range are simulated, and every method is compared with GPBoost place by
place, the standard error being that of the mean of the paired differences over all places of all fields. The true
probabilities p are known, so the expected log loss, Σ over both labels with weights p and 1 − p, is compared too: it
has no noise of the test labels. Results are stored field by field in ``scale_fields.json``; ``--minutes`` and
``--page`` as elsewhere.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.common import HERE, cpu
from benchmarks.scale import PAGE, RANGES, field, replaced

KEPT = HERE / "scale_fields.json"
BEGIN, END = "<!-- fields: begin -->", "<!-- fields: end -->"
FIELDS = {2_000: 4, 10_000: 1}  # rows, and fields of each range
PEER = "GPBoost Vecchia 20"
METHODS = ["neighbours 15, ep", "neighbours auto, ep", "neighbours 15, laplace", PEER]


def probabilities(method, path, peer):
    """Predicted probabilities of a method, and its figures, from a process of its own."""
    kept = path.with_name("p.npy")
    python = peer if method == PEER else sys.executable
    command = [python, str(HERE / "scale_child.py"), method, str(path), str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True)
    return np.load(kept), json.loads(done.stdout.splitlines()[-1])


def losses(data, p):
    """Log loss at each place, and its expectation under the true probabilities."""
    truth = data["p_test"]
    return (
        -np.log(np.where(data["y_test"] == 1, p, 1.0 - p)),
        -(truth * np.log(p) + (1.0 - truth) * np.log1p(-p)),
    )


def one_field(n, reach, seed, peer):
    """Figures of all methods: means of the losses above the peer's, and the variances of these means."""
    data = field(n, reach, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **data)
        found = {method: probabilities(method, path, peer) for method in METHODS}
    base, kept = losses(data, found[PEER][0]), {}
    for method, (p, figures) in found.items():
        own = losses(data, p)
        kept[method] = {
            **{name: figures[name] for name in ("log_loss", "error_of_p", "seconds", "parameters")},
            "above": [float(np.mean(a - b)) for a, b in zip(own, base, strict=True)],
            "variance": [float(np.var(a - b, ddof=1)) / len(a) for a, b in zip(own, base, strict=True)],
        }
        print(n, reach, seed, method, kept[method], flush=True)
    return kept


def rows_of(n, reach, kept):
    """Rows of the table for one size and range."""
    fields = [kept[key] for seed in range(FIELDS[n]) if (key := f"{n} {reach:g} {seed}") in kept]
    for method in METHODS if fields else []:
        rows = [one[method] for one in fields]
        mean = {name: np.mean([row[name] for row in rows]) for name in ("log_loss", "error_of_p", "seconds")}
        above, error = np.mean([row["above"] for row in rows], axis=0), [row["variance"] for row in rows]
        error = np.sqrt(np.sum(error, axis=0)) / len(rows)
        both = [f"{a:+.4f} ± {e:.4f}" if method != PEER else "" for a, e in zip(above, error, strict=True)]
        yield (
            f"| {n:,} | {reach:g} | {len(rows)} | {method} | {mean['log_loss']:.4f} | {both[0]} | {both[1]} "
            f"| {mean['error_of_p']:.4f} | {mean['seconds']:.1f} |"
        )


def write_page(kept):
    """The table of docs/scale.md."""
    lines = [
        f"| rows | range | fields | method | log loss | above {PEER} | the same, expected | mean error of p | CPU s |",
        "|---|---|---|---|" + 5 * "---:|",
    ]
    for n, reach in product(FIELDS, RANGES):
        lines += rows_of(n, reach, kept)
    replaced(PAGE, BEGIN, END, [*lines, "", f"Means over the fields. One thread, {cpu()}."])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=sys.executable, help="a Python that has gpboost")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further field after this time")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    kept, end = json.loads(KEPT.read_text()) if KEPT.exists() else {}, time.monotonic() + 60 * given.minutes
    for n, reach in [] if given.page else product(FIELDS, RANGES):
        for seed in range(FIELDS[n]):
            key = f"{n} {reach:g} {seed}"
            if key not in kept and time.monotonic() < end:
                kept[key] = one_field(n, reach, seed, given.peer)
                KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    write_page(kept)


if __name__ == "__main__":
    main()
