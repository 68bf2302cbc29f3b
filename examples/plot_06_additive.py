"""
Additive models
===============

A sum of kernels, each on one feature, is a sum of functions of one feature each. With few points in several dimensions
this is often the better model; the evidence shows it without a test set.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier
from gpclass.kernels import on
from gpclass.plots import partial_dependence

rng = np.random.default_rng(1)
X = rng.uniform(-2, 2, size=(150, 4))
latent = 2 * np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1.5
y = (latent + rng.standard_normal(150) > 0).astype(int)

joint = 1.0 * RBF([1.0] * 4) + ConstantKernel(1.0)
additive = sum((1.0 * on(RBF(1.0), k) for k in range(1, 4)), 1.0 * on(RBF(1.0), 0)) + ConstantKernel(1.0)
fits = {}
for name, kernel in (("joint", joint), ("additive", additive)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lengths of irrelevant features are at their bounds
        fits[name] = GPClassifier(kernel, inference="laplace").fit(X, y)
    print(f"{name:9s} log evidence {fits[name].log_evidence_:.2f}")

# %%
# Averaged over the other features, the probability follows the true function.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for k, ax in enumerate(axes):
    partial_dependence(fits["additive"], X, k, ax=ax)
plt.show()
