"""Other classifiers beside W's, from scikit-learn: those of its tables that are there, and two more.

W quotes from Ripley neural networks, linear discriminants, logistic regression, Gaussian mixtures, a decision tree, and
MARS and projection pursuit, which scikit-learn does not have. Quadratic discriminant and nearest neighbours are added.
Inputs are standardised.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

WEAK = 0.1  # of the unit variance, added to that of densities: a class may have as few rows as inputs


class MixtureDiscriminant(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Bayes' rule with a Gaussian mixture for each class."""

    def __init__(self, n_components: int = 2, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """One mixture per class, and the shares of the classes."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.log_share_ = np.log(counts / counts.sum())
        self.mixtures_ = [
            GaussianMixture(self.n_components, reg_covar=WEAK, random_state=self.random_state).fit(X[y == c])
            for c in self.classes_
        ]
        return self

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (m, C)."""
        log_density = np.column_stack([mixture.score_samples(X) for mixture in self.mixtures_])
        return softmax(log_density + self.log_share_, axis=1)

    def predict(self, X: Any) -> Any:
        """The most probable class."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def comparators(hidden: int, seed: int) -> dict[str, Any]:
    """Name to classifier; ``hidden`` units of the neural network."""
    return {
        "linear discriminant": LinearDiscriminantAnalysis(),
        "quadratic discriminant": MixtureDiscriminant(1, seed),  # one Gaussian per class
        "logistic regression": LogisticRegression(C=1e6, max_iter=5000),
        "logistic regression, penalised": LogisticRegression(max_iter=5000),
        f"neural network, {hidden} hidden units": MLPClassifier(
            (hidden,), activation="logistic", solver="lbfgs", alpha=0.1, max_iter=2000, random_state=seed
        ),
        "Gaussian mixtures, two per class": MixtureDiscriminant(2, seed),
        "decision tree": DecisionTreeClassifier(min_samples_leaf=5, random_state=seed),
        "five nearest neighbours": KNeighborsClassifier(5),
    }
