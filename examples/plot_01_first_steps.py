"""
First steps
===========

Fit, predict, and read the result with its errors.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from gpclass import GPClassifier
from gpclass.plots import decision_map

X, y = make_moons(100, noise=0.3, random_state=0)
clf = GPClassifier(random_state=0).fit(X, y)
print(clf.fit_report_)

# %%
# A prediction is a probability with two kinds of uncertainty: ``mcse`` is the Monte Carlo error of the computed
# number, ``lower`` and ``upper`` bound the probability itself, which n points leave uncertain.
answer = clf.predict_uncertainty([[0.5, 0.25], [-1.0, 0.5]])
for k in range(2):
    print(
        f"p = {answer.proba[k, 1]:.4f} ± {answer.mcse[k, 1]:.4f}, "
        f"90 % of its posterior between {answer.lower[k, 1]:.2f} and {answer.upper[k, 1]:.2f}"
    )

# %%
# The map shows the probability and the decision line.
decision_map(clf, X, y, resolution=40)
plt.show()

# %%
# A second panel shows the uncertainty. For a figure a Monte Carlo error of one per cent is enough.
rough = GPClassifier(random_state=0, tol=1e-2).fit(X, y)
decision_map(rough, X, y, panel="interval", resolution=40)
plt.show()
