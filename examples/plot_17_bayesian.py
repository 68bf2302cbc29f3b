"""
Priors, sampled kernel parameters, and what they change
=======================================================

For those who want the whole posterior: priors by name, chains over the kernel parameters with an unbiased evidence,
diagnostics, and the probabilities beside those at the maximum.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier
from gpclass.datasets import filippone_square
from gpclass.hyper import PseudoMarginal
from gpclass.priors import HalfNormal, InverseGamma

data = filippone_square(50, variance=10.0, length_scale=0.3, random_state=2)
kernel = ConstantKernel(1.0) * RBF(0.5)
priors = {"*constant_value": HalfNormal(5.0), "*length_scale": InverseGamma(3.0, 1.0)}

# %%
# The maximum first: one point, quick, and no uncertainty of the parameters in the probabilities.
point = GPClassifier(kernel, random_state=0).fit(data.X, data.y)
print(point.kernel_)

# %%
# Pseudo-marginal chains sample the parameters exactly, whatever the noise of the evidence. Chains this short are for a
# page; left to themselves (``PseudoMarginal()``) they grow until they have mixed.
strategy = PseudoMarginal(chains=2, warmup=150, draws=150)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # that the chains are short
    full = GPClassifier(kernel, hyperparameters=strategy, priors=priors, random_state=0).fit(data.X, data.y)
print(full.fit_report_)

# %%
# The trace is an object of ArviZ; draws of the parameters against their prior, and the probabilities of both fits.
posterior = full.trace_.posterior
names = list(posterior.data_vars)
rng = np.random.default_rng(0)
fig, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
for ax, name in zip(axes, names, strict=False):
    prior = next(p for pattern, p in priors.items() if name.endswith(pattern[1:]))
    drawn = np.exp(prior.draw(rng, 4000))
    values = np.asarray(posterior[name]).ravel()
    edges = np.geomspace(min(values.min(), np.quantile(drawn, 0.02)), max(values.max(), np.quantile(drawn, 0.98)), 30)
    ax.hist(drawn, edges, density=True, color="0.8", label="prior")
    ax.hist(values, edges, density=True, histtype="step", linewidth=2, label="posterior")
    ax.set(xscale="log", xlabel=name, title=f"{np.median(values):.3g}")
    ax.legend()
grid = np.random.default_rng(1).random((300, 2))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # the same: 300 draws leave errors above tol
    p, q = point.predict_proba(grid)[:, 1], full.predict_proba(grid)[:, 1]
axes[2].plot([0, 1], [0, 1], color="0.6")
axes[2].scatter(p, q, s=8)
axes[2].set(xlabel="p at the maximum", ylabel="p averaged over the parameters", title="averaging is more careful")
plt.show()
far = [float(np.abs(one - 0.5).mean().round(3)) for one in (p, q)]
print(f"mean distance from one half: {far[0]} at the maximum, {far[1]} averaged")
