"""Is the default fast enough? Fits and predictions side by side with scikit-learn, written to docs/speed.md.

``python -m benchmarks.default_speed [small] [curve] [threads] [memory] [earlier losses --against SRC]`` (``make
bench-default``: the first two):

- ``small``: n = 50 to 800, three features, one thread, processor time, medians of five alternating repetitions, each
  with its own random numbers: the number of draws follows them.
- ``curve``: time against n from 100 to 10,000, each method up to the size that fits into ``--minutes`` per fit, and
  GPy's EP and GPyTorch's variational GP by the interpreter ``--peer``; what is stored is not run again.
- ``earlier``: default fits against those of another source folder (of an earlier commit, say), in processes that
  alternate: iris, wine, glass, and magic with 3,000 rows where the data are at hand (GPCLASS_DATA).
- ``threads``: elapsed time of default fits with two threads over that with one; needs a machine that does nothing else.
- ``memory``: peak memory of the fits with 2,000 rows (:mod:`benchmarks.dense_memory`).
- ``losses``: held-out log loss of default fits by both, five folds of five sets.

Results are kept in default_speed.json; every run writes the page anew.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy: one thread each, on both sides
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from sklearn.datasets import load_iris, load_wine  # noqa: E402
from sklearn.gaussian_process import GaussianProcessClassifier  # noqa: E402
from sklearn.gaussian_process.kernels import RBF  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.preprocessing import scale  # noqa: E402

from benchmarks.common import HERE, cpu  # noqa: E402
from benchmarks.speed_page import (  # noqa: E402
    INFERENCES,
    LONG,
    NEW_ROWS,
    REPEATS,
    RESTARTS,
    ROWS_OF_MEMORY,
    SEEDS,
    SIZES,
    write,
)

KEPT = HERE / "default_speed.json"
THREADED = (100, 200, 500, 1000, 2000)
WORST = 20  # one of so many rows, those with the largest stated errors
HELD_OUT = ("iris", "wine", "thyroid", "pima", "breast")  # sets whose log loss is compared
FILES = {
    "glass": "glass_uci",
    "magic": "magic",
    "thyroid": "new_thyroid",
    "pima": "pima_ripley_train",
    "breast": "breast_wisconsin_683",
}


def problem(n):
    """Rows with three features, labels with noise, and the kernel of all methods."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    f = 1.5 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.standard_normal(n)
    return X, np.where(f > 0, 1, 0), 1.0 * RBF(1.0)


def seconds(function):
    """Processor time of a call, and its result."""
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def small(n):
    """Medians of all methods at one size, with what the exact fits reached."""
    from gpclass import GPClassifier

    X, y, kernel = problem(n)
    new = np.random.default_rng(5).standard_normal((NEW_ROWS, 3))
    makers = {"scikit-learn": lambda seed: GaussianProcessClassifier(kernel)}
    makers |= {
        name: lambda seed, name=name: GPClassifier(kernel, inference=name, random_state=seed) for name in INFERENCES
    }
    times, fits = {}, []
    for seed in range(REPEATS):
        for name, make in makers.items():
            spent, fitted = seconds(lambda make=make, seed=seed: make(seed).fit(X, y))
            times.setdefault((name, "fit"), []).append(spent)
            times.setdefault((name, "predict"), []).append(seconds(lambda m=fitted: m.predict_proba(new))[0])
            if name == "exact":
                spent = seconds(lambda m=fitted: m.predict_uncertainty(new))[0]
                times.setdefault((name, "uncertainty"), []).append(spent)
                fits.append(fitted)
    best = GPClassifier(kernel, inference="ep", n_restarts=RESTARTS, random_state=0).fit(X, y)
    ep = GPClassifier(kernel, inference="ep", random_state=0).fit(X, y)
    return {
        "times": {" ".join(key): float(np.median(value)) for key, value in times.items()},
        "draws": int(np.median([fit.fit_report_.n_samples for fit in fits])),
        "mcse": float(np.median([fit.predict_uncertainty(X).mcse.max() for fit in fits])),
        "true": true_error(fits[0].kernel_, X, y),
        "behind": float(best.log_evidence_ - ep.log_evidence_),
    }


def true_error(kernel, X, y):
    """Spread of a probability over repeated fits at fixed parameters, where the stated errors are largest."""
    from gpclass import GPClassifier

    fits = [GPClassifier(kernel, hyperparameters="fixed", random_state=1 + s).fit(X, y) for s in range(SEEDS)]
    answers = [fit.predict_uncertainty(X) for fit in fits]
    stated = np.mean([a.mcse[:, 1] ** 2 for a in answers], axis=0)
    worst = np.argsort(stated)[-max(1, len(y) // WORST) :]
    return float(np.sqrt(np.var([a.proba[worst, 1] for a in answers], axis=0, ddof=1).mean()))


def threads(rows):
    """Elapsed seconds of default fits with one thread and with two, in processes that alternate; medians."""
    found = {}
    for n in rows:
        times = {"1": [], "2": []}
        for _ in range(REPEATS):
            for count, each in times.items():
                limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), count)
                each.append(in_process(sys.executable, str(HERE.parent / "src"), "--elapsed", str(n), **limits))
        found[str(n)] = {count: float(np.median(each)) for count, each in times.items()}
        print(n, found[str(n)], flush=True)
    return found


def fit_elapsed(n):
    """Elapsed time of a default fit, the second in its process, printed: for another process."""
    warnings.simplefilter("ignore")
    from gpclass import GPClassifier

    X, y, kernel = problem(n)
    for _ in range(2):
        begin = time.perf_counter()
        GPClassifier(kernel, random_state=0).fit(X, y)
        spent = time.perf_counter() - begin
    print(spent)


def curve(minutes, peer, kept):
    """Seconds of one fit by method and n, each in its own process, while they stay below a limit.

    ``kept`` is what an earlier run stored, to go on from; a fit's time is added to it, and then yielded.
    """
    for method in (*INFERENCES, "scikit-learn", *PEERS):
        for n in LONG:
            times = kept.setdefault(method, {})
            if str(n) not in times:
                python = peer if method in PEERS else sys.executable
                times[str(n)] = in_process(python, str(HERE.parent / "src"), "--curve", method, str(n))
                print(f"{method}, n = {n}: {times[str(n)]:.1f} s", flush=True)
                yield times[str(n)]
            if times[str(n)] * 4 > 60 * minutes:  # the next size takes several times as long
                break


def fit_curve(method, n):
    """Processor time of one fit of the curve, printed: for another process."""
    warnings.simplefilter("ignore")
    X, y, kernel = problem(n)
    if method in PEERS:
        fit = PEERS[method]
    elif method == "scikit-learn":
        fit = GaussianProcessClassifier(kernel).fit
    else:
        from gpclass import GPClassifier

        fit = GPClassifier(kernel, inference=method, random_state=0).fit
    print(seconds(lambda: fit(X, y))[0])


def gpy_ep(X, y):
    """GPy's EP, kernel parameters by its own optimiser."""
    import GPy

    GPy.models.GPClassification(X, y[:, None].astype(float), GPy.kern.RBF(X.shape[1])).optimize(max_iters=200)


def gpytorch_vgp(X, y):
    """GPyTorch's variational GP over all rows, by Adam until the bound gains less than a ten-thousandth in 20 steps."""
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    A, b = torch.tensor(X), torch.tensor(y, dtype=torch.float64)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(A))
            super().__init__(gpytorch.variational.VariationalStrategy(self, A, q, learn_inducing_locations=False))
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model().double(), gpytorch.likelihoods.BernoulliLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, len(A))
    optimizer, bounds = torch.optim.Adam(model.parameters(), lr=0.1), []
    model.train()
    while len(bounds) < 40 or np.mean(bounds[-20:]) - np.mean(bounds[-40:-20]) > 1e-4 * abs(bounds[-1]):
        optimizer.zero_grad()
        bound = objective(model(A), b)
        (-bound).backward()
        optimizer.step()
        bounds.append(float(bound))


PEERS = {"GPy EP": gpy_ep, "GPyTorch VGP": gpytorch_vgp}


def in_process(python, source, *arguments, **environment):
    """The seconds that another process of this script prints, with the sources of one commit."""
    path = os.pathsep.join([source, str(HERE.parent)])
    command = [python, "-m", "benchmarks.default_speed", *arguments]
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(out.stdout.split()[-1])


def fit_one(name):
    """Processor time of one default fit, printed: for another process."""
    warnings.simplefilter("ignore")
    from gpclass import GPClassifier

    X, y = one_set(name)
    print(seconds(lambda: GPClassifier(random_state=0).fit(X, y))[0])


def one_set(name):
    """Standardised rows, and labels."""
    if name in ("iris", "wine"):
        X, y = {"iris": load_iris, "wine": load_wine}[name](return_X_y=True)
    else:
        from gpclass.datasets import load

        found = load(FILES[name])
        X, y = np.asarray(found.X, dtype=float), np.asarray(found.y)
        keep = np.random.default_rng(0).permutation(len(y))[:3000]
        X, y = X[keep], y[keep]
    return scale(X), y


def earlier(other, names, repeats):
    """Median times of default fits by this source and by another one."""
    found = {}
    for name in names:
        times = {"now": [], "before": []}
        for _ in range(repeats if name != "magic" else 1):
            for who, source in (("before", other), ("now", str(HERE.parent / "src"))):
                times[who].append(in_process(sys.executable, source, "--one", name))
        found[name] = {who: float(np.median(value)) for who, value in times.items()}
        print(name, found[name], flush=True)
    return found


def held_out_loss(name):
    """Log loss of default fits on five folds, printed: for another process."""
    warnings.simplefilter("ignore")
    from gpclass import GPClassifier

    X, y = one_set(name)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    found = []
    for train, test in folds:
        fitted = GPClassifier(random_state=0).fit(X[train], y[train])
        log_p = fitted.predict_log_proba(X[test])
        found.append(-np.mean(log_p[np.arange(len(test)), np.searchsorted(fitted.classes_, y[test])]))
    print(float(np.mean(found)))


def losses(other):
    """Held-out log losses by this source and by another one."""
    found = {}
    for name in HELD_OUT:
        sources = {"before": other, "now": str(HERE.parent / "src")}
        found[name] = {who: in_process(sys.executable, at, "--loss", name) for who, at in sources.items()}
        print(name, found[name], flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help="of small, curve, threads, memory, earlier, losses; the first two by default"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="longest fit of the curve")
    parser.add_argument("--against", help="source folder of the earlier commit")
    parser.add_argument("--data", nargs="*", default=["iris", "wine", "glass", "magic"])
    parser.add_argument("--rows", type=int, nargs="+", default=THREADED, help="sizes of threads; others stay as stored")
    parser.add_argument("--peer", default=sys.executable, help="a Python that has GPy and GPyTorch, for the curve")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--loss", help=argparse.SUPPRESS)
    parser.add_argument("--elapsed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--curve", nargs=2, help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.one:
        return fit_one(settings.one)
    if settings.loss:
        return held_out_loss(settings.loss)
    if settings.elapsed:
        return fit_elapsed(settings.elapsed)
    if settings.curve:
        return fit_curve(settings.curve[0], int(settings.curve[1]))
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept["cpu"] = cpu()
    for part in settings.parts or ("small", "curve"):
        if part == "small":
            kept["small"] = {}
            for n in SIZES:
                kept["small"][str(n)] = small(n)
                print(n, kept["small"][str(n)], flush=True)
        elif part == "curve":
            found = kept.setdefault("curve", {})
            for _ in curve(settings.minutes, settings.peer, found):
                KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        elif part == "earlier" and settings.against:
            commit = subprocess.run(
                ["git", "-C", settings.against, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
            ).stdout.strip()
            known = kept.get("earlier", {}).get("times", {})
            kept["earlier"] = {"commit": commit, "times": known | earlier(settings.against, settings.data, 3)}
        elif part == "threads":
            kept["threads"] = kept.get("threads", {}) | threads(settings.rows)
        elif part == "memory":
            from benchmarks.dense_memory import peak

            kept["memory"] = {name: peak(ROWS_OF_MEMORY, name) for name in INFERENCES}
        elif part == "losses" and settings.against:
            kept["losses"] = losses(settings.against)
        else:
            parser.error(f"unknown part {part!r}, or --against is missing")
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return write(kept)


if __name__ == "__main__":
    main()
