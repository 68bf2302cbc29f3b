"""The estimator. Thin: it checks the input, runs a strategy and asks the posterior."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gpclass import checks
from gpclass._estimator import Deciding, Planning, Savable
from gpclass._typing import Array
from gpclass.hyper.base import Fit, FitReport, Inference, Run
from gpclass.kernels import default_kernel
from gpclass.likelihoods import get_likelihood
from gpclass.predict import Prediction, Uncertainty, in_blocks, predict_proba, uncertainty
from gpclass.problem import Problem
from gpclass.registry import check_pair, get_inference, get_strategy

MCSE_SLACK = 1.5  # an error estimate from twenty batches is itself known to 16 %


class GPClassifier(Savable, Deciding, Planning, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Gaussian process classifier for two classes.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Covariance function of the latent process. None: ``constant * RBF + constant``, the second constant
        being a learned base rate, with the length scale started at the median distance between points.
        Constructors for the papers' kernels are in :mod:`gpclass.kernels`.
    likelihood : {"auto", "probit", "logit"} or object, default="auto"
        Link from latent value to probability; "auto" is probit. ``Probit(scale=...)`` and
        ``Logit(scale=...)`` stretch it; with ``scale_bounds`` the scale is learned with the kernel.
    inference : str or object, default="exact"
        How the posterior is computed at fixed kernel parameters: a name that ``gpclass.methods("inference")``
        lists, or a configured object such as ``EP(max_sweeps=200)``. The default draws from the exact posterior
        until the probabilities have the Monte Carlo error ``tol``; "ep" is the fast approximation that it corrects.
    hyperparameters : str or object, default="maximize"
        How kernel parameters are found: a name that ``gpclass.methods("hyperparameters")`` lists, or a
        configured object.
    priors : prior or dict, default=None
        Priors for ``map``: one for all parameters, or by name or pattern, such as
        ``{"*length_scale*": LogNormal(0, 1)}``. None: weak log-normal priors about the starting values.
    tol : float, default=1e-3
        Wanted Monte Carlo standard error of the probabilities; of no effect for deterministic methods.
    class_weight : dict or "balanced", default=None
        Weight of each class, multiplied into ``sample_weight``.
    n_restarts : int, default=0
        Further climbs of ``maximize`` and ``map`` from random kernel parameters within their bounds.
    n_jobs : int, default=None
        Processes for the restarts, as in joblib. The result does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Source of randomness in fit. Prediction is never random.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    kernel_ : scikit-learn kernel, at the parameters that were found.
    likelihood_ : likelihood, with the scale that was found.
    log_evidence_, log_evidence_error_, evidence_kind_ : estimate of log p(y | X), its Monte Carlo standard
        error (None if deterministic), and what kind of estimate it is.
    log_marginal_likelihood_value_ : float, as in scikit-learn; the same as ``log_evidence_``.
    fit_report_ : how the fit went; prints as a table.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    ``sample_weight`` w_i raises the likelihood of point i to the power w_i, so a whole number means that many
    equal rows and zero means that the row is not there. Class weights multiply it.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from gpclass import GPClassifier
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> clf = GPClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba([[0.0, 1.0]]).round(2)[0, 0] > 0.9
    np.True_
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        likelihood: Any = "auto",
        inference: Any = "exact",
        hyperparameters: Any = "maximize",
        priors: Any = None,
        tol: float = 1e-3,
        class_weight: Any = None,
        n_restarts: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.hyperparameters = hyperparameters
        self.priors = priors
        self.tol = tol
        self.class_weight = class_weight
        self.n_restarts = n_restarts
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---- fitting ------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GPClassifier:
        """Fit the model. Cost: see ``gpclass.methods()`` for the inference and the strategy chosen.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : labels of shape (n,), of any type
        sample_weight : array of shape (n,), default=None
            Powers of the likelihood; see Notes of the class.

        Returns
        -------
        self
        """
        began = time.perf_counter()
        self._check_settings()
        inference, strategy = self._inference(), get_strategy(self.hyperparameters)
        likelihood = get_likelihood(
            "probit" if isinstance(self.likelihood, str) and self.likelihood == "auto" else self.likelihood
        )
        check_pair(inference, strategy, likelihood.name)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        classes, signs = _encode(y)
        weights = self._weights(X, y, classes, signs, sample_weight)
        keep = slice(None) if weights is None else weights > 0
        checks.check_memory(len(signs[keep]))
        if (
            self.kernel is None
        ):  # repeated rows do not count, so that a weight of two is the row twice here too
            kernel = default_kernel(np.unique(X[keep], axis=0))
        else:
            kernel = checks.check_kernel(self.kernel, X[keep])
        problem = Problem(
            X[keep], signs[keep], kernel, likelihood, None if weights is None else weights[keep]
        )
        rng = checks.generator(self.random_state)
        run = Run(rng, self.priors, self.n_restarts, self.n_jobs, self.verbose)
        fit = strategy(problem, inference, run)
        self._store(fit, classes, strategy.name, time.perf_counter() - began)
        return self

    def _inference(self) -> Inference:
        """The inference, with the estimator's tolerance where it is given by name and draws."""
        inference = get_inference(self.inference)
        if isinstance(self.inference, str) and getattr(inference, "stochastic", False):
            return replace(inference, tol=float(self.tol))  # type: ignore[type-var]  # a dataclass, all are
        return inference

    def _check_settings(self) -> None:
        if not isinstance(self.tol, Real) or not self.tol > 0:
            raise ValueError(f"tol must be a positive number, got {self.tol!r}")
        if not isinstance(self.n_restarts, Integral) or self.n_restarts < 0:
            raise ValueError(f"n_restarts must be a whole number of at least 0, got {self.n_restarts!r}")

    def _weights(self, X: Array, y: Any, classes: Any, signs: Array, sample_weight: Any) -> Array | None:
        """Sample weights times class weights; None if all are one."""
        if sample_weight is None and self.class_weight is None:
            return None
        weights: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        weights = (
            weights * compute_class_weight(self.class_weight, classes=classes, y=y)[(signs > 0).astype(int)]
        )
        for sign, label in zip((-1.0, 1.0), classes, strict=True):
            if not np.any(weights[signs == sign] > 0):
                raise ValueError(
                    f"every row of class {label!r} has weight zero, so one class is left: give it some weight"
                )
        return None if np.all(weights == 1.0) else weights

    def _store(self, fit: Fit, classes: Any, strategy: str, seconds: float) -> None:
        """Set the fitted attributes, and warn of what the user should know."""
        problem, posterior = fit.problem, fit.posterior
        evidence, inner = posterior.evidence, posterior.report
        found = tuple(fit.warnings) + tuple(inner.warnings) + checks.advice(problem, evidence)
        common = {name: getattr(inner, name) for name in inner.__dataclass_fields__}
        common |= {
            "converged": fit.converged and inner.converged,
            "reason": "; ".join(text for text in (fit.reason, inner.reason) if text),
            "seconds": seconds,
            "warnings": found,
        }
        self.fit_report_ = FitReport(
            **common,
            hyperparameters=strategy,
            likelihood=problem.likelihood.name,
            n_points=problem.n,
            n_features=problem.X.shape[1],
            kernel=str(problem.kernel),
            log_evidence=None if evidence is None else evidence.log_z,
            log_evidence_error=None if evidence is None else evidence.error,
            evidence_kind="" if evidence is None else evidence.kind,
            **fit.figures,
        )
        self.classes_ = classes
        self.kernel_ = problem.kernel
        self.likelihood_ = problem.likelihood
        self.posterior_ = posterior
        self.trace_ = fit.trace
        self.log_evidence_ = None if evidence is None else evidence.log_z
        self.log_evidence_error_ = None if evidence is None else evidence.error
        self.evidence_kind_ = None if evidence is None else evidence.kind
        self.log_marginal_likelihood_value_ = self.log_evidence_
        self._problem = problem
        if not self.fit_report_.converged:
            warnings.warn(
                f"the fit did not converge: {self.fit_report_.reason}", ConvergenceWarning, stacklevel=3
            )
        for text in found:
            warnings.warn(text, UserWarning, stacklevel=3)

    # ---- prediction ---------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The more probable class of each row of X."""
        most_probable = np.argmax(self.predict_log_proba(X), axis=1)
        return np.asarray(self.classes_[most_probable])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (m, 2), the link averaged over the posterior of the latent value."""
        return self._predict(X).proba

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, (m, 2), accurate also where a probability is 1e-300."""
        return self._predict(X).log_proba

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second class, (m,)."""
        log_proba = self.predict_log_proba(X)
        return np.asarray(log_proba[:, 1] - log_proba[:, 0])

    def predict_uncertainty(self, X: Any, level: float = 0.9) -> Uncertainty:
        """Probabilities with two kinds of uncertainty, which are not the same.

        Parameters
        ----------
        X : array or data frame of shape (m, d)
        level : float, default=0.9
            Probability content of the credible interval.

        Returns
        -------
        Uncertainty
            ``proba`` (m, 2); ``mcse`` (m, 2), how far the computed number may be from the exact one (NaN for
            a deterministic approximation, whose error is another, unknown one); ``lower`` and ``upper``
            (m, 2), the credible interval of p(x) itself; ``latent_mean`` and ``latent_sd`` (m, 1).
        """
        if not (isinstance(level, Real) and 0 < level < 1):
            raise ValueError(f"level must lie between 0 and 1, got {level!r}")
        X = self._check_new(X)
        found = in_blocks(X, self.posterior_, lambda latent: uncertainty(latent, self.likelihood_, level))
        self._warn_of_error(found.mcse)
        return found

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Joint draws of the latent values at the rows of X from the posterior, (n_samples, m)."""
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        X = self._check_new(X)
        return np.asarray(self.posterior_.draw(X, int(n_samples), checks.generator(random_state))[:, :, 0])

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Log evidence at ``theta`` (log parameters, as ``kernel_.theta``), with its gradient on request.

        Parameters
        ----------
        theta : array of shape (p,), default=None
            None: the fitted parameters, without a new computation.
        eval_gradient : bool, default=False

        Returns
        -------
        float, or (float, array of shape (p,))
        """
        check_is_fitted(self)
        if theta is None:
            if eval_gradient:
                raise ValueError("the gradient needs theta: pass theta=clf.kernel_.theta")
            return self.log_evidence_
        problem = self._problem.at(np.asarray(theta, dtype=float))
        evidence = get_inference(self.inference)(
            problem, checks.generator(0), gradient=eval_gradient
        ).evidence
        if evidence is None:
            raise ValueError(f"inference={self.inference!r} gives no evidence; use 'ep' or 'laplace'")
        return (evidence.log_z, evidence.gradient) if eval_gradient else evidence.log_z

    def _check_new(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _predict(self, X: Any) -> Prediction:
        X = self._check_new(X)
        found = in_blocks(X, self.posterior_, lambda latent: predict_proba(latent, self.likelihood_))
        self._warn_of_error(found.mcse)
        return found

    def _warn_of_error(self, mcse: Array) -> None:
        """Say where the Monte Carlo error is larger than was asked for."""
        above = mcse[:, 0] > MCSE_SLACK * self.tol  # NaN, a deterministic method, is not above
        if np.any(above):
            warnings.warn(
                f"the Monte Carlo standard error of {above.sum()} of {len(mcse)} probabilities is above "
                f"tol={self.tol:g}, up to {np.nanmax(mcse):.2g}; see predict_uncertainty(X).mcse, and fit with a "
                "smaller tol where these points matter",
                UserWarning,
                stacklevel=4,
            )

    def __sklearn_tags__(self) -> Any:
        """Two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _encode(y: Any) -> tuple[npt.NDArray[Any], Array]:
    """Classes in order, and labels as -1 (first class) or +1 (second)."""
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y holds one class only ({classes[0]!r}); a classifier needs examples of two classes"
        )
    if len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}: y has "
            f"{len(classes)} classes. Wrap the estimator in sklearn.multiclass.OneVsRestClassifier"
        )
    return classes, np.where(index == 1, 1.0, -1.0)
