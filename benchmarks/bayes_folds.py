"""Many classes with sampled θ: ten-fold log loss of iris and glass beside ML-II's.

``python -m benchmarks.bayes_folds [data ...]``. Both sides have multinomial probit, one kernel with one length scale
for all classes, inputs standardised on the training rows, and the exact posterior of the latent values; the chains
have the default priors. Results are kept fold by fold in bayes_folds.json, so that an interrupted run goes on;
``--minutes`` starts no fold after that time, and ``--page`` writes the table of ``docs/bayes.md`` alone.
"""

import json
import time
import warnings

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks.bayes_small import said
from benchmarks.common import HERE, between, resumable
from gpclass import GPClassifier
from gpclass.datasets import load
from gpclass.hyper import PseudoMarginal
from gpclass.inference.diagnostics import RHAT_LIMIT

KEPT = HERE / "bayes_folds.json"
PAGE = HERE.parent / "docs" / "bayes.md"
MARK = "<!-- folds -->"
SETS = {"iris": "iris", "glass": "glass_uci"}
FOLDS = 10
SIDES = {"ML-II": "maximize", "full Bayes": PseudoMarginal(chains=2, keep=100, vectors=1)}


def measured(X, y, train, test):
    """Log loss of each test row, processor seconds and, of chains, R-hat and effective draws."""
    scaler, found = StandardScaler().fit(X[train]), {}
    for side, strategy in SIDES.items():
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = GPClassifier(1.0 * RBF(1.0), hyperparameters=strategy, random_state=0)
            clf.fit(scaler.transform(X[train]), y[train])
            proba = clf.predict_proba(scaler.transform(X[test]))
        own = proba[np.arange(len(test)), np.searchsorted(clf.classes_, y[test])]
        found[side] = {
            "loss": (-np.log(own)).tolist(),
            "wrong": int(np.sum(clf.classes_[proba.argmax(axis=1)] != y[test])),
            "seconds": time.process_time() - begin,
        }
        if side == "full Bayes":
            found[side] |= {"rhat": float(clf.fit_report_.rhat), "effective": float(clf.posterior_.report.ess)}
    return found


def folds(name):
    """Features, labels, and the rows of every fold."""
    data = load(SETS[name])
    X, y = np.asarray(data.X, dtype=float), np.unique(data.y, return_inverse=True)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one class of glass has nine rows
        return X, y, list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))


def kept():
    """The stored results."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def table(stored):
    """One line per data set."""
    lines = [
        "| data | n | classes | folds | ML-II | full Bayes | full Bayes − ML-II | wrong, ML-II | full Bayes | "
        "seconds per fold, ML-II | full Bayes | largest R-hat |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in stored.items():
        _, y, _ = folds(name)
        loss = {side: np.array([np.mean(run[side]["loss"]) for run in runs]) for side in SIDES}
        whole = {side: np.mean(np.concatenate([run[side]["loss"] for run in runs])) for side in SIDES}
        wrong, seconds = ({side: [run[side][what] for run in runs] for side in SIDES} for what in ("wrong", "seconds"))
        lines.append(
            f"| {name} | {len(y)} | {y.max() + 1} | {len(runs)} | {whole['ML-II']:.3f} | {whole['full Bayes']:.3f} | "
            f"{said(loss['full Bayes'] - loss['ML-II'])} | {sum(wrong['ML-II'])} | {sum(wrong['full Bayes'])} | "
            f"{np.mean(seconds['ML-II']):.0f} | {np.mean(seconds['full Bayes']):.0f} | "
            f"{max(run['full Bayes']['rhat'] for run in runs):.3f} |"
        )
    return "\n".join([*lines, "", *(progress(name, runs) for name, runs in stored.items())]) + "\n"


def progress(name, runs):
    """How many folds have run, and in how many of them the chains had not mixed."""
    apart = sum(run["full Bayes"]["rhat"] > RHAT_LIMIT for run in runs)
    mixed = (
        f"in {apart} of them R-hat is above {RHAT_LIMIT:g}, so that the chains had not mixed, and the figures of "
        "full Bayes are preliminary."
        if apart
        else "the chains of all have mixed."
    )
    return f"{name.capitalize()}: {len(runs)} of {FOLDS} folds have run; {mixed}"


def main():
    asked = resumable(__doc__, SETS, "fold")
    for name in asked.data:
        X, y, parts = folds(name)
        while (done := len(kept().get(name, []))) < FOLDS and time.monotonic() < asked.end:
            new = measured(X, y, *parts[done])
            KEPT.write_text(json.dumps({**kept(), name: [*kept().get(name, []), new]}) + "\n")
            print(
                name, done + 1, {side: (np.mean(one["loss"]), one["seconds"]) for side, one in new.items()}, flush=True
            )
    between(PAGE, MARK, table(kept()))
    print(table(kept()))


if __name__ == "__main__":
    main()
