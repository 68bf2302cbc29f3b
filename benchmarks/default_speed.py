"""Is the default fast enough? Fits and predictions side by side with scikit-learn, written to docs/speed.md.

``python -m benchmarks.default_speed [small] [curve] [memory] [earlier losses --against SRC]`` (``make bench-default``:
the first two):

- ``small``: n = 50 to 800, three features, one thread, processor time, medians of five alternating repetitions.
- ``curve``: time against n from 100 to 10,000, each method up to the size that fits into ``--minutes`` per fit, and
  GPy's EP and GPyTorch's variational GP by the interpreter ``--peer``; what is stored is not run again.
- ``earlier``: default fits against those of another source folder (of an earlier commit, say), in processes that
  alternate: iris, wine, glass, and magic with 3,000 rows where the data are at hand (GPCLASS_DATA).
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

KEPT = HERE / "default_speed.json"
PAGE = HERE.parent / "docs" / "speed.md"
FIGURE = HERE.parent / "docs" / "figures" / "speed.png"
SIZES = (50, 100, 200, 400, 800)
LONG = (100, 200, 500, 1000, 2000, 5000, 10_000)
NEW_ROWS = 2000
REPEATS = 5
ROWS_OF_MEMORY = 2000
RESTARTS = 5
HELD_OUT = ("iris", "wine", "thyroid", "pima", "breast")  # sets whose log loss is compared
FILES = {
    "glass": "glass_uci",
    "magic": "magic",
    "thyroid": "new_thyroid",
    "pima": "pima_ripley_train",
    "breast": "breast_wisconsin_683",
}
INFERENCES = ("laplace", "ep", "exact")
LIMITS = {  # multiples of scikit-learn's time that we want to stay below, by n
    "laplace": {200: 0.5, 400: 0.5, 800: 0.5},
    "ep": dict.fromkeys(SIZES, 1.5),
    "exact": {50: 5, 100: 5, 200: 5, 400: 5, 800: 1.2},
    "predict": {50: 15, 100: 15, 200: 15, 400: 5, 800: 5},
    "uncertainty": dict.fromkeys(SIZES, 2.0),
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
    """Medians of all methods at one size, with what the exact fit reached."""
    from gpclass import GPClassifier

    X, y, kernel = problem(n)
    new = np.random.default_rng(5).standard_normal((NEW_ROWS, 3))
    makers = {"scikit-learn": lambda: GaussianProcessClassifier(kernel)}
    makers |= {name: lambda name=name: GPClassifier(kernel, inference=name, random_state=0) for name in INFERENCES}
    times = {}
    for _ in range(REPEATS):
        for name, make in makers.items():
            spent, fitted = seconds(lambda make=make: make().fit(X, y))
            times.setdefault((name, "fit"), []).append(spent)
            times.setdefault((name, "predict"), []).append(seconds(lambda m=fitted: m.predict_proba(new))[0])
            if name == "exact":
                times.setdefault((name, "uncertainty"), []).append(
                    seconds(lambda m=fitted: m.predict_uncertainty(new))[0]
                )
                exact = fitted
    best = GPClassifier(kernel, inference="ep", n_restarts=RESTARTS, random_state=0).fit(X, y)
    ep = GPClassifier(kernel, inference="ep", random_state=0).fit(X, y)
    return {
        "times": {" ".join(key): float(np.median(value)) for key, value in times.items()},
        "draws": exact.fit_report_.n_samples,
        "mcse": float(exact.predict_uncertainty(X).mcse.max()),
        "behind": float(best.log_evidence_ - ep.log_evidence_),
    }


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


def in_process(python, source, *arguments):
    """The seconds that another process of this script prints, with the sources of one commit."""
    path = os.pathsep.join([source, str(HERE.parent)])
    command = [python, "-m", "benchmarks.default_speed", *arguments]
    out = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
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


def page(kept):
    """The page, from what has been measured."""
    lines = [
        "# How fast is the default?",
        "",
        f"Made by `make bench-default` on {kept.get('cpu', cpu())}. All methods fit the kernel `1.0 * RBF(1.0)` by",
        "maximising their evidence.",
        "",
    ]
    if "small" in kept:
        lines += small_table(kept["small"])
    if "earlier" in kept:
        lines += [
            "",
            "## Against an earlier commit",
            "",
            f"Processor time of default fits, both in one run ({kept['earlier']['commit']} before).",
            "",
            "| data | before, s | now, s | times faster |",
            "|---|---:|---:|---:|",
            *(
                f"| {name} | {t['before']:.2f} | {t['now']:.2f} | {t['before'] / t['now']:.2f} |"
                for name, t in kept["earlier"]["times"].items()
            ),
        ]
    if "losses" in kept:
        lines += [
            "",
            "Held-out log loss of both, default fits on five folds:",
            "",
            "| data | before | now | difference |",
            "|---|---:|---:|---:|",
            *(
                f"| {name} | {t['before']:.4f} | {t['now']:.4f} | {t['now'] - t['before']:+.4f} |"
                for name, t in kept["losses"].items()
            ),
        ]
    if "memory" in kept:
        lines += [
            "",
            "## Memory",
            "",
            f"Peak of a fit with n = {ROWS_OF_MEMORY:,} rows of the problem above, in n² numbers of eight bytes;",
            "`exact` keeps its draws, n numbers each, of four bytes where these serve.",
            "",
            "| method | peak | draws | without them |",
            "|---|---:|---:|---:|",
            *(
                f"| {name} | {top:.1f} | {draws:.1f} | {top - draws:.1f} |"
                for name, (top, draws) in kept["memory"].items()
            ),
        ]
    if "curve" in kept:
        lines += [
            "",
            "## Time against n",
            "",
            "Processor seconds of one fit of the problem above with n rows, one thread, in its own process, as far",
            "as a fit takes minutes at most; and the slope of log time against log n over the largest three sizes.",
            "GPyTorch's variational GP ends when its bound gains less than a ten-thousandth in 20 steps of Adam.",
            "",
            "![Time of a fit against n](figures/speed.png)",
            "",
            "| n | " + " | ".join(kept["curve"]) + " |",
            "|---:|" + "---:|" * len(kept["curve"]),
        ]
        for n in map(str, LONG):
            row = [f"{kept['curve'][method][n]:.2f}" if n in kept["curve"][method] else "" for method in kept["curve"]]
            if any(row):
                lines.append(f"| {n} | " + " | ".join(row) + " |")
        lines.append("| slope | " + " | ".join(f"{slope(t):.1f}" for t in kept["curve"].values()) + " |")
        draw(kept["curve"])
    PAGE.write_text("\n".join(lines) + "\n")


def small_table(found):
    """Multiples of scikit-learn's times."""
    lines = [
        "## Small problems",
        "",
        f"Multiples of scikit-learn's `GaussianProcessClassifier` (fit, and `predict_proba` of {NEW_ROWS:,} rows;",
        f"three features, one thread, processor time, medians of {REPEATS}), `predict_uncertainty` as a multiple of",
        "`predict_proba`. In brackets what we aim at. The last columns: draws of the exact fit, the largest Monte",
        f"Carlo error at the training rows (`tol` is 0.001), and by how many nats the best of {RESTARTS} restarts of",
        "EP surpasses one ascent.",
        "",
        "| n | laplace fit | ep fit | exact fit | exact predict | uncertainty | draws | largest mcse | restarts gain |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for n, one in found.items():
        t = one["times"]
        row = [(name, t[f"{name} fit"] / t["scikit-learn fit"]) for name in INFERENCES]
        row += [
            ("predict", t["exact predict"] / t["scikit-learn predict"]),
            ("uncertainty", t["exact uncertainty"] / t["exact predict"]),
        ]
        cells = [f"{value:.1f}" + _aim(name, int(n)) for name, value in row]
        tail = f"{one['draws']:,} | {one['mcse']:.1e} | {one['behind']:.3f}"
        lines.append(f"| {n} | " + " | ".join(cells) + f" | {tail} |")
    return lines


def _aim(name, n):
    limit = LIMITS[name].get(n)
    return "" if limit is None else f" ({limit:g})"


def slope(times):
    """Of log time against log n, over the largest three sizes."""
    n, t = np.array([(float(n), value) for n, value in times.items()][-3:]).T
    return float(np.polyfit(np.log(n), np.log(t), 1)[0])


def draw(curves):
    """The figure."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6, 4))
    for method, times in curves.items():
        ax.loglog([int(n) for n in times], list(times.values()), "o-", label=f"{method} (slope {slope(times):.1f})")
    ax.set(xlabel="rows", ylabel="seconds of a fit")
    ax.legend(frameon=False)
    fig.savefig(FIGURE, dpi=120, bbox_inches="tight")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="of small, curve, memory, earlier, losses; small and curve by default")
    parser.add_argument("--minutes", type=float, default=10.0, help="longest fit of the curve")
    parser.add_argument("--against", help="source folder of the earlier commit")
    parser.add_argument("--data", nargs="*", default=["iris", "wine", "glass", "magic"])
    parser.add_argument("--peer", default=sys.executable, help="a Python that has GPy and GPyTorch, for the curve")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--loss", help=argparse.SUPPRESS)
    parser.add_argument("--curve", nargs=2, help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.one:
        return fit_one(settings.one)
    if settings.loss:
        return held_out_loss(settings.loss)
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
        elif part == "memory":
            from benchmarks.dense_memory import peak

            kept["memory"] = {name: peak(ROWS_OF_MEMORY, name) for name in INFERENCES}
        elif part == "losses" and settings.against:
            kept["losses"] = losses(settings.against)
        else:
            parser.error(f"unknown part {part!r}, or --against is missing")
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return page(kept)


if __name__ == "__main__":
    main()
