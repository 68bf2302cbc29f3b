"""Geostatistics: indicator kriging, variograms and Aitchison's geometry of probabilities.

R in the docstrings of this package is Röder, Tolosana-Delgado & Hamprecht (2011), *Gaussian process
classification: singly vs. doubly stochastic models, and new computational schemes*, Stoch. Environ. Res. Risk
Assess. 25.
"""

from gpclass.folds import SpatialBlocks
from gpclass.geostat.anisotropy import AnisotropyFit, fit_anisotropy
from gpclass.geostat.coordinates import Anisotropy, ChordalCoordinates
from gpclass.geostat.cutoffs import ConditionalDistribution, CutoffKriging
from gpclass.geostat.declustering import Declustering, cell_declustering
from gpclass.geostat.estimation import VariogramSearch
from gpclass.geostat.fitting import VariogramFit, fit_variogram
from gpclass.geostat.kriging import IndicatorKriging, OutsideWarning
from gpclass.geostat.maps import ClassMaps, ProbabilityMap, predict_map, predict_maps, regular_grid
from gpclass.geostat.model import VariogramModel
from gpclass.geostat.simulation import Simulation, simulate
from gpclass.geostat.variogram import EmpiricalVariogram, empirical_variogram

__all__ = [
    "Anisotropy",
    "AnisotropyFit",
    "ChordalCoordinates",
    "ClassMaps",
    "ConditionalDistribution",
    "CutoffKriging",
    "Declustering",
    "EmpiricalVariogram",
    "IndicatorKriging",
    "OutsideWarning",
    "ProbabilityMap",
    "Simulation",
    "SpatialBlocks",
    "VariogramFit",
    "VariogramModel",
    "VariogramSearch",
    "cell_declustering",
    "empirical_variogram",
    "fit_anisotropy",
    "fit_variogram",
    "predict_map",
    "predict_maps",
    "regular_grid",
    "simulate",
]
