"""Figures. Each takes ``ax`` (None: a new figure) and returns its Axes, or an array of Axes."""

from gpclass.estimators.readable import parameter_names
from gpclass.plots._style import MARKERS, PALETTE
from gpclass.plots.dependence import partial_dependence
from gpclass.plots.geostat import normal_on_interval, probability_map, variogram
from gpclass.plots.maps import decision_map, difference_map, uncertainty_map
from gpclass.plots.parameters import ard_relevance, evidence_surface
from gpclass.plots.posterior import prior_against_posterior
from gpclass.plots.reliability import reliability_diagram
from gpclass.plots.weights import weights_diagnostic

__all__ = [
    "MARKERS",
    "PALETTE",
    "ard_relevance",
    "decision_map",
    "difference_map",
    "evidence_surface",
    "normal_on_interval",
    "parameter_names",
    "partial_dependence",
    "prior_against_posterior",
    "probability_map",
    "reliability_diagram",
    "uncertainty_map",
    "variogram",
    "weights_diagnostic",
]
