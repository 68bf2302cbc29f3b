"""The Gaussian that samplers move around: named, given as settings, weakened, or absent."""

import numpy as np
import pytest
from scipy.special import log_expit
from sklearn.gaussian_process.kernels import RBF

from gpclass.hyper import HMC, Alternate, PseudoMarginal
from gpclass.hyper.base import Run
from gpclass.inference import EP, Annealed, EllipticalSlice, Importance, Laplace, LatentHMC, Variational
from gpclass.inference.around import gaussians_for, target_around
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import BinaryLikelihood, Logit, Probit, Softmax
from gpclass.likelihoods.base import OPTIONAL, Likelihood
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba

RNG = np.random.default_rng(3)
X = RNG.normal(size=(14, 2))
SLOPES = RNG.normal(size=(2, 3))
KERNEL = 3.0 * RBF(1.0, (0.3, 3.0))
FORMS = {"dense": Dense(), "inducing": LowRank(Z=X[:6] + 0.05)}


def problem(likelihood, form="dense"):
    index = np.argmax(X @ SLOPES, axis=1) if likelihood.many else (X[:, 0] > 0).astype(int)
    return Problem.of(X, likelihood.encode(index), KERNEL, likelihood, None, 3 if likelihood.many else 2, FORMS[form])


class Bare(Logit):
    """The logit link with nothing but its logarithm."""

    name = "bare"


for offer in (*OPTIONAL, "smear_slopes"):
    setattr(Bare, offer, getattr(Likelihood, offer))


def test_it_is_bare():
    assert Bare.offers() == {"log"}
    assert gaussians_for(Bare()) == []
    assert issubclass(Bare, BinaryLikelihood)  # predictions still work


# ---- weakened sites --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("likelihood", [Probit(), Softmax()], ids=lambda link: link.name)
def test_weaker_sites_widen_the_gaussian_under_every_prior(likelihood, form):
    task = problem(likelihood, form)
    full, weak = (target_around(task, "laplace", power=power) for power in (1.0, 0.8))
    xi = np.random.default_rng(0).standard_normal((4000, full.dimension))
    wide, narrow = (target.latents(xi).std(axis=0) for target in (weak, full))
    assert np.all(wide > 1.005 * narrow)
    np.testing.assert_allclose(weak.m, full.m, atol=1e-8)  # weakened about the mean


def test_importance_of_many_classes_is_weakened_under_inducing_inputs():
    """The settings say 0.8 for many classes; the weights are those of that Gaussian."""
    task, M = problem(Softmax(), "inducing"), 500
    found = Importance(n_samples=M, around="laplace")(task, np.random.default_rng(0))
    target = task.prior.whitened(Laplace()(task).gaussian, 0.8)
    xi = np.random.default_rng(0).standard_normal((M, target.dimension))
    log_w = target.log_ratio(target.latents(xi))
    assert found.evidence.log_z == pytest.approx(np.log(np.mean(np.exp(log_w))), abs=1e-9)


# ---- a Gaussian given by its settings --------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sampler", [Importance, Annealed, EllipticalSlice, LatentHMC])
def test_a_sampler_takes_the_settings_of_its_gaussian(sampler, form):
    task = problem(Probit(), form)
    named, given, rough = (
        sampler(around=around).brief()(task, np.random.default_rng(1)).eta
        for around in ("ep", EP(), EP(max_sweeps=1, tol=0.9))
    )
    assert np.array_equal(named, given)
    assert not np.allclose(named, rough)


@pytest.mark.parametrize("around", [3, "posterior", Dense(), ["ep"]])
def test_anything_else_is_refused(around):
    with pytest.raises(ValueError, match="around must be one of 'prior', 'ep'"):
        Importance(around=around)


def test_a_gaussian_of_another_likelihood_or_none_is_refused():
    with pytest.raises(ValueError, match="does not support likelihood='softmax'"):
        Importance(around=EP())(problem(Softmax()))
    with pytest.raises(ValueError, match="is not a Gaussian"):
        EllipticalSlice(around=Importance())(problem(Probit()))
    with pytest.raises(ValueError, match="short form"):
        EllipticalSlice(around=Variational(max_iter=3))(problem(Softmax()))


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.filterwarnings("ignore::UserWarning")  # brief chains
def test_alternate_moves_around_the_inference_as_it_was_given():
    task, brief = problem(Probit()), Alternate.brief()

    def theta(inference):
        return brief(task, inference, Run(np.random.default_rng(0))).posterior.theta

    assert np.array_equal(theta(EP()), theta(EllipticalSlice(around="ep")))
    assert not np.array_equal(theta(EP()), theta(EP(max_sweeps=1, tol=0.9)))


# ---- a likelihood with its logarithm alone ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_logit():
    """Probabilities of the logit link, which Bare has too."""
    long = EllipticalSlice(draws=400)(problem(Logit()), np.random.default_rng(1))
    return predict_proba(long.latent(X[:4]), Logit())


@pytest.mark.slow
@pytest.mark.parametrize("around", [None, "prior"])
@pytest.mark.parametrize("sampler", [Importance, Annealed, EllipticalSlice])
@pytest.mark.filterwarnings("ignore::UserWarning")  # few effective draws around the prior
def test_samplers_need_no_more_than_the_logarithm(sampler, around, of_logit):
    settings = {"chains": 8, "draws": 200} if sampler is EllipticalSlice else {"n_samples": 8000}
    found = sampler(around=around, **settings)(problem(Bare()), np.random.default_rng(0))
    same = sampler(around="prior", **settings)(problem(Logit()), np.random.default_rng(0))
    assert np.array_equal(found.eta, same.eta)
    ours = predict_proba(found.latent(X[:4]), Logit())
    assert np.all(np.abs(ours.proba - of_logit.proba) < 5 * np.hypot(ours.mcse, of_logit.mcse))
    f = np.array([[[0.3, -1.0]]])
    np.testing.assert_allclose(Bare().log(np.array([1.0, -1.0]), f), log_expit([[0.3, 1.0]]))


@pytest.mark.parametrize(
    ("strategy", "inference"),
    [(PseudoMarginal.brief(), Importance(20)), (Alternate.brief(), EllipticalSlice(draws=4))],
)
def test_strategies_that_need_a_gaussian_to_tune_on_say_so(strategy, inference):
    with pytest.raises(ValueError, match=r"likelihood='bare'.*(Gaussian|guide)"):
        strategy(problem(Bare()), inference, Run(np.random.default_rng(0)))


def test_a_guide_that_the_likelihood_has_not_is_refused():
    with pytest.raises(ValueError, match=r"guide='ep'.*use one of 'variational', 'laplace'"):
        PseudoMarginal(guide="ep", chains=2)(problem(Softmax()), Importance(20), Run(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="guide must be one of"):
        PseudoMarginal(guide="exact")


class Smooth(Logit):
    """Without ``smear``, so that there is no leave-one-out density."""

    name = "smooth"
    smear = Likelihood.smear
    smear_slopes = Likelihood.smear_slopes


@pytest.mark.filterwarnings("ignore::UserWarning")  # brief chains
def test_chains_over_the_parameters_do_not_end_in_an_error_for_want_of_a_diagnostic():
    fit = HMC.brief()(problem(Smooth()), Laplace(), Run(np.random.default_rng(0)))
    assert np.isfinite(fit.posterior.theta).all()
