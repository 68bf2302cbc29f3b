"""How coordinates of the guided sampler on half-lines are drawn, a block of them at a time, in few calls.

Most coordinates of a classifier have a lower limit alone. The general way (:mod:`gpclass.orthant.guided`) makes some
twenty calls per coordinate, which are the cost if there are few draws, and at each of which threads meet if there are
many. From uniforms the result is the same to the last bit; from standard normals, of which a limit moves few, most
need no normal tail.
Cost: O(M) per coordinate for M draws.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from gpclass._typing import Array
from gpclass.numerics.special import truncated_normal_quantile
from gpclass.orthant.proposal import Proposal
from gpclass.orthant.uniforms import as_uniforms

BLOCK = 32  # coordinates per matrix product
SAFE = 25.0  # below this limit Φ of the tail and its inverse are accurate
TINY = float(ndtr(-SAFE))
SURE = 5.0  # standard deviations inside a limit, from which the weight applies it: one draw in three million is lost
MOSTLY = 0.5  # share of draws near a limit, above which all are treated as such
FEW = 256  # draws up to which calls cost more than their arithmetic


def in_half_lines(proposal: Proposal) -> Array:
    """Whether each coordinate (n,) is in a block that has lower limits alone."""
    half = np.isfinite(proposal.lower) & np.isposinf(proposal.upper) & (not proposal.flat)
    if proposal.smooth is not None:
        half &= proposal.smooth.kind < 0
    first = np.arange(0, len(half), BLOCK)
    return np.repeat(np.logical_and.reduceat(half, first), np.diff(np.append(first, len(half))))


def few_draws(M: int) -> bool:
    """Whether so many draws are made with fewer calls."""
    return 1 < M <= FEW  # the sum over one column has another order


def draw_from_normals(proposal: Proposal, a: int, e: int, m: Array, Z: Array, x: Array, z: Array) -> Array:
    """Coordinates a to e on half-lines, from standard normals Z (e − a, M), of which the limits move few.

    Given their means m (e − a, M) without the block's own share, writes x and z and returns the increment of log w.
    A coordinate is drawn as m_c − c t, t = Φ⁻¹(Φ(b) Φ(ζ)), b its distance from the limit and ζ its normal. With
    ``SURE`` standard deviations to the limit, as most have, t is ζ, and it has no weight if it lies beyond. Within the
    loop stands what the next coordinate depends on, with as few calls as may be: threads meet at every one.
    """
    low, c, pull, push = (part[a:e] for part in (proposal.lower, proposal.c, proposal.pull, proposal.push))
    scale = np.diag(proposal.L)[a:e]
    # b = (m_c − low)/c and z = (m_c − c t − m)/L_kk with m_c = pull m − push.
    numbers = (pull / c, (push + low) / c, (pull - 1.0) / scale, push / scale, c / scale)
    mass, log_w, b = np.empty_like(m), np.zeros(m.shape[1]), np.empty(m.shape[1])
    beyond = Z.max() > SURE  # of the limit: hardly ever
    rows = zip(range(a, e), *(part.tolist() for part in numbers), m, mass, Z, z[a:e], strict=True)
    for k, slope, level, rise, back, step, mean, p, own, white in rows:
        if k > a:
            mean += proposal.L[k, a:k] @ z[a:k]
        np.multiply(slope, mean, out=b)
        b -= level
        if beyond:
            log_w[(own > b) & (b >= SURE)] = -np.inf
        t = limited(own, b, p, log_w)
        np.multiply(rise, mean, out=white)
        white -= back
        white -= np.multiply(step, t, out=b)
    new = np.multiply(scale[:, None], z[a:e], out=x[a:e])
    new += m
    np.maximum(new, low[:, None], out=new)  # rounding must not move draws out of the box
    log_w += np.log(mass, out=mass).sum(axis=0)
    m *= pull[:, None]
    m -= push[:, None]  # m_c
    q0, q1, q2 = proposal.quadratic[:, a:e]
    log_w -= q0.sum() + q1 @ m
    m *= m
    log_w -= q2 @ m
    return log_w


def limited(normal: Array, b: Array, mass: Array, log_w: Array) -> Array:
    """Φ⁻¹(Φ(b) Φ(normal)), (M,), and Φ(b) written into ``mass``; the normals themselves, and 1, where b is large.

    Where Φ(b) may be too small for a number its logarithm is added to log_w instead. Changes b.
    """
    least = b.min()
    if least >= SURE:
        mass[:] = 1.0
        return normal
    if not least > -SAFE:  # or NaN
        b[b >= SURE] = np.inf
        log_w += log_ndtr(b)
        mass[:] = 1.0
        return -truncated_normal_quantile(as_uniforms(-normal), -b, np.inf)
    far = b >= SURE
    if np.count_nonzero(far) < (1.0 - MOSTLY) * len(b):  # then picking the others takes longer than computing all
        ndtr(b, out=mass)
        moved = ndtr(normal)
        moved *= mass
        ndtri(moved, out=moved)
        np.copyto(moved, normal, where=far)
        np.copyto(mass, 1.0, where=far)
        return np.asarray(moved)
    picked = np.flatnonzero(np.logical_not(far, out=far))
    p, u = ndtr(b[picked]), ndtr(normal[picked])
    mass[:] = 1.0
    mass[picked] = p
    u *= p
    moved = normal.copy()
    moved[picked] = ndtri(u, out=u)
    return moved


def draw_from_uniforms(proposal: Proposal, a: int, e: int, m: Array, U: Array, x: Array, z: Array) -> Array | None:
    """Coordinates a to e on half-lines, as :func:`_draw_one` draws them, to the last bit, with fewer calls.

    Given their means m without the block's own share, and uniforms U, (e − a, M), writes x and z and returns the
    increments of log w (e − a, M); None if a mass is so small that :func:`_draw_one` is needed. With few draws the
    calls are the cost.
    """
    mc, mass = np.empty_like(m), np.empty_like(m)
    numbers = (part[a:e].tolist() for part in (proposal.lower, proposal.c, proposal.pull, proposal.push))
    rows = zip(range(a, e), *numbers, m, mc, mass, U, x[a:e], z[a:e], strict=True)
    with np.errstate(invalid="ignore"):  # masses of zero
        for k, low, c, pull, push, mean, centre, p, u, out, white in rows:
            if k > a:
                mean += proposal.L[k, a:k] @ z[a:k]
            np.multiply(pull, mean, out=centre)
            centre -= push
            np.subtract(centre, low, out=p)
            p /= c
            ndtr(p, out=p)
            np.multiply(p, u, out=out)
            ndtri(out, out=out)
            out *= c
            np.subtract(centre, out, out=out)
            np.maximum(out, low, out=out)  # rounding must not move draws out of the box
            np.subtract(out, mean, out=white)
            white /= proposal.L[k, k]
    if not mass.min() > TINY:  # or NaN
        return None
    q0, q1, q2 = proposal.quadratic[:, a:e, None]
    np.log(mass, out=mass)
    mass -= q0 + mc * (q1 + mc * q2)
    return mass
