"""Every cell of the matrix that runs, on a tiny problem, against a slow oracle.

The oracle is a sum over the prior's own white coordinates: f = V η + e at the rows, η a large fixed set of standard
normal points, so that evidence and probabilities are ratios of weighted means, whatever the likelihood and the prior.
Exact methods must agree with it within their Monte Carlo error and its own; approximations within what they are known
to leave. Strategies are run briefly, and must find finite, better-than-chance probabilities.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier
from gpclass.hyper import EM, Alternate
from gpclass.latent.base import per_latent
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import get_likelihood
from gpclass.likelihoods.averages import normal_points
from gpclass.model.problem import Problem
from gpclass.posterior import LatentMixture
from gpclass.predict import predict_proba
from gpclass.registry import FORMS, INFERENCES, STRATEGIES, cell, cells, counts
from gpclass.registry.matrix import CLASSES

CELLS = [c for c in cells() if c.runs]
KERNEL = ConstantKernel(1.5, (0.3, 5.0)) * RBF(1.2, (0.4, 4.0))
NEW = np.array([[0.2, -0.3], [1.5, 1.0], [-0.8, 0.6]])
POINTS = 2**14
TRUTHS, SLOPES = {}, {}  # by classes, form and likelihood: the inferences share the problem


def data(classes, n):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 2))
    noisy = X + 0.5 * rng.normal(size=(n, 2))
    if classes == "two":
        return X, (noisy[:, 0] > 0).astype(int)
    return X, np.argmax(np.column_stack([noisy, -noisy.sum(axis=1)]), axis=1)


def tiny(c, n=5):
    X, index = data(c.classes, n)
    index[:3] = (0, 1, 2 if c.classes == "many" else 0)  # every class is there
    inference = INFERENCES[c.inference].default
    likelihood = inference.own_likelihood or get_likelihood(c.likelihood)
    form = FORMS[c.form].example(X)
    n_classes = 3 if c.classes == "many" else 2
    return Problem.of(X, likelihood.encode(index), KERNEL, likelihood, None, n_classes, form), inference


def white_prior(problem):
    """The prior in white coordinates: a local one, of all rows in one block, is the dense one."""
    return (replace(problem, form=Dense()) if problem.form.name == "local" else problem).prior


def evidence(problem):
    """Log evidence by a plain sum over white coordinates, its error, the log weights and the coordinates."""
    prior, L, n = white_prior(problem), problem.n_latents, problem.n
    rows = prior.features(problem.X)
    k = prior.white_dimension() // L
    z = normal_points(L * k + L * n, POINTS)
    z = np.vstack([z, -z])
    eta = z[:, : L * k].reshape(-1, L, k)
    e = z[:, L * k :].reshape(-1, L, n)
    V, rest = per_latent(rows.V, L), per_latent(rows.rest, L)
    f = np.stack([eta[:, c] @ V[c] + e[:, c] * np.sqrt(rest[c]) for c in range(L)], axis=1)
    log_w = problem.likelihood.log(problem.y, f).sum(axis=1)
    w = np.exp(log_w - log_w.max())
    error = np.sqrt(np.mean(w**2) / np.mean(w) ** 2 / len(w))
    return float(logsumexp(log_w) - np.log(len(w))), error, log_w, eta


def oracle(problem, X_new):
    """Log evidence and probabilities at new points."""
    L, new = problem.n_latents, white_prior(problem).features(X_new)
    log_z, error, log_w, eta = evidence(problem)
    w = np.exp(log_w - logsumexp(log_w))
    V, rest = per_latent(new.V, L), per_latent(new.rest, L)
    means = np.stack([eta[:, c] @ V[c] for c in range(L)], axis=2)
    some = w > 1e-9 * w.max()
    covariance = np.stack(rest, axis=1)[None, :, :, None] * np.eye(L)
    mixture = LatentMixture(w[some] / w[some].sum(), means[some], covariance, np.arange(some.sum()))
    found = predict_proba(mixture, problem.likelihood)
    return log_z, error, found.proba, found.mcse


def one_per_inference():
    chosen = {}
    for c in CELLS:
        chosen.setdefault((c.inference, c.classes, c.form), c)
    return list(chosen.values())


def name_of(c):
    return "-".join((c.inference, c.strategy, c.classes, c.form))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # short chains say that they are short
@pytest.mark.parametrize("c", one_per_inference(), ids=name_of)
def test_inferences_agree_with_a_plain_sum(c):
    assert_agrees(c)


def assert_agrees(c):
    """Probabilities and evidence are right, but for their stated errors and what the registry's row says is left."""
    problem, inference = tiny(c)
    key = (c.classes, white_prior(problem).problem.form.name, repr(problem.likelihood))
    if key not in TRUTHS:
        TRUTHS[key] = oracle(problem, NEW)
    log_z, log_error, proba, error = TRUTHS[key]
    posterior = inference(problem, np.random.default_rng(1))
    found = predict_proba(posterior.latent(NEW), problem.likelihood)
    left, left_nats = INFERENCES[c.inference].leaves
    own = np.where(np.isnan(found.mcse), 0.0, found.mcse)
    allowed = left + 5.0 * np.hypot(own, error) + 1e-3
    assert np.all(np.abs(found.proba - proba) < allowed), (found.proba, proba)
    if posterior.evidence is not None:
        stated = posterior.evidence.error or 0.0
        gap = abs(posterior.evidence.log_z - log_z)
        assert gap < left_nats + 5.0 * np.hypot(stated, log_error) + 2e-3, gap
    if inference.evidence_kind == "bound":
        assert posterior.evidence.log_z < log_z + 5.0 * log_error


def test_what_an_approximation_leaves_stands_in_its_row():
    rows = INFERENCES.values()
    assert all((row.leaves == (0.0, 0.0)) == row.exact for row in rows)
    wrong = replace(INFERENCES["laplace"], leaves=(0.0, 0.0))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(INFERENCES, "laplace", wrong)
        with pytest.raises(AssertionError):
            assert_agrees(next(c for c in CELLS if c.inference == "laplace"))


UNBIASED = [c for c in one_per_inference() if INFERENCES[c.inference].gradient and INFERENCES[c.inference].exact]


@pytest.mark.slow
@pytest.mark.parametrize("c", UNBIASED, ids=name_of)
def test_gradients_of_unbiased_evidences_agree_with_a_plain_sum(c):
    problem, inference = tiny(c)
    runs = [inference.for_search(problem, np.random.default_rng(k), gradient=True).evidence.gradient for k in range(12)]
    found, error = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
    key = (c.classes, c.form, repr(problem.likelihood))
    if key not in SLOPES:
        step = 0.02 * np.eye(len(problem.theta))
        ends = [[evidence(problem.at(problem.theta + s * e))[0] for s in (-1, 1)] for e in step]
        SLOPES[key] = np.diff(ends, axis=1)[:, 0] / 0.04
    assert np.all(np.abs(found - SLOPES[key]) < 5.0 * error + 5e-3), (found, SLOPES[key])


def test_the_oracle_can_tell_another_problem():
    c = next(c for c in CELLS if c.inference == "ep" and c.form == "dense" and c.classes == "two")
    problem, inference = tiny(c)
    other = replace(problem, kernel=ConstantKernel(6.0) * RBF(1.2))
    assert (
        np.abs(oracle(other, NEW)[2] - predict_proba(inference(problem).latent(NEW), problem.likelihood).proba).max()
        > 0.02
    )


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.filterwarnings("ignore")  # brief chains and climbs say that they are brief
@pytest.mark.parametrize("heaviest", [1.0, 2.0], ids=["plain", "weighted"])
@pytest.mark.parametrize("c", CELLS, ids=name_of)
def test_every_cell_that_says_yes_runs(c, heaviest):
    X, y = data(c.classes, 18)
    clf = GPClassifier(
        KERNEL,
        inference=INFERENCES[c.inference].brief,
        hyperparameters=STRATEGIES[c.strategy].brief,
        latent_prior=FORMS[c.form].example(X),
        random_state=0,
    ).fit(X, y, sample_weight=np.where(np.arange(18) % 3, 1.0, heaviest))
    proba = clf.predict_proba(X)
    assert np.allclose(proba.sum(axis=1), 1.0, atol=1e-6)
    assert clf.likelihood_.name == c.likelihood
    assert np.mean(proba.argmax(axis=1) == y) > np.bincount(y).max() / len(y)


@pytest.mark.parametrize("c", [c for c in cells() if not c.runs], ids=name_of)
def test_every_cell_that_says_no_says_why(c):
    X, y = data(c.classes, 18)
    y[:3] = (0, 1, 2 if c.classes == "many" else 0)
    clf = GPClassifier(
        KERNEL,
        inference=INFERENCES[c.inference].default,
        hyperparameters=STRATEGIES[c.strategy].default,
        latent_prior=FORMS[c.form].example(X),
    )
    only_two = INFERENCES[c.inference].default.only_two
    reason = only_two if only_two and c.classes == "many" else c.reason
    assert reason
    assert reason in c.reason
    with pytest.raises(ValueError, match=r"inference|hyperparameters|binary") as refused:
        clf.fit(X, y)
    assert reason in str(refused.value)
    assert ("takes two" in str(refused.value)) or reason is not only_two


REFUSED = [c for c in cells() if "hyperparameters may be" in c.reason]


@pytest.mark.parametrize("c", REFUSED, ids=name_of)
def test_a_hint_names_what_runs(c):
    running = {(one.inference, one.strategy) for one in CELLS if (one.classes, one.form) == (c.classes, c.form)}
    hints = dict(re.findall(r"(inference|hyperparameters) may be ((?:'[^']+'(?:, )?)+)", c.reason))
    for kind, names in hints.items():
        for name in re.findall(r"'([^']+)'", names):
            assert ((name, c.strategy) if kind == "inference" else (c.inference, name)) in running
    assert set(re.findall(r"'([^']+)'", hints["hyperparameters"])) == {s for i, s in running if i == c.inference}


def test_there_are_hints():
    named = {"maximize", "map", "em", "nelder-mead", "hmc", "pseudo-marginal", "alternate"}
    assert {c.strategy for c in REFUSED} == named
    able = {(c.strategy, c.classes, c.form) for c in CELLS}
    assert all(("inference may be" in c.reason) == ((c.strategy, c.classes, c.form) in able) for c in REFUSED)


def test_the_matrix_is_computed_from_offers_and_needs(monkeypatch):
    exact, fixed = INFERENCES["exact"].default, STRATEGIES["fixed"].default
    assert cell(exact, fixed, LowRank, "many").runs
    monkeypatch.setattr(LowRank, "offers", frozenset(["given"]))
    refused = cell(exact, fixed, LowRank, "many")
    assert not refused.runs
    assert LowRank.lacks["box"] in refused.reason


def test_the_matrix_covers_every_registered_part():
    found = {(c.inference, c.strategy, c.classes, c.form) for c in cells()}
    assert len(found) == len(INFERENCES) * len(STRATEGIES) * len(CLASSES) * len(FORMS)
    assert set(counts()) == {(classes, form) for classes in CLASSES for form in FORMS}


def test_what_settings_need_of_a_prior_is_refused_before_the_fit():
    X, y = data("two", 12)
    clf = GPClassifier(KERNEL, inference="elliptical-slice", hyperparameters=Alternate.neal(), n_inducing=3)
    with pytest.raises(ValueError, match=r"no gradient in θ.*use move='metropolis'"):
        clf.fit(X, y)
    assert Alternate(given="eta", move="hmc").lacks(LowRank) == ""
    assert EM().lacks(type("Bare", (LowRank,), {"offers": frozenset(["given"])}))
