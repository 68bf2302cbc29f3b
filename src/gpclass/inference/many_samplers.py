"""The samplers of latent values for softmax: those of two classes, in the coordinates of many.

Elliptical slices, Hamiltonian trajectories and annealing move the coordinates of
:mod:`gpclass.latent.many_whitened` and need not know what is behind them; here are only the defaults that differ:
softmax has Laplace's Gaussian to go around, or better that of :mod:`gpclass.latent.centred`, not EP's.
Cost: 2 C n² a chain and step (or leapfrog step). Fails when: as for two classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpclass.inference.annealed import Annealed
from gpclass.inference.elliptical_slice import EllipticalSlice
from gpclass.inference.hmc import LatentHMC
from gpclass.latent.many_whitened import SOFTMAX_AROUND


@dataclass(frozen=True)
class SoftmaxEllipticalSlice(EllipticalSlice):
    """Settings of elliptical slice sampling for softmax; around "prior", "laplace" or "variational"."""

    thin: int = 6
    around: str = "variational"

    likelihood: ClassVar[str] = "softmax"
    gaussians: ClassVar[tuple[str, ...]] = SOFTMAX_AROUND


@dataclass(frozen=True)
class SoftmaxHMC(LatentHMC):
    """Settings of Hamiltonian Monte Carlo for softmax; around "prior", "laplace" or "variational"."""

    around: str = "variational"

    likelihood: ClassVar[str] = "softmax"
    gaussians: ClassVar[tuple[str, ...]] = SOFTMAX_AROUND


@dataclass(frozen=True)
class SoftmaxAnnealed(Annealed):
    """Settings of annealed importance sampling for softmax; around "prior", "laplace" or "variational"."""

    around: str = "variational"

    likelihood: ClassVar[str] = "softmax"
    gaussians: ClassVar[tuple[str, ...]] = SOFTMAX_AROUND
