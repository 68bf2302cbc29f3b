"""Strategies that sample kernel parameters: against quadrature, interrupted, resumed, and as ArviZ objects."""

import contextlib
import warnings
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier
from gpclass.hyper import HMC, Alternate, PseudoMarginal, full_bayes
from gpclass.hyper.alternate import AlternateSampler, Recent, centred
from gpclass.hyper.base import Run
from gpclass.hyper.defaults import priors_for
from gpclass.hyper.loo import cavity_log_density
from gpclass.hyper.mixture import latent_draw
from gpclass.hyper.proposal import LogDensity, Mode, adapted, find_mode, first_walk, walk
from gpclass.hyper.pseudo_marginal import MetropolisSampler, common_start
from gpclass.hyper.trace import Trace
from gpclass.inference import EP, Annealed, EllipticalSlice, Exact, Gibbs, Importance, Laplace, LatentHMC
from gpclass.inference.base import Inference
from gpclass.inference.posteriors import GaussianPosterior, NoisyDraws
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Logit, Probit
from gpclass.predict import predict_proba
from gpclass.priors import Gamma, LogNormal, resolve_priors
from gpclass.registry import check_combination, methods
from tests.conftest import make_problem
from tests.hyper.against_quadrature import PRIORS, Quadrature, agrees, draws_of
from tests.hyper.geweke import MODE, leaves_the_joint_alone

CHAIN = 200  # draws of the chains that many tests share
SHORT = {"chains": 2, "warmup": 20, "discard": 5, "draws": 20}

arviz = pytest.importorskip("arviz", reason="the trace is ArviZ's")


def run(strategy, problem, inference, seed=0, **settings):
    return strategy(problem, inference, Run(np.random.default_rng(seed), PRIORS, **settings))


@pytest.fixture(scope="module")
def problem():
    return make_problem(30)


# ---- the right distribution of θ -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact_chain(problem):
    """Pseudo-marginal chains with a noisy estimate, twelve importance draws; long, and shared by many tests."""
    strategy = PseudoMarginal(chains=4, draws=CHAIN, pointwise=True)
    return run(strategy, problem, Importance(12))


@pytest.mark.slow
def test_pseudo_marginal_reproduces_quadrature(problem, exact_chain):
    rng = np.random.default_rng(7)

    def truth(at):
        return Importance(400)(at, rng).evidence.log_z

    draws = draws_of(exact_chain)
    found = Quadrature(problem, truth, size=10)
    mean, sd = found.moments()
    assert agrees(draws, mean, sd)
    screened = PseudoMarginal(chains=2, warmup=50, discard=20, draws=160, screen=True, proposal="walk")
    assert agrees(draws_of(run(screened, problem, Importance(20, around="laplace"), seed=1)), mean, sd)
    # a walk screened by EP, which guides the draws
    by_default = PseudoMarginal(chains=2, warmup=50, discard=10, draws=120, proposal="walk")
    assert agrees(draws_of(run(by_default, problem, Exact(), seed=2)), mean, sd)
    assert exact_chain.figures["sd_log_evidence"] > 0.1  # the estimate was noisy, the chain exact all the same
    # What the chain must not be: Laplace's posterior, or a tempered one.
    assert not agrees(draws, *found.moments(power=0.3))


def test_an_estimate_completed_from_its_outline_is_the_same(problem):
    """Where the screen looks, before any draw, and what is drawn after: one estimate in two parts."""
    inference = Exact().for_chains(32)
    start = common_start(problem, inference)
    at = problem.at(problem.theta + 0.3)
    outline = inference.outline(at, start)
    whole = inference(at, np.random.default_rng(1), start=start)
    np.testing.assert_array_equal(outline.complete(np.random.default_rng(1)).A, whole.A)
    assert abs(outline.log_z - whole.evidence.log_z) < 0.2
    assert inference.outline(replace(at, likelihood=Logit())) is not None
    assert inference.outline(replace(at, form=LowRank(at.X[:5].copy()))) is None
    cold = inference(at, np.random.default_rng(1))
    assert abs(cold.evidence.log_z - whole.evidence.log_z) < 0.2
    assert common_start(problem, Importance(5)).rule.name == "ep"  # that of its own guide


@pytest.mark.slow
def test_hmc_reproduces_quadrature_over_its_own_evidence(problem):
    fit = run(HMC(draws=120), problem, Laplace())
    found = Quadrature(problem, lambda at: Laplace()(at).evidence.log_z)
    assert agrees(draws_of(fit), *found.moments())
    assert fit.figures["acceptance_rate"] > 0.6
    assert not agrees(draws_of(fit), *found.moments(power=0.3))


@pytest.fixture(scope="module")
def truth_of_twelve():
    rng = np.random.default_rng(7)
    return Quadrature(make_problem(12), lambda at: Importance(300)(at, rng).evidence.log_z, size=9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "inference", "share"),
    [
        (Alternate(chains=2, draws=120, warmup=20, scans=2), EllipticalSlice(around="laplace"), 0.3),
        (Alternate(chains=2, draws=200, warmup=60, scans=1, given="both"), Gibbs(), 0.02),
    ],
    ids=["interwoven", "gibbs"],
)
def test_alternate_reproduces_quadrature(strategy, inference, share, truth_of_twelve):
    fit = run(strategy, make_problem(12), inference)
    draws = draws_of(fit)
    mean, sd = truth_of_twelve.moments()
    assert agrees(draws, mean, sd)
    assert fit.posterior.report.ess > share * draws.shape[0] * draws.shape[1]
    assert not agrees(draws, mean + 0.6 * sd, sd)  # the test can fail


def test_gradient_of_the_density_given_f():
    problem = make_problem(8, kernel=2.0 * RBF(1.0))
    problem = replace(problem, likelihood=Probit(scale=1.3, scale_bounds=(0.1, 10.0)))
    density = LogDensity(problem, Laplace(), resolve_priors(None, problem.names, problem.theta))
    f = np.random.default_rng(0).normal(size=8)
    theta = problem.theta + 0.1
    _, slope = centred(density, theta, f)
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-5
        rise = centred(density, theta + step, f)[0] - centred(density, theta - step, f)[0]
        assert slope[j] == pytest.approx(rise / 2e-5, rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_neals_moves_given_f_leave_the_joint_alone():
    """θ and f from their priors, y | f, then θ | f by Hamiltonian moves: θ must stay at its prior."""
    problem = make_problem(5)
    rng = np.random.default_rng(1)
    strategy = Alternate.neal(leapfrog=3)
    density = LogDensity(problem, Laplace(), resolve_priors(PRIORS, problem.names, problem.theta))
    mode = find_mode(density)
    sampler = AlternateSampler(strategy, density, LatentHMC(around="prior"), mode)
    out = []
    for _ in range(250):
        theta = density.prior.draw(rng, 1)[0]
        state = {"theta": theta, "eta": rng.standard_normal(5), **first_walk(mode)}
        state |= {"log_scale_f": np.array(1.0), "log_scale_eta": np.array(0.0)}
        for _ in range(3):
            state, _, _ = sampler._by_hmc(state, "f", rng)
            # y is integrated out: f given θ is its prior, so η is redrawn
            state["eta"] = rng.standard_normal(5)
        out.append((state["theta"][0] - 0.5) / 0.7)
    assert kstest(out, "norm").pvalue > 1e-3
    assert kstest(np.array(out) * 1.6, "norm").pvalue < 1e-3  # the test can fail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "latent"), [("xi", EllipticalSlice(around="prior")), ("f", Gibbs()), ("eta", Gibbs())]
)
def test_alternating_moves_leave_the_joint_alone(given, latent):
    """Latent scans and θ in one parametrisation; a move that believes in another prior fails."""
    strategy = Alternate(given=given, warmup=0, draws=9, scans=1)

    def step_of(prior):
        base = AlternateSampler(strategy, LogDensity(make_problem(4), EP(tol=0.01), prior), latent, MODE)
        first = base.first(np.random.default_rng(0))
        tuned = {**first, **base.pool([first])[0], "log_scale_f": np.array(0.3), "log_scale_eta": np.array(0.3)}

        def step(data, theta, eta, f, rng):
            sampler = replace(base, guide=replace(base.guide, problem=data), recent=Recent())
            if given == "xi":
                vars(sampler)["moves"] = base.moves  # they aim at a fit to other labels, which a test corrects
            state = {**tuned, "theta": theta, "eta": eta}
            for i in range(3 if given == "xi" else 5):
                state, _ = sampler.step(state, rng, i)
            return state["theta"]

        return step

    assert leaves_the_joint_alone(step_of, 70, 3)


def test_adaptation_finds_scale_and_shape():
    """A random walk on a Gaussian with unequal axes reaches the wanted acceptance."""
    rng = np.random.default_rng(0)
    sd = np.array([2.0, 0.1])
    state = {"theta": np.zeros(2), **first_walk(Mode(np.zeros(2), 0.25 * np.eye(2), 0))}
    taken = []
    for k in range(4000):
        proposal = walk(state, rng)
        gain = 0.5 * (((state["theta"] / sd) ** 2).sum() - ((proposal / sd) ** 2).sum())
        if np.log(rng.random()) < gain:
            state["theta"] = proposal
        taken.append(np.exp(min(gain, 0.0)))
        state |= adapted(state, taken[-1], 0.25, k)
    assert np.mean(taken[2000:]) == pytest.approx(0.25, abs=0.05)
    shape = np.sqrt(np.diag(state["covariance"]))
    assert shape[0] / shape[1] == pytest.approx(20.0, rel=0.5)


# ---- predictions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inference",
    [EP(), Laplace(), Exact(n_samples=50), Importance(40), Annealed(30), EllipticalSlice(draws=10)],
)
def test_vectors_stand_for_the_posterior(problem, inference):
    """All vectors give the posterior back; a few of them an unbiased part of it."""
    posterior = inference(problem, np.random.default_rng(0))
    kind, new = type(posterior), problem.X[:4] + 0.2
    assert kind is inference.posterior_type(problem)
    if kind is GaussianPosterior:
        vectors = posterior.pack(1, np.random.default_rng(0))
    else:
        vectors = posterior.A[0].T if kind is NoisyDraws else posterior.eta
    again = kind.unpack(problem.at(problem.theta), vectors).latent(new)
    if kind is GaussianPosterior:
        np.testing.assert_allclose(again.mean(), posterior.latent(new).mean(), rtol=1e-8)
    np.testing.assert_allclose(again.covariances, posterior.latent(new).covariances, rtol=1e-6, atol=1e-9)
    if kind is not GaussianPosterior:
        np.testing.assert_allclose(again.means, posterior.latent(new).means, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, np.where(np.arange(30) % 3, 1.0, 2.0)])
@pytest.mark.parametrize("inference", [Exact(n_samples=64), Laplace()])
def test_draws_of_f_have_the_posterior_moments(inference, weights):
    problem = make_problem(30, weights=weights)
    rng = np.random.default_rng(0)
    posterior = inference(problem, rng)
    kind = type(posterior)
    f = np.array([latent_draw(problem, kind, posterior.pack(1, rng), rng) for _ in range(1500)])
    mixture = posterior.latent(problem.X)
    sd = np.sqrt(mixture.variance()[:, 0])
    assert np.all(np.abs(f.mean(axis=0) - mixture.mean()[:, 0]) < 4.5 * sd / np.sqrt(1500))
    np.testing.assert_allclose(f.std(axis=0), sd, rtol=0.1)


@pytest.mark.slow
def test_predictions_integrate_over_theta(problem, exact_chain):
    """The mixture's probability is the mean over kept draws of θ of each one's own."""
    new = np.array([[0.0, 0.0], [2.0, -1.0]])
    mixture = exact_chain.posterior
    assert len(mixture.theta) <= 200
    parts = [
        weight * predict_proba(posterior.latent(new), problem.likelihood).proba
        for _, weight, _, posterior in mixture.posteriors()
    ]
    np.testing.assert_allclose(predict_proba(mixture.latent(new), problem.likelihood).proba, sum(parts))
    draws = mixture.draw(new, 4000, np.random.default_rng(0))[:, :, 0]
    latent = mixture.latent(new)
    sd = np.sqrt(latent.variance()[:, 0])
    assert np.all(np.abs(draws.mean(axis=0) - latent.mean()[:, 0]) < 5 * sd / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.1)


def test_a_sampled_scale_of_the_link_is_integrated():
    """With the scale in θ, latents are brought to the reported scale: same probabilities as scale by scale."""
    problem = replace(make_problem(15), likelihood=Probit(scale=1.0, scale_bounds=(0.2, 5.0)))
    fit = HMC.brief()(problem, Laplace(), Run(np.random.default_rng(0)))
    new = np.array([[0.5, 0.5]])
    parts = 0.0
    for _, weight, at, posterior in fit.posterior.posteriors():
        parts = parts + weight * predict_proba(posterior.latent(new), at.likelihood).proba
    ours = predict_proba(fit.posterior.latent(new), fit.problem.likelihood).proba
    np.testing.assert_allclose(ours, parts)


# ---- runs that stop, go on, and run side by side -------------------------------------------------------


@dataclass(frozen=True)
class Impatient(Inference):
    """An importance sampler that presses Ctrl-C at its k-th call."""

    calls: list = field(compare=False)
    at: int | None = field(compare=False)
    n_samples: int = 10

    name: ClassVar[str] = "importance"
    ways: ClassVar[tuple] = Importance.ways
    evidence_kind: ClassVar[str] = "unbiased"

    def infer(self, problem, rng, start, gradient):
        self.calls.append(1)
        if self.at is not None and len(self.calls) == self.at:
            raise KeyboardInterrupt
        return Importance(self.n_samples, around="laplace")(problem, rng)


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
def test_an_interrupted_run_returns_what_it_has_and_resumes_to_the_same_chain(problem, tmp_path):
    path = tmp_path / "chains.npz"
    whole = run(PseudoMarginal(**SHORT), problem, Impatient([], None))
    saved = PseudoMarginal(**SHORT, checkpoint=path)
    part = run(saved, problem, Impatient([], 40))
    assert not part.converged
    assert "interrupted" in part.reason
    assert any("interrupted" in text and "same checkpoint" in text for text in part.warnings)
    assert part.trace.attrs["interrupted"] == 1
    n = draws_of(part).shape[1]
    assert 1 <= n < 20
    np.testing.assert_array_equal(draws_of(part), draws_of(whole)[:, :n])
    rest = run(saved, problem, Impatient([], None), seed=99)  # the seed is in the file
    np.testing.assert_array_equal(draws_of(rest), draws_of(whole))
    np.testing.assert_array_equal(rest.posterior.vectors, whole.posterior.vectors)
    assert "interrupted" not in rest.reason
    longer = run(replace(saved, draws=25), problem, Impatient([], None))
    np.testing.assert_array_equal(draws_of(longer)[:, :20], draws_of(whole))
    with pytest.raises(ValueError, match="other data or settings"):
        run(saved, make_problem(30, seed=1), Impatient([], None))
    path.write_bytes(b"not a file of chains")
    with pytest.raises(ValueError, match="cannot be read"):
        run(saved, problem, Impatient([], None))


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.parametrize("at", [9, 60])  # before a draw is kept, and after
def test_the_exact_estimator_resumes_to_the_same_predictions(problem, tmp_path, monkeypatch, at):
    """It spawns random generators, whose number no state of a generator tells."""
    whole = run(PseudoMarginal(**SHORT), problem, Exact())
    saved = PseudoMarginal(**SHORT, checkpoint=tmp_path / "chains.npz")
    step, calls = MetropolisSampler.step, []

    def stopping(self, *given):
        found = step(self, *given)
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt  # what the iteration did is undone
        return found

    monkeypatch.setattr(MetropolisSampler, "step", stopping)
    with contextlib.suppress(KeyboardInterrupt):
        run(saved, problem, Exact())
    monkeypatch.setattr(MetropolisSampler, "step", step)
    rest = run(saved, problem, Exact(), seed=99)
    np.testing.assert_array_equal(draws_of(rest), draws_of(whole))
    np.testing.assert_array_equal(rest.posterior.vectors, whole.posterior.vectors)


@pytest.mark.slow
def test_chains_that_disagree_have_not_converged(problem, exact_chain):
    short = run(PseudoMarginal(chains=2, warmup=10, discard=0, draws=10), problem, Impatient([], None))
    assert short.figures["rhat"] > 1.1
    assert not short.converged
    assert "R-hat" in short.reason
    assert short.figures["mixing"].startswith("not mixed: R-hat")
    assert exact_chain.figures["mixing"].startswith("mixed")
    assert exact_chain.figures["rhat"] < 1.1
    assert exact_chain.converged


@pytest.fixture
def short_first(monkeypatch):
    """Chains that are looked at after 10 draws."""
    monkeypatch.setattr(PseudoMarginal, "first_draws", 10)
    return {**SHORT, "draws": None}


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
def test_chains_are_doubled_until_they_have_mixed(problem, short_first, monkeypatch):
    asked = []

    def judged(theta):
        asked.append(theta.shape[1])
        return theta.shape[1] < 40

    monkeypatch.setattr(full_bayes, "_not_mixed", judged)
    found = run(PseudoMarginal(**short_first), problem, Impatient([], None))
    assert asked == [10, 20, 40]
    fixed = run(PseudoMarginal(**{**SHORT, "draws": 40}), problem, Impatient([], None))
    np.testing.assert_array_equal(draws_of(found), draws_of(fixed))
    assert len(asked) == 3  # told how long they are, nobody asks
    assert fixed.posterior.report.iterations == found.posterior.report.iterations == 40


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
def test_doubling_ends_and_then_warns(problem, short_first):
    slow = PseudoMarginal(**short_first, proposal="walk")  # trajectories mix in fewer draws
    found = run(slow, problem, Impatient([], None))
    assert draws_of(found).shape[1] == 10 * 2**full_bayes.DOUBLINGS
    assert any("more draws than 80" in text for text in (found.reason, *found.warnings))


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
def test_doubled_chains_resume_to_the_same(problem, short_first, tmp_path, monkeypatch):
    monkeypatch.setattr(full_bayes, "_not_mixed", lambda theta: theta.shape[1] < 20)
    whole = run(PseudoMarginal(**short_first), problem, Impatient([], None))
    saved = PseudoMarginal(**short_first, checkpoint=tmp_path / "chains.npz")
    part = run(saved, problem, Impatient([], 48))
    assert 10 < draws_of(part).shape[1] < 20
    rest = run(saved, problem, Impatient([], None), seed=99)
    np.testing.assert_array_equal(draws_of(rest), draws_of(whole))


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
def test_a_chain_made_longer_is_not_mostly_its_beginning(problem, tmp_path):
    settings = {
        "chains": 2,
        "warmup": 20,
        "keep": 20,
        "leapfrog": 2,
        "checkpoint": tmp_path / "chains.npz",
    }
    run(HMC(draws=10, **settings), problem, Laplace())
    longer = run(HMC(draws=80, **settings), problem, Laplace(), seed=5)
    theta = draws_of(longer)
    for k in range(2):
        mixed = longer.posterior.theta[longer.posterior.chain == k]
        at = [int(np.abs(theta[k] - row).sum(axis=1).argmin()) for row in mixed]
        assert len(at) >= 8
        assert np.ptp(np.diff(at)) <= 7  # a gap for each, not one for each of the first ten draws
        assert at[-1] > 65


@pytest.mark.parametrize(
    ("at", "most", "chosen"),
    [
        (range(0, 100, 10), 20, range(10)),
        (range(0, 100, 10), 4, [0, 3, 6, 9]),
        ([0, 1, 2, 3, 4, 20, 40, 60], 20, [0, 5, 6, 7]),
        ([7], 3, [0]),
        ([7, 9], 1, [0]),
    ],
)
def test_kept_draws_are_chosen_evenly(at, most, chosen):
    assert full_bayes.evenly(np.array(at), most).tolist() == list(chosen)


def test_an_interrupt_before_the_first_draw_is_passed_on(problem):
    with pytest.raises(KeyboardInterrupt, match="before every chain"):
        run(PseudoMarginal(**SHORT), problem, Impatient([], 3))


@pytest.mark.slow
@pytest.mark.usefixtures("brief_ends")
@pytest.mark.parametrize(
    ("strategy", "inference"),
    [
        (PseudoMarginal(chains=2, warmup=8, discard=2, draws=8), Importance(10, around="laplace")),
        (HMC(chains=2, warmup=3, draws=4, leapfrog=3), Laplace()),
    ],
    ids=["pseudo-marginal", "hmc"],
)
def test_the_result_does_not_depend_on_the_number_of_processes(problem, strategy, inference):
    one, two = (run(strategy, problem, inference, n_jobs=k) for k in (1, 2))
    np.testing.assert_array_equal(draws_of(one), draws_of(two))
    np.testing.assert_array_equal(one.posterior.vectors, two.posterior.vectors)
    assert not np.array_equal(draws_of(one)[0], draws_of(one)[1])  # chains differ from each other


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.parametrize(
    ("strategy", "inference"),
    [
        (HMC(chains=2, warmup=3, draws=5, leapfrog=3), Laplace()),
        (Alternate(chains=2, warmup=3, draws=5, scans=2), LatentHMC(around="laplace")),
    ],
    ids=["hmc", "alternate"],
)
def test_every_strategy_resumes(problem, strategy, inference, tmp_path):
    saved = replace(strategy, checkpoint=tmp_path / "chains.npz", draws=3)
    run(saved, problem, inference)
    resumed = run(replace(saved, draws=strategy.draws), problem, inference)
    np.testing.assert_array_equal(draws_of(resumed), draws_of(run(strategy, problem, inference)))


def test_finished_chains_of_another_seed_are_refused(problem, tmp_path):
    """Unfinished chains go on with any seed, their own being in the file; finished ones answer for theirs only."""
    strategy = HMC(chains=2, warmup=3, draws=4, leapfrog=2, checkpoint=tmp_path / "chains.npz")
    first = run(strategy, problem, Laplace(), seed=0)
    np.testing.assert_array_equal(draws_of(run(strategy, problem, Laplace(), seed=0)), draws_of(first))
    with pytest.raises(ValueError, match="another random_state"):
        run(strategy, problem, Laplace(), seed=1)
    assert draws_of(run(replace(strategy, draws=5), problem, Laplace(), seed=1)).shape[1] == 5
    np.testing.assert_array_equal(  # without a seed any chain will do
        draws_of(run(replace(strategy, draws=5), problem, Laplace(), seed=2, seeded=False))[:, :4],
        draws_of(first),
    )


def test_damaged_checkpoints_are_named(problem, tmp_path):
    path = tmp_path / "chains.npz"
    strategy = HMC(chains=2, warmup=2, draws=2, leapfrog=2, checkpoint=path)
    run(strategy, problem, Laplace())
    whole = path.read_bytes()
    for damage in (
        whole[: len(whole) // 2],
        whole[:30],
        b"",
        whole[:200] + b"x" * 50 + whole[250:],
        whole[:-30],
    ):
        path.write_bytes(damage)
        with pytest.raises(ValueError, match="cannot be read"):
            run(strategy, problem, Laplace())


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
def test_the_bar_shows_acceptance(problem, capsys):
    run(PseudoMarginal(**SHORT), problem, Importance(5, around="laplace"), verbose=2)
    _, err = capsys.readouterr()
    assert "pseudo-marginal (importance)" in err
    assert "accepted" in err


# ---- the trace -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning:arviz")
def test_trace_works_with_arviz(exact_chain):
    trace = exact_chain.trace.to_arviz()
    assert set(trace.posterior.data_vars) == {"k1__constant_value", "k2__length_scale"}
    assert trace.posterior["k1__constant_value"].shape == (4, CHAIN)
    assert float(trace.posterior["k1__constant_value"].min()) > 0  # natural units
    assert {"lp", "log_evidence", "accepted"} <= set(trace.sample_stats.data_vars)
    assert trace.log_likelihood["y"].shape == (4, CHAIN, 30)
    assert set(np.unique(trace.posterior_predictive["y"])) == {-1, 1}
    np.testing.assert_array_equal(trace.observed_data["y"], exact_chain.problem.y)
    summary = arviz.summary(trace)
    assert float(summary["r_hat"].max()) == pytest.approx(
        exact_chain.figures["rhat"], abs=0.03
    )  # folded about another median: logs here, natural units there
    loo = arviz.loo(trace)
    value = float(getattr(loo, "elpd_loo", getattr(loo, "elpd", np.nan)))
    assert -25 < value < -5
    assert exact_chain.trace.to_arviz() is trace


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning:arviz")
def test_leave_one_out_of_the_trace_agrees_with_leaving_out(exact_chain):
    """EP's cavities beside points left out at one θ; over θ, PSIS on draws of (θ, f) beside the cavities."""
    fit, at = exact_chain, exact_chain.problem
    left_out = []
    for i in range(at.n):
        rest = np.delete(np.arange(at.n), i)
        without = at.subset(rest)
        log_p = predict_proba(EP()(without).latent(at.X[i : i + 1]), at.likelihood).log_proba[0]
        left_out.append(log_p[1 if at.y[i] > 0 else 0])
    # Cavities approximate: without the point the other sites would settle a little differently.
    np.testing.assert_allclose(cavity_log_density(EP()(at)), left_out, rtol=0.05, atol=0.02)
    trace = fit.trace.to_arviz()
    loo = arviz.loo(trace, pointwise=True)
    ours = np.asarray(getattr(loo, "loo_i", getattr(loo, "elpd_i", None)))
    cavities = trace.constant_data["loo_ep"].values
    sure = np.asarray(loo.pareto_k) < 0.5  # elsewhere PSIS itself is off, by more than a nat in all
    assert sure.sum() >= 15
    assert np.sqrt(np.mean((ours - cavities)[sure] ** 2)) < 0.1  # its Monte Carlo error: 0.03 to 0.06
    log_lik = fit.trace.groups["log_likelihood"]["y"].reshape(-1, at.n)
    with_the_point = logsumexp(log_lik, axis=0) - np.log(len(log_lik))
    assert np.sqrt(np.mean((with_the_point - cavities)[sure] ** 2)) > 0.1  # the test can fail
    assert cavities.sum() > -at.n * np.log(2.0)  # better than a coin


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning:arviz")
def test_comparison_predictive_checks_and_plots_of_arviz(problem, exact_chain):
    """What ArviZ 0.2x and 1.x call by different names, on the same trace."""
    pytest.importorskip("matplotlib").use("Agg")
    other = run(HMC(chains=2, warmup=10, draws=60, leapfrog=3), problem, Laplace()).trace.to_arviz()
    trace = exact_chain.trace.to_arviz()
    table = arviz.compare({"exact": trace, "laplace": other})
    assert set(table.index) == {"exact", "laplace"}
    assert float(table["weight"].sum()) == pytest.approx(1.0)
    drawn = arviz.plot_trace(trace)
    assert drawn is not None
    if int(arviz.__version__.split(".")[0]) >= 1:
        assert arviz.plot_dist(trace) is not None
        assert arviz.plot_ppc_dist(trace, num_samples=20) is not None
    else:
        assert arviz.plot_posterior(trace) is not None
        assert arviz.plot_ppc(trace, num_pp_samples=20) is not None
    assert arviz.plot_pair(trace) is not None
    assert arviz.plot_rank(trace) is not None
    import matplotlib.pyplot as plt

    plt.close("all")


def test_relevances_are_one_variable_with_a_dimension():
    fit = HMC.brief()(make_problem(15, kernel=C(2.0) * RBF([1.0, 1.0])), Laplace(), Run(np.random.default_rng(0)))
    trace = fit.trace.to_arviz()
    assert trace.posterior["k2__length_scale"].shape == (2, HMC.brief().draws, 2)


@pytest.mark.slow
def test_too_many_points_leave_the_pointwise_groups_out(problem, exact_chain, monkeypatch):
    from gpclass.hyper import trace

    monkeypatch.setattr(trace, "MOST", 10)
    found = trace.build_trace(
        problem,
        np.zeros((2, 3, 2)),
        {"lp": np.zeros((2, 3))},
        np.zeros((2, 3, 30)),
        np.zeros((2, 3, 2)),
        np.random.default_rng(0),
        {},
    )
    assert "log_likelihood" not in found.groups
    assert "omitted" in found.attrs["pointwise"]


def test_newer_arviz_takes_one_dict(monkeypatch):
    class Tree(dict):
        attrs: ClassVar[dict] = {}

    def from_dict(data, dims=None):
        return {name: Tree(values) for name, values in data.items()}

    monkeypatch.setattr(arviz, "__version__", "1.2.0")
    monkeypatch.setattr(arviz, "from_dict", from_dict)
    tree = Trace({"posterior": {"a": np.zeros((2, 3))}}, {}, {"strategy": "hmc"}).to_arviz()
    assert tree["posterior"].attrs["strategy"] == "hmc"


# ---- the estimator -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_estimator_with_sampled_parameters(problem):
    strategy = PseudoMarginal(chains=4, warmup=30, discard=5, draws=30)
    clf = GPClassifier(1.0 * RBF(1.0), inference="exact", hyperparameters=strategy, random_state=0, tol=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(problem.X, problem.y)
    report = clf.fit_report_
    assert 0 < report.acceptance_rate < 1
    assert report.rhat >= 1.0
    assert report.ess > 0
    assert report.sd_log_evidence < 0.3
    assert "acceptance rate" in str(report)
    assert clf.evidence_kind_ == "unbiased"
    assert np.isfinite(clf.log_evidence_)
    assert list(clf.trace_.posterior.data_vars) == ["k1__constant_value", "k2__length_scale"]
    assert clf.predict_uncertainty(problem.X).mcse.max() < 0.2
    assert clf.score(problem.X, problem.y) > 0.7
    clf.tol = 1e-6
    for ask in (clf.predict_proba, clf.predict_uncertainty):
        with pytest.warns(UserWarning, match="more draws of the kernel parameters") as caught:
            ask(problem.X)
        assert caught[0].filename == __file__  # the line that asked, not one inside or above it


@pytest.mark.slow
def test_unmixed_chains_warn_and_say_what_to_do(problem):
    fit = run(PseudoMarginal(**SHORT), problem, Importance(10, around="laplace"))
    for part in ("R-hat", "more draws than", "effective draws"):
        assert part in fit.reason
    assert not fit.warnings  # one verdict, told once


@pytest.mark.parametrize(
    ("strategy", "inference", "match"),
    [
        (PseudoMarginal(), EP(), "needs an unbiased evidence"),
        (PseudoMarginal(approximate=True), EllipticalSlice(draws=4), "needs an unbiased evidence"),
        (HMC(), Importance(10), "deterministic evidence"),
        (Alternate(), Exact(), "step by step"),
    ],
)
def test_pairs_that_make_no_sense(problem, strategy, inference, match):
    with pytest.raises(ValueError, match=match):
        check_combination(inference, strategy, problem.likelihood, Dense)
    with pytest.raises(ValueError, match=match):
        GPClassifier(inference=inference, hyperparameters=strategy).fit(problem.X, problem.y)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: PseudoMarginal(draws=0), "draws"),
        (lambda: PseudoMarginal(chains=None), "chains"),
        (lambda: PseudoMarginal(guide="exact"), "guide"),
        (lambda: PseudoMarginal(default_priors="neal"), "filippone"),
        (lambda: HMC(step_size=0.0), "step_size"),
        (lambda: HMC(start="prior"), "start"),
        (lambda: Alternate(given="y"), "given"),
    ],
)
def test_bad_settings(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_fixed_kernels_have_nothing_to_sample():
    fixed = make_problem(10, kernel=C(1.0, "fixed") * RBF(1.0, "fixed"))
    for strategy, inference in ((PseudoMarginal(), Exact()), (HMC(), EP()), (Alternate(), EllipticalSlice())):
        with pytest.raises(ValueError, match="fixed"):
            strategy(fixed, inference, Run(np.random.default_rng(0)))


@pytest.mark.parametrize("strategy", [PseudoMarginal.brief(), Alternate.brief()])
def test_an_inference_of_two_classes_refuses_many_with_its_reason(strategy):
    X = np.random.default_rng(0).normal(size=(12, 2))
    clf = GPClassifier(inference="control-variables", hyperparameters=strategy)
    with pytest.raises(ValueError, match=r"inference='control-variables'.* takes two"):
        clf.fit(X, np.arange(12) % 3)


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("strategy", "inference", "n_inducing"),
    [
        (PseudoMarginal.brief(), "exact", 8),
        (Alternate.brief(), LatentHMC(), None),
        (HMC.brief(), "ep", 8),
    ],
)
def test_many_classes_and_inducing_inputs_run(strategy, inference, n_inducing):
    """Three classes in bands: short chains from the mode already tell them apart.

    Every other pair that the matrix allows runs in tests/registry/test_conformance.py.
    """
    X = np.random.default_rng(0).normal(size=(24, 2))
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    settings = {"inference": inference, "hyperparameters": strategy, "random_state": 0, "tol": 0.05}
    clf = GPClassifier(2.0 * RBF(1.0), n_inducing=n_inducing, **settings).fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    assert clf.score(X, y) > 0.6  # three classes
    assert clf._trace.groups["posterior"]["k2__length_scale"].shape == (2, strategy.draws)
    assert ("fixed where they were placed" in str(clf.fit_report_)) == (n_inducing is not None)
    assert clf.sample_latent(X[:4], 5, random_state=0).shape == (5, 4, 3)


def test_the_papers_priors():
    problem = make_problem(10, d=4, kernel=C(1.0) * RBF(1.0) + C(1.0))
    found = priors_for(problem, None, "filippone")
    assert found.priors == (Gamma(1.1, 0.1), Gamma(1.0, 0.5), Gamma(1.1, 0.1))
    ard = make_problem(10, d=2, kernel=C(1.0) * RBF([1.0, 1.0]))
    assert priors_for(ard, None, "filippone").priors[1:] == (Gamma(1.0, 1.0), Gamma(1.0, 1.0))
    barber = priors_for(ard, {"k1*": LogNormal(0.0, 1.0)}, "williams-barber").priors
    assert barber == (LogNormal(0.0, 1.0), LogNormal(1.5, 1.5), LogNormal(1.5, 1.5))
    with pytest.raises(ValueError, match="unknown parameter"):
        priors_for(ard, {"k9*": LogNormal(0.0, 1.0)}, "weak")


def test_presets():
    williams = HMC.williams_barber()
    assert (williams.leapfrog, williams.step_size, williams.warmup + williams.draws) == (20, 0.1, 200)
    assert not williams.precondition
    filippone = PseudoMarginal.filippone(chains=2)
    assert (filippone.warmup, filippone.discard, filippone.draws, filippone.chains) == (2000, 500, 1500, 2)
    fit = run(
        PseudoMarginal.filippone(chains=2, warmup=30, discard=2, draws=8),
        make_problem(10),
        Importance(5, around="laplace"),
    )
    assert np.all(np.isfinite(draws_of(fit)))


def test_chains_of_all_strategies_have_the_same_names_for_their_lengths():
    sampling = [row.factory() for row in methods("hyperparameters") if hasattr(row.factory(), "chains")]
    assert len(sampling) == 3
    for strategy in sampling:
        assert strategy.warmup is None or strategy.warmup > 0
        assert strategy.length > 0
        assert not hasattr(strategy, "adapt")
