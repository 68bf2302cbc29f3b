"""The classifiers of the comparison. The paper's has one kernel of two parameters per class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier


def kernel() -> Any:
    """θ1 exp(−½ r²/θ2²), wide bounds."""
    return ConstantKernel(1.0, (1e-3, 1e4)) * RBF(1.0, (1e-2, 1e2))


def methods(n_classes: int, seed: int = 0, *, exact: bool = True) -> dict[str, ClassifierMixin]:
    """Name to classifier, each behind a scaler."""
    own = [kernel() for _ in range(n_classes)]
    found = {
        "VB-EM, softmax, one kernel per class (the paper's)": GPClassifier(
            own, inference="laplace", hyperparameters="em", random_state=seed
        ),
        "Laplace ML-II, softmax, one kernel per class": GPClassifier(own, inference="laplace", random_state=seed),
        "Laplace ML-II, softmax, one kernel": GPClassifier(kernel(), inference="laplace", random_state=seed),
        "EP ML-II, multinomial probit, one kernel": GPClassifier(kernel(), inference="ep", random_state=seed),
        "scikit-learn, one against the rest": GaussianProcessClassifier(kernel(), random_state=seed),
    }
    if exact:
        found["exact multinomial probit, one kernel"] = GPClassifier(
            kernel(), inference="exact", tol=3e-3, random_state=seed
        )
    return {name: make_pipeline(StandardScaler(), clf) for name, clf in found.items()}


def log_loss(proba: Any, y: Any, classes: Any) -> float:
    """Mean −log probability of the true class."""
    place = np.searchsorted(classes, y)
    return float(-np.mean(np.log(np.maximum(proba[np.arange(len(y)), place], 1e-300))))
