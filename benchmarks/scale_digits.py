"""Ten classes: all 1,797 digits, beside scikit-learn and GPyTorch. ``python -m benchmarks.scale_digits``.

Pixels are divided by 16; four fifths of the rows of each class are fitted (the split of ``SEED``), the rest predicted.
All methods learn the two parameters of one isotropic kernel, constant × RBF; scikit-learn learns them for each class,
one against the rest. GPyTorch's stochastic variational softmax is trained for more and more steps, at two rates, until
its test log loss no longer falls or ``MOST`` are made; the best of its fits is shown, with its own time. It runs where
GPyTorch is.
Each fit is a process of its own with one thread, whose CPU seconds include the start of Python, fit and prediction.
Results are stored after every fit in ``scale_digits.json`` and not computed again; ``--page`` only writes the table of
docs/scale.md.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy
    os.environ[name] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402

import numpy as np  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.gaussian_process import GaussianProcessClassifier  # noqa: E402
from sklearn.gaussian_process.kernels import RBF, ConstantKernel  # noqa: E402
from sklearn.metrics import accuracy_score, log_loss  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

from benchmarks.common import HERE, cpu, in_own_process  # noqa: E402
from benchmarks.scale import PAGE, replaced  # noqa: E402

KEPT = HERE / "scale_digits.json"
BEGIN, END = "<!-- digits: begin -->", "<!-- digits: end -->"
SEED = 0
PEER = "scikit-learn, one against the rest"
OURS = {
    "softmax, laplace, inducing 100": {"inference": "laplace", "likelihood": "softmax", "n_inducing": 100},
    "multinomial probit, ep, inducing 100": {"inference": "ep", "n_inducing": 100},
    "softmax, variational, inducing 100": {"inference": "variational", "likelihood": "softmax", "n_inducing": 100},
    "multinomial probit, ep, dense": {"inference": "ep"},
}
SVGP = "GPyTorch SVGP, softmax, inducing 100"
METHODS = [*OURS, PEER, SVGP]
RATES, FIRST, MOST = (0.03, 0.1), 500, 8000  # learning rates, and the least and the most steps, of the SVGP


def split(seed=SEED):
    """Pixels and digits to fit, and to predict."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16.0, y, test_size=0.2, stratify=y, random_state=seed)


def fit(method):
    """Figures of one method."""
    from gpclass import GPClassifier

    X, X_test, y, y_test = split()
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(2.0, (1e-1, 1e2))
    if method == PEER:
        model = GaussianProcessClassifier(kernel, random_state=0)
    else:
        model = GPClassifier(kernel, random_state=0, **OURS[method])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        p = model.predict_proba(X_test)
    return {
        "log_loss": float(log_loss(y_test, p)),
        "accuracy": float(accuracy_score(y_test, np.argmax(p, axis=1))),
        "seconds": time.process_time(),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rows": [len(y), len(y_test)],
    }


def svgp(rate, steps):
    """Figures of one training of GPyTorch's."""
    from benchmarks.svgp import train

    X, X_test, y, y_test = split()
    found = train(X, y, X_test, y_test, m=100, rate=rate, steps=steps, threads=1, marks=2, classes=10, ard=False)
    return {
        "log_loss": found["log_loss"],
        "accuracy": float(accuracy_score(y_test, np.argmax(found["proba"], axis=1))),
        "seconds": time.process_time(),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rows": [len(y), len(y_test)],
        "rate": rate,
        "steps": steps,
    }


def best_svgp():
    """The best training: steps are doubled until that does not pay."""
    best, steps = None, FIRST
    while steps <= MOST and (best is None or best["steps"] == steps // 2):
        for rate in RATES:
            found = in_own_process(svgp, rate, steps)[2]
            print(found, flush=True)
            best = found if best is None or found["log_loss"] < best["log_loss"] else best
        steps *= 2
    return best


def write_page(kept):
    """The table of docs/scale.md."""
    lines = ["| method | log loss | accuracy | CPU s | peak MB |", "|---|" + 4 * "---:|"]
    for method in METHODS:
        if method in kept:
            row = kept[method]
            ended = "" if row.get("steps") != MOST else f" ({MOST:,} steps, still falling)"
            lines.append(
                f"| {method}{ended} | {row['log_loss']:.4f} | {row['accuracy']:.3f} | {row['seconds']:.0f} "
                f"| {row['memory_mb']:.0f} |"
            )
    if kept:
        fitted, predicted = next(iter(kept.values()))["rows"]
        lines += ["", f"{fitted:,} rows fitted, {predicted} predicted (split {SEED}). One thread, {cpu()}."]
    replaced(PAGE, BEGIN, END, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for method in [] if given.page else given.methods:
        if method not in kept:
            kept[method] = best_svgp() if method == SVGP else in_own_process(fit, method)[2]
            print(method, kept[method], flush=True)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    write_page(kept)


if __name__ == "__main__":
    main()
