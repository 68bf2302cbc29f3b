"""What the planner says a fit will take, beside what it took: CPU seconds and their ratio."""

import time
import warnings

from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF

from benchmarks.common import show
from gpclass import GPClassifier
from gpclass.estimators import planner

FITS = [("laplace", "fixed", 1500), ("ep", "fixed", 700), ("laplace", "maximize", 900)]


def main():
    """Each fit planned from subsets, then run."""
    warnings.simplefilter("ignore")
    planner.clock = time.process_time  # other work on the machine does not count
    rows = []
    for inference, strategy, n in FITS:
        X, y = make_moons(n, noise=0.3, random_state=0)
        clf = GPClassifier(2.0 * RBF(0.8), inference=inference, hyperparameters=strategy)
        plan = clf.plan(X, y, budget=0.7)
        began = time.process_time()
        clf.fit(X, y)
        took = time.process_time() - began
        value = f"{plan.seconds:.2f} / {took:.2f} = {plan.seconds / took:.2f}"
        rows.append((f"{inference}, {strategy}, n = {n}: planned / taken", value, "wanted: 0.25 to 4"))
    show("The planner: CPU seconds", rows)


if __name__ == "__main__":
    main()
