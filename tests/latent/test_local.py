"""The local prior: all rows in one block are the dense prior, and its gradients are those of differences."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import log_loss

from gpclass import GPClassifier, load_model
from gpclass.hyper import maximize, patches
from gpclass.hyper.base import Run
from gpclass.inference import EP, Laplace
from gpclass.latent import inducing, local, local_gaussian
from gpclass.latent.dense import Dense
from gpclass.latent.inducing import sample_of_classes
from gpclass.latent.local import LocalBlocks, LocalPrior, cut
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba
from tests.latent.cases import CASES, KERNEL, MANY, NEW, TWO, X, found, n, problem

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_one_block_is_the_dense_prior(case, weighted):
    weights = RNG.integers(1, 4, n).astype(float) if weighted else None
    for ours, dense in zip(found(case, LocalBlocks(n), weights), found(case, Dense(), weights), strict=True):
        assert np.allclose(ours, dense, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_differences(case):
    at, method = problem(case, LocalBlocks(20)), CASES[case][2]
    at = at.placed(RNG)
    slope = method(at, gradient=True).evidence.gradient
    for p, step in enumerate(1e-4 * np.eye(len(at.theta))):
        up, down = (method(at.at(at.theta + sign * step)).evidence.log_z for sign in (1.0, -1.0))
        assert np.isclose((up - down) / 2e-4, slope[p], rtol=1e-4, atol=1e-4)


def test_the_evidence_is_the_sum_over_blocks():
    at = problem("ep", LocalBlocks(20)).placed(RNG)
    each = [at.subset(rows[rows >= 0]) for rows in at.form.blocks]
    apart = [EP(tol=1e-10)(Problem.of(part.X, part.y, KERNEL, part.likelihood)).evidence.log_z for part in each]
    assert np.isclose(EP(tol=1e-10)(at).evidence.log_z, sum(apart), rtol=0.0, atol=1e-6)


def hard(variance, likelihood="probit", weighted=True):
    """Equal rows, with other labels and with the same, under a prior so broad that sites cycle if all move at once."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(400, 2))
    y = np.where(np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + 0.3 * rng.normal(size=400) > 0, 1, -1)
    X[100:120], rows = X[:20], np.r_[:400, :30]
    weights = rng.integers(1, 3, len(rows)).astype(float) if weighted else None
    kernel = ConstantKernel(variance) * Matern(3.0, nu=1.5)
    return Problem.of(X[rows], y[rows], kernel, get_likelihood(likelihood), weights, form=LocalBlocks(50)).placed(rng)


@pytest.mark.parametrize(
    ("variance", "likelihood", "weighted"), [(1e5, "probit", True), (1e5, "logit", True), (1e7, "logit", False)]
)
def test_sites_that_cycle_if_all_rows_move_at_once_are_found_one_after_another(
    variance, likelihood, weighted, monkeypatch
):
    at = hard(variance, likelihood, weighted)
    ours, method = EP()(at), EP(tol=1e-9)
    assert ours.report.converged
    apart = 0.0
    for block in at.form.blocks:
        part = at.subset(np.flatnonzero(np.isin(at.prior.of, block[block >= 0])))
        apart += method(Problem.of(part.X, part.y, at.kernel, part.likelihood, part.weights)).evidence.log_z
    assert np.isclose(ours.evidence.log_z, apart, rtol=0.0, atol=1e-6)
    monkeypatch.setattr(LocalPrior, "independent", lambda prior: None)
    assert not EP()(at).report.converged


def test_a_posterior_that_rounding_moves_has_not_converged():
    report = EP()(hard(1e10, weighted=False)).report
    assert not report.converged
    assert "rounding" in report.reason
    assert "WhiteKernel" in report.reason


def test_blocks_are_all_rows_once_and_compact():
    blocks = cut(X, 20)
    rows = blocks[blocks >= 0]
    assert np.array_equal(np.sort(rows), np.arange(n))
    assert np.min(np.sum(blocks >= 0, axis=1)) >= blocks.shape[1] - 1
    spread = np.mean([np.ptp(X[block[block >= 0]], axis=0).max() for block in blocks])
    assert spread < 0.75


def test_draws_at_one_point_agree_with_the_latent_values_that_are_predicted():
    posterior = EP()(problem("ep", LocalBlocks(20)))
    for point in NEW[:3]:
        latent, draws = posterior.latent(point[None]), posterior.draw(point[None], 4000, np.random.default_rng(1))
        sd = np.sqrt(latent.covariances[0, 0, 0, 0])
        assert abs(draws.mean() - latent.means[0, 0, 0]) < 4 * sd / np.sqrt(4000)
        assert np.isclose(draws.std(), sd, rtol=0.05)


@pytest.mark.parametrize("case", ["ep", "softmax"])
def test_draws_with_all_rows_are_those_of_the_dense_prior(case):
    line = np.column_stack([np.linspace(-0.2, 1.2, 100), np.full(100, 0.5)])
    smooth = ConstantKernel(2.0) * RBF([0.3, 0.5])
    both = (CASES[case][2](problem(case, form, smooth)) for form in (Dense(), LocalBlocks(n)))
    dense, mine = (posterior.draw(line, 4000, np.random.default_rng(1)) for posterior in both)
    sd = dense.std(axis=0)
    assert np.all(np.abs(dense.mean(axis=0) - mine.mean(axis=0)) < 4 * sd * np.sqrt(2 / 4000))
    assert np.allclose(sd, mine.std(axis=0), rtol=4 / np.sqrt(4000))


def test_draws_along_a_line_stay_within_the_predicted_spread():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(600, 4))
    labels = np.where(rows[:, 0] + 0.3 * rng.normal(size=600) > 0, 1, -1)
    line = np.linspace(-2, 2, 200)[:, None] * np.ones(4)
    at = Problem.of(rows, labels, ConstantKernel(1.0) * RBF(np.ones(4)), get_likelihood("probit"), form=LocalBlocks(60))
    posterior = Laplace()(at)
    latent, draws = posterior.latent(line), posterior.draw(line, 400, rng)[..., 0]
    sd = np.sqrt(latent.covariances[0, :, 0, 0])
    assert np.max(np.abs(draws.mean(axis=0) - latent.means[0, :, 0]) / sd) < 1.0
    assert np.all(draws.std(axis=0) < 1.2 * sd)


def test_draws_of_too_many_points_are_refused(monkeypatch):
    monkeypatch.setattr(local_gaussian, "MOST_DRAWN", 50)
    posterior = Laplace()(problem("laplace", LocalBlocks(20)))
    assert posterior.draw(NEW[:1], 2, RNG).shape == (2, 1, 1)
    with pytest.raises(ValueError, match="draw at fewer points"):
        posterior.draw(NEW, 2, RNG)


@pytest.mark.filterwarnings("ignore:probabilities under the prior", "ignore:the log evidence")  # 40 rows tell little
@pytest.mark.parametrize(("full", "most", "prior"), [(0, 1, "inducing"), (0, 3, "neighbours"), (40, 1, "dense")])
def test_a_search_is_on_some_rows_under_another_prior(monkeypatch, tmp_path, full, most, prior):
    monkeypatch.setattr(local, "FEW", 40)
    monkeypatch.setattr(local, "FULL", full)
    monkeypatch.setattr(inducing, "LEAST", 5)
    monkeypatch.setattr(local, "FEW_COLUMNS", most)
    seen, infer = [], EP.infer

    def watched(inference, problem, *others):
        seen.append((problem.form.name, problem.n))
        return infer(inference, problem, *others)

    monkeypatch.setattr(EP, "infer", watched)
    kernel = ConstantKernel(2.0) * RBF([0.3, 0.5])
    clf = GPClassifier(kernel, inference="ep", latent_prior=LocalBlocks(20), random_state=0).fit(X, TWO)
    searched, last = seen[:-3], seen[-3]  # the last two are the comparison with the dense prior
    assert {name for name, _ in searched} == {prior}
    assert max(rows for _, rows in searched) <= 40
    assert last == ("local", n)
    assert clf.fit_report_.details["rows_of_a_prediction"] == 20
    assert clf.fit_report_.details["rows_of_the_search"] == 40
    clf.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict_proba(NEW), clf.predict_proba(NEW))


def test_a_search_has_rows_of_every_class():
    rare = np.repeat([0, 1, 2], [4000, 30, 1])
    rows = sample_of_classes(rare, 50, np.random.default_rng(0))
    assert np.all(np.diff(rows) > 0)
    assert np.bincount(rare[rows]).tolist()[1:] == [20, 1]
    assert np.array_equal(sample_of_classes(MANY, n, np.random.default_rng(0)), np.arange(n))


def test_with_all_of_few_rows_a_fit_is_that_of_the_dense_prior():
    settings = {"kernel": ConstantKernel(2.0) * RBF([0.3, 0.5]), "inference": "ep", "random_state": 0}
    dense, mine = (GPClassifier(latent_prior=p, **settings).fit(X, TWO) for p in (None, LocalBlocks(n)))
    assert np.allclose(mine.theta_, dense.theta_)
    assert np.allclose(mine.predict_proba(NEW), dense.predict_proba(NEW), atol=1e-6)


def test_patches_are_the_nearest_rows_of_some_at_the_density_of_all(monkeypatch):
    monkeypatch.setattr(local, "FULL", 50)
    monkeypatch.setattr(local, "PATCH", 6)
    rng = np.random.default_rng(3)
    rows = np.repeat(rng.standard_normal((150, 4)), rng.integers(1, 4, 150), axis=0)
    rows = rows[rng.permutation(len(rows))]
    labels = np.where(rng.uniform(size=len(rows)) < 0.5, -1, 1)
    lengths = np.array([0.5, 1.0, 2.0, 4.0])
    at = Problem.of(rows, labels, ConstantKernel(1.0) * RBF(lengths), get_likelihood("probit"), form=LocalBlocks(5))
    found = at.form.patches(at, np.random.default_rng(0))
    assert found.form.blocks.shape[1] == 6
    every, taken = np.unique(rows, axis=0), set()
    for places in found.prior.points[found.form.blocks]:
        assert np.array_equal(places.shape, (6, 4))
        left = np.array([row for row in every if tuple(row) not in taken])  # by brute force
        nearest = left[np.argsort(np.sum(((left - places[0]) / lengths) ** 2, axis=1))[:6]]
        assert np.array_equal(nearest, places)
        taken |= set(map(tuple, places))
    assert len(taken) <= len(every) // 2
    assert found.n == sum(tuple(row) in taken for row in rows)  # all rows of a place
    level = at.form.patches(at, np.random.default_rng(0), level=True)
    assert np.array_equal(level.X, found.X)
    assert np.allclose(level.covariance(rows[:5], rows[:7]), found.covariance(rows[:5], rows[:7]) + local.LEVEL)
    assert np.array_equal(level.theta, found.theta)


def test_held_out_rows_are_predicted_from_the_others():
    at = problem("ep", LocalBlocks(20))
    rows = np.arange(0, n, 9)
    rest = np.setdiff1d(np.arange(n), rows)
    known = at.form.without(at, rows, RNG)
    assert not {tuple(x) for x in known.X} & {tuple(x) for x in X[rows]}
    with_all = EP(tol=1e-8)(at.subset(rest).placed(RNG))
    p = predict_proba(with_all.latent(X[rows]), at.likelihood).proba
    loss = patches.held_out_loss(at, rows, EP(tol=1e-8), Run(RNG))
    assert loss == pytest.approx(log_loss(at.y[rows], p), abs=0.02)  # blocks of few rows are others


@pytest.mark.slow
def test_patches_of_a_rare_class_do_not_make_predictions_worse(monkeypatch):
    """Each patch would have to learn the frequency of the class, if the labels around did not tell it."""
    monkeypatch.setattr(local, "FEW", 1500)
    rng, losses = np.random.default_rng(0), []
    rows = rng.uniform(0.0, 5.0, size=(5000, 2))
    waves, phases = rng.standard_normal((2, 500)) / 0.5, rng.uniform(0.0, 2 * np.pi, 500)
    f = 2.0 * np.sqrt(2 / 500) * np.cos(rows @ waves + phases) @ rng.standard_normal(500) - 4.5
    labels = np.where(f + rng.standard_normal(5000) > 0, 1, -1)
    assert 0.01 < np.mean(labels > 0) < 0.1
    kernel = ConstantKernel(1.0) * RBF(1.0)
    at = Problem.of(rows[:3500], labels[:3500], kernel, get_likelihood("probit"), form=LocalBlocks(60))
    for own in (LocalBlocks.patches, lambda form, problem, rng, level=False: None):
        monkeypatch.setattr(LocalBlocks, "patches", own)
        fit = maximize.Maximize()(at, Laplace(), Run(np.random.default_rng(0)))
        p = predict_proba(fit.posterior.latent(rows[3500:]), at.likelihood).proba
        losses.append(log_loss(labels[3500:], p))
    assert losses[0] < losses[1]


def test_an_adjustment_that_fails_or_predicts_no_better_is_not_taken(monkeypatch):
    monkeypatch.setattr(local, "FULL", 50)
    monkeypatch.setattr(local, "PATCH", 6)
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((150, 4))
    labels = np.where(rows[:, 0] > 0, 1, -1)
    at = Problem.of(rows, labels, ConstantKernel(2.0) * RBF(0.7), get_likelihood("probit"), form=LocalBlocks(5))
    limits = {"max_iter": 3, "tol": 1e-4, "gradient_tol": 1e-3}
    run = Run(np.random.default_rng(0))
    climbed = patches.climb_apart

    def worse(objective, theta, **limits):
        return replace(climbed(objective, theta, **limits), theta=theta - 9.0)

    monkeypatch.setattr(patches, "climb_apart", worse)
    kept = patches.adjusted(at, EP(), run, None, "", **limits)
    assert kept.problem is at
    assert kept.details["adjusted_on_patches"] == patches.WORSE
    before, after = (kept.details[name] for name in ("log_loss_held_out", "log_loss_adjusted"))
    assert before <= after

    def refused(objective, theta, **limits):
        return replace(climbed(objective, theta, **limits), refused=ValueError("it fails"))

    monkeypatch.setattr(patches, "climb_apart", refused)
    kept = patches.adjusted(at, EP(), run, None, "", **limits)
    assert kept.problem is at
    assert kept.details["adjusted_on_patches"] == "no: it fails"


def test_few_rows_or_large_blocks_have_no_patches():
    few, many = (
        Problem.of(rows, np.where(rows[:, 0] > 0, 1, -1), RBF(), get_likelihood("probit"), form=LocalBlocks(k))
        for rows, k in ((RNG.standard_normal((900, 4)), 20), (RNG.standard_normal((1200, 4)), 120))
    )
    assert few.form.patches(few, RNG) is None
    assert many.form.patches(many, RNG) is None


def test_patches_find_detail_that_few_rows_do_not_show(monkeypatch):
    """A field finer than inducing inputs on few rows show: the log loss of held-out rows falls."""
    monkeypatch.setattr(local, "FEW", 1100)
    rng, losses = np.random.default_rng(0), []
    rows = rng.uniform(size=(4000, 4))
    waves = np.sin(2 * np.pi * rows[:, 0]) + np.sin(2 * np.pi * rows[:, 1]) + np.sin(2 * np.pi * 6 * rows[:, 0])
    labels, kernel, new = np.where(waves > 0, 1, -1), ConstantKernel(1.0) * RBF(np.full(4, 0.5)), rows[3000:]
    at = Problem.of(rows[:3000], labels[:3000], kernel, get_likelihood("probit"), form=LocalBlocks(60))
    for own in (LocalBlocks.patches, lambda form, problem, rng, level=False: None):
        monkeypatch.setattr(LocalBlocks, "patches", own)
        fit = maximize.Maximize()(at, Laplace(), Run(np.random.default_rng(0)))
        p = predict_proba(fit.posterior.latent(new), at.likelihood).proba
        losses.append(log_loss(labels[3000:], p))
    assert losses[0] < 0.9 * losses[1]


def test_warnings_of_the_search_are_told(monkeypatch):
    made = maximize.fit_at
    monkeypatch.setattr(
        maximize, "fit_at", lambda at, *others: replace(made(at, *others), warnings=("both", at.form.name))
    )
    at = problem("laplace", LocalBlocks(20), ConstantKernel(2.0, "fixed") * RBF(0.3))
    fit = maximize.Maximize(max_iter=1)(at, Laplace(), Run(np.random.default_rng(0)))
    assert fit.warnings == ("both", "dense", "local")


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="k of the local prior"):
        GPClassifier(latent_prior=LocalBlocks(0), inference="ep").fit(X, TWO)
    for strategy in ("nelder-mead", "hmc"):
        with pytest.raises(ValueError, match=r"the evidence of its blocks .* use hyperparameters='maximize'"):
            GPClassifier(latent_prior="local", inference="ep", hyperparameters=strategy).fit(X, TWO)
    with pytest.raises(ValueError, match="does not run with the prior 'local'"):
        GPClassifier(latent_prior="local", inference="gibbs").fit(X, TWO)


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational"])
def test_more_equal_rows_than_neighbours_are_one_place(inference):
    rows, labels = np.zeros((200, 1)), np.repeat([0, 1], 100)
    settings = {"inference": inference, "hyperparameters": "fixed"}
    both = (GPClassifier(ConstantKernel(4.0) * RBF(), latent_prior=p, **settings) for p in (None, "local"))
    dense, mine = (clf.fit(rows, labels).predict_proba([[0.0], [0.7]]) for clf in both)
    assert np.allclose(mine, dense, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_with_all_rows_equal_ones_are_as_under_the_dense_prior(case):
    name, y, method = CASES[case]
    copied = np.round(4 * X) / 4
    weights = np.random.default_rng(5).uniform(0.5, 2.0, n)
    kernel = ConstantKernel(2.0) * Matern([0.3, 0.5], nu=1.5)
    results = []
    for form in (Dense(), LocalBlocks(n)):
        posterior = method(Problem.of(copied, y, kernel, get_likelihood(name), weights, None, form), gradient=True)
        latent = posterior.latent(NEW)
        results.append((posterior.evidence.log_z, posterior.evidence.gradient, latent.means, latent.covariances))
    for dense, mine in zip(*results, strict=True):
        assert np.allclose(mine, dense, atol=1e-6, rtol=1e-6)


def test_equal_rows_with_white_noise_are_not_taken_in_the_order_of_their_labels():
    rows, labels = np.zeros((400, 1)), np.repeat([-1, 1], 200)
    kernel = ConstantKernel(4.0) * RBF() + WhiteKernel(0.1)
    at = Problem.of(rows, labels, kernel, get_likelihood("probit"), form=LocalBlocks(60)).placed(RNG)
    prior = at.prior
    for group in (*at.form.blocks, *prior.nearest(np.zeros((1, 1)))):
        assert abs(labels[prior.first[group[group >= 0]]].mean()) < 0.5


def test_equal_rows_are_numbered_by_their_first():
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -0.0], [-1.0, 0.0], [0.0, 2.0]])
    assert local.equal_rows(rows).tolist() == [0, 1, 0, 2, 1]


def test_too_little_memory_is_said_in_advance(monkeypatch):
    monkeypatch.setattr(local, "available_memory", lambda: 1e4)
    with pytest.raises(ValueError, match="lower its k, or use n_inducing"):
        GPClassifier(1.0 * RBF(0.3), inference="laplace", latent_prior="local").fit(X, TWO)
