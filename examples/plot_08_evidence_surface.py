"""
The evidence as a surface
=========================

Kernel parameters are found by maximising the log evidence. A plot over two parameters shows how well the data
determine them, and whether there is a second maximum.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier
from gpclass.plots import evidence_surface

X, y = make_moons(60, noise=0.3, random_state=0)
clf = GPClassifier(ConstantKernel(1.0) * RBF(1.0), inference="laplace").fit(X, y)
evidence_surface(clf, resolution=15)
plt.show()

# %%
# The ridge is common: a larger variance with a longer length scale gives nearly the same decision line. A
# prior (``hyperparameters="map"``) selects a point on it.
from gpclass.priors import LogNormal  # noqa: E402

penalised = GPClassifier(
    ConstantKernel(1.0) * RBF(1.0),
    inference="laplace",
    hyperparameters="map",
    priors={"*constant*": LogNormal(0.0, 1.0), "*length_scale*": LogNormal(0.0, 0.5)},
).fit(X, y)
print("maximum of the evidence:", clf.kernel_)
print("with a prior:           ", penalised.kernel_)
