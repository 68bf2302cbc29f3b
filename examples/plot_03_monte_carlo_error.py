"""
Setting the Monte Carlo error
=============================

``tol`` is the target Monte Carlo standard error of the exact method. Fits with different seeds show that the reported
error agrees with the true error.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from gpclass import GPClassifier
from gpclass.inference import Exact
from gpclass.kernels import filippone

X, y = make_moons(40, noise=0.3, random_state=1)
new = np.array([[0.5, 0.25]])
kernel = filippone(6.0, 0.6)


def fit(tol, seed):
    return GPClassifier(kernel, hyperparameters="fixed", tol=tol, random_state=seed).fit(X, y)


fine = GPClassifier(kernel, inference=Exact(tol=2e-4, max_samples=400_000), hyperparameters="fixed", random_state=0)
truth = fine.fit(X, y).predict_uncertainty(new)
tolerances = [3e-3, 1e-3, 5e-4]
fig, ax = plt.subplots(figsize=(6, 3.6))
for k, tol in enumerate(tolerances):
    answers = [fit(tol, seed).predict_uncertainty(new) for seed in range(1, 11)]
    off = [a.proba[0, 1] - truth.proba[0, 1] for a in answers]
    stated = np.mean([a.mcse[0, 1] for a in answers])
    ax.plot([k] * len(off), off, "o", alpha=0.5, color="C0")
    ax.errorbar([k + 0.2], [0], yerr=[2 * stated], color="C1", capsize=4)
    print(f"tol {tol:g}: reported {stated:.1e}, true {np.sqrt(np.mean(np.square(off))):.1e}")
ax.set_xticks(range(len(tolerances)), [f"{t:g}" for t in tolerances])
ax.set(xlabel="tol", ylabel="probability minus a more accurate one", title="Ten seeds, and ± two reported errors")
plt.show()
