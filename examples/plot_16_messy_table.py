"""
A messy table, from the file to a decision
==========================================

A CSV as it comes: semicolons, decimal commas, missing values, a column of words, a class of one row in eight. What is
read is said, what cannot be read is an error that shows the values, and the probabilities of the rare class are checked
before they are used.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from gpclass import GPClassifier, compare, plots
from gpclass.cli.app import run
from gpclass.estimators.tables import TableClassifier

rng = np.random.default_rng(0)
n = 240
frame = pd.DataFrame(
    {
        "machine": [f"M{k:03d}" for k in range(n)],
        "load": rng.normal(50, 10, n).round(1),
        "heat": rng.normal(80, 6, n).round(1),
        "oil": rng.choice(["fresh", "used", "old"], n, p=[0.5, 0.3, 0.2]),
    }
)
risk = 0.15 * (frame["heat"] - 90) + 0.03 * (frame["load"] - 50) + 1.2 * (frame["oil"] == "old")
frame["state"] = np.where(risk + 0.7 * rng.normal(size=n) > 0, "failed", "runs")
frame.loc[rng.choice(n, 6, replace=False), "heat"] = np.nan
folder = Path(tempfile.mkdtemp())
frame.to_csv(folder / "machines.csv", sep=";", decimal=",", index=False)
print((folder / "machines.csv").read_text()[:160])

# %%
# On the command line: separator and decimal sign are seen, the names of machines are no feature, missing values are
# filled in and counted. ``gpclass fit machines.csv --target state --id machine --impute median`` saves a model.
words = ["--target", "state", "--id", "machine", "--impute", "median", "--inference", "laplace", "--quiet"]
code = run(["fit", str(folder / "machines.csv"), *words, "--out", str(folder / "machines.gpclass")])
print("exit code", code)

# %%
# The same in Python, with two methods compared on the same folds.
features, state = frame[["load", "heat", "oil"]], frame["state"].to_numpy()
methods = {
    name: TableClassifier(GPClassifier(inference=name, random_state=0), impute="median") for name in ("ep", "laplace")
}
found = compare(features, state, methods, cv=3, reference="ep")
print(found)

# %%
# Which columns matter, and are the probabilities calibrated? The axes follow the rare class.
best = found.results[found.recommended]
fig, axes = plt.subplots(1, 4, figsize=(15, 3.4), layout="constrained")
for k, ax in enumerate(axes[:3]):
    plots.partial_dependence(best.estimator, features, k, label="failed", max_rows=30, ax=ax)
plots.reliability_diagram(state, best.proba, classes=found.classes, label="failed", bins=5, ax=axes[3])
plt.show()

# %%
# A decision weighs costs: a check costs 1, a failure that nobody expected 20. Thresholds of one half would miss most.
cost = {"check": {"failed": 1.0, "runs": 1.0}, "leave": {"failed": 20.0, "runs": 0.0}}
decided = best.estimator.decide(features, cost)
print(pd.crosstab(state, decided.action))
