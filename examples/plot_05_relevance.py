"""
Which features matter
=====================

A length scale for each feature (ARD): the evidence lets those of useless features grow.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpclass import GPClassifier
from gpclass.hyper import HMC
from gpclass.kernels import williams_barber
from gpclass.plots import ard_relevance

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 5))
y = (np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1] + 0.3 * rng.standard_normal(120) > 0).astype(int)

clf = GPClassifier(williams_barber(5), inference="ep").fit(X, y)
names = ["wave", "slope", "noise a", "noise b", "noise c"]
ard_relevance(clf, feature_names=names)
plt.show()

# %%
# A parameter on its bound is said so; here it means that a feature does not matter at all.
print(clf.fit_report_)

# %%
# How sure is that? Sampling the parameters gives each relevance its posterior.
sampled = GPClassifier(
    williams_barber(5), inference="laplace", hyperparameters=HMC(draws=300), random_state=0
)
ard_relevance(sampled.fit(X, y), feature_names=names)
plt.show()
