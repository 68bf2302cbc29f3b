"""Gaussian process classification with probabilities that state their own error."""

from gpclass._version import __version__
from gpclass.classifier import GPClassifier
from gpclass.persistence import load_model
from gpclass.registry import methods

__all__ = ["GPClassifier", "__version__", "load_model", "methods"]
