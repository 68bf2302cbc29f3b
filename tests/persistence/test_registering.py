"""A kernel and a likelihood of one's own, priors of scipy.stats: fitted, saved and read."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier, load_model
from gpclass.likelihoods import Probit
from gpclass.persistence import NotSavableError, names, register, values
from gpclass.priors import FromScipy, Gamma, HalfNormal, HalfStudentT, InverseGamma, LogNormal, resolve_priors

X, Y = make_moons(40, noise=0.3, random_state=0)


class Tent(RBF):
    """A kernel of one's own: the product of tents, 1 − |x − z|/ℓ within ℓ."""

    def __call__(self, A, B=None, eval_gradient=False):
        B = A if B is None else B
        return np.maximum(1.0 - np.abs(A[:, None] - B[None]) / self.length_scale, 0.0).prod(axis=2)


@dataclass(frozen=True)
class Wary(Probit):
    """A likelihood of one's own: a label is wrong with probability ``slip``."""

    slip: float = 0.05
    name: ClassVar[str] = "wary"

    def log(self, y, f):
        return np.log(self.slip + (1 - 2 * self.slip) * ndtr(self.scale * y * f[..., 0, :]))


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(values, "KERNELS", dict(values.KERNELS))
    monkeypatch.setattr(names, "PATHS", dict(names.PATHS))


def test_a_kernel_of_ones_own_is_savable_once_registered(registered, tmp_path):
    clf = GPClassifier(Tent(2.0, "fixed"), inference="laplace", hyperparameters="fixed").fit(X, Y)
    with pytest.raises(NotSavableError, match="register"):
        clf.save(tmp_path / "model.gpclass")
    assert register("mine/tent", Tent) is Tent
    again = load_model(clf.save(tmp_path / "model.gpclass"))
    assert type(again.kernel_) is Tent
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of short chains
def test_a_likelihood_of_ones_own_is_savable_once_registered(registered, tmp_path):
    settings = {"inference": "elliptical-slice", "hyperparameters": "fixed", "random_state": 0}
    clf = GPClassifier(2.0 * RBF(1.0), likelihood=Wary(slip=0.1), **settings)
    clf.fit(X[:12], Y[:12])
    with pytest.raises(NotSavableError, match="register"):
        clf.save(tmp_path / "model.gpclass")
    register("mine/wary", Wary)
    again = load_model(clf.save(tmp_path / "model.gpclass"))
    assert again.likelihood_ == Wary(slip=0.1)


def test_a_name_belongs_to_one_class(registered):
    register("mine/wary", Wary)
    register("mine/wary", Wary)
    for name, cls in (("mine/other", Wary), ("wary", GPClassifier), ("RBF", Tent), ("prior/gamma", Wary)):
        with pytest.raises(ValueError, match="name"):
            register(name, cls)


PRIORS = [InverseGamma(3.0, 2.0), HalfStudentT(3.0, 0.7), FromScipy("lognorm", (0.8,), {"scale": 2.0})]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_priors_are_densities_with_their_slopes_and_draws(prior):
    mass, _ = quad(lambda t: np.exp(prior.log_density(t)), -30, 30, limit=200)
    assert mass == pytest.approx(1.0, abs=1e-6)
    for theta in (-1.0, 0.3, 2.0):
        rise = (prior.log_density(theta + 1e-5) - prior.log_density(theta - 1e-5)) / 2e-5
        assert prior.slope(theta) == pytest.approx(rise, abs=1e-6)
    draws = prior.draw(np.random.default_rng(0), 4000)
    below = quad(lambda t: np.exp(prior.log_density(t)), -30, 0.2, limit=200)[0]
    assert abs(np.mean(draws < 0.2) - below) < 4 * np.sqrt(below * (1 - below) / 4000)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (InverseGamma(3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
        (Gamma(2.0, 4.0), stats.gamma(2.0, scale=0.25)),
        (LogNormal(0.5, 0.8), stats.lognorm(0.8, scale=np.exp(0.5))),
        (HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    ],
    ids=["inverse gamma", "gamma", "log-normal", "half normal"],
)
def test_frozen_distributions_are_the_priors_of_the_same_name(ours, theirs, tmp_path):
    taken = resolve_priors(theirs, ["length_scale"], np.zeros(1)).priors[0]
    for theta in (-1.0, 0.5):
        assert taken.log_density(theta) == pytest.approx(ours.log_density(theta))
    clf = GPClassifier(RBF(1.0), inference="laplace", hyperparameters="map")
    fits = [clone(clf).set_params(priors=prior).fit(X, Y) for prior in (ours, theirs)]
    np.testing.assert_allclose(fits[0].theta_, fits[1].theta_, atol=1e-4)
    again = load_model(fits[1].save(tmp_path / "model.gpclass"))
    assert again.priors.log_density(0.5) == pytest.approx(ours.log_density(0.5))


def test_what_is_no_prior_is_refused():
    for wrong, word in ((stats.norm(), "negative"), (3.0, "scipy.stats"), ({"*": "gamma"}, "scipy.stats")):
        with pytest.raises(ValueError, match=word):
            resolve_priors(wrong, ["length_scale"], np.zeros(1))
    with pytest.raises(ValueError, match="no continuous distribution"):
        FromScipy("os").log_density(0.0)
