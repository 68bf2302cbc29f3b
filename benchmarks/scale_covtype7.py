"""Seven classes at 100,000 rows: covtype, beside GPyTorch and LightGBM. ``python -m benchmarks.scale_covtype7``.

20,000 rows are predicted, ``ROWS`` of the others fitted, columns standardised, one length scale per column. The peer is
GPyTorch's stochastic variational softmax, its inducing inputs trained too, at two rates and then, at the better one,
for more and more steps of 1,024 rows, until ``--peer-minutes`` have passed; the best of its fits by *test* log loss is
shown, with its own time. LightGBM has 127 leaves, and its rounds are chosen on a tenth of the rows. Run by a Python
that has both.
Data: ``--csv`` names a file of all 581,012 rows whose last column is the class (the wheel of scikit-multiflow 0.4.1 for
Python 3.7 holds one, ``skmultiflow/data/datasets/covtype.csv``); without it scikit-learn's ``fetch_covtype`` gets them.
Each fit is a process of its own with one thread, whose CPU seconds include the start of Python, fit and prediction.
Results are stored after every fit in ``scale_covtype7.json`` and not computed again; ``--page`` only writes the table
of docs/scale.md.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "THREADS"):  # before NumPy
    os.environ[name] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks.common import HERE, cpu, in_own_process  # noqa: E402
from benchmarks.scale import PAGE, replaced  # noqa: E402
from benchmarks.sparse import ard  # noqa: E402
from benchmarks.svgp import log_loss, train  # noqa: E402

KEPT = HERE / "scale_covtype7.json"
BEGIN, END = "<!-- covtype 7: begin -->", "<!-- covtype 7: end -->"
ROWS, TEST, CLASSES = 100_000, 20_000, 7
OURS = {
    "local prior, k = 60, multinomial probit, ep": {"inference": "ep", "latent_prior": "local"},
    "local prior, k = 60, softmax, laplace": {
        "inference": "laplace",
        "likelihood": "softmax",
        "latent_prior": "local",
    },
    "inducing 100, multinomial probit, ep": {"inference": "ep", "n_inducing": 100},
    "inducing 100, softmax, laplace": {"inference": "laplace", "likelihood": "softmax", "n_inducing": 100},
}
PEERS = {"GPyTorch SVGP, softmax, inducing 100": 100, "GPyTorch SVGP, softmax, inducing 300": 300}
TREES = "LightGBM"
METHODS = [*OURS, *PEERS, TREES]
RATES, FIRST, GROWTH = (0.03, 0.1), 1000, 4  # learning rates of the SVGP, its fewest steps, and times as many


def prepare(path, csv=None):
    """Write the standardised rows to fit and to predict; classes are 0 to 6."""
    if csv is None:
        from sklearn.datasets import fetch_covtype

        X, y = fetch_covtype(return_X_y=True)
    else:
        table = np.loadtxt(csv, delimiter=",", skiprows=1, dtype=np.float32)
        X, y = table[:, :-1], table[:, -1]
    order = np.random.default_rng(0).permutation(len(y))[: ROWS + TEST]
    X, y = X[order].astype(float), y[order].astype(int) - 1
    mean, sd = X[:ROWS].mean(0), X[:ROWS].std(0)
    X = (X - mean) / np.where(sd > 0, sd, 1.0)
    single = {"X": X[:ROWS].astype(np.float32), "X_test": X[ROWS:].astype(np.float32)}
    np.savez(path, y=y[:ROWS], y_test=y[ROWS:], **single)


def rows_of(path):
    """X, y, and those of the test set."""
    data = np.load(path)
    return (data["X"].astype(float), data["y"], data["X_test"].astype(float), data["y_test"])


def figures(p, y_test, **more):
    """What is kept of a fit."""
    return {
        "log_loss": log_loss(y_test, p),
        "accuracy": float(np.mean(np.argmax(p, axis=1) == y_test)),
        "seconds": time.process_time(),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **more,
    }


def fit(method, path):
    """Figures of one of our fits."""
    from gpclass import GPClassifier

    X, y, X_test, y_test = rows_of(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = GPClassifier(ard(X.shape[1]), random_state=0, **OURS[method]).fit(X, y)
        p = clf.predict_proba(X_test)
    return figures(p, y_test, evaluations=clf.fit_report_.evaluations)


def svgp(path, m, rate, steps):
    """Figures of one training of GPyTorch's."""
    X, y, X_test, y_test = rows_of(path)
    found = train(X, y, X_test, y_test, m=m, rate=rate, steps=steps, threads=1, marks=2, classes=CLASSES)
    return figures(np.asarray(found["proba"]), y_test, rate=rate, steps=steps)


def trees(path):
    """Figures of LightGBM."""
    import lightgbm

    X, y, X_test, y_test = rows_of(path)
    held = np.arange(len(y)) % 10 == 0
    settings = {"objective": "multiclass", "num_class": CLASSES, "num_leaves": 127, "learning_rate": 0.1}
    train_set = lightgbm.Dataset(X[~held], y[~held])
    model = lightgbm.train(
        {**settings, "num_threads": 1, "verbosity": -1},
        train_set,
        2000,
        [lightgbm.Dataset(X[held], y[held], reference=train_set)],
        callbacks=[lightgbm.early_stopping(30, verbose=False)],
    )
    return figures(model.predict(X_test), y_test, rounds=model.best_iteration)


def best_svgp(path, m, minutes):
    """The best training by test log loss, and whether it was the longest: the best rate of the first ones goes on."""
    runs, steps, rates, end = [], FIRST, RATES, time.monotonic() + 60 * minutes
    while time.monotonic() < end and (not runs or _best(runs)["steps"] == steps // GROWTH):
        for rate in rates:
            runs.append(in_own_process(svgp, path, m, rate, steps)[2])
            print(m, runs[-1], flush=True)
        steps, rates = steps * GROWTH, (_best(runs)["rate"],)
    return {**_best(runs), "longest": _best(runs)["steps"] == steps // GROWTH}


def _best(runs):
    return min(runs, key=lambda run: run["log_loss"])


def write_page(kept):
    """The table of docs/scale.md."""
    lines = ["| method | test log loss | accuracy | CPU s | peak MB |", "|---|" + 4 * "---:|"]
    for method in METHODS:
        if method in kept:
            row = kept[method]
            ended = f" ({row['steps']:,} steps{', still falling' * row['longest']})" if "steps" in row else ""
            cells = f"{row['log_loss']:.4f} | {row['accuracy']:.3f} | {row['seconds']:.0f} | {row['memory_mb']:.0f}"
            lines.append(f"| {method}{ended} | {cells} |")
    note = f"{ROWS:,} rows fitted, {TEST:,} predicted, one split. One thread, {cpu()}, beside other work."
    replaced(PAGE, BEGIN, END, [*lines, "", note])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", help="all rows of covtype, the class in the last column")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--peer-minutes", type=float, default=15, help="start no longer training of the SVGP after")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    todo = [] if given.page else [method for method in given.methods if method not in kept]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covtype.npz"
        if todo:
            prepare(path, given.csv)
        for method in todo:
            if method in PEERS:
                found = best_svgp(path, PEERS[method], given.peer_minutes)
            else:
                found = in_own_process(trees, path)[2] if method == TREES else in_own_process(fit, method, path)[2]
            print(method, found, flush=True)
            kept = {**(json.loads(KEPT.read_text()) if KEPT.exists() else {}), method: found}
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    write_page(kept)


if __name__ == "__main__":
    main()
