"""Many classes compared with scikit-learn's one against the rest: log loss, calibration, errors, time of a fit.

``python -m benchmarks.multiclass [data ...]``: iris, wine, glass, thyroid, digits (150 of them). All methods get the
same standardised rows, the same isotropic kernel constant * RBF shared by the classes and the same five folds, one
after the other in one process, so that the ratio of times is meaningful on a busy machine too. Calibration is the
expected calibration error of :mod:`gpclass.metrics`. Glass and thyroid are read from the folder GPCLASS_DATA or from
OpenML. Results are stored in ``results/multiclass`` and not computed again without ``--again``; ``--record`` adds a
summary to the recorded benchmarks and writes the table into the documentation.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks.common import HERE, record, show
from gpclass import GPClassifier
from gpclass.datasets import load
from gpclass.metrics import calibration_error

SETS = {"iris": "iris", "wine": "wine", "glass": "glass_uci", "thyroid": "new_thyroid", "digits": None}
KEPT = HERE.parent / "results" / "multiclass"
PAGE = HERE.parent / "docs" / "methods" / "multiclass.md"
PEER = "scikit-learn, one against the rest"
SHORT = {
    "softmax Laplace": "softmax Laplace",
    "multinomial probit EP": "EP",
    "exact multinomial probit": "exact",
}
FOLDS = 5


def data(name):
    """Rows and labels as arrays."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        keep = np.random.default_rng(0).permutation(len(y))[:150]
        return X[keep], y[keep]
    found = load(SETS[name])
    return np.asarray(found.X, dtype=float), np.unique(np.asarray(found.y), return_inverse=True)[1]


def kernel(d):
    """One isotropic kernel for all classes, started at √d."""
    return ConstantKernel(1.0, (1e-3, 1e4)) * RBF(np.sqrt(d), (1e-2, 1e3))


def methods(d):
    """The peers."""
    return {
        PEER: GaussianProcessClassifier(kernel(d)),
        "softmax Laplace": GPClassifier(kernel(d), inference="laplace"),
        "multinomial probit EP": GPClassifier(kernel(d), inference="ep"),
        "exact multinomial probit": GPClassifier(kernel(d), inference="exact", tol=5e-3, random_state=0),
    }


def compare(name):
    """Out-of-fold probabilities of every method, and the mean time of a fit."""
    X, y = data(name)
    answers = {m: np.empty((len(y), y.max() + 1)) for m in methods(X.shape[1])}
    seconds = dict.fromkeys(answers, 0.0)
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
        scaler = StandardScaler().fit(X[train])
        for method, clf in methods(X.shape[1]).items():
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = clone(clf).fit(scaler.transform(X[train]), y[train])
                seconds[method] += (time.process_time() - begin) / FOLDS
                answers[method][test] = fitted.predict_proba(scaler.transform(X[test]))
    return [
        {
            "data": name,
            "n": len(y),
            "classes": int(y.max() + 1),
            "method": method,
            "error": float(np.mean(proba.argmax(axis=1) != y)),
            "log_loss": float(-np.mean(np.log(np.maximum(proba[np.arange(len(y)), y], 1e-300)))),
            "calibration_error": calibration_error(y, proba, n_bootstrap=1).value,
            "cpu_seconds": seconds[method],
            "times_scikit_learn": seconds[method] / seconds[PEER],
        }
        for method, proba in answers.items()
    ]


def rows_of(name, again=False):
    """Results for a data set, from the last run if stored."""
    path = KEPT / f"{name}.json"
    if again or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(compare(name), indent=1))
    return json.loads(path.read_text())


def quality(names=tuple(SETS), again=False):
    """Log loss and calibration of every method; recorded, and written to the documentation."""
    found = [row for name in names for row in rows_of(name, again)]
    rows = []
    for name in names:
        of = {row["method"]: row for row in found if row["data"] == name}
        said = {m: f"{r['log_loss']:.3f} ({r['calibration_error']:.3f})" for m, r in of.items()}
        head = f"{name} (n = {of[PEER]['n']}, {of[PEER]['classes']} classes): log loss (calibration error)"
        ours = ", ".join(f"{short} {said[m]}" for m, short in SHORT.items())
        rows.append((head, ours, f"one against the rest {said[PEER]}"))
    record("many classes, five folds", rows)
    write_page(found)
    show("many classes, five folds", rows)


def speed():
    """Softmax Laplace against one against the rest on glass, and the exact posterior on all of iris."""
    X, y = data("glass")
    X = StandardScaler().fit_transform(X)
    best = {}
    for _ in range(3):  # alternating; the fastest run of each counts
        for method in (PEER, "softmax Laplace"):
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clone(methods(X.shape[1])[method]).fit(X, y)
            best[method] = min(best.get(method, np.inf), time.process_time() - begin)
    Z, labels = load_iris(return_X_y=True)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GPClassifier(random_state=0).fit(StandardScaler().fit_transform(Z), labels)
    cpu = time.process_time() - begin
    ratio = best["softmax Laplace"] / best[PEER]
    rows = [
        (
            "softmax Laplace, maximise, glass (n = 214, 6 classes), over one against the rest",
            f"{ratio:.2f}x",
            f"target: under 3x; scikit-learn takes {best[PEER]:.2f} s of CPU",
        ),
        (
            "exact, maximise, iris (n = 150), the defaults",
            f"{cpu:.1f} s of CPU",
            "target: under 10 s",
        ),
    ]
    record("many classes, speed", rows)
    show("many classes, speed", rows)


def write_page(found):
    """Put the table into the documentation."""
    lines = [
        "| data | method | error | log loss | calibration error | CPU seconds per fit | over scikit-learn |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['data']} (n = {r['n']}, C = {r['classes']}) | {r['method']} | {r['error']:.3f} | {r['log_loss']:.3f} "
        f"| {r['calibration_error']:.3f} | {r['cpu_seconds']:.2f} | {r['times_scikit_learn']:.2f} |"
        for r in found
    ]
    text, begin, end = PAGE.read_text(), "<!-- benchmark: begin -->", "<!-- benchmark: end -->"
    head, rest = text.split(begin)
    PAGE.write_text(f"{head}{begin}\n" + "\n".join(lines) + f"\n{end}{rest.split(end)[1]}")


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multiclass", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SETS)}; all by default")
    parser.add_argument("--again", action="store_true", help="run again even if results are stored")
    parser.add_argument("--record", action="store_true", help="write README's rows and the documentation's table")
    given = parser.parse_args(argv)
    for name in given.names or SETS:
        for r in rows_of(name, given.again):
            print(
                f"{r['data']:<8} {r['method']:<36} {r['error']:7.3f} {r['log_loss']:9.3f} "
                f"{r['calibration_error']:7.3f} {r['cpu_seconds']:8.2f} {r['times_scikit_learn']:6.2f}",
                flush=True,
            )
    if given.record:
        quality()
        speed()


if __name__ == "__main__":
    main()
