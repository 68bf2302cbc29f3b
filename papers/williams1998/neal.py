"""Neal's own algorithm beside the interwoven chains of the tables: Gibbs scans, and relevances that share a mean.

Neal (1999), W's comparator: latent values one by one by Gibbs scans, kernel parameters by Hamiltonian dynamics given
these, and relevances w = ℓ⁻² whose common mean has a gamma prior. The tables of crabs and Pima use chains that also
move parameters given whitened latents, with W's priors, since his own mix slowly. Every row is stored when it is done;
a run with ``--minutes`` names the rows that it left, and how long these take.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.datasets import load
from gpclass.hyper import Alternate
from gpclass.inference import LatentHMC
from gpclass.kernels import williams_barber
from gpclass.metrics import log_loss
from gpclass.priors import LogNormal, SharedGamma
from papers.common import Section, Setting, Table, Verdict, tell
from papers.crabs import SEED, crabs_split
from papers.store import NoTime, cell
from papers.williams1998.glass import folds_of

OWN, WOVEN = "Neal's own: Gibbs scans, shared mean", "interwoven, W's priors"
TRIALS = (6, 18)  # iterations of two trials that tell how long a chain takes
MIXED = 1.1  # R-hat from which effective draws are not compared
PRIORS = {"*length_scale*": SharedGamma(power=-2.0), "*": LogNormal(-3.0, 3.0)}


def chains(setting: Setting, d: int, many: bool = False) -> dict[str, Any]:
    """Both, with chains of the same length."""
    length = setting.choose(
        {"chains": 2, "warmup": 60, "draws": 200},
        {"chains": 4, "warmup": 200, "draws": 1000},
        {"chains": 2, "warmup": 10, "draws": 20},
    )
    common = {"likelihood": "softmax" if many else "logit", "tol": 0.1, "random_state": setting.seed}
    woven = Alternate(move="hmc", given="both", default_priors="williams-barber", **length)
    return {
        OWN: GPClassifier(
            williams_barber(d), inference="gibbs", hyperparameters=Alternate.neal(**length), priors=PRIORS, **common
        ),
        WOVEN: GPClassifier(williams_barber(d), inference=LatentHMC(around="laplace"), hyperparameters=woven, **common),
    }


def tasks(setting: Setting) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Name to training and test rows: crabs without colour; but for the quick size Pima; in full a fold of glass."""
    data = load("crabs")
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y)
    colour = list(data.feature_names).index("colour")
    train, rest = crabs_split(X[:, colour], y, 20, SEED), np.delete(X, colour, axis=1)
    found = {"crabs": (rest[train], y[train], rest[~train], y[~train])}
    if not setting.quick:
        one, two = load("pima_ripley_train"), load("pima_ripley_test")
        found["pima"] = tuple(np.asarray(part) for part in (one.X, one.y, two.X, two.y))
    if setting.full:  # scans of six latent values a fragment take minutes
        glass = load("forensic_glass_fgl")
        X, y = np.asarray(glass.X, dtype=float), np.unique(np.asarray(glass.y), return_inverse=True)[1]
        some, others = folds_of(y, setting.seed)[0]
        found["glass"] = (X[some], y[some], X[others], y[others])
    return found


def measured(clf: Any, X: Any, y: Any, X_new: Any, y_new: Any) -> dict[str, Any]:
    """Errors, log loss, effective draws of θ, acceptance of θ's moves, and CPU seconds."""
    begin, scaler = time.process_time(), StandardScaler().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains that have not mixed: the table says so
        proba = clf.fit(scaler.transform(X), y).predict_proba(scaler.transform(X_new))
    report = clf.fit_report_
    return {
        "errors": int(np.sum(clf.classes_[proba.argmax(axis=1)] != y_new)),
        "loss": log_loss(y_new, proba),
        "effective": report.ess,
        "rhat": report.rhat,
        "seconds": time.process_time() - begin,
    }


def seconds_of(clf: Any, parts: tuple[Any, Any, Any, Any]) -> float:
    """CPU seconds of the whole chains, each iteration as what a longer trial takes beyond a shorter one."""
    chains, spent = clf.hyperparameters, []
    for length in TRIALS:
        short = replace(chains, chains=1, warmup=length // 3, draws=length - length // 3)
        spent.append(measured(clone(clf).set_params(hyperparameters=short), *parts)["seconds"])
    each = (spent[1] - spent[0]) / (TRIALS[1] - TRIALS[0])
    return float(each * chains.chains * (chains.warmup + chains.draws))


def run(setting: Setting) -> Section:
    """Both chains on all sets; of chains for which there is no time, how long they would take."""
    rows, per, worst, later = [], {}, 0.0, []
    for name, parts in tasks(setting).items():
        for label, clf in chains(setting, parts[0].shape[1], len(np.unique(parts[1])) > 2).items():
            settings = {"method": repr(clf)}
            kept = f"{setting.size}-neal-{name}-{'own' if label == OWN else 'woven'}"
            length = clf.hyperparameters
            try:
                found = cell("williams1998", kept, settings, partial(measured, clf, *parts))
            except NoTime:
                if not rows:
                    raise
                hours = seconds_of(clf, parts) / 3600
                later.append(f"{name}, {label}, {length.chains} x {length.draws}: about {hours:.1f} hours")
                continue
            rows.append((name, label, f"{length.chains} x {length.draws}", *found.values()))
            per[name, label] = found["effective"] / found["seconds"]
            worst = max(worst, found["rhat"])
            tell("neal", *rows[-1])
    ratios = [per[name, WOVEN] / per[name, OWN] for name in tasks(setting) if {(name, WOVEN), (name, OWN)} <= set(per)]
    verdict = Verdict(
        "interwoven chains have more effective draws per second than Neal's own",
        "above 1 on every set",
        ", ".join(f"{ratio:.1f}" for ratio in ratios),
        bool(ratios) and min(ratios) > 1.0,
    )
    table = Table(
        "neal",
        ("data", "chains", "length", "errors", "log loss", "effective draws of θ", "R-hat", "CPU seconds"),
        tuple(rows),
    )
    notes = []
    if later:
        notes.append(
            "Not measured yet, and so not shown, since a scan visits every latent value, six of them for each fragment "
            f"of glass; one processor takes, by trials of {TRIALS[0]} and {TRIALS[1]} iterations: {'; '.join(later)}."
        )
    if worst >= MIXED:
        notes.append(
            f"R-hat is above {MIXED} at this length: the chains have not mixed, and the effective draws are an order "
            "of magnitude at best. `pseudo-marginal` does not move θ given the latent values at all."
        )
    verdicts = (verdict,) if worst < MIXED else ()
    return Section("neal", "Neal's own algorithm", (table,), verdicts, tuple(notes))
