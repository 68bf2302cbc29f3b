"""The last step of a search is the pilot of the final draws: same plan, other random numbers."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C
from sklearn.preprocessing import scale

from gpclass import GPClassifier
from gpclass.inference import Exact, exact
from gpclass.inference.drawn import draw_box, draw_levelled
from gpclass.inference.exact import _score
from gpclass.inference.noise import anchored, noise_factor, noisy_latents
from gpclass.inference.outline import Known
from gpclass.latent.dense import dense_prior
from gpclass.likelihoods import MultinomialProbit
from gpclass.model.problem import Problem
from gpclass.orthant import batches
from gpclass.orthant.plan import bare_plan

FINAL = Exact(tol=0.01, first=400, max_samples=2000)


@pytest.fixture(scope="module")
def problem():
    X, y = load_iris(return_X_y=True)
    kernel = C(20.0**2) * RBF(4.0)
    return Problem.of(scale(X)[::3], y[::3], kernel, MultinomialProbit())


@pytest.fixture(scope="module")
def step(problem):
    """One of an ascent."""
    return FINAL.for_search(problem, np.random.default_rng(0), gradient=True)


def no_plan(*args, **kwargs):
    raise AssertionError("a plan was made")


def test_final_draws_go_on_from_the_step(problem, step, monkeypatch):
    slow = FINAL(problem, np.random.default_rng(0), start=replace(step.start, known=None))
    monkeypatch.setattr(exact, "make_plan", no_plan)
    fast = FINAL(problem, np.random.default_rng(0), start=step.start)
    assert fast.start.known is None
    noise = np.hypot(fast.evidence.error, slow.evidence.error)
    assert noise < 0.1
    assert abs(fast.evidence.log_z - slow.evidence.log_z) < 4 * noise
    assert abs(fast.evidence.log_z - (slow.evidence.log_z + 0.6)) > 4 * noise  # negative control


def test_the_draws_are_not_those_of_the_pilot(problem, step):
    fast = FINAL(problem, np.random.default_rng(0), start=step.start)
    M = len(step.weights)
    again = FINAL.for_search(problem, np.random.default_rng(0), gradient=True)
    np.testing.assert_array_equal(again.weights, step.weights)
    ours = np.corrcoef(fast.A[0][:, :M].ravel(), step.A[0].ravel())[0, 1]
    other = FINAL.for_search(problem, np.random.default_rng(1), gradient=True)
    noise = np.corrcoef(other.A[0].ravel(), step.A[0].ravel())[0, 1]
    assert abs(ours - noise) < 0.1
    assert np.corrcoef(again.A[0].ravel(), step.A[0].ravel())[0, 1] > 0.999


@pytest.mark.parametrize("other", ["theta", "rows", "draws", "even"])
def test_a_pilot_of_another_problem_is_not_used(problem, step, other, monkeypatch):
    known, asked, settings = step.start.known, problem, FINAL
    assert isinstance(known, Known)
    assert known.outline.serves(FINAL, problem)
    assert known.pilot(FINAL) is known
    if other == "theta":
        asked = problem.at(problem.theta + 0.01)
    elif other == "rows":
        asked = Problem.of(problem.X, problem.y, problem.kernel, problem.likelihood)
    elif other == "draws":
        settings = replace(FINAL, first=500)
    else:
        known = replace(known, log_w=np.zeros(400))
    assert not known.outline.serves(settings, asked) or known.pilot(settings) is None
    monkeypatch.setattr(exact, "make_plan", no_plan)
    with pytest.raises(AssertionError, match="a plan was made"):
        settings(asked, np.random.default_rng(0), start=replace(step.start, known=known))


def test_a_fit_ends_with_the_pilot_of_its_search(monkeypatch):
    monkeypatch.setattr(exact, "make_plan", no_plan)
    X, y = load_iris(return_X_y=True)
    model = GPClassifier(inference=FINAL, tol=0.01, random_state=0).fit(scale(X)[::3], y[::3])
    assert model.posterior_.start.known is None
    assert model.fit_report_.n_samples >= 400


def test_latents_batch_by_batch_are_those_of_all_draws(problem, monkeypatch):
    """A fit keeps no draws of many classes; what it keeps, its weights and its recipe are those of a fit that does."""
    outline, found = FINAL.outline(problem), noise_factor(problem)
    plan = bare_plan(outline.box, outline.ep)
    monkeypatch.setattr(batches, "ROOM", 100 * plan.box.n)  # several batches
    rng = (np.random.default_rng(seed) for seed in (0, 0, 1, 1))
    kept = draw_box(plan, 500, next(rng), "perpendicular")
    passed_on = draw_levelled(problem, found, plan, 500, next(rng), "perpendicular", next(rng))
    np.testing.assert_array_equal(passed_on.log_w, kept.log_w)
    np.testing.assert_array_equal(passed_on.group, kept.group)
    assert passed_on.seed == kept.seed
    expected = kept.A(problem, found, next(rng))
    np.testing.assert_allclose(passed_on.A(problem, found, None), expected, rtol=1e-10, atol=1e-12)


def test_score_of_a_shared_kernel(problem):
    """The short form against the general one."""
    outline = FINAL.outline(problem)
    drawn = draw_box(bare_plan(outline.box, outline.ep), 300, np.random.default_rng(0), "perpendicular")
    found, prior = noise_factor(problem), dense_prior(problem)
    A = noisy_latents(problem, found, drawn.v, np.random.default_rng(1))
    alpha = found.coupled.solve(anchored(problem, drawn.v))
    each = prior.pull(0.5 * (a * drawn.weights) @ a.T for a in alpha)
    expected = each - prior.pull(0.5 * block for block in found.coupled.blocks())
    np.testing.assert_allclose(_score(problem, found, A, drawn)[0], expected, rtol=1e-7)
    assert np.abs(each - expected).max() > 1e-3  # the second term counts
