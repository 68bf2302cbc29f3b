r"""Leave-one-out predictive densities from EP's cavities, integrated over sampled kernel parameters.

Dividing site i out of EP's Gaussian leaves an approximation to the posterior without point i, so

    p(y_i | y_-i, θ) ≈ ∫ p(y_i|f_i) N(f_i; m_-i, v_-i) df_i,   v_-i = P_ii/(1 − t_i P_ii),

at the cost of one fit. Over draws of θ from the posterior with all points, since p(θ|y) ∝ p(θ|y_-i) p(y_i|y_-i, θ),

    1 / p(y_i | y_-i) = E_{θ|y} [ 1 / p(y_i | y_-i, θ) ].

It complements ArviZ's leave-one-out from draws as a check without importance weights.
Cost: one EP for each of at most ``MOST`` draws of θ.
Fails when: EP does; or one point largely determines θ (the harmonic mean is then poor).
Reference: Opper & Winther (2000); Vehtari et al. (2016), Bayesian leave-one-out cross-validation for Gaussian
latent variable models.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from gpclass._typing import Array
from gpclass.inference.ep import EP
from gpclass.model.problem import Problem
from gpclass.model.rows import Labels
from gpclass.posterior import Posterior

MOST = 20  # draws of θ


def cavity_log_density(posterior: Posterior) -> Array:
    """The log p(y_i | y_-i, θ) of every point, (n,), from EP's sites."""
    problem, (mean, cov) = posterior.problem, posterior.sites[0].marginals.cavity()
    labels = Labels(problem.y)
    return problem.likelihood.smear(labels, mean[:, :, None], np.einsum("nll->ln", cov))[:, 0]


def leave_one_out(problem: Problem, theta: Array) -> Array | None:
    """The log p(y_i | y_-i), (n,), over draws θ (S, p).

    None if rows are weighted, EP fails, classes are many, or the likelihood has no sites or no averages of p.
    """
    offered = "covariance" in problem.form.offers and {"match", "smear"} <= problem.likelihood.offers()
    if problem.n_latents > 1 or not offered or problem.weights is not None:
        return None
    chosen = np.unique(np.linspace(0, len(theta) - 1, min(MOST, len(theta))).astype(np.intp))
    try:
        logs = np.stack([cavity_log_density(EP()(problem.at(x))) for x in theta[chosen]])
    except (np.linalg.LinAlgError, ValueError):
        return None
    return np.asarray(np.log(len(logs)) - logsumexp(-logs, axis=0))
