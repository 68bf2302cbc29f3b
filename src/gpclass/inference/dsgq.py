"""Doubly stochastic Gaussian quadrature: the predictive probability of the doubly stochastic model as an orthant ratio.

With the logistic function replaced by Φ(k0 φ), k0 ≈ 0.5876 c0, with an error of at most 0.01, the
predictive probability is the mass of one orthant of an (n + 1)-dimensional Gaussian divided by that of two
(R eq. 26). R writes its precision Λ with R = k0² I + Σ⁻¹ + v s sᵀ, s = Σ⁻¹σ*, v = k0²/(s*² k0² + 1); integrating
the latent values out of

    ξ = φ + ε,   ε ~ N(0, I/k0²)

shows that Λ⁻¹ is Σ + I/k0² of training and new point together. So this is the probit classifier with scale k0,
whose orthant :mod:`gpclass.inference.exact` draws from: a preset, with R's parameter under R's name.
R's own form, which inverts Σ, is in the tests as a check of that identity.

Cost: as the exact inference, O(n³) for EP and O(n²M) for M draws, once for all new points (R integrates for each).
Fails when: as the exact inference does.
Reference: Röder, Tolosana-Delgado & Hamprecht (2011), §4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpclass.inference.exact import Exact
from gpclass.likelihoods.binary import K0, Probit


@dataclass(frozen=True)
class DSGQ(Exact):
    """Settings: those of :class:`~gpclass.inference.exact.Exact`, and R's scale.

    Parameters
    ----------
    k0 : float, optional
        Scale of the normal distribution function, p = Φ(k0 φ). None: that of the estimator's likelihood, by default
        0.5876, which approximates the logistic function of φ.
    k0_bounds : (float, float) or "fixed"
        Range in which a strategy may move k0.
    """

    k0: float | None = None
    k0_bounds: tuple[float, float] | str = "fixed"

    limits: ClassVar = {"k0_bounds": ("fixed",)}
    name: ClassVar[str] = "dsgq"
    only_two: ClassVar[str] = "its link is a stretched probit of one latent value"

    @property
    def own_likelihood(self) -> Probit:
        return Probit(K0 if self.k0 is None else self.k0, self.k0_bounds)

    @property
    def scale_is_given(self) -> bool:
        return self.k0 is not None
