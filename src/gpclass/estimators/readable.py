"""Readable kernel parameters: names by role, and posterior draws in natural units."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Product

from gpclass._typing import Array
from gpclass.estimators.pipelines import final_step
from gpclass.hyper.trace import Trace


def parameter_names(kernel: Any, feature_names: Sequence[str] | None = None) -> list[str]:
    """One readable name per free parameter of a kernel, in the order of ``kernel.theta``.

    Parameters
    ----------
    kernel : scikit-learn kernel
    feature_names : sequence of str, optional
        Label the entries of a length scale by feature instead of by number.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    >>> parameter_names(ConstantKernel(2.0) * RBF([1.0, 1.0]) + ConstantKernel(1.0))
    ['variance of RBF', 'length scale[0]', 'length scale[1]', 'variance of constant']
    """
    free = [h for h in kernel.hyperparameters if not h.fixed]
    last = [h.name.split("__")[-1] for h in free]
    roles = [_role(kernel, h.name) for h in free]
    names: list[str] = []
    for h, short, role in zip(free, last, roles, strict=True):
        # Qualify a name only if it is ambiguous: by its role, or else by its position in the tree.
        text = short if last.count(short) == 1 else role if roles.count(role) == 1 else h.name
        text = text.replace("__", " ").replace("_", " ")
        entries: Sequence[Any] = range(h.n_elements)
        if feature_names is not None and len(feature_names) == h.n_elements:
            entries = feature_names
        names += [text] if h.n_elements == 1 else [f"{text}[{k}]" for k in entries]
    return names


def sampled_parameters(clf: Any) -> Array | None:
    """Posterior draws of the kernel parameters in natural units, (S, p) in the order of theta; None if not sampled."""
    trace = getattr(final_step(clf), "_trace", None)
    if not isinstance(trace, Trace):
        return None
    draws = [np.asarray(v) for v in trace.groups["posterior"].values()]  # (chains, draws) or (..., k)
    flat = np.hstack([v.reshape(v.shape[0] * v.shape[1], -1) for v in draws])
    return flat[:, : len(final_step(clf).kernel_.theta)]  # further columns: the scale of the link


def _role(kernel: Any, name: str) -> str:
    """The role of a parameter in a kernel's tree: a constant factor is the variance of the part it multiplies."""
    *path, last = name.split("__")
    if last != "constant_value":
        return f"{last} of {type(reduce(getattr, path, kernel)).__name__}"
    above = reduce(getattr, path[:-1], kernel) if path else None
    if isinstance(above, Product):
        other = above.k2 if path[-1] == "k1" else above.k1
        return f"variance of {type(getattr(other, 'kernel', other)).__name__}"
    return "variance of constant"
