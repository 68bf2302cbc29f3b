"""Moves of θ that a test corrects: exact for any aim, reversible, and tuned on the deterministic evidence alone."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass.hyper import Alternate, PseudoMarginal, full_bayes
from gpclass.hyper.alternate import AlternateSampler
from gpclass.hyper.base import Run
from gpclass.hyper.moves import Fitted, Trajectories, Walk, moves_for
from gpclass.hyper.proposal import LogDensity, Mode, find_mode
from gpclass.hyper.pseudo_marginal import NOISE, PARTICLES, MetropolisSampler, noise
from gpclass.hyper.surface import Surface, fit_surface
from gpclass.inference import EP, EllipticalSlice, Exact, Importance
from gpclass.inference.base import Inference
from gpclass.likelihoods import Logit, MultinomialProbit, Softmax
from gpclass.priors import resolve_priors
from tests.conftest import make_problem
from tests.hyper.against_quadrature import PRIORS, Quadrature, agrees, draws_of
from tests.hyper.geweke import leaves_the_joint_alone, metropolis_steps
from tests.inference.test_many_laplace import problem as many_problem


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """What the report says beside the chains is not asked for."""
    monkeypatch.setattr(full_bayes, "leave_one_out", lambda *_: None)
    monkeypatch.setattr(full_bayes, "REPEATS", 2)


def run(strategy, problem, inference, seed=0, **settings):
    return strategy(problem, inference, Run(np.random.default_rng(seed), PRIORS, **settings))


def guide_of(problem, inference=None):
    prior = resolve_priors(PRIORS, problem.names, problem.theta)
    inference = inference or EP(tol=0.01)
    return LogDensity(problem, inference, prior, inference(problem).start)


# ---- the fit ---------------------------------------------------------------------------------------------


def bumpy(theta):
    """A smooth function of two parameters and its gradient."""
    x, y = theta
    value = -((x - 0.3) ** 2) - 0.5 * y**2 + 0.7 * np.sin(x + y)
    return value, np.array([-2 * (x - 0.3) + 0.7 * np.cos(x + y), -y + 0.7 * np.cos(x + y)])


def seen_of(function, points):
    return np.stack([np.concatenate([theta, [function(theta)[0]], function(theta)[1]]) for theta in points])


def test_the_fit_passes_through_values_and_gradients():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(25, 2))
    fit = fit_surface(np.zeros(2), np.diag([0.8, 1.3]), seen_of(bumpy, points))
    for theta in points:
        value, slope = fit.value_and_slope(theta)
        assert value == pytest.approx(bumpy(theta)[0], abs=1e-3)
        np.testing.assert_allclose(slope, bumpy(theta)[1], atol=1e-3)
    for theta in rng.normal(size=(20, 2)) * 0.7:
        value, slope = fit.value_and_slope(theta)
        assert value == pytest.approx(bumpy(theta)[0], abs=0.02)
        for j, step in enumerate(1e-5 * np.eye(2)):
            rise = fit.value_and_slope(theta + step)[0] - fit.value_and_slope(theta - step)[0]
            assert slope[j] == pytest.approx(rise / 2e-5, rel=1e-4, abs=1e-5)
    far = fit.value_and_slope(np.array([4e4, -4e4]))[0]
    assert far == pytest.approx(min(bumpy(theta)[0] for theta in points))
    again = Surface.of(fit.state())
    assert again.value_and_slope(points[0])[0] == fit.value_and_slope(points[0])[0]


def test_gradients_tell_more_than_values_alone():
    def error(seed, sign):
        rng = np.random.default_rng(seed)
        seen, test = seen_of(bumpy, rng.normal(size=(8, 2))), rng.normal(size=(30, 2)) * 0.7
        seen[:, 3:] *= sign
        fit = fit_surface(np.zeros(2), np.eye(2), seen)
        return np.sqrt(np.mean([(fit.value_and_slope(theta)[0] - bumpy(theta)[0]) ** 2 for theta in test]))

    right, wrong = (np.mean([error(seed, sign) for seed in range(1, 5)]) for sign in (1.0, -1.0))
    assert right < 0.2
    assert wrong > 3 * right  # the test can fail


def saturating(theta):
    """A log evidence of several length scales: each costs much if it is short, nothing if long."""
    falls = np.exp(-2.0 * theta)
    return -np.log1p(falls).sum(), 2.0 * falls / (1.0 + falls)


def test_the_fit_has_no_maxima_beyond_its_points():
    """With many parameters most of the region of the posterior is far from every point."""
    rng, p = np.random.default_rng(3), 10
    fit = fit_surface(np.zeros(p), np.eye(p), seen_of(saturating, rng.normal(size=(120, p))))
    errors = [fit.value_and_slope(theta)[0] - saturating(theta)[0] for theta in rng.normal(size=(40, p))]
    assert np.std(errors) < 0.2
    directions = rng.normal(size=(200, p))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for radius in (5.0, 8.0, 12.0):
        assert max(fit.value_and_slope(radius * one)[0] for one in directions) < 0.0  # nowhere is it higher


def test_a_trend_without_upward_curvature_is_fitted():
    """Along one axis the function bends upwards: there the trend is straight, in the other it is the function's."""
    points = np.random.default_rng(4).normal(size=(30, 2))
    seen = seen_of(lambda t: (0.5 * t[0] ** 2 + t[0] - 2.0 * t[1] ** 2, np.array([t[0] + 1.0, -4.0 * t[1]])), points)
    trend = fit_surface(np.zeros(2), np.eye(2), seen).trend
    np.testing.assert_allclose(trend[2:], [[0.0, 0.0], [0.0, -4.0]], atol=1e-6)
    assert trend[1, 0] > 0.5


def test_too_many_points_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr("gpclass.hyper.surface.MOST", 600)
    points = np.random.default_rng(2).normal(size=(900, 2))
    fit = fit_surface(np.zeros(2), np.eye(2), seen_of(bumpy, points))
    assert len(fit.points) == 600 // 3
    assert fit.value_and_slope(np.zeros(2))[0] == pytest.approx(bumpy(np.zeros(2))[0], abs=0.01)


# ---- the right distribution of θ -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    return make_problem(12)


@pytest.fixture(scope="module")
def truth(small):
    rng = np.random.default_rng(7)
    return Quadrature(small, lambda at: Importance(400)(at, rng).evidence.log_z, size=10)


@pytest.mark.slow
def test_the_default_reproduces_quadrature(small, truth):
    fit = run(PseudoMarginal(chains=2, draws=120), small, Exact(n_samples=16))
    draws = draws_of(fit)
    assert agrees(draws, *truth.moments())
    assert not agrees(draws, *truth.moments(power=0.1))  # the test can fail
    assert fit.figures["acceptance_rate"] > 0.85  # of proposals that nearly forget where they began
    assert fit.posterior.report.ess > 0.3 * draws.shape[0] * draws.shape[1]


@pytest.mark.slow
def test_a_chain_is_exact_whatever_its_moves_aim_at(small, truth, monkeypatch):
    """A fit of half the log evidence, and a noisy estimate: only the correction makes the chain right."""
    honest = fit_surface

    def spoiled(centre, covariance, seen):
        half = seen.copy()
        half[:, 2:] *= 0.2
        return honest(centre, covariance, half)

    monkeypatch.setattr("gpclass.hyper.moves.fit_surface", spoiled)
    fit = run(PseudoMarginal(chains=2, draws=200), small, Importance(20, around="laplace"))
    assert agrees(draws_of(fit), *truth.moments())
    assert fit.figures["acceptance_rate"] < 0.85
    monkeypatch.setattr(MetropolisSampler, "_tested", _unchecked)
    uncorrected = run(PseudoMarginal(chains=2, draws=250), small, Importance(2, around="laplace"))
    assert not agrees(draws_of(uncorrected), *truth.moments())


def _unchecked(self, state, proposal, rise, rng):
    """Accept every move: the chain then samples what the moves aim at."""
    return {"theta": proposal, **self._estimate(proposal, rng)}, 1


@pytest.mark.slow
def test_trajectories_on_the_evidence_itself_reproduce_quadrature(small, truth):
    strategy = PseudoMarginal(chains=2, draws=50, warmup=8, proposal="hmc", guide="laplace")
    assert agrees(draws_of(run(strategy, small, Importance(20, around="laplace"))), *truth.moments())


@pytest.mark.slow
@pytest.mark.parametrize(("proposal", "screen", "steps"), [("fitted", None, 3), ("hmc", None, 2), ("walk", True, 4)])
def test_moves_leave_the_joint_alone(proposal, screen, steps, monkeypatch):
    """θ, f and y from the model, an estimate that contains f: θ must keep its prior; with another prior it does not."""
    monkeypatch.setattr("gpclass.hyper.moves.EXPLORED", 50)
    strategy = PseudoMarginal(warmup=0, discard=0, draws=99, vectors=1, proposal=proposal, screen=screen)
    assert leaves_the_joint_alone(lambda prior: metropolis_steps(strategy, prior, steps), 70, 5)


# ---- many classes, other links, weights, inducing inputs --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "inference"),
    [(MultinomialProbit(), Exact(n_samples=32)), (Softmax(), Importance(200))],
    ids=["multinomial-probit", "softmax"],
)
def test_many_classes_reproduce_quadrature(likelihood, inference):
    task = replace(many_problem(n=8), likelihood=likelihood)
    rng = np.random.default_rng(7)
    truth = Quadrature(task, lambda at: Importance(200)(at, rng).evidence.log_z, size=7)
    fit = run(PseudoMarginal(chains=2, warmup=6, discard=2, draws=40), task, inference)
    (mean, sd), draws = truth.moments(), draws_of(fit)
    assert agrees(draws, mean, sd)
    assert not agrees(draws, mean + 0.6 * sd, sd)  # the test can fail


@pytest.mark.slow
def test_logit_and_fractional_weights_reproduce_quadrature():
    task = replace(make_problem(8, weights=np.linspace(0.4, 2.6, 8)), likelihood=Logit())
    rng = np.random.default_rng(7)
    truth = Quadrature(task, lambda at: Importance(200)(at, rng).evidence.log_z, size=7)
    fit = run(PseudoMarginal(chains=2, warmup=6, discard=2, draws=30), task, Exact(n_samples=16))
    assert agrees(draws_of(fit), *truth.moments())


# ---- what moves are made of ------------------------------------------------------------------------------


def test_the_rule_that_chooses_moves(small):
    guide = guide_of(small)
    mode = find_mode(guide)
    assert isinstance(moves_for(guide, mode), Fitted)
    assert type(moves_for(guide, mode, "hmc")) is Trajectories
    assert isinstance(moves_for(guide, mode, "walk"), Walk)
    wide = Mode(np.zeros(21), np.eye(21), 0)
    assert type(moves_for(guide, wide)) is Trajectories
    assert PseudoMarginal().with_warmup(2).warmup == 16
    assert PseudoMarginal().with_warmup(10).warmup == 60
    assert PseudoMarginal(proposal="walk").with_warmup(2).warmup == 300
    assert PseudoMarginal(warmup=5).with_warmup(10).warmup == 5


def test_the_number_of_particles_follows_the_noise(small, monkeypatch):
    prior = resolve_priors(PRIORS, small.names, small.theta)
    made = PseudoMarginal().sampling(small, Exact(), prior)
    assert made.inference.n_samples == PARTICLES[0]
    assert made.sampler.density.guides is not None  # and chains of two parameters have fitted guides
    spread, _ = noise(made.sampler.density, made.sampler.mode)
    assert spread < NOISE
    monkeypatch.setattr("gpclass.hyper.pseudo_marginal.NOISE", 0.5 * spread)
    assert PseudoMarginal().sampling(small, Exact(), prior).inference.n_samples > PARTICLES[0]
    assert PseudoMarginal(particles=5).sampling(small, Exact(), prior).inference.n_samples == 5
    assert PseudoMarginal().sampling(small, Exact(n_samples=7), prior).inference.n_samples == 7
    assert PseudoMarginal().sampling(small, Importance(9), prior).inference == Importance(9)


@pytest.mark.parametrize(("lost", "made"), [(24, 0), (3, 21)])
def test_estimates_that_fail_do_not_count_as_free_of_noise(small, monkeypatch, lost, made):
    density, mode = guide_of(small, Exact(n_samples=16)), Mode(small.theta, 0.01 * np.eye(len(small.theta)), 0)
    right, asked = LogDensity.posterior, []
    monkeypatch.setattr(
        LogDensity, "posterior", lambda *args: asked.append(1) or (None if len(asked) <= lost else right(*args))
    )
    spread, counted = noise(density, mode)
    assert counted == made
    assert np.isfinite(spread) == (made > 0)
    assert spread > 0.0


def test_the_deterministic_evidence_depends_on_theta_alone(small):
    guide = guide_of(small)
    moves = Trajectories(guide, Mode(small.theta, 0.3 * np.eye(2), 0))
    rng = np.random.default_rng(0)
    theta = small.theta + 0.4
    first = moves._evidence(theta)
    state = {**moves.first(small.theta), "log_size": np.array(-1.0)}
    for k in range(3):
        state, _ = moves.adapting(state, rng, k)
    again = moves._evidence(theta)
    assert again[0] == first[0]
    np.testing.assert_array_equal(again[1], first[1])
    tight = EP(tol=1e-8)(small.at(theta)).evidence.log_z + guide.log_prior(theta)
    assert first[0] == pytest.approx(tight, abs=1e-4)


@pytest.mark.slow
def test_moves_stay_within_the_bounds():
    tight = make_problem(12, kernel=C(1.5, (1.0, 2.0)) * RBF(1.0, (0.8, 1.3)))
    fit = run(PseudoMarginal(chains=2, warmup=6, discard=0, draws=20), tight, Importance(10))
    theta = draws_of(fit)
    low, high = tight.bounds.T
    assert np.all(theta >= low)
    assert np.all(theta <= high)
    assert len(np.unique(theta[..., 0])) > 10


@pytest.mark.parametrize(("proposal", "screen"), [("fitted", None), ("hmc", None), ("walk", None), ("walk", True)])
def test_the_report_counts_every_evidence(proposal, screen, small, monkeypatch):
    calls, once = [], Inference.__call__

    def counted(self, *given, **named):
        calls.append(self.name)
        return once(self, *given, **named)

    monkeypatch.setattr(Inference, "__call__", counted)
    strategy = PseudoMarginal(chains=2, warmup=4, discard=0, draws=6, proposal=proposal, guide="laplace", screen=screen)
    fit = run(strategy, small, Importance(5, around="prior"))
    beside = 1 + 2 * 3 + 2  # the common start; switching to the estimate, in each chain; the report's own
    assert 0 <= len(calls) - fit.figures["evaluations"] <= beside
    assert len(calls) > 2 * 10  # one for each iteration at least


def test_alternating_trajectories_count_every_evidence_and_compute_none_twice(small, monkeypatch):
    monkeypatch.setattr("gpclass.hyper.moves.MOST_FITTED", 0)
    prior = resolve_priors(PRIORS, small.names, small.theta)
    strategy = Alternate(warmup=0, draws=4, scans=1, given="xi")
    sampler = strategy.sampling(small, EllipticalSlice(around="laplace"), prior).sampler
    assert type(sampler.moves) is Trajectories
    rng, calls, once = np.random.default_rng(0), [], Trajectories._evidence
    (state,) = sampler.pool([sampler.first(rng)])

    def counted(self, theta):
        calls.append(theta.tobytes())
        return once(self, theta)

    monkeypatch.setattr(Trajectories, "_evidence", counted)
    tested = []
    for _ in range(4):
        calls.clear()
        before = int(state["evaluations"])
        state, _, _ = sampler._by_surrogate(state, rng)
        tested.append(int(state["evaluations"]) - before - len(calls))  # the Gaussian at the proposal
        assert len(set(calls)) == len(calls) > 1
    assert set(tested) <= {0, 1}
    assert 1 in tested


def test_the_reported_acceptance_is_that_of_the_first_move(small, monkeypatch):
    outcome = {"xi": True, "f": False, "eta": False}
    monkeypatch.setattr(AlternateSampler, "_moved", lambda self, state, given, rng: (state, 0.5, outcome[given]))
    strategy = Alternate(chains=2, warmup=0, draws=4, scans=1)
    latent = EllipticalSlice(around="laplace")
    assert run(strategy, small, latent).figures["acceptance_rate"] == 1.0
    assert run(replace(strategy, given="both"), small, latent).figures["acceptance_rate"] == 0.0


def test_chains_on_the_evidence_itself_resume_to_the_same(small, tmp_path):
    """Those on a fit, the default, and several processes: tests/hyper/test_bayes.py."""
    strategy = PseudoMarginal(chains=2, warmup=3, discard=1, draws=5, proposal="hmc", guide="laplace")
    whole = run(strategy, small, Importance(5))
    saved = replace(strategy, checkpoint=tmp_path / "chains.npz", draws=2)
    run(saved, small, Importance(5))
    resumed = run(replace(saved, draws=5), small, Importance(5), seed=9)
    np.testing.assert_array_equal(draws_of(resumed), draws_of(whole))
