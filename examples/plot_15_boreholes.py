"""
Boreholes: rock types in three dimensions
=========================================

Boreholes show which rock lies at which depth. From these to the probability of every rock in a block of ground, the
share of each in a volume that will be dug, and files for a geographic information system.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from gpclass import GPClassifier
from gpclass.geostat import SpatialBlocks, predict_maps, regular_grid, simulate
from gpclass.kernels import matern
from gpclass.metrics import log_loss

# %%
# Simulated ground: clay over sand, with a lens of gravel. Twenty-five boreholes, a sample every 5 m.
rng = np.random.default_rng(1)
holes = pd.DataFrame({"east": 1000 * rng.random(25), "north": 1000 * rng.random(25)})
rows = holes.loc[holes.index.repeat(8)].assign(depth=np.tile(np.arange(-37.5, 0, 5.0), 25))


def rock(at):
    """What is really there."""
    base = -22 + 6 * np.sin(at["east"] / 200) + 0.008 * at["north"]
    lens = np.hypot((at["east"] - 600) / 250, (at["north"] - 400) / 300) ** 2 + ((at["depth"] + 25) / 8) ** 2 < 1
    return np.where(lens, "gravel", np.where(at["depth"] > base, "clay", "sand"))


rows["rock"] = rock(rows)
print(rows.head(8).to_string(index=False))
print(rows["rock"].value_counts().to_dict())

# %%
# Boreholes are close in depth and far apart on the map, so depth has a length scale of its own. It starts from the
# distances in the data and is found with the others; a prior keeps the variance finite where rocks are nearly separate.
# Whole parts of the map are left out to judge the model: samples of the same borehole would make it look too good.
X, y = rows[["east", "north", "depth"]], rows["rock"].to_numpy()
kernel = matern(4.0, [300.0, 300.0, 10.0], 1.5)
clf = GPClassifier(kernel, inference="laplace", hyperparameters="map", random_state=0).fit(X, y)
print(clf.kernel_)
p = np.zeros((len(y), 3))
for train, test in SpatialBlocks(4).split(X[["east", "north"]], y):
    fold = GPClassifier(clf.kernel_, inference="laplace", hyperparameters="fixed").fit(X.iloc[train], y[train])
    p[np.ix_(test, np.searchsorted(clf.classes_, fold.classes_))] = fold.predict_proba(X.iloc[test])
shares = np.array([np.mean(y == c) for c in clf.classes_])
print(f"log loss {log_loss(y, p, clf.classes_):.3f}; by the shares of the rocks {-np.sum(shares * np.log(shares)):.3f}")

# %%
# One call has the probability of every rock in every cell. A vertical section through the lens, and the truth.
cells = regular_grid(X, (20, 20, 15))
maps = predict_maps(clf, cells, coordinates=(0, 1, 2))
east, north, depth = maps.axes
k = int(np.argmin(np.abs(north - 400)))
truth = rock(cells).reshape(15, 20, 20)[:, k]
fig, axes = plt.subplots(2, 2, figsize=(11, 5.4), sharex=True, sharey=True, layout="constrained")
for ax, name, proba in zip(axes.flat, maps.classes, maps.proba, strict=False):
    image = ax.pcolormesh(east, depth, proba[:, k], vmin=0, vmax=1, cmap="viridis")
    ax.contour(east, depth, truth == name, levels=[0.5], colors="w", linewidths=1.5)
    ax.set_title(f"probability of {name} (white: the truth)", fontsize=10)
best = maps.proba[:, :, k].argmax(axis=0)
axes[1, 1].pcolormesh(east, depth, best, cmap="Set2", vmin=0, vmax=7)
axes[1, 1].set_title("most probable rock: " + ", ".join(maps.classes), fontsize=10)
for ax in axes[:, 0]:
    ax.set_ylabel("depth (m)")
for ax in axes[1]:
    ax.set_xlabel("east (m)")
fig.colorbar(image, ax=axes)
plt.show()

# %%
# Block averages: the expected share of every rock in blocks of 5 × 5 × 5 cells, here the one that holds the lens.
blocks = maps.block_average(5)
at = tuple(int(np.argmin(np.abs(axis - value))) for axis, value in zip(blocks.axes, (600, 400, -25), strict=True))
print(dict(zip(maps.classes, blocks.proba[(slice(None), *at[::-1])].round(2).tolist(), strict=True)))

# %%
# How much gravel is in that volume? The mean is not enough: draws of the whole block, given the boreholes, have the
# neighbours' common uncertainty in them.
inside = cells[(np.abs(cells["east"] - 600) < 120) & (np.abs(cells["north"] - 400) < 120) & (cells["depth"] < -12)]
drawn = simulate(clf, inside, 500, label="gravel", random_state=0)
low, high = drawn.share_quantile([0.05, 0.95])
print({name: str(share) for name, share in drawn.shares().items()})
print(f"gravel: {low:.0%} to {high:.0%} of the volume; the truth is {np.mean(rock(inside) == 'gravel'):.0%}")

# %%
# For other programs: NetCDF takes the whole block, a GeoTIFF one level, with its reference system.
with tempfile.TemporaryDirectory() as folder:
    maps.write(Path(folder) / "ground.nc", crs="EPSG:28992")
    level = cells[np.isclose(cells["depth"], depth[5])]
    predict_maps(clf, level, coordinates=(0, 1)).write(Path(folder) / "level.tif", crs="EPSG:28992")
    print({file.name: f"{file.stat().st_size // 1024} kB" for file in sorted(Path(folder).iterdir())})
