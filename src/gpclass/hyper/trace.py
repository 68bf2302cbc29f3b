"""Sampled kernel parameters as an ArviZ object.

Groups: ``posterior`` (the parameters in natural units, named as scikit-learn names them; parameters with one value per
input are one variable with a dimension), ``sample_stats``, ``log_likelihood`` (log p(y_i|f_i) at a draw of f),
``posterior_predictive`` (labels drawn at the training points), ``observed_data``, and ``constant_data`` (``loo_ep``:
log leave-one-out densities from EP's cavities). ArviZ's summaries, plots, leave-one-out and comparisons work on it.
Both ArviZ 0.2x (InferenceData) and 1.x (DataTree) are supported. A :class:`Trace` holds plain arrays, which a model
file can store, and converts them on request; so fitting needs no ArviZ.
Cost: two arrays of keep × n numbers, or of chains × draws × n with ``pointwise``; omitted above ``MOST`` numbers each
(attribute ``pointwise``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.model.problem import Problem

MOST = 20_000_000  # numbers in one pointwise array: 160 MB


@dataclass(frozen=True, eq=False)
class Trace:
    """Groups of named arrays, (chains, draws, ...); ``observed_data`` without the first two axes."""

    groups: dict[str, dict[str, Any]]
    dims: dict[str, list[str]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)

    def to_arviz(self) -> Any:
        """InferenceData (ArviZ 0.2x) or DataTree (1.x); made once."""
        return self._arviz

    @cached_property
    def _arviz(self) -> Any:
        try:
            import arviz
        except ImportError as error:
            raise ImportError("the trace needs ArviZ: pip install 'gpclass[bayes]'") from error
        if int(arviz.__version__.split(".")[0]) >= 1:
            tree = arviz.from_dict(self.groups, dims=self.dims)
            tree["posterior"].attrs.update(self.attrs)
            return tree
        build: Any = arviz.from_dict  # its type hints are those of the other major version
        return build(**self.groups, dims=self.dims, posterior_attrs=self.attrs)


def build_trace(
    problem: Problem,
    theta: Array,
    stats: dict[str, Any],
    latent: Array | None,
    theta_f: Array,
    rng: np.random.Generator,
    attrs: dict[str, Any],
    loo: Array | None = None,
) -> Trace:
    """The trace of draws ``theta`` (chains, draws, p) and of f at the training points, (chains, some, n or C n).

    ``theta_f`` (chains, some, p) are the parameters of the draws of f.

    ``loo`` (n,) are log leave-one-out densities from EP's cavities, kept as constant data.
    """
    groups: dict[str, dict[str, Any]] = {"posterior": {}, "sample_stats": stats}
    dims: dict[str, list[str]] = {}
    for name, columns in grouped(problem.names).items():
        values = np.exp(theta[:, :, columns])
        groups["posterior"][name] = values[:, :, 0] if len(columns) == 1 else values
        if len(columns) > 1:
            dims[name] = [f"{name}_dim"]
    groups["observed_data"] = {"y": problem.y}
    if loo is not None:
        groups["constant_data"] = {"loo_ep": loo}
        dims["loo_ep"] = ["point"]
    attrs = {**attrs, "pointwise": "kept"}
    dims["y"] = ["point"]
    if latent is not None and latent.size <= MOST:
        plain = problem.likelihood.with_scale(1.0)
        scale = np.exp(theta_f[:, :, -1:]) if problem.scale_is_free else problem.likelihood.scale
        u = (scale * latent).reshape(*latent.shape[:2], problem.n_latents, problem.n)
        drawn = plain.draw_labels(u, rng).astype(np.int16 if plain.many else np.int8)
        groups["log_likelihood"] = {"y": problem.weighted(plain.log(problem.y, u))}
        groups["posterior_predictive"] = {"y": drawn}
    else:
        attrs["pointwise"] = f"omitted: more than {MOST} numbers"
    return Trace(groups, dims, attrs)


def grouped(names: list[str]) -> dict[str, list[int]]:
    """Positions in θ of each variable: ``length_scale[0]``, ``length_scale[1]`` are one variable."""
    found: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        found.setdefault(re.sub(r"\[\d+\]$", "", name), []).append(k)
    return found
