"""Dense priors whose matrices come from elsewhere than the kernel, for problems inside another one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpclass._typing import Array
from gpclass.latent.dense import Dense, DensePrior
from gpclass.latent.noisy_box import noisy_box

if TYPE_CHECKING:
    from gpclass.model.problem import Problem
    from gpclass.orthant.box import Box


@dataclass(frozen=True, eq=False)
class FixedMatrices(Dense):
    """Covariance matrices that no kernel parameter changes."""

    mean: Array | None = None  # (n,), added to the latent values by the factors of the rows

    @abstractmethod
    def matrices(self, X: Array) -> list[Array]:
        """One per kernel, (n, n) each."""

    def prior(self, problem: Problem) -> FixedPrior:
        return FixedPrior(problem, self)


@dataclass(frozen=True, eq=False)
class FixedPrior(DensePrior):
    """N(0, K_c) of these matrices."""

    form: FixedMatrices

    def values(self) -> list[tuple[Array, Callable[[Array], Array]]]:
        return [(K, _no_gradient) for K in self.form.matrices(self.problem.X)]

    def box(self) -> Box:
        return noisy_box(self, self.form.mean)


def _no_gradient(G: Array) -> Array:
    raise NotImplementedError("these matrices have no kernel parameters")
