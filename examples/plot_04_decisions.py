"""
Decisions with costs and a reject option
========================================

Mistakes have different costs. ``decide`` takes the action with the least expected cost, can reject where that is
cheaper, and marks decisions that the Monte Carlo error could change.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from gpclass import GPClassifier

X, y = make_moons(80, noise=0.3, random_state=2)
labels = np.array(["healthy", "ill"])[y]
clf = GPClassifier(random_state=0, tol=3e-3).fit(X, labels)

cost = {
    "send home": {"healthy": 0.0, "ill": 50.0},
    "treat": {"healthy": 10.0, "ill": 1.0},
}
found = clf.decide(X, cost, reject=4.0)  # an additional test costs 4 for either class
print(found)

# %%
# Where each action is taken:
grid = np.stack(np.meshgrid(np.linspace(-1.8, 2.8, 50), np.linspace(-1.3, 1.8, 50)), axis=-1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # far from the data the error is slightly above tol: irrelevant for a figure
    on_grid = clf.decide(grid.reshape(-1, 2), cost, reject=4.0)
fig, ax = plt.subplots(figsize=(6, 4.4), layout="constrained")
image = ax.pcolormesh(grid[..., 0], grid[..., 1], on_grid.index.reshape(50, 50), cmap="Pastel1", vmin=0, vmax=8)
for label, marker in (("healthy", "o"), ("ill", "^")):
    ax.scatter(*X[labels == label].T, marker=marker, s=18, label=label, edgecolor="k", linewidth=0.4)
for k, action in enumerate(on_grid.actions):
    ax.scatter([], [], marker="s", s=60, color=image.cmap(image.norm(k)), label=action)
fig.legend(loc="outside lower center", ncol=5, frameon=False)
ax.set(xlabel="feature 1", ylabel="feature 2", title="The action of least expected cost")
plt.show()
