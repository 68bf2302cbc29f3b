"""The methods to compare when the caller names none: one per row of the registry.

A method whose evidence has a gradient finds its own kernel parameters. A method without one (a sampler) takes the
parameters that EP found on the same rows (Laplace for the softmax link, which has no EP): see
:class:`WithKernelOf`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass.estimators.mixins import Deciding, Savable
from gpclass.estimators.wrapping import Wrapping, of_inner


class WithKernelOf(Savable, Deciding, Wrapping, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Fit ``guide``, give its kernel to ``classifier`` and fit that with the parameters fixed.

    Both see the same rows, so nothing leaks from a test fold into the kernel. Predictions and fitted attributes
    are those of the fitted classifier.

    Parameters
    ----------
    guide : GPClassifier
        Finds the kernel parameters.
    classifier : GPClassifier
        Predicts with them.

    Attributes
    ----------
    guide_, classifier_ : both, fitted.
    classes_ : ndarray of shape (C,)
    """

    n_features_in_ = of_inner("n_features_in_")
    feature_names_in_ = of_inner("feature_names_in_")

    def __init__(self, guide: Any, classifier: Any) -> None:
        self.guide = guide
        self.classifier = classifier

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WithKernelOf:
        """Fit the guide, then the classifier, both with the same weights."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        guide = clone(self.guide)
        if _link_is_softmax(self.classifier, y):
            guide.set_params(inference="laplace")
        guide.fit(X, y, **weights)
        classifier = at_kernel(self.classifier, guide.kernel_)
        classifier.fit(X, y, **weights)
        self.guide_, self.classifier_ = guide, classifier  # a fit that fails changes nothing
        self.classes_ = self.classifier_.classes_
        return self


def at_kernel(classifier: Any, kernel: Any) -> Any:
    """A copy with the kernel parameters fixed at those of a kernel, without what such a fit has no use for."""
    return clone(classifier).set_params(kernel=kernel, hyperparameters="fixed", priors=None, n_restarts=0)


def _link_is_softmax(classifier: Any, y: Any) -> bool:
    """Whether a classifier of this package will use softmax for these labels."""
    from gpclass.estimators.classifier import GPClassifier
    from gpclass.estimators.task import form_of
    from gpclass.registry import choose_likelihood, get_inference

    if not isinstance(classifier, GPClassifier):
        return False
    inference, n_classes = get_inference(classifier.inference), len(np.unique(np.asarray(y)))
    chosen = choose_likelihood(classifier.likelihood, inference, n_classes, type(form_of(classifier)))
    return chosen.name == "softmax"


def default_methods(
    names: Iterable[str] | None = None,
    *,
    kernel: Any = None,
    standardize: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Estimators for the named inferences, or for all inferences in the registry.

    Parameters
    ----------
    names : iterable of str, optional
        Names of inferences; by default those in ``gpclass.registry.methods("inference")``.
    kernel : scikit-learn kernel, optional
        The initial kernel of all methods.
    standardize : bool
        Put a StandardScaler before each.
    settings : mapping, optional
        Additional arguments of GPClassifier.
    """
    from gpclass.estimators.classifier import GPClassifier
    from gpclass.registry import INFERENCES, get_inference

    found, common = {}, {"kernel": kernel, **(settings or {})}
    for name in INFERENCES if names is None else names:
        get_inference(name)  # raises for an unknown name and suggests similar ones
        estimator: Any = GPClassifier(inference=name, **common)
        if not INFERENCES[name].gradient:
            estimator = WithKernelOf(GPClassifier(inference="ep", **common), estimator)
        found[name] = make_pipeline(StandardScaler(), estimator) if standardize else estimator
    return found
