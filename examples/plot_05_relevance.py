"""
Which features matter
=====================

One length scale per feature (ARD): maximum evidence makes those of irrelevant features large.
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
# A parameter on its bound is reported; here it means that a feature is irrelevant.
print(clf.fit_report_)

# %%
# How certain is that? Sampling the parameters gives the posterior of each relevance.
sampled = GPClassifier(williams_barber(5), inference="laplace", hyperparameters=HMC(draws=300), random_state=0)
ard_relevance(sampled.fit(X, y), feature_names=names)
plt.show()
