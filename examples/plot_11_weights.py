"""
Weights of rows and of classes
==============================

A sample weight is a power of the likelihood: a row of weight two is equivalent to two equal rows. Class weights
correct for a sample in which one class is under-represented.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpclass import GPClassifier

rng = np.random.default_rng(3)
X = np.r_[rng.normal(-1, 1, (90, 1)), rng.normal(1.5, 1, (10, 1))]
y = np.r_[np.zeros(90), np.ones(10)].astype(int)
x = np.linspace(-4, 5, 200)[:, None]

fig, ax = plt.subplots(figsize=(6.5, 3.8))
for name, weight in (("as sampled", None), ("balanced", "balanced")):
    clf = GPClassifier(inference="laplace", class_weight=weight).fit(X, y)
    found = clf.predict_uncertainty(x)
    (line,) = ax.plot(x, found.proba[:, 1], label=name)
    ax.fill_between(x[:, 0], found.lower[:, 1], found.upper[:, 1], alpha=0.2, color=line.get_color())
ax.plot(X[:, 0], 0.02 + 0.96 * y, "k|")
ax.set(xlabel="feature", ylabel="probability of the rare class")
ax.legend()
plt.show()

# %%
# A repeated row and a row of weight two are equivalent.
twice = GPClassifier(inference="laplace", hyperparameters="fixed").fit(np.r_[X, X[-3:]], np.r_[y, y[-3:]])
weights = np.where(np.arange(100) >= 97, 2.0, 1.0)
weighted = GPClassifier(inference="laplace", hyperparameters="fixed").fit(X, y, sample_weight=weights)
print(abs(twice.predict_proba(x) - weighted.predict_proba(x)).max())
