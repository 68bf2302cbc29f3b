"""
From a variogram to a map of exceedance
=======================================

Samples show whether a limit was exceeded. The variogram of that indicator, kriging, the exact map of a latent field,
and draws of the whole field: what is the probability that a tenth of the area, or any of it, exceeds?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from gpclass import GPClassifier, IndicatorKriging, plots
from gpclass.datasets import roeder_field
from gpclass.geostat import VariogramModel, empirical_variogram, fit_variogram, regular_grid, simulate

data = roeder_field(120, sill=9.0, nu=1.5, length_scale=0.25, random_state=4)
places, above = data.X, data.y

# %%
# The indicator is 1 where the limit is exceeded. Its variogram has a *sill* (its level at long distances), a *range*
# (the distance at which it reaches the sill) and a *nugget* (the jump at distance zero).
fitted = fit_variogram(empirical_variogram(places, above, lags=10))
plots.variogram(fitted)
plt.show()

# %%
# Kriging of the indicator, and the latent field whose kernel parameters maximise the evidence.
kriging = IndicatorKriging("classical", variogram=fitted.model).fit(places, above)
start = VariogramModel(sill=4.0, length_scale=fitted.model.practical_range() / 3, smoothness=1.5)
clf = GPClassifier(start.kernel(), likelihood="logit", tol=3e-3, random_state=0).fit(places, above)
print(VariogramModel.from_kernel(clf.kernel_))

fig, axes = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kriging warns of values outside [0, 1]
    plots.probability_map(
        kriging, places, above, resolution=40, title="indicator kriging", event="exceeding", ax=axes[0]
    )
plots.probability_map(clf, places, above, resolution=40, panel="interval", event="exceeding", ax=axes[1:])
for ax in axes:
    ax.set(xlabel="east (km)", ylabel="north (km)")
plt.show()

# %%
# Conditional simulation: four fields compatible with the samples.
cells = regular_grid(places, resolution=24)
drawn = simulate(clf, cells, 400, random_state=0)
fig, axes = plt.subplots(1, 4, figsize=(13, 3.4), sharex=True, sharey=True, layout="constrained")
for k, ax in enumerate(axes):
    image = ax.scatter(*np.asarray(cells).T, c=drawn.proba[k], cmap="RdBu_r", vmin=0, vmax=1, marker="s", s=14)
    ax.set(xlabel="east (km)", title=f"draw {k + 1}")
axes[0].set_ylabel("north (km)")
fig.colorbar(image, ax=axes, label="probability of exceeding")
plt.show()

# %%
# Statistics of the whole area.
for share in (0.1, 0.4, 0.6):
    print(f"at least {share:.0%} of the area exceeds: {drawn.at_least(share)}")
print("fraction of the area, 5 % and 95 % quantile:", drawn.share_quantile([0.05, 0.95]))
