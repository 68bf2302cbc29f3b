"""From a mixture of Gaussians over latent values to probabilities, intervals and Monte Carlo errors."""

from gpclass.predict.answers import counted, errors_of, in_blocks, predict_proba, uncertainty
from gpclass.predict.many import many_proba, many_uncertainty
from gpclass.predict.results import Prediction, Uncertainty
from gpclass.predict.two import mixture_quantile

__all__ = [
    "Prediction",
    "Uncertainty",
    "counted",
    "errors_of",
    "in_blocks",
    "many_proba",
    "many_uncertainty",
    "mixture_quantile",
    "predict_proba",
    "uncertainty",
]
