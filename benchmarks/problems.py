"""Problems shared by the benchmarks."""

import numpy as np
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass.datasets import filippone_square


def ard(n=1000, d=8, seed=0):
    """Three relevant features among d; returns X, y in {-1, 1}, and the initial ARD kernel."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    f = 2 * np.sin(1.5 * X[:, 0]) + X[:, 1] - X[:, 2] * X[:, 1]
    y = np.where(rng.random(n) < expit(2 * f), 1, -1)
    return X, y, C(1.0) * RBF(np.ones(d))


def plane(n=1000, seed=0):
    """A smooth boundary in the plane, and an initial isotropic kernel."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    y = np.where(rng.random(n) < expit(3 * f), 1, -1)
    return X, y, C(1.0) * RBF(1.0)


def hard_square(n=1000, seed=0):
    """Filippone's hard case: unit square, variance 20, length 0.255."""
    data = filippone_square(n, random_state=seed)
    return np.asarray(data.X), np.where(np.asarray(data.y) > 0, 1, -1), C(20.0) * RBF(0.255)


def hard_eight(n=1000, seed=0):
    """RBF in eight dimensions, variance 50, length 1.5, labels from the model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    kernel = C(50.0) * RBF(1.5)
    K = kernel(X)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(n)) @ rng.standard_normal(n)
    return X, np.where(f + rng.standard_normal(n) > 0, 1, -1), kernel
