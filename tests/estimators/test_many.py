"""The estimator with many classes: outputs, inputs, weights, strategies, scikit-learn's checks."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GPClassifier
from gpclass.hyper import EM
from gpclass.inference import EP, GPCMC, Annealed, EllipticalSlice, Exact, Gibbs, Importance, Laplace, LatentHMC
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import LIKELIHOODS, MultinomialProbit, Softmax
from gpclass.priors import LogNormal
from gpclass.registry import INFERENCES, choose_likelihood
from gpclass.registry.matrix import likelihoods_for
from tests.estimators.checks import few_checks
from tests.short import short

MANY = [name for name, row in INFERENCES.items() if likelihoods_for(row.default, Dense, True)]
KERNEL = 3.0 * RBF(1.2)
SHORT = {  # of the methods that draw without end by themselves
    "importance": Importance(600),
    "annealed": Annealed(400),
    "elliptical-slice": EllipticalSlice(chains=8, draws=60),
    "hmc": LatentHMC(chains=8, draws=60),
    "gibbs": Gibbs(chains=8, draws=40, thin=3, jitter=1.0),  # with less noise of its own a scan hardly moves
}
FEW = SHORT | {  # and of those that draw as many as they are told
    "gpc-mc": GPCMC(n_samples=2000, runs=4),
    "gpc-mc-hard": GPCMC(n_samples=2000, runs=4, soft=False),
}


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True)
    keep = np.random.default_rng(0).permutation(150)[:60]
    return StandardScaler().fit_transform(X)[keep], y[keep]


def fixed(name="laplace", **settings):
    if name == "exact":
        settings = {"tol": 5e-3} | settings
    usual = {
        "kernel": KERNEL,
        "inference": FEW.get(name, name),
        "hyperparameters": "fixed",
        "random_state": 0,
    }
    return GPClassifier(**(usual | settings))


@pytest.fixture(scope="module")
def fit_of(flowers):
    """The fit of an inference to the flowers, made once."""
    fits = {}

    def fit(name):
        if name not in fits:
            fits[name] = fixed(name).fit(*flowers)
        return fits[name]

    return fit


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (Monte Carlo|chains)|only .* effective")
@pytest.mark.parametrize("name", MANY)
def test_outputs_agree_with_each_other(flowers, fit_of, name):
    X, y = flowers
    clf = fit_of(name)
    new = X[::3] + 0.05
    proba, log_proba = clf.predict_proba(new), clf.predict_log_proba(new)
    assert proba.shape == (20, 3)
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(clf.predict(new), proba.argmax(axis=1))
    assert clf.decision_function(new).shape == (20, 3)
    np.testing.assert_array_equal(clf.decision_function(new).argmax(axis=1), proba.argmax(axis=1))
    spread = clf.predict_uncertainty(new, level=0.8)
    wider = clf.predict_uncertainty(new, level=0.95)
    np.testing.assert_allclose(spread.proba, proba)
    assert np.all(spread.lower <= spread.upper)
    assert np.all(wider.lower <= spread.lower)
    assert np.all(wider.upper >= spread.upper)
    assert np.all(np.isfinite(spread.mcse)) == INFERENCES[name].exact
    assert clf.score(X, y) > 0.9
    assert clf.fit_report_.details["n_classes"] == 3
    assert clf.fit_report_.details["memory_mb"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (Monte Carlo|chains)|only .* effective")
@pytest.mark.parametrize("name", MANY)
def test_latent_draws_have_the_reported_moments(flowers, fit_of, name):
    clf = fit_of(name)
    new = flowers[0][:3] + 0.1
    draws = clf.sample_latent(new, 20_000, random_state=1)
    assert draws.shape == (20_000, 3, 3)
    spread = clf.predict_uncertainty(new)
    mean, sd = spread.latent_mean, spread.latent_sd
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(20_000) + 0.03 * sd)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.05)


@pytest.mark.parametrize("name", ["laplace", "ep"])
def test_drawn_latents_have_the_covariance_between_classes(flowers, name):
    X, y = flowers
    clf = fixed(name).fit(X, y)
    draws = clf.sample_latent(X[:2], 100_000, random_state=1)
    latent = clf.posterior_.latent(X[:2])
    for i in range(2):
        np.testing.assert_allclose(np.cov(draws[:, i].T), latent.covariances[0, i], atol=0.06)
    assert abs(latent.covariances[0, 0, 0, 1]) > 0.1  # else the test says nothing


def test_credible_interval_holds_its_share_of_drawn_probabilities(flowers):
    X, y = flowers
    clf = fixed().fit(X, y)
    spread = clf.predict_uncertainty(X[:4], level=0.8)
    p = np.exp(Softmax().log_classes(clf.sample_latent(X[:4], 20_000, random_state=0)))
    inside = np.mean((p >= spread.lower) & (p <= spread.upper), axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=0.025)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # short chains say that they are short
@pytest.mark.parametrize("name", MANY)
def test_the_same_seed_gives_the_same_answer(flowers, name):
    one, other = (fixed(inference=short(name)).fit(*flowers) for _ in range(2))
    new = flowers[0][:6]
    proba = one.predict_proba(new)
    np.testing.assert_array_equal(proba, other.predict_proba(new))
    np.testing.assert_array_equal(proba, one.predict_proba(new))


def test_labels_of_any_type_and_their_order(flowers):
    X, y = flowers
    words = np.array(["virginica", "setosa", "versicolor"])  # sorted they come in another order
    clf, plain = fixed().fit(X, words[y]), fixed().fit(X, y)
    np.testing.assert_array_equal(clf.classes_, np.sort(words))
    np.testing.assert_allclose(
        clf.predict_proba(X)[:, np.searchsorted(clf.classes_, words)], plain.predict_proba(X), atol=1e-8
    )
    assert set(clf.predict(X)) <= set(words)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (Monte Carlo|chains)|only .* effective")
@pytest.mark.parametrize("name", [name for name in MANY if name != "gibbs"])  # repeated rows have noise of their own
def test_weights_of_two_are_repeated_rows(flowers, fit_of, name):
    X, y = flowers
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    weights[5] = 0.0
    rows = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = fixed(name).fit(X, y, sample_weight=weights)
    repeated = fixed(name).fit(X[rows], y[rows])
    if name not in SHORT:
        assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=1e-4)
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)
        return
    # Other draws, so equal within the errors that are stated; a fit without weights is not.
    assert distance(weighted, repeated, X) < 2.0
    assert distance(weighted, fit_of(name), X) > 2.0
    if weighted.log_evidence_ is not None:
        error = np.hypot(weighted.log_evidence_error_, repeated.log_evidence_error_)
        assert abs(weighted.log_evidence_ - repeated.log_evidence_) < 4 * error


def distance(one, other, X):
    """Root mean square difference of probabilities in their combined standard errors."""
    a, b = one.predict_uncertainty(X), other.predict_uncertainty(X)
    return np.sqrt(np.mean((a.proba - b.proba) ** 2 / (a.mcse**2 + b.mcse**2)))


@pytest.mark.parametrize(("likelihood", "name"), [("softmax", "laplace"), ("multinomial-probit", "ep")])
def test_two_classes_with_a_latent_value_each(flowers, likelihood, name):
    X, y = flowers
    X, y = X[y != 0], y[y != 0]
    double = 6.0 * RBF(1.2) if likelihood == "softmax" else KERNEL
    one = fixed(name, likelihood=likelihood).fit(X, y)
    other = fixed(name, kernel=double, likelihood="logit" if likelihood == "softmax" else "probit").fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)
    assert one.log_evidence_ == pytest.approx(other.log_evidence_, abs=1e-6)
    assert one.decision_function(X).shape == (len(X),)


def test_auto_is_what_the_inference_takes(flowers):
    X, y = flowers
    assert fixed("laplace").fit(X, y).likelihood_ == Softmax()
    assert fixed("ep").fit(X, y).likelihood_ == MultinomialProbit()
    assert fixed("ep", likelihood=MultinomialProbit()).fit(X, y).likelihood_ == MultinomialProbit()
    assert fixed("ep").fit(X[y < 2], y[y < 2]).likelihood_.name == "probit"


def test_refusals_name_the_cure(flowers):
    X, y = flowers
    with pytest.raises(ValueError, match=r"takes two; use likelihood='auto' with inference=.*'laplace'"):
        fixed("laplace", likelihood="logit").fit(X, y)
    with pytest.raises(ValueError, match="does not support likelihood='softmax'"):
        fixed("ep", likelihood="softmax").fit(X, y)
    with pytest.raises(ValueError, match="2 kernels for 3 classes"):
        fixed(kernel=[KERNEL, KERNEL]).fit(X, y)
    with pytest.raises(ValueError, match="give it some weight, or remove its rows"):
        fixed().fit(X, y, sample_weight=(y != 1).astype(float))
    with pytest.raises(ValueError, match="needs one Gaussian"):
        fixed("exact", hyperparameters="em").fit(X, y)


@pytest.mark.parametrize("strategy", ["maximize", "map", EM(max_iter=4)])
def test_strategies_raise_the_evidence_with_a_kernel_a_class(flowers, strategy):
    X, y = flowers
    kernels = [1.0 * RBF(1.0), 1.0 * RBF(2.0), 1.0 * RBF(0.5)]
    before = fixed(kernel=kernels).fit(X, y).log_evidence_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = fixed(kernel=kernels, hyperparameters=strategy).fit(X, y)
    assert isinstance(clf.kernel_, CompoundKernel)
    assert clf.log_evidence_ > before + 1.0
    assert clf.kernel_.theta.shape == (6,)
    assert kernels[0].theta == pytest.approx([0.0, 0.0])  # the caller's kernels stay as they were
    twin = clone(clf)
    assert twin.kernel[1].k2.length_scale == 2.0


@pytest.mark.slow
def test_priors_of_one_class_by_name(flowers):
    X, y = flowers
    pull = {"1__*length_scale": LogNormal(np.log(7.0), 0.01), "*": LogNormal(0.0, 2.0)}
    clf = fixed(kernel=[1.0 * RBF(1.0)] * 3, hyperparameters="map", priors=pull).fit(X, y)
    assert clf.kernel_.kernels[1].k2.length_scale == pytest.approx(7.0, rel=0.05)
    assert clf.kernel_.kernels[0].k2.length_scale < 5.0


def test_log_marginal_likelihood_and_its_gradient(flowers):
    X, y = flowers
    clf = fixed().fit(X, y)
    value, slope = clf.log_marginal_likelihood(clf.kernel_.theta, eval_gradient=True)
    assert value == pytest.approx(clf.log_evidence_, rel=1e-9)
    up = clf.log_marginal_likelihood(clf.kernel_.theta + np.array([1e-4, 0.0]))
    assert slope[0] == pytest.approx((up - value) / 1e-4, rel=1e-2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n_inducing", [None, 10])
def test_settings_reach_the_inference(flowers, monkeypatch, n_inducing, classes):
    """Whatever the number of classes and the form of the prior: the object that runs is the one that was given."""
    X, y = flowers
    X, y = (X, y) if classes == 3 else (X[y != 0], y[y != 0])
    settings = {"n_inducing": n_inducing}
    few = fixed(inference=EP(max_sweeps=2, tol=1e-6), **settings).fit(X, y)
    assert few.fit_report_.iterations == 2
    assert not few.fit_report_.converged
    loose, tight = (fixed(inference=EP(tol=tol), **settings).fit(X, y).fit_report_ for tol in (1e-1, 1e-9))
    assert loose.iterations < tight.iterations
    seen = []
    for cls, given in (
        (Exact, Exact(sweeps=2, n_samples=50)),
        (Importance, Importance(40, around="ep")),
        (Laplace, Laplace(max_iter=7)),
    ):
        infer = cls.infer

        def watched(self, problem, *rest, infer=infer):
            seen.append((self, problem.form.name, problem.n_classes))
            return infer(self, problem, *rest)

        monkeypatch.setattr(cls, "infer", watched)
        likelihood = "multinomial-probit" if classes == 3 and cls is not Laplace else "auto"
        fixed(inference=given, likelihood=likelihood, **settings).fit(X, y)
        assert seen[0] == (given, "dense" if n_inducing is None else "inducing", classes)
        seen.clear()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n_inducing", [None, 10])
def test_importance_around_ep_is_around_ep(flowers, n_inducing, classes):
    X, y = flowers
    X, y = (X, y) if classes == 3 else (X[y != 0], y[y != 0])
    likelihood = "multinomial-probit" if classes == 3 else "probit"
    settings = {"n_inducing": n_inducing, "likelihood": likelihood}
    clf = fixed(inference=Importance(400, around="ep"), **settings).fit(X, y)
    ep = fixed("ep", **settings).fit(X, y)
    error = 4 * clf.log_evidence_error_ + 0.2
    assert clf.log_evidence_ == pytest.approx(ep.log_evidence_, abs=error)
    other = fixed(inference=Importance(400, around="prior"), **settings).fit(X, y)
    assert other.fit_report_.ess < clf.fit_report_.ess


@pytest.mark.slow
@pytest.mark.parametrize("n_inducing", [None, 10])
def test_variational_sweeps_of_softmax_converge(flowers, n_inducing):
    """Its averages at fixed points do not agree with their derivatives to the last digit: no fall is chased there."""
    X, y = flowers
    for variance, most in ((3.0, 25), (30.0, 45)):
        clf = fixed("variational", kernel=variance * RBF(1.2), n_inducing=n_inducing)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            warnings.filterwarnings("ignore", "probabilities under|the evidence")
            clf.fit(X, y)
        assert clf.fit_report_.iterations <= most


@pytest.mark.slow
def test_draws_at_the_rows_under_sites_without_a_short_form(flowers):
    """What the samplers over kernel parameters keep of a variational softmax posterior."""
    X, y = flowers
    gaussian = fixed("variational").fit(X, y).posterior_.gaussian
    rng = np.random.default_rng(0)
    f = np.stack([gaussian.draw_rows(rng) for _ in range(1500)]).reshape(1500, 3, 60)
    sd = np.sqrt(np.einsum("ncc->cn", gaussian.covariance))
    assert np.all(np.abs(f.mean(axis=0) - gaussian.mean) < 4.5 * sd / np.sqrt(1500))
    np.testing.assert_allclose(f.std(axis=0), sd, rtol=0.1)


@pytest.mark.parametrize("name", ["ep", "laplace", "variational", "exact"])
@pytest.mark.parametrize("wrong", [-1, 0.0, "small"])
def test_settings_that_make_no_sense_are_refused_where_they_are_made(name, wrong):
    """There is one class of settings for all numbers of classes and forms of the prior: refused alike."""
    with pytest.raises(ValueError, match="tol must be a positive number"):
        type(INFERENCES[name].default)(tol=wrong)


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("form", [Dense, LowRank])
def test_the_likelihood_of_many_classes_is_one_that_the_inference_takes(name, form):
    inference = INFERENCES[name].default
    able = likelihoods_for(inference, form, True)
    if not able:
        assert form is LowRank
        assert name in ("gibbs", "gpc-mc", "gpc-mc-hard")
        return
    found = choose_likelihood("auto", inference, 3, form)
    assert found.name == able[0]
    assert inference.way(LIKELIHOODS[found.name], form.offers) is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the best parameters lie on a bound")
def test_exact_maximize_starts_from_ep_and_states_its_error(flowers):
    X, y = flowers
    clf = GPClassifier(inference="exact", tol=5e-3, random_state=0).fit(X, y)
    assert clf.evidence_kind_ == "unbiased"
    assert 0 < clf.log_evidence_error_ < 0.1
    ep = GPClassifier(inference="ep").fit(X, y)
    assert clf.log_evidence_ > ep.log_evidence_ - 1.0
    found = clf.predict_uncertainty(X)
    assert np.nanmax(found.mcse) < 0.02


# ---- EM ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["laplace", "ep"])
def test_em_never_loses_in_its_m_step(flowers, classes, name):
    X, y = flowers
    X, y = X[y >= 3 - classes], y[y >= 3 - classes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = fixed(name, kernel=1.0 * RBF(1.0), hyperparameters=EM(max_iter=8, accelerate=False)).fit(X, y)
    trace = clf.trace_
    assert np.all(trace.gain >= 0)
    assert trace.evidence[-1] > trace.evidence[0] + 1.0
    assert clf.fit_report_.jitter > 0
    assert clf.fit_report_.details["em_iterations"] == len(trace.bound) == 8
    assert np.all(trace.bound < trace.evidence + 1.0)
    assert clf.fit_report_.details["em_bound"] > trace.bound[0]


def expected_prior(posterior):
    gaussian, held, rule = posterior.sites
    return gaussian.expected_prior(held, rule)


def test_em_climbs_the_explicit_part_of_the_gradient(flowers):
    """At its end Laplace's evidence has no slope but the mode's own motion: the bound's slope is zero."""
    from gpclass.hyper.em import _with_jitter
    from gpclass.likelihoods import Probit
    from gpclass.model.problem import Problem

    X, y = flowers
    task = Problem.of(X, np.where(y == 1, 1.0, -1.0), 2.0 * RBF(0.7), Probit())
    noisy, jitter = _with_jitter(task)
    expected = expected_prior(Laplace()(noisy))
    value, slope = expected(noisy)
    K = noisy.kernel(X)
    direct = -0.5 * np.linalg.slogdet(K)[1] - 0.5 * np.trace(np.linalg.solve(K, expected.moments[0]))
    assert value == pytest.approx(direct, rel=1e-8)
    for k in range(2):
        h = 1e-5 * np.eye(2)[k]
        up, down = (expected(noisy.at(noisy.theta + s * h))[0] for s in (1, -1))
        assert slope[k] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)
    assert jitter == pytest.approx(2e-6)


@pytest.mark.parametrize("name", ["laplace", "ep", "variational"])
@pytest.mark.parametrize("classes", [2, 3])
def test_slope_of_ems_objective_with_inducing_inputs(flowers, name, classes):
    """By differences, for a kernel that all classes share and for one each."""
    from gpclass.hyper.em import _with_jitter
    from gpclass.model.problem import Problem

    X, y = flowers
    X, y = (X, y) if classes == 3 else (X[y != 0], y[y != 0] - 1)
    inference = INFERENCES[name].default
    likelihood = choose_likelihood("auto", inference, classes, LowRank)
    kernels = [2.0 * RBF(0.7), CompoundKernel([2.0 * RBF(0.7 + 0.3 * c) for c in range(3)])][: classes - 1]
    for kernel in kernels:
        task = Problem.of(X, likelihood.encode(y), kernel, likelihood, n_classes=classes, form=LowRank(Z=X[::6]))
        noisy, _ = _with_jitter(task)
        expected = expected_prior(inference(noisy))
        theta = noisy.theta + 0.1
        _, slope = expected(noisy.at(theta))
        assert np.abs(slope).max() > 0.1
        for k, step in enumerate(1e-5 * np.eye(len(theta))):
            up, down = (expected(noisy.at(theta + s * step))[0] for s in (1, -1))
            assert slope[k] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "ep"])
@pytest.mark.parametrize("classes", [2, 3])
def test_em_with_all_rows_as_inducing_inputs_is_dense_em(flowers, name, classes):
    X, y = flowers
    X, y = (X, y) if classes == 3 else (X[y != 0], y[y != 0])
    X, first = np.unique(X, axis=0, return_index=True)
    y = y[first]
    # M-steps that converge: the path of a few steps depends on rounding.
    settings = {"kernel": 2.0 * RBF(0.7), "hyperparameters": EM(max_iter=3, m_steps=40)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dense = fixed(name, **settings).fit(X, y)
        through = fixed(name, inducing=X.copy(), **settings).fit(X, y)
    np.testing.assert_allclose(through.trace_.theta, dense.trace_.theta, atol=2e-3)
    np.testing.assert_allclose(through.trace_.evidence, dense.trace_.evidence, atol=2e-3)
    np.testing.assert_allclose(through.trace_.bound, dense.trace_.bound, atol=2e-3)
    np.testing.assert_allclose(through.predict_proba(X), dense.predict_proba(X), atol=2e-3)
    assert np.all(through.trace_.gain >= 0)


@pytest.mark.slow
def test_em_bound_is_below_the_exact_evidence(flowers):
    X, y = flowers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        em = fixed("ep", hyperparameters=EM(max_iter=1)).fit(X, y)
    exact = fixed("exact").fit(X, y)
    start = em.trace_.bound[0]
    assert start < exact.log_evidence_ + 4 * exact.log_evidence_error_
    assert start > exact.log_evidence_ - 5.0


# ---- scikit-learn --------------------------------------------------------------------------------------


def cannot_hold(estimator):
    """Checks that cannot hold, with the reason."""
    if estimator.hyperparameters != "fixed":
        return {
            "check_sample_weight_equivalence_on_dense_data": "with EM's jitter two equal rows are no longer quite one"
        }
    if estimator.inference == Exact(n_samples=200):
        return {"check_sample_weight_equivalence_on_dense_data": "draws depend on the order of the rows"}
    return {}


@parametrize_with_checks([GPClassifier(likelihood="softmax", inference="laplace", hyperparameters="fixed")])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


@pytest.mark.slow
@few_checks(
    [
        GPClassifier(likelihood="multinomial-probit", inference="ep", hyperparameters="fixed"),
        GPClassifier(likelihood="multinomial-probit", inference=Exact(n_samples=200), hyperparameters="fixed"),
        GPClassifier(inference="laplace", hyperparameters=EM(max_iter=2)),
    ],
    expected_failed_checks=cannot_hold,
)
def test_checks_of_the_inference(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)
