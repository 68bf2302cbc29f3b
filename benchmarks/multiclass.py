"""Many classes beside scikit-learn's one-against-the-rest: time of a fit, log loss, calibration.

``python -m benchmarks.multiclass [name ...]``: iris, wine, glass, thyroid, digits (a subset). Both sides get the same
standardised rows, the same isotropic kernel constant * RBF and the same five folds, one after the other in one process,
so that the ratio of times means something on a busy machine too. Calibration is the expected calibration error of the
chosen class in ten bins. Glass and thyroid are read from the folder that GPCLASS_DATA names, or from OpenML.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks.common import record
from gpclass import GPClassifier
from gpclass.datasets import load

SETS = {"iris": "iris", "wine": "wine", "glass": "glass_uci", "thyroid": "new_thyroid", "digits": None}


def data(name):
    """Rows and labels as arrays."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        keep = np.random.default_rng(0).permutation(len(y))[:300]
        return X[keep], y[keep]
    found = load(SETS[name])
    return np.asarray(found.X, dtype=float), np.unique(np.asarray(found.y), return_inverse=True)[1]


def kernel(d):
    """One isotropic kernel for all classes, started at √d."""
    return ConstantKernel(1.0, (1e-3, 1e4)) * RBF(np.sqrt(d), (1e-2, 1e3))


def methods(d, exact):
    """The peers."""
    found = {
        "scikit-learn, one against the rest": GaussianProcessClassifier(kernel(d)),
        "softmax Laplace": GPClassifier(kernel(d), inference="laplace"),
        "multinomial probit EP": GPClassifier(kernel(d), inference="ep"),
    }
    if exact:
        found["exact multinomial probit"] = GPClassifier(
            kernel(d), inference="exact", tol=3e-3, random_state=0
        )
    return found


def calibration_error(proba, y, bins=10):
    """Expected calibration error of the chosen class."""
    chosen, right = proba.max(axis=1), proba.argmax(axis=1) == y
    place = np.minimum((chosen * bins).astype(int), bins - 1)
    total = 0.0
    for b in range(bins):
        here = place == b
        if here.any():
            total += here.mean() * abs(right[here].mean() - chosen[here].mean())
    return total


def compare(name, exact, folds=5):
    """Out-of-fold probabilities of every method, and the mean time of a fit."""
    X, y = data(name)
    answers = {m: np.empty((len(y), y.max() + 1)) for m in methods(X.shape[1], exact)}
    seconds = dict.fromkeys(answers, 0.0)
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
        scaler = StandardScaler().fit(X[train])
        for method, clf in methods(X.shape[1], exact).items():
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = clone(clf).fit(scaler.transform(X[train]), y[train])
                seconds[method] += (time.perf_counter() - begin) / folds
                answers[method][test] = fitted.predict_proba(scaler.transform(X[test]))
    rows = []
    base = seconds["scikit-learn, one against the rest"]
    for method, proba in answers.items():
        loss = -np.mean(np.log(np.maximum(proba[np.arange(len(y)), y], 1e-300)))
        error = np.mean(proba.argmax(axis=1) != y)
        rows.append(
            {
                "data": name,
                "n": len(y),
                "classes": int(y.max() + 1),
                "method": method,
                "error": float(error),
                "log_loss": float(loss),
                "calibration_error": float(calibration_error(proba, y)),
                "seconds": seconds[method],
                "times_scikit_learn": seconds[method] / base,
            }
        )
    return rows


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.multiclass", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", default=list(SETS))
    parser.add_argument(
        "--exact", action="store_true", help="the exact inference too (minutes for glass and digits)"
    )
    parser.add_argument("--record", action="store_true", help="keep the rows in results.json")
    given = parser.parse_args(argv)
    found = []
    print(
        f"{'data':<8} {'method':<36} {'error':>7} {'log loss':>9} {'calib.':>7} {'seconds':>8} {'ratio':>6}"
    )
    for name in given.names:
        for row in compare(name, given.exact):
            found.append(row)
            print(
                f"{row['data']:<8} {row['method']:<36} {row['error']:7.3f} {row['log_loss']:9.3f} "
                f"{row['calibration_error']:7.3f} {row['seconds']:8.2f} {row['times_scikit_learn']:6.2f}",
                flush=True,
            )
    if given.record:
        record("multiclass", found)


if __name__ == "__main__":
    main()
