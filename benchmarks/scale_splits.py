"""Inducing inputs beside GPyTorch's SVGP over several splits of tables. ``python -m benchmarks.scale_splits [data]``.

One split of a few thousand test rows does not tell apart methods whose log losses differ by a percent or two. Here both
sides fit ``SPLITS`` splits; differences are paired by split. The peer has the learning rate that was best for it in
:mod:`benchmarks.sparse`, and trains for twice the longest number of steps there too, so that it is seen whether its log
loss still falls. One thread each, CPU seconds of fit and prediction. Run by a Python that has GPyTorch. Results are
stored in ``scale_splits.json`` fit by fit; ``--minutes`` and ``--page`` as elsewhere.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "THREADS"):  # before NumPy
    os.environ[name] = "1"

import json  # noqa: E402
import time  # noqa: E402
from itertools import product  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks.common import HERE, cpu, in_own_process, resumable  # noqa: E402
from benchmarks.scale import PAGE, replaced  # noqa: E402
from benchmarks.sparse import STEPS, M, known, load_split, ours  # noqa: E402
from benchmarks.svgp import train  # noqa: E402

KEPT = HERE / "scale_splits.json"
BEGIN, END = "<!-- splits: begin -->", "<!-- splits: end -->"
SETS, SPLITS = ("htru2", "magic", "electricity"), 5
DEFAULT, TO_THE_END = "inducing 300, ep", "inducing 300, ep, stop='evidence'"
AUTO, VARIATIONAL = "inducing auto, ep", "inducing 300, variational"
LONGEST = max(STEPS)
PEERS = {f"SVGP, {steps:,} steps": steps for steps in (LONGEST, 2 * LONGEST)}
METHODS = [DEFAULT, AUTO, VARIATIONAL, min(PEERS), TO_THE_END, max(PEERS)]


def fit(name, method, split):
    """Test log loss and CPU seconds of one fit."""
    from gpclass.hyper import Maximize, Stages

    data, begin = load_split(name, split), time.process_time()
    if method in PEERS:
        rate = known()[name]["grid"]
        rate = min((run for run in rate if run["steps"] == LONGEST), key=lambda run: run["log_loss"])["rate"]
        found = train(*data, m=M, rate=rate, steps=PEERS[method], threads=1, marks=2)
    else:
        stages = Stages(stop="evidence") if method == TO_THE_END else Stages()
        inference = "variational" if method == VARIATIONAL else "ep"
        m = "auto" if method == AUTO else M
        found = ours(*data, inference, m, False, {"hyperparameters": Maximize(stages=stages)})
    return {"log_loss": found["log_loss"], "seconds": time.process_time() - begin}


def kept():
    """The stored results."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def write_page(stored):
    """The table of docs/scale.md."""
    lines = [
        "| table | method | splits | test log loss | above the peer's best | CPU s |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name in SETS:
        rows = {
            method: {split: stored[key] for split in range(SPLITS) if (key := f"{name} {method} {split}") in stored}
            for method in METHODS
        }
        losses = {method: {split: run["log_loss"] for split, run in runs.items()} for method, runs in rows.items()}
        peers = [method for method in PEERS if losses[method]]
        best = min(peers, key=lambda method: np.mean(list(losses[method].values())), default=None)
        for method, found in losses.items():
            if found:
                both = (
                    [] if best in (None, method) else [found[s] - losses[best][s] for s in found if s in losses[best]]
                )
                difference = ""
                if len(both) > 1:
                    difference = f"{np.mean(both):+.4f} ± {np.std(both, ddof=1) / len(both) ** 0.5:.4f}"
                seconds = np.mean([run["seconds"] for run in rows[method].values()])
                mean = np.mean(list(found.values()))
                lines.append(f"| {name} | {method} | {len(found)} | {mean:.4f} | {difference} | {seconds:.0f} |")
    note = f"Means over random splits, differences with their standard errors. One thread, {cpu()}, beside other work."
    replaced(PAGE, BEGIN, END, [*lines, "", note])


def main():
    asked = resumable(__doc__, SETS, "fit")
    for name, method, split in product(asked.data, METHODS, range(SPLITS)):
        key = f"{name} {method} {split}"
        if key not in kept() and time.monotonic() < asked.end:
            found = in_own_process(fit, name, method, split)[2]
            KEPT.write_text(json.dumps({**kept(), key: found}, indent=1) + "\n")
            print(key, found, flush=True)
    write_page(kept())


if __name__ == "__main__":
    main()
