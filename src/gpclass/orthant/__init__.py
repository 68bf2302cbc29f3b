"""P(lower < v < upper) for Gaussian v: EP, guided sampler, bootstrap, separation of variables, known values."""

from gpclass.orthant.api import METHODS, OrthantEstimate, orthant_probability
from gpclass.orthant.guided import Draws, guided_draws

__all__ = ["METHODS", "Draws", "OrthantEstimate", "guided_draws", "orthant_probability"]
