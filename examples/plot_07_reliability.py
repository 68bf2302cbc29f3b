"""
Are the probabilities calibrated?
=================================

Of the cases with probability 70 %, seven of ten should occur. A reliability diagram with bands shows whether they do;
it needs predictions of rows that were not used in the fit.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier, metrics
from gpclass.plots import reliability_diagram

X, y = load_breast_cancer(return_X_y=True)
X, y = X[:250, :10], y[:250]
fig, axes = plt.subplots(1, 2, figsize=(10, 4.4))
for ax, name in zip(axes, ("ep", "laplace"), strict=True):
    model = make_pipeline(StandardScaler(), GPClassifier(inference=name))
    proba = cross_val_predict(model, X, y, cv=4, method="predict_proba")
    reliability_diagram(y, proba, ax=ax)
    ax.set_title(f"{name}: log loss {metrics.log_loss(y, proba):.3f}, Brier {metrics.brier_score(y, proba):.3f}")
plt.show()

# %%
# The Brier score is decomposed into reliability (calibration), resolution and the uncertainty of the labels.
print(metrics.brier_decomposition(y, proba))
