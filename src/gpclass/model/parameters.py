"""θ, one named vector: logs of the free parameters of the kernel or kernels, then of the likelihood's scale if free.

Classes share one kernel, or have one each: then the kernel is scikit-learn's ``CompoundKernel``, which is several
kernels side by side, and θ is the concatenation of theirs.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from gpclass._typing import Array
from gpclass.covariance import Covariance, compile_kernel
from gpclass.kernels import at_theta, parameter_names
from gpclass.likelihoods.base import Likelihood

SCALE_NAME = "likelihood__scale"


class Parameters:
    """Mixin: θ of a kernel and a likelihood."""

    kernel: Kernel
    likelihood: Likelihood

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels: one that all latent values share, or one per class."""
        return list(self.kernel.kernels) if isinstance(self.kernel, CompoundKernel) else [self.kernel]

    @cached_property
    def covariances(self) -> list[Covariance]:
        """The kernels with fast values and vector-Jacobian products."""
        return [compile_kernel(kernel) for kernel in self.kernels]

    @cached_property
    def scale_is_free(self) -> bool:
        """Whether the likelihood's scale is part of θ."""
        return not isinstance(self.likelihood.scale_bounds, str)

    @cached_property
    def theta(self) -> Array:
        """Free parameters, in logs; not to be changed in place."""
        theta = np.array(self.kernel.theta, dtype=float)
        return frozen(np.append(theta, np.log(self.likelihood.scale)) if self.scale_is_free else theta)

    @cached_property
    def bounds(self) -> Array:
        """Bounds of θ in logs, (p, 2); not to be changed in place."""
        each = [np.asarray(kernel.bounds, dtype=float).reshape(-1, 2) for kernel in self.kernels]  # some may be fixed
        bounds = np.vstack(each)
        if self.scale_is_free:
            bounds = np.vstack([bounds, np.log(np.asarray(self.likelihood.scale_bounds, dtype=float))])
        return frozen(bounds)

    @cached_property
    def names(self) -> list[str]:
        """Names of θ's entries, as scikit-learn names kernel parameters; those of class c's own kernel begin with c."""
        if isinstance(self.kernel, CompoundKernel):
            found = [f"{c}__{name}" for c, kernel in enumerate(self.kernels) for name in parameter_names(kernel)]
        else:
            found = parameter_names(self.kernel)
        return found + ([SCALE_NAME] if self.scale_is_free else [])

    @property
    def names_and_bounds(self) -> dict[str, Any]:
        """What another θ does not change, as far as it is known already."""
        return {name: vars(self)[name] for name in ("scale_is_free", "bounds", "names") if name in vars(self)}

    def parts_at(self, theta: Array) -> tuple[Kernel, Likelihood]:
        """Kernel and likelihood at another θ."""
        theta = np.asarray(theta, dtype=float)
        if theta.shape != self.theta.shape:
            raise ValueError(f"theta has shape {theta.shape}, the model has {len(self.theta)} parameters: {self.names}")
        likelihood = self.likelihood
        if self.scale_is_free:
            theta, likelihood = theta[:-1], likelihood.with_scale(float(np.exp(theta[-1])))
        if not isinstance(self.kernel, CompoundKernel):
            return at_theta(self.kernel, theta), likelihood
        ends = np.cumsum([kernel.n_dims for kernel in self.kernels])[:-1]
        parts = zip(self.kernels, np.split(theta, ends), strict=True)
        return CompoundKernel([at_theta(kernel, part) for kernel, part in parts]), likelihood


def frozen(values: Array) -> Array:
    """A copy that cannot be changed in place."""
    made = np.array(values, dtype=float)
    made.flags.writeable = False
    return made
