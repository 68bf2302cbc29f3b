"""
Plan, fit, save, load
=====================

Estimate the cost, fit, save the model in one file, and load it elsewhere.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons

from gpclass import GPClassifier, load_model

X, y = make_moons(300, noise=0.3, random_state=0)
clf = GPClassifier(inference="ep")
print(clf.plan(X, y, budget=1.0))

# %%
# The plan runs the same fit on a few small subsets on this machine and extrapolates.
clf.fit(X, y)
print(f"it took {clf.fit_report_.seconds:.2f} s")

# %%
# A saved model is a zip archive of JSON and arrays with checksums. It contains no pickle, so opening a file runs no
# code. A damaged file raises an error.
path = clf.save(Path(tempfile.mkdtemp()) / "moons.gpclass")
again = load_model(path)
print(path.stat().st_size, "bytes; identical:", np.array_equal(again.predict_proba(X), clf.predict_proba(X)))

damaged = bytearray(path.read_bytes())
damaged[len(damaged) // 2] ^= 1
path.write_bytes(damaged)
try:
    load_model(path)
except ValueError as error:
    print(type(error).__name__)
