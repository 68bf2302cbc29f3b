r"""Likelihoods of C classes, each with a latent value f_c.

Softmax: p(y = c | f) = exp(f_c) / Σ_b exp(f_b). Multinomial probit: utilities u_c = f_c + ε_c with
independent ε_c ~ N(0, 1), and y is the class of the largest, so

    p(y = c | f) = ∫ φ(t − f_c) Π_{b≠c} Φ(t − f_b) dt.

For C = 2 the first is the logit of f_1 − f_0 and the second its probit with scale 1/√2: since f_1 − f_0 has
covariance 2K, multinomial probit with K is probit with K, and softmax with K is logit with 2K.
Averages over latent values are in :mod:`gpclass.predict.many`.
Reference: Rasmussen & Williams (2006), §3.5; Girolami & Rogers (2006) for the utilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from gpclass._typing import Array
from gpclass.likelihoods.averages import (
    log_probit_average,
    log_softmax_average,
    log_softmax_few_nodes,
)
from gpclass.likelihoods.utilities import log_largest

ENOUGH = 16  # components of a mixture from which a few nodes each are enough


@dataclass(frozen=True)
class Softmax:
    """The softmax link."""

    name: ClassVar[str] = "softmax"

    def log_prob(self, f: Array) -> Array:
        """Log probability of every class, for latent values f (..., C)."""
        return np.asarray(f - logsumexp(f, axis=-1, keepdims=True))

    def log_predictive(self, means: Array, covariances: Array) -> Array:
        """Log probabilities averaged over N(means, covariances), (S, m, C).

        Parameters
        ----------
        means : (S, m, C) array
        covariances : (1 or S, m, C, C) array
        """
        S, m, C = means.shape
        if S >= ENOUGH and C > 2:
            return log_softmax_few_nodes(means, covariances)
        full = np.broadcast_to(covariances, (S, m, C, C)).reshape(-1, C, C)
        return log_softmax_average(means.reshape(-1, C), full).reshape(S, m, C)


@dataclass(frozen=True)
class MultinomialProbit:
    """The class of the largest utility, each utility with standard normal noise of its own."""

    name: ClassVar[str] = "multinomial-probit"

    def log_prob(self, f: Array) -> Array:
        """Log probability of every class, for latent values f (..., C)."""
        flat = f.reshape(-1, f.shape[-1])
        return log_largest(flat, np.ones(f.shape[-1]), fine=False).reshape(f.shape)

    def log_predictive(self, means: Array, covariances: Array) -> Array:
        """Log probabilities averaged over N(means, covariances), (S, m, C); shapes as of :class:`Softmax`."""
        S, m, C = means.shape
        if C > 2 and not np.any(
            covariances[..., ~np.eye(C, dtype=bool)]
        ):  # independent utilities, many draws
            sds = np.sqrt(1.0 + np.einsum("smcc->smc", covariances))
            each = np.broadcast_to(sds, means.shape).reshape(-1, C)
            return log_largest(means.reshape(-1, C), each, fine=S == 1).reshape(S, m, C)
        full = np.broadcast_to(covariances, (S, m, C, C)).reshape(-1, C, C)
        return log_probit_average(means.reshape(-1, C), full, fine=S == 1).reshape(S, m, C)


MultiLikelihood = Softmax | MultinomialProbit
MULTI_LIKELIHOODS: dict[str, type[MultiLikelihood]] = {
    Softmax.name: Softmax,
    MultinomialProbit.name: MultinomialProbit,
}
