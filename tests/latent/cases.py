"""Rows, inferences and a kernel on which the priors for many rows are compared with the dense one."""

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from gpclass.inference import EP, Laplace, Variational
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem

_RNG = np.random.default_rng(0)
n = 130
X = _RNG.uniform(size=(n, 2))
TWO = np.where(np.sin(6 * X[:, 0]) + 0.5 * _RNG.normal(size=n) > 0, 1, -1)
MANY = _RNG.integers(0, 3, n)
NEW, Z = _RNG.uniform(size=(15, 2)), _RNG.uniform(size=(10, 2))
KERNEL = ConstantKernel(2.0) * Matern([0.3, 0.5], nu=1.5) + WhiteKernel(0.05)
CASES = {
    "laplace": ("probit", TWO, Laplace()),
    "ep": ("probit", TWO, EP(tol=1e-10)),
    "variational": ("logit", TWO, Variational(tol=1e-10)),
    "softmax": ("softmax", MANY, Laplace()),
    "multinomial probit": ("multinomial-probit", MANY, EP(tol=1e-10)),
}


def problem(case, form, kernel=KERNEL, weights=None):
    """The rows with the labels of a case, under a form of the prior."""
    name, y, _ = CASES[case]
    return Problem.of(X, y, kernel, get_likelihood(name), weights, None, form)


def found(case, form, weights=None):
    """Log evidence, its gradient, and latent means and covariances of the new points."""
    posterior = CASES[case][2](problem(case, form, weights=weights), gradient=True)
    latent = posterior.latent(NEW)
    return posterior.evidence.log_z, posterior.evidence.gradient, latent.means, latent.covariances
