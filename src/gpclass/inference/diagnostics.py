"""Whether chains have mixed: R-hat, effective sizes and the error of a mean.

Reference: Vehtari et al. (2021), Rank-normalization, folding, and localization: an improved R-hat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpclass._typing import Array

RHAT_LIMIT = 1.01
RHAT_APART = 1.1  # chains that disagree this much have not converged
WELL, POORLY = 0.3, 0.03  # effective share of the draws above which chains mix well, and below which slowly
ESS_A_CHAIN = 50  # effective draws per chain below which R-hat and quantiles are unreliable
TAILS = (0.05, 0.95)  # quantiles whose effective size is the tail's


@dataclass(frozen=True)
class ChainFigures:
    """The worst figures over the quantities checked."""

    rhat: float
    ess_bulk: float
    ess_tail: float
    mcse: float  # of a mean, relative to the posterior standard deviation

    def verdict(self, draws: int) -> str:
        """In words, how well chains of so many draws in all have mixed."""
        if not np.isfinite(self.ess_bulk):
            return "too short to judge"
        share, least = self.ess_bulk / draws, min(self.ess_bulk, self.ess_tail)
        how = "mixed well" if share > WELL else "mixed" if share > POORLY else "mixed slowly"
        how = "not mixed" if self.rhat > RHAT_LIMIT else how
        return f"{how}: R-hat {_shown(self.rhat)}, {least:.0f} effective of {draws} draws (bulk or tail)"

    def warnings(self, chains: int, cure: str) -> tuple[str, ...]:
        """One warning for the user, with the remedy; none if the chains have mixed and are long enough."""
        least = min(self.ess_bulk, self.ess_tail)
        draws = f"{least:.0f} effective draws (bulk or tail) from {chains} chains"
        if self.rhat > RHAT_LIMIT:
            rhat = f"R-hat is {_shown(self.rhat)}, above {RHAT_LIMIT}"
            return (f"the chains have not mixed well: {rhat}, with {draws}; {cure}",)
        if least < ESS_A_CHAIN * chains:
            return (f"only {draws}, fewer than {ESS_A_CHAIN} per chain; {cure}",)
        return ()

    def told(self, limit: float, chains: int, cure: str) -> tuple[str, tuple[str, ...]]:
        """One verdict: why the chains count as not converged, if R-hat is above ``limit``, or else warnings."""
        found = self.warnings(chains, cure)
        return (found[0], ()) if self.rhat > limit else ("", found)


def array_stats() -> Any:
    """ArviZ's diagnostics on arrays."""
    from arviz_stats import base  # imported here to keep the import of the package fast

    return getattr(base, "array_stats")  # noqa: B009 (the name is not typed)


def chain_figures(values: Array) -> ChainFigures:
    """R-hat, effective sizes and the relative error of a mean, the worst over the last axis.

    ``values`` is (chains, draws, k); quantities that never move count as not mixed (infinite R-hat).
    """
    stats = array_stats()
    per_value = np.moveaxis(values, -1, 0)  # (k, chains, draws)
    spread = per_value.std(axis=(1, 2))
    if values.shape[1] < 4:
        return ChainFigures(np.nan, np.nan, np.nan, np.nan)
    moving = per_value[spread > 0]
    if len(moving) < len(per_value):
        return ChainFigures(np.inf, 0.0, 0.0, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that are each constant, at different values
        rhat = np.asarray(stats.rhat(moving))
    bulk, tail = np.asarray(stats.ess(moving)), np.asarray(stats.ess(moving, method="tail", prob=TAILS))
    mcse = np.asarray(stats.mcse(moving)) / spread
    return ChainFigures(float(rhat.max()), float(bulk.min()), float(tail.min()), float(mcse.max()))


def _shown(rhat: float) -> str:
    """R-hat rounded up, so that one above the limit does not look like the limit."""
    return f"{np.ceil(1e3 * rhat) / 1e3:.3f}"
