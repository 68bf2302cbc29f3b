"""The guide of conjugate gradients: the same means, in far fewer iterations."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from gpclass.inference import Laplace
from gpclass.latent import neighbour_means
from gpclass.latent import tile_passes as passes
from gpclass.latent.neighbours import Neighbours
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem

RNG = np.random.default_rng(0)
PLACES = RNG.uniform(size=(3000, 2))
LABELS = np.where(np.sin(9 * PLACES[:, 0]) + 0.4 * RNG.normal(size=3000) > 0, 1, -1)
KERNEL = ConstantKernel(3.0) * Matern(0.5, nu=1.5)
W, B = RNG.uniform(0.1, 0.6, size=(3000, 1, 1)), RNG.normal(size=(3000, 1))


def prior(rows=PLACES, halo=6.0):
    return Problem.of(rows, LABELS, KERNEL, Probit(), form=Neighbours(10, tile=1000, halo=halo)).prior


def test_means_are_the_same_in_far_fewer_iterations():
    here = prior()
    plain, many = here.means.solve(W, B, None, 1e-10)
    here.means.guided(here.guide(here.map(passes.guide, W)["guide"]))
    guided, few = here.means.solve(W, B, None, 1e-10)
    np.testing.assert_allclose(guided, plain, atol=1e-8)
    assert few < 0.2 * many
    other = W * RNG.uniform(0.7, 1.4, size=W.shape)  # sites nearby
    after, some = here.means.solve(other, B, guided, 1e-10)
    np.testing.assert_allclose(after, prior().means.solve(other, B, None, 1e-10)[0], atol=1e-8)
    assert some < 0.3 * many


def test_a_guide_has_the_conditional_distributions_of_the_posterior():
    """Those of a dense inverse; with halos of all rows there is no other error."""
    here, i = prior(halo=1e9), 1234
    c, d = (here.at_rows([part[k] for part in here.map(passes.guide, W)["guide"]]) for k in range(2))
    (weights, variances), members = here.conditionals[0][0], here.members
    C = np.zeros((len(PLACES), len(PLACES)))
    known = members >= 0
    C[np.broadcast_to(np.arange(len(PLACES))[:, None], members.shape)[known], members[known]] = weights[known]
    P = np.linalg.inv(C.T @ (C / variances[:, None]) + np.diag(W[:, 0, 0]))
    near = members[i, :-1]
    b = np.linalg.solve(P[np.ix_(near, near)], P[near, i])
    np.testing.assert_allclose(c[i], [*-b, 1.0], atol=1e-7)
    assert d[i] == pytest.approx(P[i, i] - b @ P[near, i], rel=1e-7)


def test_a_guide_is_found_when_many_iterations_were_needed(monkeypatch):
    modes = []
    for patience in (2, 10**6):
        monkeypatch.setattr(neighbour_means, "PATIENCE", patience)
        posterior = Laplace()(Problem.of(PLACES, LABELS, KERNEL, Probit(), form=Neighbours(10, tile=1000)))
        assert (posterior.gaussian.prior.means.guide is not None) == (patience == 2)
        modes.append(posterior.gaussian.mean_f)
    np.testing.assert_allclose(*modes, atol=1e-6)


def test_covariances_that_are_not_positive_definite_still_guide():
    R = np.array([[[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]], [[2.0, 0.5], [0.5, 1.0]]])
    c, d = passes._conditionals_of_any(R)
    assert np.all(d > 0.0)
    np.testing.assert_allclose(c[1], [-0.25, 1.0], rtol=1e-4)
    c, d = passes._conditionals_of_any(np.array([[[1.0, 2.0], [2.0, 1.0]]]))
    np.testing.assert_array_equal(c, [[0.0, 1.0]])
    np.testing.assert_array_equal(d, [1.0])


def test_nearly_equal_rows_are_solved_for_with_a_guide():
    rows = PLACES.copy()
    rows[1500:] = rows[:1500] + 1e-9
    here = prior(rows)
    here.means.guided(here.guide(here.map(passes.guide, W)["guide"]))
    x, _ = here.means.solve(W, B, None, 1e-8)
    left = here.means.product(x) + W[:, :, 0] * x - B
    assert float(np.vdot(left, left)) < 1e-6 * float(np.vdot(B, B))
