"""
More than two classes
=====================

Four Gaussian classes in the plane, whose true probabilities are known.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpclass import GPClassifier
from gpclass.datasets import cho_four_gaussians
from gpclass.plots import decision_map

train, test = cho_four_gaussians(80, 400, random_state=0)
clf = GPClassifier(inference="laplace").fit(train.X, train.y)
proba = clf.predict_proba(test.X)
print(
    f"accuracy {np.mean(clf.predict(test.X) == test.y):.3f}, of the true rule "
    f"{np.mean(test.probability.argmax(axis=1) == test.y):.3f}"
)
print(f"mean distance from the true probabilities {np.abs(proba - test.probability).mean():.3f}")

decision_map(clf, train.X, train.y, resolution=50)
plt.show()
