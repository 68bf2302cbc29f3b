"""The joint Gaussian of rows and new points under every prior, and the cavity without the rows' sites."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern, WhiteKernel

from gpclass.inference import EP
from gpclass.inference.local_exact import sited_rows
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.latent.neighbours import Neighbours
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem

RNG = np.random.default_rng(3)
n = 60
X = RNG.uniform(size=(n, 2))
Y = np.where(np.sin(6 * X[:, 0]) + 0.5 * RNG.normal(size=n) > 0, 1, -1)
WEIGHTS = RNG.choice([0.5, 1.0, 2.5], size=n)
NEW, Z = RNG.uniform(size=(7, 2)), RNG.uniform(size=(10, 2))
KERNEL = 2.0 * Matern([0.3, 0.5], nu=1.5) + WhiteKernel(0.05)
CHOSEN = RNG.permutation(n)[:15]
FIELDS = ("mean", "covariance", "cross", "new_mean", "new_variance")
FORMS = {"dense": Dense(), "inducing": LowRank(Z, 10), "neighbours": Neighbours(5, 4, Z[:4], Z[:4])}


def at(form, weights=None, link="probit"):
    problem = Problem.of(X, Y, KERNEL, get_likelihood(link), weights, 2, form)
    posterior = EP(tol=1e-10)(problem)
    rows = sited_rows(posterior.problem, posterior.start.held)
    return posterior.gaussian, rows


@pytest.mark.parametrize("m", [0, 10])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_all_rows_as_neighbours_have_the_dense_joint(m, weights):
    both = [at(form, weights) for form in (Neighbours(n, m, Z[:m], Z[:m] if m else None), Dense())]
    ours, dense = (gaussian.joint(rows.take(CHOSEN), NEW) for gaussian, rows in both)
    for name in FIELDS:
        assert np.allclose(getattr(ours, name), getattr(dense, name), atol=1e-8, rtol=1e-8), name


def test_no_neighbours_have_the_joint_of_inducing_inputs():
    both = [at(form) for form in (Neighbours(0, 10, Z, Z), LowRank(Z, 10))]
    ours, low = (gaussian.joint(rows.take(CHOSEN), NEW) for gaussian, rows in both)
    for name in FIELDS:
        assert np.allclose(getattr(ours, name), getattr(low, name), atol=1e-6, rtol=1e-6), name


@pytest.mark.parametrize("name", FORMS)
def test_new_points_of_a_joint_are_those_of_a_prediction(name):
    gaussian, rows = at(FORMS[name], link="logit")
    joint, latent = gaussian.joint(rows.take(CHOSEN), NEW), gaussian.latent(NEW)
    assert np.allclose(joint.new_mean, latent.means[0, :, 0])
    assert np.allclose(joint.new_variance, latent.covariances[0, :, 0, 0])
    assert np.allclose(joint.first(4).cross, gaussian.joint(rows.take(CHOSEN[:4]), NEW).cross)


def dense_truth(rows, chosen):
    """Mean and covariance of the chosen rows and the new points, by inverting what the other rows' sites make."""
    everything = np.vstack([rows.X, NEW])
    K = KERNEL(everything)  # white noise on the new points' variances too
    cross = KERNEL(rows.X, NEW)
    K[:n, n:], K[n:, :n] = cross, cross.T
    t, h = np.zeros(len(K)), np.zeros(len(K))
    others = np.setdiff1d(np.arange(n), chosen)
    t[others], h[others] = rows.t[others], rows.h[others]
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(t))
    return covariance @ h, covariance


@pytest.mark.parametrize("chosen", [CHOSEN, np.arange(n)], ids=["some", "all"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_without_their_sites_rows_have_the_other_sites_alone(chosen, weights):
    gaussian, rows = at(Dense(), weights)
    some = rows.take(chosen)
    cavity = gaussian.joint(some, NEW).without(some.t, some.h)
    mean, covariance = dense_truth(rows, chosen)
    assert np.allclose(cavity.mean, mean[chosen], atol=1e-8)
    assert np.allclose(cavity.covariance, covariance[np.ix_(chosen, chosen)], atol=1e-8)
    assert np.allclose(cavity.cross, covariance[chosen, n:], atol=1e-8)
    assert np.allclose(cavity.new_mean, mean[n:], atol=1e-8)
    assert np.allclose(cavity.new_variance, np.diag(covariance)[n:], atol=1e-8)
