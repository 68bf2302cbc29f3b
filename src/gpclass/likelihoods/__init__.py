"""Likelihoods: from latent values to the probabilities of the classes."""

from gpclass.likelihoods.binary import LIKELIHOODS, BinaryLikelihood, Logit, Probit, get_likelihood
from gpclass.likelihoods.many import MULTI_LIKELIHOODS, MultiLikelihood, MultinomialProbit, Softmax

__all__ = [
    "LIKELIHOODS",
    "MULTI_LIKELIHOODS",
    "BinaryLikelihood",
    "Logit",
    "MultiLikelihood",
    "MultinomialProbit",
    "Probit",
    "Softmax",
    "get_likelihood",
]
