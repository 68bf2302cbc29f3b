"""A classifier around another one: calls are forwarded to the inner classifier with transformed rows.

The forwarded methods and attributes are listed one by one, since a method that takes rows must transform them first.
Fails when: the inner classifier has no such method or attribute; the wrapper then has none either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gpclass._typing import Array


def where_inner_has(name: str) -> Any:
    """Decorator: the method exists if the inner classifier, fitted or not, has one of that name."""

    def check(wrapper: Any) -> bool:
        inner = vars(wrapper).get("classifier_", wrapper.classifier)
        return inner is None or hasattr(inner, name)  # None: a GPClassifier, which has all

    return available_if(check)


def of_inner(name: str, doc: str = "") -> property:
    """A read-only property: the inner classifier's fitted attribute of that name."""

    def get(wrapper: Any) -> Any:
        inner = vars(wrapper).get("classifier_")
        if inner is None:
            raise AttributeError(f"{type(wrapper).__name__} has no attribute {name!r} before it is fitted")
        return getattr(inner, name)

    return property(get, doc=doc or f"``{name}`` of the fitted classifier.")


class Wrapping:
    """Mixin: the methods and fitted attributes of ``classifier_``, which receives ``_seen(X)`` instead of X."""

    classifier: Any  # as given; None: a GPClassifier
    classifier_: Any  # fitted

    kernel_ = of_inner("kernel_")
    likelihood_ = of_inner("likelihood_")
    theta_ = of_inner("theta_")
    posterior_ = of_inner("posterior_")
    log_evidence_ = of_inner("log_evidence_")
    log_evidence_error_ = of_inner("log_evidence_error_")
    evidence_kind_ = of_inner("evidence_kind_")
    log_marginal_likelihood_value_ = of_inner("log_marginal_likelihood_value_")
    fit_report_ = of_inner("fit_report_")
    inducing_ = of_inner("inducing_")
    trace_ = of_inner("trace_")
    _problem = of_inner("_problem")
    _trace = of_inner("_trace")

    def _seen(self, X: Any) -> Any:
        """The inner classifier's input for X; an unfitted one is rejected."""
        check_is_fitted(self)
        return X

    def _ask(self, method: str, X: Any, **settings: Any) -> Any:
        """The answer of a method of the inner classifier for rows X."""
        seen = self._seen(X)
        return getattr(self.classifier_, method)(seen, **settings)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row of X."""
        return np.asarray(self._ask("predict", X))

    @where_inner_has("predict_proba")  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (m, C)."""
        return np.asarray(self._ask("predict_proba", X))

    @where_inner_has("predict_log_proba")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, (m, C)."""
        return np.asarray(self._ask("predict_log_proba", X))

    @where_inner_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """As the classifier's: the values that its decision is based on, (m,) or (m, C)."""
        return np.asarray(self._ask("decision_function", X))

    @where_inner_has("predict_uncertainty")  # type: ignore[untyped-decorator]
    def predict_uncertainty(self, X: Any, level: float = 0.9) -> Any:
        """As the classifier's: probabilities, Monte Carlo error and credible interval."""
        return self._ask("predict_uncertainty", X, level=level)

    @where_inner_has("sample_latent")  # type: ignore[untyped-decorator]
    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """As the classifier's: joint draws of the latent values at the rows of X."""
        return np.asarray(self._ask("sample_latent", X, n_samples=n_samples, random_state=random_state))

    @where_inner_has("log_marginal_likelihood")  # type: ignore[untyped-decorator]
    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """As the classifier's: log evidence at ``theta``, with its gradient on request."""
        check_is_fitted(self)
        return self.classifier_.log_marginal_likelihood(theta, eval_gradient=eval_gradient)
