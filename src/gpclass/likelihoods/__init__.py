"""Likelihoods: from latent values to the probabilities of the classes.

:class:`~gpclass.likelihoods.base.Likelihood` is the interface. A new likelihood is one file here and one entry in
``LIKELIHOODS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.binary import BinaryLikelihood, Logit, Probit
from gpclass.likelihoods.many import MultiLikelihood, MultinomialProbit, Softmax
from gpclass.names import did_you_mean

LIKELIHOODS: Mapping[str, type[Likelihood]] = {cls.name: cls for cls in (Probit, Logit, MultinomialProbit, Softmax)}

__all__ = [
    "LIKELIHOODS",
    "BinaryLikelihood",
    "Likelihood",
    "Logit",
    "MultiLikelihood",
    "MultinomialProbit",
    "Probit",
    "Softmax",
    "get_likelihood",
]


def get_likelihood(likelihood: Any) -> Likelihood:
    """The likelihood of a name, or the object itself."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if isinstance(likelihood, str) and likelihood in LIKELIHOODS:
        return LIKELIHOODS[likelihood]()
    hint = did_you_mean(likelihood, LIKELIHOODS)
    raise ValueError(
        f"unknown likelihood {likelihood!r}{hint} Choose one of {', '.join(map(repr, LIKELIHOODS))} "
        "or pass an object such as Probit(scale=1.0)"
    )
