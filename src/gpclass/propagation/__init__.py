"""Expectation propagation: Gaussian sites fitted to one-dimensional factors by matching moments.

The target is N(v; m0, K) Π_i f_i(v_i)^w_i. Each factor is replaced by a site (:mod:`gpclass.propagation.sites`). An
update divides one copy of the site out of the marginal of v_i (the cavity) and chooses the site whose product with
the cavity has the mean and variance of the true factor times the cavity (the tilted distribution).

A factor may occur w_i times; its copies share one site: the cavity removes T_i/w_i, and the evidence counts the
copy's term w_i times. This is the fixed point of repeated rows; w_i = 0 removes the point.

References: Minka (2001), A family of algorithms for approximate Bayesian inference; Rasmussen & Williams (2006), §3.6.
"""

from gpclass.propagation.factors import Factors
from gpclass.propagation.sequential import expectation_propagation

__all__ = ["Factors", "expectation_propagation"]
