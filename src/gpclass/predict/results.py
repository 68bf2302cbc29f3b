"""What a prediction holds, and sums over the components of a mixture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpclass._html import Tabular
from gpclass._typing import Array, IntArray


@dataclass(frozen=True)
class Prediction:
    """Class probabilities at m points, the columns in the order of the classes."""

    proba: Array  # (m, C)
    log_proba: Array  # (m, C), accurate for small probabilities too
    mcse: Array  # (m, C) Monte Carlo standard error of proba; NaN for a deterministic mixture
    truncation: Array | None = None  # (m,) error of proba by rows that the draws leave out; None if there are none


@dataclass(frozen=True, repr=False)
class Uncertainty(Tabular):
    """Probabilities with their Monte Carlo error and the credible interval of p(x)."""

    proba: Array  # (m, C)
    mcse: Array  # (m, C) how far proba may be from the exact value; NaN for a deterministic mixture
    lower: Array  # (m, C) credible limits of p(x)
    upper: Array  # (m, C)
    latent_mean: Array  # (m, L)
    latent_sd: Array  # (m, L)
    truncation: Array | None = None  # (m,) error of proba by rows that the draws leave out; None if there are none

    def _columns(self) -> range:
        """Of two classes, the second says it all."""
        C = self.proba.shape[1]
        return range(1 if C == 2 else 0, C)

    def _head(self) -> Sequence[str]:
        each = (f"{name}[{c}]" for c in self._columns() for name in ("proba", "mcse", "lower", "upper"))
        return ["row", *each, *(() if self.truncation is None else ("truncation",))]

    def _rows(self) -> Sequence[Sequence[str]]:
        parts = np.stack([self.proba, self.mcse, self.lower, self.upper], axis=-1)[: self._MOST, self._columns()]
        parts = parts.reshape(len(parts), -1)
        if self.truncation is not None:
            parts = np.column_stack([parts, self.truncation[: self._MOST]])
        texts = [["–" if np.isnan(v) else f"{v:.3g}" for v in row] for row in parts]
        return [[str(k), *row] for k, row in enumerate(texts)]

    def _length(self) -> int:
        return len(self.proba)


def point_blocks(components: int, m: int, cells: int) -> Iterator[slice]:
    """Slices of m points, each of at most ``cells`` components × points (or one point)."""
    size = max(1, cells // components)
    for start in range(0, m, size):
        yield slice(start, min(start + size, m))


def even_components(weights: Array, most: int) -> IntArray:
    """Indices of ``most`` components, evenly through the weights: they stand for the mixture with equal weights."""
    ticks = (np.arange(most) + 0.5) / most
    return np.minimum(np.searchsorted(np.cumsum(weights), ticks), len(weights) - 1)


def log_sum(log_terms: Array) -> Array:
    """The log of the sum over the first axis; overwrites its argument."""
    if len(log_terms) == 1:
        return np.asarray(log_terms[0])
    top = log_terms.max(axis=0)
    log_terms -= top
    return np.asarray(top + np.log(np.exp(log_terms, out=log_terms).sum(axis=0)))
