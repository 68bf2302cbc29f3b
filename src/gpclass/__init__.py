"""Gaussian process classification with probabilities that state their own error."""

from gpclass._version import __version__

__all__ = ["__version__"]
