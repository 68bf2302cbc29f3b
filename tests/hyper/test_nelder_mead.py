"""A climb without gradient: near the optimum of the exact evidence with few draws, and the same for one seed."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier
from gpclass.hyper import NelderMead
from gpclass.inference import GPCMC

KERNEL = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(1.0, (1e-1, 1e1))


def fit(inference, strategy, seed=0):
    X, y = make_moons(30, noise=0.3, random_state=0)
    return GPClassifier(KERNEL, inference=inference, hyperparameters=strategy, random_state=seed).fit(X, y)


def test_it_finds_the_maximum_of_a_deterministic_evidence():
    best, found = fit("ep", "maximize"), fit("ep", "nelder-mead")
    assert found.log_evidence_ == pytest.approx(best.log_evidence_, abs=0.02)
    assert found.fit_report_.converged
    assert found.fit_report_.evaluations > 10


@pytest.mark.slow
def test_few_particles_with_common_random_numbers_come_near_the_maximum():
    start, best = fit("ep", "fixed"), fit("ep", "maximize")
    found = fit(GPCMC(2000, runs=8), "nelder-mead")
    there = GPClassifier(found.kernel_, inference="ep", hyperparameters="fixed")
    there.fit(*make_moons(30, noise=0.3, random_state=0))
    assert start.log_evidence_ < best.log_evidence_ - 1.0
    assert there.log_evidence_ > best.log_evidence_ - 3.0 * found.log_evidence_error_ - 0.1
    assert found.log_evidence_error_ < 0.4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_one_seed_gives_one_answer():
    thetas = [fit(GPCMC(400, runs=2), NelderMead(max_evaluations=8)).kernel_.theta for _ in range(2)]
    np.testing.assert_array_equal(*thetas)


def test_an_early_stop_is_said():
    with pytest.warns(UserWarning, match="simplex still differ"):
        fit("ep", NelderMead(max_evaluations=5))


def test_an_inference_without_evidence_is_refused():
    with pytest.raises(ValueError, match="needs an evidence"):
        fit("elliptical-slice", "nelder-mead")
