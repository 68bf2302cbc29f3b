"""Named data sets from a folder, scikit-learn, other packages or OpenML, and simulators of the papers' problems."""

from gpclass.datasets.load import Available, Dataset, DatasetUnavailable, available, load
from gpclass.datasets.simulate import atiya_gaussians, cho_four_gaussians, filippone_square, roeder_field

__all__ = [
    "Available",
    "Dataset",
    "DatasetUnavailable",
    "atiya_gaussians",
    "available",
    "cho_four_gaussians",
    "filippone_square",
    "load",
    "roeder_field",
]
