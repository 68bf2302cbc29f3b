"""
Which approximation to trust
============================

Labels of a rough surface: the posterior is far from Gaussian, and the approximations differ visibly from the exact
result.
"""

import matplotlib.pyplot as plt

from gpclass import GPClassifier
from gpclass.compare import compare
from gpclass.datasets import filippone_square
from gpclass.kernels import filippone
from gpclass.plots import difference_map

data = filippone_square(120, variance=10.0, length_scale=0.3, random_state=3)
kernel = filippone(10.0, 0.3)
fitted = {
    name: GPClassifier(kernel, inference=name, hyperparameters="fixed", tol=3e-3, random_state=0).fit(data.X, data.y)
    for name in ("exact", "ep", "laplace")
}
for name, clf in fitted.items():
    error = "" if clf.log_evidence_error_ is None else f" ± {clf.log_evidence_error_:.3f}"
    print(f"{name:8s} log evidence {clf.log_evidence_:.3f}{error}")

# %%
# Laplace's probabilities are too close to one half, most of all where the decision is easy.
difference_map(fitted["laplace"], fitted["exact"], data.X, resolution=40)
plt.show()

# %%
# EP is much closer.
difference_map(fitted["ep"], fitted["exact"], data.X, resolution=40)
plt.show()

# %%
# :func:`gpclass.compare` does this by cross-validation and gives a recommendation.
print(compare(data.X, data.y, ["ep", "laplace", "variational"], cv=3))
