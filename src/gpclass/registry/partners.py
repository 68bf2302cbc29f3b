"""Which inference goes with which strategy for the kernel parameters.

A strategy asks something of the inference, and the registry's rows say who has it: the tables of the README, of the
documentation and of ``gpclass methods`` are made from these rules. The strategies themselves refuse the other pairs,
with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpclass.inference import EllipticalSlice, LatentHMC
from gpclass.inference.whitened import BASES
from gpclass.registry.rows import INFERENCES, Method


def _any(row: Method) -> bool:
    return True


def _climbs(row: Method) -> bool:
    """An evidence with a gradient."""
    return row.gradient


def _gaussian(row: Method) -> bool:
    """A Gaussian posterior, whose evidence has a gradient and no noise."""
    return row.gradient and not row.exact


def _unbiased(row: Method) -> bool:
    """An unbiased estimate of the evidence."""
    return row.evidence == "unbiased"


def _steps(row: Method) -> bool:
    """A sampler whose steps can be taken one at a time, or a Gaussian to take slices around."""
    return row.name in BASES or row.factory in (EllipticalSlice, LatentHMC)


NEEDS: Mapping[str, Callable[[Method], bool]] = {
    "fixed": _any,
    "maximize": _climbs,
    "map": _climbs,
    "em": _gaussian,
    "cv": _any,
    "hmc": _gaussian,
    "pseudo-marginal": _unbiased,
    "alternate": _steps,
}


def inferences_for(strategy: str) -> list[str]:
    """Names of the inferences that a strategy goes with, in the registry's order."""
    return [name for name, row in INFERENCES.items() if NEEDS[strategy](row)]


def goes_with(strategy: str, mark: str = "") -> str:
    """The same in words: "any", or the names, each between two marks."""
    names = inferences_for(strategy)
    return "any" if len(names) == len(INFERENCES) else ", ".join(f"{mark}{name}{mark}" for name in names)
