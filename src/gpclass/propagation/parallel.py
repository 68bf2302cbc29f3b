"""Parallel EP: all sites matched at once, from those of a neighbouring problem.

One factorisation per round and no loop over sites: a fifth of the time of a sweep at n = 200. Accurate enough for a
sampler that corrects the sites, if a problem is solved repeatedly near one that was solved well.
Cost: about two Cholesky factorisations per round, 1 to 4 rounds.
Fails when: the start is far from the solution, where parallel updates stall; it then returns None.
"""

from __future__ import annotations

import numpy as np

from gpclass._typing import Array
from gpclass.numerics.linalg import NotPositiveDefiniteError
from gpclass.propagation.factors import Factors, evidence
from gpclass.propagation.matching import match_all
from gpclass.propagation.sites import Prior, SiteApproximation, Sites


def refined_sites(
    K: Array, factors: Factors, start: Sites, *, rounds: int = 4, settled: float = 0.1
) -> SiteApproximation | None:
    """A few parallel updates of sites that were fitted to a neighbouring problem.

    Parameters
    ----------
    K : (n, n) array
        Prior covariance.
    factors : Factors
        The true factors, each occurring once.
    start : Sites
        Sites of the neighbouring problem.
    rounds : int
        Maximum number of updates.
    settled : float
        Stop when log Z changes by less than this in a round, in nats.

    Returns
    -------
    SiteApproximation, or None if log Z does not converge or a factorisation fails
    """
    prior, once, sites = Prior(K, np.zeros(len(K))), np.ones(len(K)), start
    try:
        log_z, mean, var = evidence(factors, once, prior.gaussian(sites), sites)
        for k in range(1, rounds + 1):
            sites, last = match_all(factors, mean, var), log_z
            q = prior.gaussian(sites)
            log_z, mean, var = evidence(factors, once, q, sites)
            change = abs(log_z - last)
            if change < settled:
                return SiteApproximation(sites, q.mean, q.covariance, log_z, q.log_sites, mean, var, k, False, change)
    except NotPositiveDefiniteError:
        return None
    return None
