"""Parameters that an ascent left on a bound: which of them to warn of, and the remedy.

A variance that grows without end says that the classes are nearly separable; one of a term beside others that vanishes
says that the term is not needed, and is no reason to warn.
"""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel, Product, Sum

from gpclass.model.problem import Problem, sample_of

NOTHING = 1e-3  # share of the prior variance below which a term of a sum is absent


def bounds_warning(problem: Problem, hit: tuple[str, ...], penalised: bool) -> str:
    """Warnings for the user about parameters that ended on a bound, with the remedy."""
    ends = dict(zip(problem.names, np.exp(problem.bounds), strict=True))
    value = dict(zip(problem.names, np.exp(problem.theta), strict=True))
    upper = {name: abs(value[name] - ends[name][1]) < abs(value[name] - ends[name][0]) for name in hit}
    which = ", ".join(
        f"{name} at its {'upper' if upper[name] else 'lower'} one, {ends[name][int(upper[name])]:.3g}" for name in hit
    )
    endless = [name for name in hit if upper[name] and not penalised and _multiplies(problem.kernel, name)]
    cures = []
    if endless:
        cures.append(
            f"{' and '.join(endless)} without end: the classes are nearly separable; use hyperparameters='map', whose "
            "prior keeps it finite, or fix it"
        )
    if len(endless) < len(hit):
        cures.append("widen the bounds of the kernel, or fix the parameter")
    return f"the best parameters lie on a bound ({which}); {'; '.join(cures)}"


def _multiplies(kernel: Kernel, name: str) -> bool:
    """Whether a parameter is a constant that multiplies another kernel: a variance."""
    return name.endswith("constant_value") and isinstance(_parent(kernel, name), Product)


def vanishes(problem: Problem, name: str) -> bool:
    """Whether a parameter is the variance of a constant or of noise beside other kernels, and next to nothing."""
    if not name.endswith(("constant_value", "noise_level")) or not isinstance(_parent(problem.kernel, name), Sum):
        return False
    point = sample_of(problem, 1)
    total = min(kernel.diag(point)[0] for kernel in problem.kernels)
    return bool(np.exp(problem.theta[list(problem.names).index(name)]) < NOTHING * total)


def _parent(kernel: Kernel, name: str) -> Kernel | None:
    """The kernel that combines the kernel of a parameter with another."""
    path = name.split("__")[:-1]
    if isinstance(kernel, CompoundKernel) and path:  # one kernel per class, identified by its number
        kernel, path = kernel.kernels[int(path[0])], path[1:]
    if not path:
        return None
    above = "__".join(path[:-1])
    return kernel.get_params()[above] if above else kernel
