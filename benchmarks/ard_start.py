"""Length scales started from a cheap screening of the columns, beside the start as it is.

``python -m benchmarks.ard_start [--stop evidence] [--sets ...] [--splits ...]`` prints a table. The screened start has
the length scales 1/√(information of a column about the label, in ten bins), with the mean of 1/l² of the given ones;
the first stage, on 2,000 rows, goes on from either. Rows and random numbers are the same; differences are screened less
given, paired by split. One thread; 16,000 rows at most, 100 inducing inputs.
"""

import argparse
import os
import time
import warnings
from dataclasses import replace

os.environ.setdefault("THREADS", "1")  # before benchmarks.sparse

import numpy as np

from benchmarks.sparse import ard, load_split
from benchmarks.svgp import log_loss

ROWS, M, TESTED = 16_000, 100, 10_000
BINS, FLOOR = 10, 0.02  # and the least information of a column, as a share of the largest


def information(x, labels):
    """Mutual information of a column, in bins, and the label, in nats, less its bias."""
    edges = np.unique(np.quantile(x, np.linspace(0, 1, BINS + 1)[1:-1]))
    counts = np.zeros((len(edges) + 1, labels.max() + 1))
    np.add.at(counts, (np.searchsorted(edges, x, side="right"), labels), 1)
    P = counts[counts.sum(axis=1) > 0] / len(x)
    expected = P.sum(axis=1, keepdims=True) * P.sum(axis=0)
    some = P > 0
    bias = (P.shape[0] - 1) * (P.shape[1] - 1) / (2 * len(x))
    return max(float(np.sum(P[some] * np.log(P[some] / expected[some]))) - bias, 0.0)


def screened(problem):
    """The problem with length scales by the information of their columns, the second to the last but one of θ."""
    labels = problem.likelihood.decode(problem.y)
    told = np.array([information(x, labels) for x in problem.X.T])
    theta, ends = problem.theta.copy(), slice(1, -1)
    lengths = -0.5 * np.log(told + FLOOR * told.max() + 1e-4)
    theta[ends] = lengths + 0.5 * np.log(np.mean(np.exp(-2 * lengths)) / np.mean(np.exp(-2 * theta[ends])))
    there = problem.at(np.clip(theta, *problem.bounds.T))
    form = replace(there.form, Z=None)
    return replace(there, form=form.placed(replace(there, form=form), np.random.default_rng(1), at_most=M))


def fitted(data, seed, screen, stop):
    """Log evidence of the first stage and of the end, log loss, evaluations, CPU seconds."""
    from gpclass import GPClassifier
    from gpclass.hyper import Maximize, Stages
    from gpclass.hyper.staged import climb

    first, ascend = [], climb.climb_few

    def watched(problem, *arguments):
        found = ascend(screened(problem) if screen else problem, *arguments)
        first.append(found.value)
        return found

    X, y, X_test, y_test = data
    strategy = Maximize(stages=Stages(stop=stop))
    clf = GPClassifier(ard(X.shape[1]), inference="ep", n_inducing=M, hyperparameters=strategy, random_state=seed)
    climb.climb_few, begin = watched, time.process_time()
    try:
        clf.fit(X, y)
    finally:
        climb.climb_few = ascend
    seconds = time.process_time() - begin
    loss = log_loss(y_test, clf.predict_proba(X_test)[:, 1])
    return np.array([max(first), clf.log_evidence_, loss, clf.fit_report_.evaluations, seconds])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stop", default="held-out", choices=("held-out", "evidence"))
    parser.add_argument("--sets", nargs="+", default=("covtype_binary", "magic", "electricity", "htru2"))
    parser.add_argument("--splits", nargs="+", type=int, default=(0, 1))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| table | split | first stage, nats | log evidence | log loss given | difference | evaluations | CPU s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in asked.sets:
        for seed in asked.splits:
            X, y, X_test, y_test = load_split(name, seed)
            data = X[:ROWS], y[:ROWS], X_test[:TESTED], y_test[:TESTED]
            given, other = (fitted(data, seed, screen, asked.stop) for screen in (False, True))
            by = other - given
            numbers = f"{by[0]:+.1f} | {by[1]:+.0f} | {given[2]:.4f} | {by[2]:+.4f}"
            work = " | ".join(f"{a:.0f}, {b:.0f}" for a, b in zip(given[3:], other[3:], strict=True))
            print(f"| {name} | {seed} | {numbers} | {work} |", flush=True)


if __name__ == "__main__":
    main()
