"""Does integrating over θ pay on few rows? Held-out log loss of ML-II, MAP and full Bayes over repeated splits.

``python -m benchmarks.bayes_small [data ...] [--minutes M]`` trains on 25 to 100 rows, drawn anew for each split with
two of every class at least, and tests on at most 500 of the others. All sides have the exact posterior of the latent
values and the same kernel, one length scale or one per input; MAP and the chains have the default priors. Results are
kept split by split in bayes_small.json, so that an interrupted run goes on; every run writes the table of
``docs/bayes.md``; ``--page`` writes it alone.
"""

import json
import time
import warnings

import numpy as np
from scipy.stats import t
from sklearn.datasets import load_iris, load_wine
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from benchmarks.common import HERE, between, resumable
from gpclass import GPClassifier
from gpclass.datasets import load
from gpclass.hyper import PseudoMarginal

KEPT = HERE / "bayes_small.json"
PAGE = HERE.parent / "docs" / "bayes.md"
MARK = "<!-- small sets -->"
OWN = {"iris": load_iris, "wine": load_wine}
SETS = {
    "synthetic": "ripley_synth_test", "crabs": "crabs", "pima": "pima_ripley_test", "thyroid": "new_thyroid",
    "breast": "breast_wisconsin_683", "iris": None, "wine": None,
}  # fmt: skip
SIZES, MOST_TEST = (25, 100), 500
SPLITS, ENOUGH = 6, 4  # and how many of them, at least, have an error
LABELS = {"maximize": "ML-II", "map": "MAP", "bayes": "full Bayes"}


def strategies():
    """What each side does with θ."""
    return {"maximize": "maximize", "map": "map", "bayes": PseudoMarginal(chains=2, draws=50, keep=100, vectors=1)}


def data(name):
    """Features and whole-number labels of a set."""
    if name in OWN:
        return OWN[name](return_X_y=True)
    found = load(SETS[name])
    X = np.asarray(found.X, dtype=float)
    return X, np.unique(found.y, return_inverse=True)[1]


def split(y, n, k):
    """Rows to train and to test on."""
    for attempt in range(1000):
        order = np.random.default_rng([k, n, attempt]).permutation(len(y))
        if np.bincount(y[order[:n]], minlength=y.max() + 1).min() >= 2:
            return order[:n], order[n : n + MOST_TEST]
    raise ValueError("no split has two rows of every class")


def measured(name, n, covariance, k):
    """Log loss and processor seconds of all sides on one split."""
    X, y = data(name)
    train, test = split(y, n, k)
    scaler, found = StandardScaler().fit(X[train]), {}
    for side, strategy in strategies().items():
        lengths = 1.0 if covariance == "isotropic" else np.ones(X.shape[1])
        clf = GPClassifier(1.0 * RBF(lengths), hyperparameters=strategy, random_state=0)
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(scaler.transform(X[train]), y[train])
            proba = clf.predict_proba(scaler.transform(X[test]))
        found[side] = [log_loss(y[test], proba, labels=clf.classes_), time.process_time() - begin]
    return found


def cases():
    """Data, rows and covariance, those that cost least first."""
    for n in SIZES:
        for covariance in ("isotropic", "ard"):
            for name in SETS:
                if n < 100 or name not in OWN:  # of the smallest sets too few rows would be left
                    yield name, n, covariance


def keyed(*case):
    return " / ".join(map(str, case))


def table(stored):
    """One line per case, then one for each number of rows and covariance, over its sets."""
    lines = [
        "| data | classes | inputs | n | covariance | splits | ML-II | MAP | full Bayes | full Bayes − ML-II | "
        "full Bayes − MAP | seconds, ML-II | MAP | full Bayes |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = {}
    for name, n, covariance in cases():
        runs = stored.get(keyed(name, n, covariance), [])
        if not runs:
            continue
        loss = {side: np.array([run[side][0] for run in runs]) for side in LABELS}
        seconds = [f"{np.mean([run[side][1] for run in runs]):.1f}" for side in LABELS]
        gaps = {side: loss["bayes"] - loss[side] for side in ("maximize", "map")}
        X, y = data(name)
        lines.append(
            f"| {name} | {y.max() + 1} | {X.shape[1]} | {n} | {covariance} | {len(runs)} | "
            + " | ".join(f"{loss[side].mean():.3f}" for side in LABELS)
            + f" | {said(gaps['maximize'])} | {said(gaps['map'])} | {' | '.join(seconds)} |"
        )
        groups.setdefault((n, covariance), {})[name] = gaps
    lines += [
        "",
        "| n | covariance | sets | runs | full Bayes − ML-II | lower on | higher on | full Bayes − MAP | lower on | "
        "higher on |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (n, covariance), sets in groups.items():
        sides = (over_sets({name: gaps[side] for name, gaps in sets.items()}) for side in ("maximize", "map"))
        runs = sum(len(gaps["map"]) for gaps in sets.values())
        lines.append(f"| {n} | {covariance} | {len(sets)} | {runs} | {' | '.join(sum(sides, ()))} |")
    return "\n".join(lines)


def over_sets(gaps):
    """Differences by set: their mean with the error between sets, the sets where they are negative, and the others."""
    means = np.array([each.mean() for each in gaps.values()])
    names = [f"**{name}**" if is_clear(each) else name for name, each in gaps.items()]
    sides = ([name for name, mean in zip(names, means, strict=True) if (mean < 0) == low] for low in (True, False))
    return said(means), *(", ".join(side) or "none" for side in sides)


def error_of(gaps):
    return gaps.std(ddof=1) / np.sqrt(len(gaps))


def is_clear(gaps):
    """Whether the mean of differences is outside the 95 % interval of Student's t about zero; never of few."""
    return len(gaps) >= ENOUGH and abs(gaps.mean()) > t.ppf(0.975, len(gaps) - 1) * error_of(gaps)


def said(gaps):
    """Mean and standard error of differences, bold if it is clear; the mean alone of few."""
    if len(gaps) < ENOUGH:
        return f"{gaps.mean():+.3f}"
    bold = "**" if is_clear(gaps) else ""
    return f"{bold}{gaps.mean():+.3f} ± {error_of(gaps):.3f}{bold}"


def main():
    asked, stored = resumable(__doc__, SETS, "split"), json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for k in range(SPLITS):
        for case in cases():
            runs = stored.setdefault(keyed(*case), [])
            if case[0] not in asked.data or len(runs) != k or time.monotonic() > asked.end:
                continue
            runs.append(measured(*case, k))
            KEPT.write_text(json.dumps(stored).replace("]], ", "]],\n").replace("]}], ", "]}],\n") + "\n")
            print(*case, k, runs[-1], flush=True)
    between(PAGE, MARK, table(stored))


if __name__ == "__main__":
    main()
