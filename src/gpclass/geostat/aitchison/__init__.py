"""Aitchison's geometry on ]0,1[ and its distributions."""

from gpclass.geostat.aitchison.distribution import Aitchison, InvalidDistributionError
from gpclass.geostat.aitchison.field import AitchisonField, FieldMode, FieldMoments
from gpclass.geostat.aitchison.geometry import (
    coordinates,
    distance,
    from_coordinates,
    ilr,
    inner,
    inverse_ilr,
    log_inverse_ilr,
    mean,
    norm,
    perturb,
    power,
)
from gpclass.geostat.aitchison.normal import HypercubeNormal, IntervalNormal

__all__ = [
    "Aitchison",
    "AitchisonField",
    "FieldMode",
    "FieldMoments",
    "HypercubeNormal",
    "IntervalNormal",
    "InvalidDistributionError",
    "coordinates",
    "distance",
    "from_coordinates",
    "ilr",
    "inner",
    "inverse_ilr",
    "log_inverse_ilr",
    "mean",
    "norm",
    "perturb",
    "power",
]
