"""
Indicator kriging and the exact classifier
==========================================

A map of a category from scattered samples, by classical and simplicial indicator kriging, and by the model in
which labels are drawn from a latent field. The field is simulated, so the true probability is known.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from gpclass import GPClassifier, IndicatorKriging
from gpclass.datasets import roeder_field
from gpclass.kernels import matern

data = roeder_field(600, sill=9.0, nu=1.5, length_scale=0.25, random_state=4)
train, test = np.arange(100), np.arange(100, 600)
models = {
    "classical": IndicatorKriging("classical"),
    "simplicial": IndicatorKriging("simplicial"),
    "exact, latent field": GPClassifier(
        matern(9.0, 0.25, 1.5), likelihood="logit", hyperparameters="fixed", tol=3e-3, random_state=0
    ),
}
grid = np.stack(np.meshgrid(np.linspace(0, 1, 40), np.linspace(0, 1, 40)), axis=-1)
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classical kriging warns of values outside [0, 1]
        model.fit(data.X[train], data.y[train])
        p = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(40, 40)
        off = np.abs(model.predict_proba(data.X[test])[:, 1] - data.probability[test, 1]).mean()
    ax.contourf(grid[..., 0], grid[..., 1], p, levels=np.linspace(0, 1, 11), cmap="RdBu_r")
    ax.contour(grid[..., 0], grid[..., 1], p, levels=[0.5], colors="k")
    ax.scatter(*data.X[train].T, c=data.y[train], cmap="RdBu_r", edgecolor="k", linewidth=0.5, s=22)
    ax.set(title=f"{name}: off by {off:.3f}", xlabel="east")
axes[0].set_ylabel("north")
plt.show()

# %%
# The two kriging maps have the same decision line; classical kriging gives values outside [0, 1].
print(models["classical"].outside(grid.reshape(-1, 2)))
