"""Rows that pay: covtype (two classes), test log loss as rows are added. ``python -m benchmarks.scale_covtype``.

The local prior with EP learns an ARD kernel on some of the rows and predicts each of the 20,000 test rows from its
nearest rows; ``--peer`` names a Python that has LightGBM, which is run beside it (127 leaves, rate .1, rounds chosen
on a tenth of the rows). Split and rows are those of :mod:`benchmarks.sparse`. Each fit is a process of its own with one
thread, whose CPU seconds include the reading of the data, fit and prediction. Results are stored in
``scale_covtype.json`` after every fit and not computed again; ``--page`` only writes the table of docs/scale.md.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy
    os.environ[name] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

HERE = Path(__file__).parent
KEPT = HERE / "scale_covtype.json"
BEGIN, END = "<!-- covtype rows: begin -->", "<!-- covtype rows: end -->"
SIZES = (10_000, 30_000, 100_000, 300_000, 500_000)
K = 60


def local(X, y, X_test):
    """Probabilities under the local prior, and the kernel parameters."""
    from benchmarks.sparse import ard
    from gpclass import GPClassifier
    from gpclass.latent.local import LocalBlocks

    clf = GPClassifier(ard(X.shape[1]), inference="ep", latent_prior=LocalBlocks(K), random_state=0).fit(X, y)
    return clf.predict_proba(X_test)[:, 1], {
        "parameters": np.exp(clf.theta_).tolist(),
        "evaluations": clf.fit_report_.evaluations,
    }


def inducing(X, y, X_test, stop="evidence", m=300):
    """Probabilities with m inducing inputs, the evidence climbed to its end, or until held-out rows say so."""
    from benchmarks.sparse import ard
    from gpclass import GPClassifier
    from gpclass.hyper import Maximize, Stages

    how = Maximize(stages=Stages(stop=stop))
    clf = GPClassifier(ard(X.shape[1]), inference="ep", n_inducing=m, hyperparameters=how, random_state=0)
    p = clf.fit(X, y).predict_proba(X_test)[:, 1]
    return p, {"evaluations": clf.fit_report_.evaluations, "m": len(clf.inducing_)}


def lightgbm(X, y, X_test):
    """Probabilities of LightGBM, and its rounds."""
    import lightgbm

    held = np.arange(len(y)) % 10 == 0
    settings = {"objective": "binary", "num_leaves": 127, "learning_rate": 0.1, "num_threads": 1, "verbosity": -1}
    train = lightgbm.Dataset(X[~held], y[~held])
    stop = lightgbm.early_stopping(30, verbose=False)
    model = lightgbm.train(
        settings, train, 2000, [lightgbm.Dataset(X[held], y[held], reference=train)], callbacks=[stop]
    )
    return model.predict(X_test), {"rounds": model.best_iteration}


METHODS = {
    f"local prior, k = {K}, ep": local,
    "LightGBM": lightgbm,
    "inducing 300, ep, stop='evidence'": inducing,
    "inducing 300, ep": partial(inducing, stop="held-out"),
    "inducing auto, ep": partial(inducing, stop="held-out", m="auto"),
}
ON_COVTYPE = list(METHODS)[:2]


def child(method, path, n):
    """One fit: prints a line of JSON."""
    data = np.load(path)
    X, X_test = (data[name].astype(float) for name in ("X", "X_test"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p, figures = METHODS[method](X[: int(n)], data["y"][: int(n)].astype(int), X_test)
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    loss = -float(np.mean(np.log(np.where(data["y_test"] == 1, p, 1.0 - p))))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"log_loss": loss, "seconds": time.process_time(), "memory_mb": memory, **figures}))


def apart(method, path, n, peer):
    """Figures of a fit to the first n rows in a process of its own."""
    python, paths = sys.executable, os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    if method == "LightGBM":
        python, paths = peer, str(HERE.parent)
    command = [python, str(HERE / "scale_covtype.py"), "--child", method, str(path), str(n)]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(n, method, {key: found[key] for key in ("log_loss", "seconds", "memory_mb")}, flush=True)
    return found


def split(path):
    """Write the arrays of all fits: the rows of a smaller fit are the first ones of a larger."""
    from benchmarks.sparse import load_split

    X, y, X_test, y_test = load_split("covtype_binary")
    rows = np.random.default_rng(1).permutation(len(y))[: max(SIZES)]
    single = {"X": X[rows].astype(np.float32), "X_test": X_test.astype(np.float32)}
    np.savez(path, y=y[rows].astype(np.int8), y_test=y_test.astype(np.int8), **single)


def write_page(kept):
    """The table of docs/scale.md."""
    from benchmarks.common import cpu
    from benchmarks.scale import PAGE, replaced

    lines = ["| rows | method | test log loss | CPU s | peak MB |", "|---:|---|---:|---:|---:|"]
    for n in SIZES:
        for method in METHODS:
            row = kept.get(f"{n} {method}")
            if row:
                cells = f"{row['log_loss']:.4f} | {row['seconds']:.0f} | {row['memory_mb']:.0f}"
                lines.append(f"| {n:,} | {method} | {cells} |")
    replaced(PAGE, BEGIN, END, [*lines, "", f"One thread, {cpu()}, beside other work."])


def store_headline(kept):
    """Log losses beside LightGBM's, for the README."""
    from benchmarks.common import record

    both = [(n, [kept.get(f"{n} {method}") for method in ON_COVTYPE]) for n in SIZES]
    losses = [(n, [f"{row['log_loss']:.4f}" for row in rows]) for n, rows in both if all(rows)]
    told = [(f"n = {n:,}: test log loss, LightGBM's", ", ".join(found), "") for n, found in losses]
    record("The local prior: covtype, two classes", told)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--peer", default=sys.executable, help="a Python that has lightgbm")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--methods", nargs="+", default=ON_COVTYPE)
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if given.child:
        return child(*given.child)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    todo = [(n, method) for n in given.sizes for method in given.methods if f"{n} {method}" not in kept]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covtype.npz"
        if todo and not given.page:
            split(path)
        for n, method in [] if given.page else todo:
            kept[f"{n} {method}"] = apart(method, path, n, given.peer)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    write_page(kept)
    store_headline(kept)
    return None


if __name__ == "__main__":
    main()
