r"""The fixed point of sites as far as one factorisation tells, by the response of the marginals to the sites.

Around a Gaussian with precisions T₀, shifts h₀, covariance P, mean m₀ and variances v₀ at the rows, other sites (T, h)
have the mean m = m₀ + P (h − h₀ − (T − T₀) m), and to first order the variances v₀ − (P∘P)(T − T₀). Sites that agree
with these marginals are found by iteration, with Anderson's mixing. A sweep that ends there leaves an error that is
quadratic in the change of the sites, and what mixing of plain sweeps takes six factorisations for takes two. P is in
single precision: it only says where to go, and the next factorisation checks it.
With a sparse factor the means are solved for, and P∘P is known where the selected inverse is, between rows close
together; the rest of it is left out, so that an error linear in the change remains, a tenth of it or so.
Cost: O(n²) an iteration, or one sparse solve, 5 to 15 iterations.
Fails when: sites change by so much that the iteration does not gain; the sites of a plain sweep are then kept.
Reference: Opper & Winther (2005), Expectation consistent approximate inference, for the response of marginals to sites.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from gpclass._typing import Array
from gpclass.latent.sites import SiteRule
from gpclass.likelihoods.base import Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites
from gpclass.model.rows import Labels
from gpclass.numerics.anderson import Mixing

MOST = 25  # iterations
SMALL = 3e-3  # share of the first change at which they end
WORTH = 0.3  # share of it that must be left at most, for the sites to be trusted
FAR, FIRST = 1.0, 0.5  # relative change of a site that counts as far, and the step while it is
WILD = 4.0  # times the first change, at which they end
DEPTH = 5  # iterations that the mixing remembers
FLOOR = 1e-3  # a site below this share of its marginal's precision is compared by its absolute change
WEAK = 1e-5  # share of a site in its marginal, below which the others do not notice it
LEAST = 0.2  # share of its matched precision that mixing may leave of a site

Update = Callable[[Array, Array, Array], Array]  # sites (2, n) that match, from sites, means (n,) and variances (n,)


class Responding(Protocol):
    """How means and variances of the rows follow sites, around a Gaussian."""

    mean: Array  # (n,)
    variance: Array  # (n,)

    def marginals(self, change: Array, near: Array) -> tuple[Array, Array]:
        """Means and variances (n,) after a change (2, n) of one copy's sites, from means that are near."""


class Response(Responding):
    """How means and variances of the rows follow sites, around a Gaussian.

    Parameters
    ----------
    inverse : (n, n) array
        B⁻¹ = (I + T₀^½ K T₀^½)⁻¹, symmetric, in single precision.
    t : (n,) array
        The precisions T₀, all copies of a row together.
    mean, variance : (n,) array
        Of the rows.
    copies : (n,) array or float
        Of each row.
    """

    def __init__(
        self, inverse: npt.NDArray[np.float32], t: Array, mean: Array, variance: Array, copies: Array | float
    ) -> None:
        self.inverse, self.mean, self.copies = inverse, mean, copies
        self.variance = np.maximum(variance, np.finfo(float).tiny)
        self.squares = inverse * inverse
        self.squares.flat[:: len(t) + 1] = 0.0  # a row's own share is known better
        strong = t * variance > WEAK
        self.scale = np.where(strong, 1.0 / np.sqrt(np.where(strong, t, 1.0)), 0.0)

    def marginals(self, change: Array, near: Array) -> tuple[Array, Array]:
        """Means and variances (n,) after a change (2, n) of one copy's sites, from means that are near."""
        t, h = self.copies * change
        scaled = self.scale * (h - t * near)
        mean = self.mean + self.scale * (scaled - self.inverse @ scaled.astype(np.float32))
        square = self.scale**2
        others = square * (self.squares @ (square * t).astype(np.float32))
        return mean, _fallen(self.variance, others / self.variance + self.variance * t)


class SparseResponse(Responding):
    """The same with a sparse factor: solves for the means, and P∘P where P is known, between rows close together.

    Parameters
    ----------
    solve : callable
        P x for x (n,).
    squares : (n, n) sparse array
        P_ij² between different rows, where they are known.
    mean, variance : (n,) array
        Of the rows.
    copies : (n,) array or float
        Of each row.
    """

    def __init__(
        self,
        solve: Callable[[Array], Array],
        squares: csr_array,
        mean: Array,
        variance: Array,
        copies: Array | float,
    ) -> None:
        self.solve, self.squares, self.mean, self.copies = solve, squares, mean, copies
        self.variance = np.maximum(variance, np.finfo(float).tiny)

    def marginals(self, change: Array, near: Array) -> tuple[Array, Array]:
        t, h = self.copies * change
        fall = (self.squares @ t) / self.variance + self.variance * t
        return self.mean + self.solve(h - t * near), _fallen(self.variance, fall)


def _fallen(variance: Array, fall: Array) -> Array:
    """Variances that fall by such shares, to first order, and stay positive."""
    return np.asarray(variance * np.where(fall > 0.0, 1.0 / (1.0 + np.maximum(fall, 0.0)), 1.0 - fall))


def matching(rule: SiteRule, likelihood: Likelihood, labels: Labels) -> Update:
    """The sites of a rule that match marginals."""

    def update(sites: Array, mean: Array, variance: Array) -> Array:
        held = RowSites(sites[1:], sites[:1])
        return rule.update(likelihood, labels, sites, RowMarginals(mean[None], variance[:, None, None], held))[0]

    return update


def relative_change(before: Array, after: Array, variance: Array) -> float:
    """The largest change of sites (2, n), relative to themselves or to a small share of their marginals' precisions."""
    least = FLOOR / np.stack([variance, np.sqrt(variance)])
    return float(np.max(np.abs(after - before) / np.maximum(np.abs(after), least)))


def settled(response: Responding, sites: Array, first: Array, update: Update) -> Array:
    """Sites (2, n) that match the marginals which they make; ``first`` if the iteration does not lead there.

    Parameters
    ----------
    response : Responding
        Around the Gaussian of ``sites``.
    sites, first : (2, n) array
        Precisions and shifts of one copy of each row, and those that match the marginals of ``sites``.
    update : callable
        Sites that match other marginals.
    """
    unit = np.stack([response.variance, np.sqrt(response.variance)])
    mixing, now, matched, mean = Mixing(DEPTH), sites, first, response.mean
    begun, best, least = np.inf, first, np.inf
    for k in range(MOST):
        change = relative_change(now, matched, response.variance)
        if not change < WILD * begun:  # or NaN
            break
        if k == 0:
            begun = change
        elif change < least:
            best, least = matched, change
        if least <= SMALL * begun:
            break
        far = change > FAR
        if far:
            mixing.clear()
        mixed = None if far else mixing.propose(now.ravel(), (matched - now).ravel(), scale=unit.ravel())
        plain = now + (FIRST if far else 1.0) * (matched - now)
        now = plain if mixed is None else mixed.reshape(matched.shape)
        now = np.where((now[0] > LEAST * matched[0]) & np.isfinite(now).all(axis=0), now, plain)
        mean, variance = response.marginals(now - sites, mean)
        matched = update(now, mean, variance)
    return best if least < WORTH * begun else first
