"""Gaussian process classification with probabilities that state their own error."""

from typing import TYPE_CHECKING, Any

from gpclass._version import __version__
from gpclass.compare import compare
from gpclass.compare.evidence import compare_evidence
from gpclass.estimators.classifier import GPClassifier
from gpclass.estimators.pipelines import predict_uncertainty
from gpclass.orthant import orthant_probability
from gpclass.persistence import load_model
from gpclass.registry import methods

if TYPE_CHECKING:
    from gpclass.geostat import IndicatorKriging

__all__ = [
    "GPClassifier",
    "IndicatorKriging",
    "__version__",
    "compare",
    "compare_evidence",
    "load_model",
    "methods",
    "orthant_probability",
    "predict_uncertainty",
]


def __getattr__(name: str) -> Any:
    if name == "IndicatorKriging":  # imported when first used, to keep the import of the package fast
        from gpclass.geostat import IndicatorKriging

        return IndicatorKriging
    raise AttributeError(f"module 'gpclass' has no attribute {name!r}")
