"""Passes over the rows under the low-rank prior: pure functions of a shard, whose sums make the next Gaussian over u.

Cost: L(L+1)/2 n m² multiply-adds per pass for P and as many for the covariances of the rows.
"""

from __future__ import annotations

import numpy as np

from gpclass._typing import Array
from gpclass.latent import newton
from gpclass.latent.basis import blocks
from gpclass.latent.low_rank_q import Accumulator, Q, Spec
from gpclass.latent.low_rank_rows import Seen, row_blocks, seen_blocks
from gpclass.latent.sites import SiteRule, remembered
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import Shard
from gpclass.model.sums import Sums


def gather(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule) -> tuple[Shard, Sums]:
    """The sums of q for the current sites."""
    sums, half_log = Accumulator(spec), 0.0
    for block, seen in seen_blocks(shard, likelihood, spec, rule):
        half_log += float(np.sum(block.labels.copies * seen.half_log))
        sums.add(block, seen)
    return shard, {**sums.result(), "half_log": half_log}


def first_sites(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q | None) -> tuple[Shard, Sums]:
    """Sites from the marginals under q, or under the prior; the sums of the first q of these rows."""
    numbers = np.empty((rule.numbers(likelihood, spec.L), len(shard)))
    sums, own = Accumulator(spec), range(spec.L)
    for block in row_blocks(shard, likelihood, spec):
        rest, rows = block.rest, block.rows
        if q is None:
            mean, V = np.zeros(rest.shape), np.zeros((rest.shape[1], spec.L, spec.L))
            each = [np.einsum("ij,ij->i", part, part) for part in block.A]
            V[:, own, own] = np.stack(spec.per_latent(each), axis=1)
        else:
            mean, V = q.marginals(spec, block.A)
        V[:, own, own] += rest.T
        flat = RowSites(b=np.zeros_like(mean), D=np.zeros_like(mean))
        first = rule.first(likelihood, block.labels, RowMarginals(mean, V, flat))
        numbers[:, rows] = block.labels.clear_absent(first)
        sums.add(block, Seen.of(rule.sites(likelihood, block.labels, numbers[:, rows]), rest))
    return shard.with_values(numbers), sums.result()


def sweep_rows(
    shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q, step: float, remember: int
) -> tuple[Shard, Sums]:
    """New sites for every row, moved by ``step``, from q of the old ones; their sums, and the evidence of the old.

    After the new sites the shard stores those of the last ``remember`` sweeps, for mixing.
    """
    k = rule.numbers(likelihood, spec.L)
    moved, value, sums = np.empty((k, len(shard))), 0.0, Accumulator(spec)
    for block, seen in seen_blocks(shard, likelihood, spec, rule):
        labels, old = block.labels, shard.kept[:k, block.rows]
        new, terms = rule.update(likelihood, labels, old, seen.marginals(*q.marginals(spec, block.A)))
        value += float(np.sum(labels.copies * (terms + seen.log_rest)))
        new = labels.clear_absent(new)
        new = new if step == 1.0 else old + step * (new - old)
        moved[:, block.rows] = new
        sums.add(block, Seen.of(rule.sites(likelihood, labels, moved[:, block.rows]), block.rest))
    values = remembered(shard.kept, moved, remember)
    return shard.with_values(values), {**sums.result(), "value": value}


def project_alpha(shard: Shard, likelihood: Likelihood, spec: Spec) -> tuple[Shard, Sums]:
    """Aᵀα, for an α found at other parameters."""
    total = np.zeros(spec.L * spec.m)
    alpha = shard.kept.reshape(newton.NUMBERS, spec.L, -1)[newton.ALPHA]
    for block in row_blocks(shard, likelihood, spec):
        total += spec.project(block.A, block.labels.copies * alpha[:, block.rows])
    return shard, {"projected": total}


def place(shard: Shard, likelihood: Likelihood, spec: Spec, projected: Array) -> tuple[Shard, Sums]:
    """The point f = K α."""
    values = shard.kept.copy()
    view = values.reshape(newton.NUMBERS, spec.L, -1)
    for block in row_blocks(shard, likelihood, spec):
        rows = block.rows
        view[newton.F][:, rows] = spec.spread(block.A, projected) + block.rest * view[newton.ALPHA][:, rows]
    return shard.with_values(values), {}


def aim(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q) -> tuple[Shard, Sums]:
    """Newton's step, and the decrement."""
    values, decrement = shard.kept.copy(), 0.0
    view = values.reshape(newton.NUMBERS, spec.L, -1)
    for block, seen in seen_blocks(shard, likelihood, spec, rule):
        rows, mean = block.rows, spec.spread(block.A, q.mean)
        alpha = seen.alpha(mean)
        view[newton.STEP_ALPHA][:, rows] = alpha - view[newton.ALPHA][:, rows]
        view[newton.STEP_F][:, rows] = mean + block.rest * alpha - view[newton.F][:, rows]
        gain = (view[newton.STEP_F][:, rows] * view[newton.RESIDUAL][:, rows]).sum(axis=0)
        decrement += float(np.sum(block.labels.copies * gain))
    return shard.with_values(values), {"decrement": decrement}


ROUNDING = 1e-6  # of a prior variance: less is due to jitter
FAR = 0.9  # unexplained share of the explainable variance from which a row counts as far


def survey(shard: Shard, likelihood: Likelihood, spec: Spec, floor: float, noise: float) -> tuple[Shard, Sums]:
    """Counts rows that are far from every inducing input, and sums the unexplained prior variances.

    ``floor`` is the covariance of the inducing inputs that are farthest apart: what all rows share, such as a constant.
    ``noise`` is the variance of white noise, which no inducing input can explain. Only the first kernel is examined.
    """
    far, left = 0, 0.0
    for _, A, rest in blocks(shard, spec.bases[:1]):
        total = rest[0] + np.einsum("ij,ij->i", A[0], A[0])
        explicable = np.maximum(total - noise - floor, ROUNDING * total)
        far += int(np.sum(rest[0] - noise > FAR * explicable))
        left += float(np.sum(rest[0] / np.maximum(total, 1e-300)))
    return shard, {"far": far, "left": left}


# ---- the implicit part of the gradient of Laplace's evidence: x = s − (K + W⁻¹)⁻¹ K s -------------------------


def third_order(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, q: Q) -> tuple[Shard, Sums]:
    """Rows with s = ½ Σ ∂³ log p behind their own numbers; Σ s a."""
    k, L = rule.numbers(likelihood, spec.L), spec.L
    values, total = np.empty((k + L, len(shard))), np.zeros(L * spec.m)
    values[:k] = shard.kept[:k]
    for block, seen in seen_blocks(shard, likelihood, spec, rule):
        labels, rows = block.labels, block.rows
        at = seen.marginals(*q.marginals(spec, block.A))
        s = labels.power * likelihood.third(labels.y, values[:L, rows], at.cov)
        values[k:, rows] = s
        total += spec.project(block.A, labels.copies * s)
    return shard.with_values(values), {"b": total}


def times_prior(shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, b: Array) -> tuple[Shard, Sums]:
    """Σ (S y) a of y = K s."""
    k, total = rule.numbers(likelihood, spec.L), np.zeros(spec.L * spec.m)
    for block, seen in seen_blocks(shard, likelihood, spec, rule):
        y = spec.spread(block.A, b) + block.rest * shard.kept[k:, block.rows]
        total += spec.project(block.A, block.labels.copies * seen.times(y))
    return shard, {"y": total}


def take_out(
    shard: Shard, likelihood: Likelihood, spec: Spec, rule: SiteRule, b: Array, towards: Array
) -> tuple[Shard, Sums]:
    """Rows with x in place of s; Σ x a."""
    k, total = rule.numbers(likelihood, spec.L), np.zeros(spec.L * spec.m)
    values = shard.kept.copy()
    for block, seen in seen_blocks(shard, likelihood, spec, rule):
        s = values[k:, block.rows]
        y = spec.spread(block.A, b) + block.rest * s
        x = s - seen.times(y - spec.spread(block.A, towards))
        values[k:, block.rows] = x
        total += spec.project(block.A, block.labels.copies * x)
    return shard.with_values(values), {"nu": total}
