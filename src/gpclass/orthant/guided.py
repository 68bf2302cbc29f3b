"""The guided sampler: sequential draws of a Gaussian in a box, steered by EP's sites.

Sites exp(h_k x_k − ½ t_k x_k²) approximate the indicators 1(lower_k < x_k < upper_k) and turn the prior N(0, S)
into q(x) = N(mu, P), P = L Lᵀ. Under q, coordinate k given the earlier ones has mean m = mu_k + L[k,:k] z_{<k}
and variance s² = L_kk². Dividing out site k leaves N(m_c, c²), c² = 1/(1/s² − t_k), m_c = c² (m/s² − h_k): the
prior and all *other* sites. x_k is drawn from it restricted to its interval, and the weight is multiplied by the
ratio of the factor's mass to the site's,

    log w += log[Φ((u−m_c)/c) − Φ((l−m_c)/c)] − log ∫ N(x; m_c, c²) exp(h_k x − ½ t_k x²) dx,

so log P = log ∫ N(x; 0, S) Π sites + log E w. Flat sites give the classical separation of variables.

Several proposals may be combined: of M draws the j-th proposal makes a share a_j, and every draw is weighted by
the mixture, 1/w = Σ_j a_j / w_j (the balance heuristic). A defensive proposal bounds the weights where EP's
Gaussian has thinner tails than the target.

A coordinate may have a smooth factor instead of limits (:mod:`gpclass.orthant.maps`): it is drawn from the tilted
distribution of that factor, and everything else stays as it is.

Cost: one Cholesky factorisation, n²M multiply-adds as matrix products, O(nM) normal tails; twice that for
two proposals. O(nM) memory. Unbiased for P when sites, shares and M are fixed beforehand.
Fails when: it always returns, but the weights are uneven where EP's Gaussian is a poor proposal: see ESS and
k-hat.
References: Genz (1992), Numerical computation of multivariate normal probabilities; Hajivassiliou & McFadden
(1998), The method of simulated scores; Veach & Guibas (1995) for the balance heuristic. The sites are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from gpclass._typing import Array, IntArray
from gpclass.numerics.special import log_diff_ndtr, truncated_normal_quantile
from gpclass.orthant import half_lines
from gpclass.orthant.half_lines import BLOCK, SAFE, draw_from_normals, draw_from_uniforms, few_draws, in_half_lines
from gpclass.orthant.proposal import Proposal, propose
from gpclass.orthant.uniforms import as_uniforms
from gpclass.propagation.sites import Sites

WIDE = 128  # the same with what is before all of them, if they are drawn from normals: packing z takes time, too
CERTAIN = 8.3  # from here on Φ is 1 in double precision
PART = 1000  # draws whose weights are computed together


@dataclass(frozen=True)
class Draws:
    """Weighted draws in the box: log P = log_sites + log mean exp(log_w)."""

    x: Array  # (n, M)
    log_w: Array  # (M,)
    group: IntArray  # (M,), draws that depend on each other share a group
    log_sites: float


def guided_draws(
    S: Array,
    sites: Sites,
    lower: Array,
    upper: Array,
    uniforms: Array,
    group: IntArray | None = None,
    *,
    resample: np.random.Generator | None = None,
) -> Draws:
    """Weighted draws of N(0, S) restricted to the box, from given uniforms.

    Parameters
    ----------
    S : (n, n) array
        Covariance with (approximately) unit diagonal.
    sites : Sites
        Any sites; EP's give nearly even weights.
    lower, upper : (n,) array
        Limits.
    uniforms : (n, M) array
        In the open interval (0, 1). The draws are a smooth function of S and the sites for fixed uniforms.
    group : (M,) array, optional
        Group of each draw; draws of a group, such as one randomised net, are dependent. Independent by default.
    resample : Generator, optional
        If given, resample within a group when its effective size falls below half. The groups stay independent;
        smoothness in S is lost.

    Returns
    -------
    Draws
    """
    M = uniforms.shape[1]
    owner = np.arange(M) if group is None else group
    proposal = propose(S, sites, lower, upper)
    x, log_w = draw(proposal, uniforms, None if resample is None else (owner, resample))
    return Draws(x, log_w, owner, proposal.log_sites)


def draw(
    proposal: Proposal,
    U: Array,
    resample: tuple[IntArray, np.random.Generator] | None = None,
    *,
    normal: bool = False,
    white: Array | None = None,
    overwrite: bool = False,
) -> tuple[Array, Array]:
    """Draws x (n, M) and log weights (M,) of one proposal, relative to its log_sites.

    From uniforms U (n, M), or standard normals if ``normal``, which x takes the place of if ``overwrite``. ``white``
    (n, M) becomes z, with x = mean + L z.
    """
    n, M = U.shape
    x = U if overwrite and normal else np.empty((n, M))
    z, log_w = np.empty((n, M)) if white is None else white, np.zeros(M)
    on_lines, few = in_half_lines(proposal), few_draws(M)
    wide = WIDE if normal and resample is None else BLOCK
    for a in range(0, n, BLOCK):
        e, first = min(a + BLOCK, n), a - a % wide
        if a == first:  # contribution of all earlier blocks: one matrix product
            earlier = proposal.L[a : a + wide, :a] @ z[:a]
            earlier += proposal.mean[a : a + wide, None]
        base = earlier[a - first : e - first]
        if a > first:
            base += proposal.L[a:e, first:a] @ z[first:a]
        lines = bool(on_lines[a])
        direct = normal and lines and not few
        u = as_uniforms(U[a:e]) if normal and not direct else U[a:e]
        rise = draw_from_uniforms(proposal, a, e, base.copy(), u, x, z) if few and lines else None
        if direct:
            log_w += draw_from_normals(proposal, a, e, base, u, x, z)
        elif rise is not None:
            log_w = np.add.reduce([log_w, *rise])
        else:
            for k in range(a, e):
                m = base[k - a]
                if k > a:
                    m += proposal.L[k, a:k] @ z[a:k]
                log_w += _draw_one(proposal, k, m, u[k - a], x[k])
                np.subtract(x[k], m, out=z[k])
                z[k] /= proposal.L[k, k]
        if resample is not None and e < n:
            keep = _resample(log_w, *resample)
            if keep is not None:
                x[:e], z[:e] = x[:e, keep], z[:e, keep]
    return x, log_w


def log_weight(proposal: Proposal, x: Array, *, drawn: int | None = None) -> Array:
    """Log weights (M,), log_sites included, that this proposal assigns to draws x (n, M) of another one.

    As if they were among its own, which are so many from normals if ``drawn`` is given, and else from uniforms.
    """
    direct = drawn is not None and not few_draws(drawn)
    sure = np.where(in_half_lines(proposal) if direct else False, half_lines.SURE, np.full(len(x), CERTAIN))
    return np.concatenate([_log_weight(proposal, x[:, a : a + PART], sure) for a in range(0, x.shape[1], PART)])


def _log_weight(proposal: Proposal, x: Array, sure: Array) -> Array:
    """The same of draws that stay in a processor's cache; from ``sure`` (n,) on a limit is applied by their weight."""
    m = x - proposal.mean[:, None]
    z = blas.dtrsm(1.0, proposal.L.T, m.T, side=1).T  # L⁻¹ m, without a copy
    np.multiply(np.diag(proposal.L)[:, None], z, out=m)
    np.subtract(x, m, out=m)
    m *= proposal.pull[:, None]
    m -= proposal.push[:, None]  # m_c (n, M)
    c = proposal.c[:, None]
    total = np.full(x.shape[1], proposal.log_sites)
    box = np.isfinite(proposal.upper)
    half = np.isfinite(proposal.lower) & ~box
    chosen = slice(None) if half.all() else half
    inside = m[chosen] - proposal.lower[chosen, None]
    inside /= c[chosen]
    near = inside < sure[chosen, None]
    mass = inside[near]
    safe = mass.min(initial=0.0) > -SAFE  # then two functions take a third of the time of log_ndtr
    inside[:] = 0.0
    inside[near] = np.log(ndtr(mass)) if safe else log_ndtr(mass)
    total += inside.sum(axis=0)
    if proposal.smooth is not None:
        for k in np.flatnonzero(proposal.smooth.kind >= 0).tolist():
            total += proposal.smooth.log_mass(k, m[k], proposal.c.item(k))
    if box.any():
        a, b = ((limit[box, None] - m[box]) / c[box] for limit in (proposal.lower, proposal.upper))
        total += log_diff_ndtr(a, b).sum(axis=0)
    q0, q1, q2 = proposal.quadratic
    total -= q0.sum() + q1 @ m
    m *= m
    total -= q2 @ m
    return total


def mixture_draws(
    proposals: Sequence[Proposal],
    points: Sequence[Array],
    *,
    normal: bool = False,
    duals: bool = False,
    overwrite: bool = False,
) -> tuple[Array, Array]:
    """Draws x (n, M) of several proposals, weighted by their mixture; the log weights include log_sites.

    From uniforms, or standard normals, (n, M_j) for each proposal. With ``duals``, S⁻¹x instead of x. ``overwrite`` as
    in :func:`draw`.
    """
    M = sum(U.shape[1] for U in points)
    xs, log_ws = [], []
    for j, (proposal, U) in enumerate(zip(proposals, points, strict=True)):
        white = np.empty(U.shape) if duals else None
        x, log_w = draw(proposal, U, normal=normal, white=white, overwrite=overwrite)
        log_w += proposal.log_sites
        if len(proposals) > 1:
            # Any shares that sum to one at every x leave the weights right: interpolated masses do.
            drawn = [V.shape[1] if normal else None for V in points]
            own = log_w if proposal.smooth is None else log_weight(proposal, x, drawn=drawn[j])
            inverse = [
                np.log(V.shape[1] / M) + (np.zeros_like(own) if i == j else own - log_weight(other, x, drawn=drawn[i]))
                for i, (other, V) in enumerate(zip(proposals, points, strict=True))
            ]
            log_w -= logsumexp(inverse, axis=0)
        xs.append(x if white is None else proposal.dual(x, white))
        log_ws.append(log_w)
    return side_by_side(xs), np.concatenate(log_ws)


def side_by_side(parts: Sequence[Array]) -> Array:
    """Columns of all parts; of a single part without a copy."""
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def _draw_one(proposal: Proposal, k: int, m: Array, u: Array, out: Array) -> Array:
    """Draw coordinate k into out (M,), given the means m (M,); return the increment of log w."""
    low, high, c = proposal.lower[k], proposal.upper[k], proposal.c.item(k)
    mc = m if proposal.flat else proposal.pull[k] * m - proposal.push[k]
    if proposal.smooth is not None and proposal.smooth.kind[k] >= 0:
        q0, q1, q2 = proposal.quadratic[:, k]
        return np.asarray(proposal.smooth.draw(k, mc, c, u, out) - (q0 + mc * (q1 + mc * q2)))
    if low == -np.inf:
        np.multiply(-c, ndtri(u), out=out)  # decreasing in u, as on a half-line
        out += mc
        return np.zeros_like(m)
    a = (low - mc) / c
    if high == np.inf:
        if a.max() < SAFE:
            p = ndtr(-a)
            log_mass = np.log(p)
            p *= u
            np.negative(ndtri(p), out=out)
        else:
            log_mass = log_ndtr(-a)
            out[:] = truncated_normal_quantile(u, a, np.inf)
    else:
        b = (high - mc) / c
        log_mass = log_diff_ndtr(a, b)
        out[:] = truncated_normal_quantile(u, a, b)
    out *= c
    out += mc
    np.maximum(out, low, out=out)  # rounding must not move draws out of the box
    if high < np.inf:
        np.minimum(out, high, out=out)
    if proposal.flat:
        return np.asarray(log_mass)
    q0, q1, q2 = proposal.quadratic[:, k]
    log_mass -= q0 + mc * (q1 + mc * q2)
    return np.asarray(log_mass)


def _resample(log_w: Array, group: IntArray, rng: np.random.Generator) -> IntArray | None:
    """Systematic resampling in each group whose effective size is below half; modifies log_w in place."""
    keep = None
    for g in np.unique(group):
        members = np.flatnonzero(group == g)
        lw = log_w[members]
        w = np.exp(lw - lw.max())
        size = len(members)
        if size < 2 or w.sum() ** 2 >= 0.5 * size * (w @ w):
            continue
        keep = np.arange(len(log_w)) if keep is None else keep
        ticks = (np.arange(size) + rng.random()) / size
        chosen = np.searchsorted(np.cumsum(w) / w.sum(), ticks)
        keep[members] = members[np.minimum(chosen, size - 1)]
        log_w[members] = logsumexp(lw) - np.log(size)
    return keep
