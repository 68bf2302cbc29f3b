"""Variances of predictions in single precision, against those in double."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass.inference.noise import ROUGH, NoiseFactor
from gpclass.numerics.linalg import SiteFactor
from gpclass.numerics.rounded import EPSILON


def variances(variance, noise=1.0, n=300):
    """In double precision and in single, of 200 new points."""
    rng = np.random.default_rng(0)
    X, new, kernel = rng.standard_normal((n, 2)), rng.standard_normal((200, 2)), C(variance) * RBF(1.0)
    factor = NoiseFactor(one=SiteFactor(kernel(X), np.full(n, 1.0 / noise)))
    cross, diag = [kernel(X, new)], [kernel.diag(new)]
    return factor.variances(cross, diag)[:, 0], factor.variances(cross, diag, rough=True)[:, 0]


@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.99])
def test_probabilities_move_by_less_than_a_millionth(n, share):
    """Φ(m/√(1 + v)) moves by at most (8πe)^-1/2 dv/(1 + v); with variances up to the largest that are rough."""
    exact, rough = variances(share * ROUGH / (EPSILON * np.sqrt(n)), n=n)
    off = np.abs(rough - exact)
    assert off.max() > 0.0
    assert 0.121 * np.max(off / (1.0 + exact)) < 1e-6


@pytest.mark.parametrize(("variance", "noise"), [(100.0, 1.0), (1.0, 0.01)])
def test_large_variances_and_little_noise_stay_in_double_precision(variance, noise):
    exact, rough = variances(variance, noise)
    np.testing.assert_array_equal(rough, exact)
