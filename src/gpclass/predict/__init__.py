"""From a mixture of Gaussians over latent values to probabilities, intervals and Monte Carlo errors."""

from gpclass.predict.many import many_proba, many_uncertainty
from gpclass.predict.two import (
    Prediction,
    Uncertainty,
    in_blocks,
    latents,
    mixture_quantile,
    predict_proba,
    uncertainty,
)

__all__ = [
    "Prediction",
    "Uncertainty",
    "in_blocks",
    "latents",
    "many_proba",
    "many_uncertainty",
    "mixture_quantile",
    "predict_proba",
    "uncertainty",
]
