"""The estimator: checks the input, runs a strategy and predicts from the posterior."""

from __future__ import annotations

import time
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted, validate_data

from gpclass._settings import check
from gpclass._typing import Array
from gpclass.data import sources
from gpclass.estimators import checks
from gpclass.estimators.mixins import Deciding, Planning, Savable
from gpclass.estimators.task import Task, array_task, chosen_inference, form_of, source_task
from gpclass.hyper.base import Fit, Run
from gpclass.hyper.trace import Trace
from gpclass.predict import Prediction, Uncertainty, in_blocks, predict_proba, uncertainty
from gpclass.registry import INFERENCES, STRATEGIES, get_inference, get_strategy, takes_many

TOL = 1e-3  # default Monte Carlo error of a probability
MCSE_SLACK = 1.5  # an error estimate from twenty batches has itself an error of 16 %


class GPClassifier(Savable, Deciding, Planning, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Gaussian process classifier for two classes and more.

    Parameters
    ----------
    kernel : scikit-learn kernel, or list of one per class, default=None
        Covariance function of the latent process. None: ``constant * RBF + constant``, the second constant
        being a learned base rate, with the length scale started at the median distance between points. Values of a
        given kernel that are not fixed are starting values: a search begins there, or at the same kernel with length
        scales from the distances of the data, whichever explains the labels better.
        Constructors for the papers' kernels are in :mod:`gpclass.kernels`. With more than two classes each has a
        separate latent process; they share the kernel, or have one each, in the order of ``classes_``.
    likelihood : {"auto", "probit", "logit", "softmax", "multinomial-probit"} or object, default="auto"
        Link from latent values to probabilities; "auto" is probit for two classes, and for more multinomial
        probit, or softmax if the inference needs it. ``Probit(scale=...)`` and
        ``Logit(scale=...)`` stretch it; with ``scale_bounds`` the scale is learned with the kernel.
    inference : str or object, default="exact"
        How the posterior is computed at fixed kernel parameters: a name listed by ``gpclass.methods("inference")``, or
        a configured object such as ``EP(max_sweeps=200)``. The default draws from the exact posterior until the
        probabilities have the Monte Carlo error ``tol``; "ep" is the fast approximation that it corrects.
    hyperparameters : str or object, default="maximize"
        How kernel parameters are found: a name listed by ``gpclass.methods("hyperparameters")``, or a configured
        object.
    priors : prior or dict, default=None
        Priors for ``map`` and the strategies that sample: one for all parameters, or by name or pattern, such as
        ``{"*length_scale*": LogNormal(0, 1)}``. Parameters without one get a weak log-normal one about
        their starting value, or that of the strategy's ``default_priors``.
    tol : float, default=1e-3
        Target Monte Carlo standard error of the probabilities, for ``exact`` and ``dsgq``; the other methods are
        deterministic or take the number of their draws. It is what pilots expect, and no bound
        (:class:`gpclass.inference.Exact`).
    class_weight : dict or "balanced", default=None
        Weight of each class, multiplied into ``sample_weight``. Probabilities are then not calibrated for the
        population that the rows come from; for errors that cost differently see :meth:`decide`.
    latent_prior : str or object, default=None
        How the prior over latent values is represented: a name of ``gpclass.registry.FORMS``, or a configured form.
        None: "neighbours" with ``n_neighbors``, "inducing" with ``n_inducing`` or given ``inducing`` inputs, else
        "dense". "local", for many rows of many columns, predicts every new point from its nearest rows.
    n_inducing : int, "auto" or None, default=None
        Number m of inducing inputs for many rows (10⁴ to 10⁷): the prior becomes low rank plus
        diagonal, and every cost linear in the rows. None: the dense prior; "auto" chooses by rows,
        columns, kernel, time and memory. ``fit`` then also takes a Parquet folder, a memory map or a Dask collection.
    inducing : "kmeans", "random" or array of shape (m, d), default="kmeans"
        Where the inducing inputs start; ``maximize`` and ``map`` move them, unless there are neighbours.
    n_neighbors : int, "auto" or None, default=None
        Number k of neighbours, for many rows in few dimensions (maps): what the inducing inputs leave of each row's
        latent value depends on its k nearest earlier rows. Without ``n_inducing`` there are neighbours alone.
        None: no neighbours.
    n_restarts : int, default=0
        Further runs of ``maximize`` and ``map`` from random kernel parameters within their bounds.
    n_jobs : int, default=None
        Workers, as in joblib, for restarts, chains, folds and batches of draws. The result does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Source of randomness in fit. Prediction is never random.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    kernel_ : scikit-learn kernel, at the fitted parameters.
    likelihood_ : likelihood, with the fitted scale.
    theta_ : logarithms of the free parameters: ``kernel_.theta``, then the likelihood's scale if it is free.
    log_evidence_, log_evidence_error_, evidence_kind_ : estimate of log p(y | X, θ), its Monte Carlo standard
        error (None if deterministic), and what kind of estimate it is. θ are the parameters of ``kernel_`` and
        ``likelihood_``: where they were sampled, the mean of their logarithms (``fit_report_.evidence_at``), so that
        it is *not* the evidence p(y | X) integrated over them.
    log_marginal_likelihood_value_ : float, as in scikit-learn; the same as ``log_evidence_``.
    fit_report_ : report of the fit; prints as a table.
    inducing_ : ndarray of shape (m, d), the inducing inputs, if there are any.
    trace_ : ArviZ object with the draws of the kernel parameters, if the strategy samples them; else None.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    ``sample_weight`` w_i raises the likelihood of point i to the power w_i, so a whole number means that many
    equal rows and zero excludes the row. Class weights multiply it. With a WhiteKernel whole weights
    become rows, each with separate noise; under a fractional weight the copies of a point share it.

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
        tol: float = TOL,
        class_weight: Any = None,
        latent_prior: Any = None,
        n_inducing: Any = None,
        inducing: Any = "kmeans",
        n_neighbors: Any = None,
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
        self.latent_prior = latent_prior
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.n_neighbors = n_neighbors
        self.n_restarts = n_restarts
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> GPClassifier:
        """Fit the model. Cost: see ``gpclass.methods()`` for the inference and the strategy chosen.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            With ``n_inducing`` also a Parquet folder, a memory map or a Dask collection.
        y : labels of shape (n,), of any type
            Of a Parquet folder or a Dask data frame the name of a column.
        sample_weight : array of shape (n,), default=None
            Powers of the likelihood; see Notes of the class. Of a Parquet folder the name of a column.
        classes : array of shape (C,), default=None
            All classes, if y may lack some: these are left to the prior. With one class in y the kernel parameters
            must be fixed. None: the classes are those in y. For rows in memory.

        Returns
        -------
        self
        """
        kept = dict(self.__dict__)
        try:
            return self._fit(X, y, sample_weight, classes)
        except BaseException:
            self.__dict__.clear()  # scikit-learn sets the names of features first; a failed fit changes nothing
            self.__dict__.update(kept)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> GPClassifier:
        began = time.perf_counter()
        self._check_settings()
        if sources.is_source(X, mapped=not form_of(self).predicts_from_rows):
            if classes is not None:
                raise ValueError(
                    "classes is for rows in memory; a folder or collection names its classes by its labels"
                )
            task, names = source_task(self, X, y, sample_weight)
            self.n_features_in_ = task.problem.n_features
            if names is not None:
                self.feature_names_in_ = np.asarray(names, dtype=object)
            else:
                self.__dict__.pop("feature_names_in_", None)
        else:
            own = form_of(self).predicts_from_rows  # such a model must not change with the user's array
            with checks.text_explained(X):
                X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, copy=own)
            task = array_task(self, X, y, sample_weight, classes)
        rng = checks.generator(self.random_state)
        seeded = self.random_state is not None
        run = Run(rng, self.priors, self.n_restarts, self.n_jobs, self.verbose, seeded)
        self._store(task.run(run), task, began)
        return self

    def _check_settings(self) -> None:
        """Reject settings that are invalid for any rows, before they are read."""
        check("tol", self.tol, "float")
        check("n_restarts", self.n_restarts, "int", 0)
        check("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, "int", 0)
        checks.check_jobs(self.n_jobs)
        inference, strategy = get_inference(self.inference), get_strategy(self.hyperparameters)
        if not isinstance(self.inference, str) and self.tol != TOL and inference.with_tol(self.tol) != inference:
            name = type(inference).__name__
            raise ValueError(f"tol={self.tol!r} and an inference with a tol of its own are given; use {name}(tol=...)")
        for name, given in (("priors", self.priors is not None), ("n_restarts", self.n_restarts > 0)):
            if given and name in strategy.ignores:
                able = " or ".join(repr(row.name) for row in STRATEGIES.values() if name not in row.default.ignores)
                raise ValueError(
                    f"{name} has no effect with hyperparameters={strategy.name!r}; leave it out, or use "
                    f"hyperparameters={able}"
                )

    def _store(self, fit: Fit, task: Task, began: float) -> None:
        problem, posterior = fit.problem, fit.posterior
        evidence = posterior.evidence
        strategy = task.methods.strategy
        weighted = None
        if self.class_weight is not None:
            weighted = checks.class_factors(self.class_weight, task.classes, task.counts), task.counts
        advice = checks.advice(problem, evidence, weighted, not strategy.keeps_start)
        self.fit_report_ = fit.report(strategy.name, advice, time.perf_counter() - began)
        self.classes_ = task.classes
        self.kernel_ = problem.kernel
        self.likelihood_ = problem.likelihood
        self.posterior_ = posterior
        self._trace = fit.trace
        self.log_evidence_ = self.log_marginal_likelihood_value_ = self.fit_report_.log_evidence
        self.log_evidence_error_ = self.fit_report_.log_evidence_error
        self.evidence_kind_ = None if evidence is None else evidence.kind
        self.theta_ = problem.theta
        self._problem = problem
        if problem.inducing is not None:
            self.inducing_ = problem.inducing
        elif hasattr(self, "inducing_"):
            del self.inducing_  # of an earlier fit
        if not self.fit_report_.converged:
            warnings.warn(f"the fit did not converge: {self.fit_report_.reason}", ConvergenceWarning, stacklevel=4)
        for text in self.fit_report_.warnings:
            warnings.warn(text, UserWarning, stacklevel=4)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row of X."""
        most_probable = np.argmax(self.predict_log_proba(X), axis=1)
        return np.asarray(self.classes_[most_probable])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (m, C), the link averaged over the posterior of the latent values."""
        return self._predict(X).proba

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, (m, C), accurate also for probabilities of 1e-300."""
        return self._predict(X).log_proba

    def decision_function(self, X: Any) -> Array:
        """Log odds of the second class, (m,); for more than two classes the log probabilities, (m, C)."""
        log_proba = self.predict_log_proba(X)
        if log_proba.shape[1] > 2:
            return log_proba
        return np.asarray(log_proba[:, 1] - log_proba[:, 0])

    def predict_uncertainty(self, X: Any, level: Any = 0.9) -> Uncertainty:
        """Probabilities with two distinct kinds of uncertainty.

        Parameters
        ----------
        X : array or data frame of shape (m, d)
        level : float, default=0.9
            Probability content of the credible interval.

        Returns
        -------
        Uncertainty
            ``proba`` (m, C); ``mcse`` (m, C), how far the computed number may be from the exact one (NaN for
            a deterministic approximation, whose error is another, unknown one); ``lower`` and ``upper``
            (m, C), the credible interval of p(x) itself; ``latent_mean`` and ``latent_sd``, (m, 1) for two
            classes, (m, C) if each class has a latent value; ``truncation`` (m,), the error by rows that count
            through their sites alone (``local-exact``), else None.
        """
        if not (isinstance(level, Real) and 0 < float(level) < 1):
            raise ValueError(f"level must lie between 0 and 1, got {level!r}")
        X = self._check_new(X)
        likelihood = self.likelihood_
        found = in_blocks(X, self.posterior_, lambda latent: uncertainty(latent, likelihood, float(level)))
        self._warn_of_error(found.mcse, stacklevel=3)
        return found

    def sample_latent(self, X: Any, n_samples: Any = 1, random_state: Any = None) -> Array:
        """Joint draws of the latent values at the rows of X from the posterior.

        Shape (n_samples, m); with a latent value for each class (softmax, multinomial probit) (n_samples, m, C).
        """
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}")
        X = self._check_new(X)
        draws = np.asarray(self.posterior_.draw(X, int(n_samples), checks.generator(random_state)))
        return draws[:, :, 0] if draws.shape[2] == 1 else draws

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Log evidence at ``theta`` (log parameters, as ``theta_``), with its gradient on request.

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
                raise ValueError("the gradient needs theta: pass theta=clf.theta_")
            return self.log_evidence_
        problem = self._problem.at(np.asarray(theta, dtype=float))
        evidence = chosen_inference(self)(problem, checks.generator(0), gradient=eval_gradient).evidence
        if evidence is None:
            able = ", ".join(repr(name) for name, row in INFERENCES.items() if row.evidence is not None)
            raise ValueError(f"inference={self.inference!r} has no evidence; these have one: {able}")
        return (evidence.log_z, evidence.gradient) if eval_gradient else evidence.log_z

    def _check_new(self, X: Any) -> Array:
        check_is_fitted(self)
        if sources.in_files(X):
            raise ValueError(
                "rows in files are predicted into files: gpclass.data.folders.predict_folder(model, folder, out)"
            )
        if sources.is_dask(X):  # a frame with its names, which scikit-learn would lose
            X = X.compute()
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _predict(self, X: Any) -> Prediction:
        X = self._check_new(X)
        found = in_blocks(X, self.posterior_, lambda latent: predict_proba(latent, self.likelihood_))
        self._warn_of_error(found.mcse, stacklevel=4)
        return found

    def _warn_of_error(self, mcse: Array, stacklevel: int) -> None:
        """Warn if the Monte Carlo error is larger than requested."""
        above = mcse.max(axis=1) > MCSE_SLACK * self.tol  # NaN, a deterministic method, is not above
        if np.any(above):
            by_tol = get_inference(self.inference).stochastic
            cure = "a smaller tol" if by_tol else "more draws, whose number the inference takes"
            if by_tol and not self.fit_report_.precise:  # the fit made all the draws it may: no tol makes more
                cure = "inference=Exact(tol=..., max_samples=...), more draws"
            if isinstance(self._trace, Trace):  # tol does not affect the chains' length
                cure = "more draws of the kernel parameters"
            warnings.warn(
                f"the Monte Carlo standard error of {above.sum()} of {len(mcse)} probabilities is above "
                f"tol={self.tol:g}, up to {np.nanmax(mcse):.2g}; see predict_uncertainty(X).mcse, and fit with "
                f"{cure}, if these points matter",
                UserWarning,
                stacklevel=stacklevel,
            )

    @property
    def trace_(self) -> Any:
        """What the strategy tried or sampled: an ArviZ object if kernel parameters were sampled, else its own."""
        check_is_fitted(self)
        return self._trace.to_arviz() if isinstance(self._trace, Trace) else self._trace

    def __sklearn_tags__(self) -> Any:
        """More than two classes if the inference takes them."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = takes_many(self.inference, self.likelihood, type(form_of(self)))
        return tags
