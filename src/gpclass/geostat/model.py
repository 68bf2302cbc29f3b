"""The Matérn variogram with nugget, and its conversion to a scikit-learn kernel or gstools model.

    h(r) = (s − s0) ρ(r) + s0·1(r = 0),    ρ(r) = 2^(1−ν)/Γ(ν) t^ν K_ν(t),  t = √(2ν) r/l,    γ(r) = s − h(r)

with sill s, nugget s0, smoothness ν (∞: the Gaussian exp(−r²/2l²)) and length scale l (R §5.2). gstools
writes t = √ν r/l, so its length is l/√2 of ours (times its ``rescale``), and switches to the Gaussian above
ν = 20; larger finite ν raise an error there. The nugget is a ``WhiteKernel``, which adds nothing between a training
point and a coincident new point; kriging adds it there on request (``exact=True``).

Cost: O(size). Fails when: a kernel is not a sum of one Matérn (RBF) part and white noise; the error names the part.

Reference: R §5.2; Chilès & Delfiner (1999), Geostatistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from sklearn.gaussian_process import kernels as sk

from gpclass._typing import Array
from gpclass.covariance._stationary import matern_profile
from gpclass.geostat.coordinates import Anisotropy
from gpclass.names import optional


def matern_correlation(r: npt.ArrayLike, length_scale: float, smoothness: float) -> Array:
    """ρ(r) of the Matérn family for any smoothness."""
    r = np.asarray(r, dtype=float)
    rho, _ = matern_profile(smoothness).value(np.square(r.ravel() / length_scale))
    return np.asarray(rho.reshape(r.shape))


@dataclass(frozen=True)
class VariogramModel:
    """A Matérn variogram.

    Parameters
    ----------
    sill : float
        s, the variance: the level that the variogram reaches, nugget included.
    length_scale : float or tuple of float
        l, one for all coordinates or one per coordinate (anisotropy along the axes).
    smoothness : float, default=0.5
        ν; 0.5 is the exponential variogram, infinity the Gaussian.
    nugget : float, default=0.0
        s0, the jump at distance zero; less than the sill.
    """

    sill: float
    length_scale: float | tuple[float, ...]
    smoothness: float = 0.5
    nugget: float = 0.0

    def __post_init__(self) -> None:
        lengths = np.asarray(self.length_scale, dtype=float)
        kept = float(lengths) if lengths.ndim == 0 else tuple(map(float, lengths))
        object.__setattr__(self, "length_scale", kept)
        if not (np.isfinite(self.sill) and self.sill > 0):
            raise ValueError(f"the sill must be positive, not {self.sill}")
        if not 0 <= self.nugget <= self.sill:
            raise ValueError(f"the nugget must lie between 0 and the sill {self.sill:g}, not {self.nugget}")
        if not np.all(np.asarray(self.length_scale) > 0):
            raise ValueError(f"length scales must be positive, not {self.length_scale}")
        if not self.smoothness > 0:
            raise ValueError(f"the smoothness must be positive, not {self.smoothness}")

    def rows(self) -> list[tuple[str, str]]:
        """The parameters by name, as text."""
        lengths = self.length_scale if isinstance(self.length_scale, tuple) else (self.length_scale,)
        shown = {"sill": self.sill, "nugget": self.nugget, "smoothness": self.smoothness}
        found = [(name, f"{value:.4g}") for name, value in shown.items()]
        return [*found, ("length scale", ", ".join(f"{length:.4g}" for length in lengths))]

    @property
    def partial_sill(self) -> float:
        """S − s0, the variance of the correlated part."""
        return self.sill - self.nugget

    def _single_length(self) -> float:
        if isinstance(self.length_scale, tuple):
            raise ValueError(
                "this model has one length scale per coordinate: its variogram is not a function of distance alone"
            )
        return self.length_scale

    def covariance(self, r: npt.ArrayLike) -> Array:
        """h(r), including the nugget at r = 0."""
        r = np.asarray(r, dtype=float)
        rho = matern_correlation(r, self._single_length(), self.smoothness)
        return np.asarray(self.partial_sill * rho + self.nugget * (r == 0))

    def variogram(self, r: npt.ArrayLike) -> Array:
        """γ(r) = s − h(r), zero at r = 0."""
        return np.asarray(self.sill - self.covariance(r))

    def practical_range(self, share: float = 0.95) -> float:
        """The distance at which the correlated part has lost this fraction of its variance."""
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, not {share}: the sill itself is never reached")
        l = self._single_length()
        rest = 1.0 - share
        found = brentq(lambda r: float(matern_correlation(r, l, self.smoothness)) - rest, 0.0, 200.0 * l)
        return float(found)

    def kernel(self) -> Any:
        """The scikit-learn kernel with the same covariance: constant × Matérn (+ white noise)."""
        lengths = list(self.length_scale) if isinstance(self.length_scale, tuple) else self.length_scale
        shape = sk.RBF(lengths) if np.isinf(self.smoothness) else sk.Matern(lengths, nu=self.smoothness)
        smooth = sk.ConstantKernel(self.partial_sill) * shape
        return smooth + sk.WhiteKernel(self.nugget) if self.nugget > 0 else smooth

    @classmethod
    def from_kernel(cls, kernel: Any) -> VariogramModel:
        """The variogram of a scikit-learn kernel: (constant ×) Matérn or RBF, plus any white noise."""
        shape, variance, nugget = None, 0.0, 0.0
        for scale, part in _terms(kernel, 1.0):
            if isinstance(part, sk.WhiteKernel):
                nugget += scale * part.noise_level
            elif isinstance(part, sk.RBF) and shape is None:  # scikit-learn's Matern is a subclass of RBF
                shape, variance = part, scale
            else:
                raise ValueError(
                    f"{part} does not fit a variogram of one Matérn structure and a nugget; "
                    "give a kernel of the form constant * Matern + WhiteKernel"
                )
        if shape is None:
            raise ValueError("the kernel has no Matérn or RBF part; add one")
        nu = float(shape.nu) if isinstance(shape, sk.Matern) else np.inf
        return cls(variance + nugget, shape.length_scale, nu, nugget)

    def to_gstools(self, dim: int = 2, anisotropy: Anisotropy | None = None) -> Any:
        """The gstools covariance model with the same covariance (extra ``[geo]``)."""
        gs = optional("gstools", "a gstools model", "geo")
        lengths = np.broadcast_to(np.asarray(self.length_scale, dtype=float), (dim,))
        anis = lengths[1:] / lengths[0]
        angles: Array | float = 0.0
        if anisotropy is not None:
            if isinstance(self.length_scale, tuple):
                raise ValueError("give one length scale and the anisotropy, or length scales alone")
            angles, anis = np.deg2rad(anisotropy.angle_list(dim)), np.asarray(anisotropy.ratio_list(dim))
        common = {"dim": dim, "var": self.partial_sill, "nugget": self.nugget, "anis": anis, "angles": angles}
        if np.isinf(self.smoothness):
            return gs.Gaussian(len_scale=np.sqrt(2.0) * lengths[0], rescale=1.0, **common)
        if not 0.2 <= self.smoothness <= 20.0:
            raise ValueError(
                f"gstools supports Matérn smoothness from 0.2 to 20 (a Gaussian above), not {self.smoothness:g}"
            )
        return gs.Matern(nu=self.smoothness, len_scale=lengths[0] / np.sqrt(2.0), rescale=1.0, **common)

    @classmethod
    def from_gstools(cls, model: Any) -> tuple[VariogramModel, Anisotropy | None]:
        """The variogram of a gstools Matern, Exponential or Gaussian model, and its anisotropy."""
        length = float(model.len_scale / model.rescale)
        name = type(model).__name__
        if name == "Matern":
            nu = np.inf if model.nu > 20.0 else float(model.nu)  # as gstools does, exp(−(h/2)²)
            length = np.sqrt(2.0) * length
        elif name == "Exponential":
            nu = 0.5
        elif name == "Gaussian":
            nu, length = np.inf, length / np.sqrt(2.0)
        else:
            raise ValueError(f"the gstools model must be Matern, Exponential or Gaussian, not {name}")
        fitted = cls(float(model.var + model.nugget), float(length), nu, float(model.nugget))
        anis = np.atleast_1d(np.asarray(model.anis, dtype=float))
        if model.dim == 1 or np.allclose(anis, 1.0):
            return fitted, None
        angles = np.rad2deg(np.atleast_1d(np.asarray(model.angles, dtype=float)))
        return fitted, Anisotropy(angle=tuple(map(float, angles)), ratio=tuple(map(float, anis)))


def _terms(kernel: Any, scale: float) -> list[tuple[float, Any]]:
    """A kernel as a sum of constant × part."""
    if isinstance(kernel, sk.Sum):
        return _terms(kernel.k1, scale) + _terms(kernel.k2, scale)
    if isinstance(kernel, sk.Product):
        for one, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if isinstance(one, sk.ConstantKernel):
                return _terms(other, scale * one.constant_value)
    return [(scale, kernel)]
