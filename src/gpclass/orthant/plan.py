"""Settings of the guided sampler for one problem: order, strength of the sites, defence, number of draws.

Everything is fixed beforehand by EP and a small pilot whose draws are discarded, so that the estimate stays
unbiased.

- Order: largest site precision first. The most informative constraints are applied early (the variance of the
  weights is 2 to 4 times smaller on hard problems than in the given order).
- Strength: EP's own sites if the pilot's weights are even; otherwise sites widened about EP's mean to 0.7 of
  their precision, since EP's Gaussian is too narrow. Their tails are thinner, and more draws are effective: of fitted
  data sets of two to ten classes 81 % instead of 69 % (0.9 of the precision) or 62 %, 33 % instead of 29 % or 23 %.
  Where rows have several coordinates, of three classes or more, 0.55: without a defence errors of probabilities are
  mostly smaller than with 0.7, and tails are thinner, so that fewer plans need a defence, a second proposal.
- Defence: if the weights of widened sites may have a heavy tail (q too narrow along directions in which the
  constraints no longer bind), 5 % of the draws come from exponential tilting, N(mu, S): the prior's covariance shifted
  to EP's mean. Its weights are bounded, since for a half-line h_k − T_k mu_k > 0 at EP's fixed point, and so are those
  of the mixture. (Sites raised to a power return to the prior's mean: for the same tail they cost several times the
  variance, and do not bound it.)

Cost: EP, a pilot of 400 draws, and one or two factorisations.
References: Botev (2017), The normal law under linear restrictions, for bounded weights by tilting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array, IntArray
from gpclass.orthant.box import Box, BoxAnew, BoxFactors
from gpclass.orthant.guided import mixture_draws, side_by_side
from gpclass.orthant.proposal import Proposal, propose
from gpclass.orthant.uniforms import NORMAL, PointSet, normals, points
from gpclass.orthant.weights import effective_size, pareto_khat, relative_weights
from gpclass.propagation import expectation_propagation
from gpclass.propagation.sites import SiteApproximation, Sites

Order = Literal["sites", "given", "random", "interleaved"]
ORDERS: tuple[str, ...] = get_args(Order)
POWER, POWER_OF_MANY = 0.7, 0.55  # of the sites of the proposal, with one coordinate per row and with several
DEFENCE = 0.05  # share of draws from the tilted prior, if needed
THIN = 0.7  # tail index above which the defence is used
UNEVEN = 0.4  # k-hat of the pilots, itself known to 0.1, above which the defence is used
NO_MATRIX = np.empty((0, 0))
PILOT = 400
LONGER = 4  # times the pilot, of one that confirms uneven weights
PILOT_EVEN = 0.998  # share of effective draws above which EP's own sites suffice


@dataclass(frozen=True)
class Plan:
    """Proposals with their shares, in the order in which coordinates are drawn."""

    box: Box  # reordered, without its covariance
    order: IntArray
    proposals: tuple[Proposal, ...]
    shares: tuple[float, ...]
    power: float
    spread: float  # the pilot's sd of w over its mean, for one draw
    bounded: bool  # whether the weights cannot have a heavy tail

    def draw(self, kind: PointSet, sizes: list[int], rng: np.random.Generator) -> tuple[Array, Array, IntArray]:
        """Independent randomisations of the given sizes, drawn together.

        Returns x (n, M) in the plan's order, log weights (M,), and the index of each draw's randomisation (M,).
        """
        return self.draw_from(kind, sizes, self.streams(sizes, rng))

    def streams(self, sizes: list[int], rng: np.random.Generator) -> list[list[np.random.Generator]]:
        """One random generator per share and randomisation."""
        return [rng.spawn(len(sizes)) for _ in self.shares]

    def draw_from(
        self, kind: PointSet, sizes: list[int], streams: list[list[np.random.Generator]], duals: bool = False
    ) -> tuple[Array, Array, IntArray]:
        """The result of :meth:`draw`, from given generators; with ``duals``, S⁻¹x instead of x."""
        parts, normal = [self._split(size) for size in sizes], kind in NORMAL
        make = normals if normal else points
        U, group = [], []
        for j, own_streams in enumerate(streams):
            own = [part[j] for part in parts]
            U.append(side_by_side([make(kind, self.box.n, *one) for one in zip(own, own_streams, strict=True)]))
            group.append(np.repeat(np.arange(len(own)), own))
        found = mixture_draws(self.proposals, U, normal=normal, duals=duals, overwrite=True)
        return *found, np.concatenate(group)

    @property
    def has_duals(self) -> bool:
        """Whether S⁻¹x follows from the draws' own coordinates: no factor needed jitter."""
        return not any(proposal.jitter for proposal in self.proposals)

    @property
    def defended(self) -> bool:
        """Whether some draws come from the tilted prior."""
        return len(self.shares) > 1

    def with_defence(self, box: Box | BoxAnew, ep: SiteApproximation) -> Plan:
        """The plan with draws from the prior tilted to the mean of EP; it was made from these."""
        return self._defended(box.take(self.order), ep)

    def _defended(self, box: Box, ep: SiteApproximation) -> Plan:
        """The same for the box in the plan's order."""
        tilt = ep.widened(0.0).take(self.order)
        return replace(
            self,
            proposals=(self.proposals[0], propose(box.S, tilt, box.lower, box.upper, box.smooth)),
            shares=(1 - DEFENCE, DEFENCE),
            bounded=bool((tilt.shift[box.upper == np.inf] >= 0).all()),
        )

    def _split(self, size: int) -> list[int]:
        if len(self.shares) == 1:
            return [size]
        first = max(1, min(size - 1, round(self.shares[0] * size)))
        return [first, size - first]


def fit_sites(box: Box, *, tol: float = 1e-4, max_sweeps: int = 30) -> SiteApproximation:
    """EP's sites for the box. Four digits are enough for the sampler."""
    return expectation_propagation(box.S, BoxFactors(box.lower, box.upper), tol=tol, max_sweeps=max_sweeps)


def make_plan(
    box: Box | BoxAnew,
    ep: SiteApproximation,
    rng: np.random.Generator,
    *,
    order: Order | IntArray = "sites",
    widened: Callable[[], Plan] | None = None,
) -> Plan:
    """Choose order, strength and defence; the pilot's draws are discarded.

    ``widened`` gives :func:`bare_plan` of the same box, sites and order, if it may be known.
    """
    place = coordinate_order(order, box, rng, ep.sites)
    plan = bare_plan(box, ep, order=place, power=1.0, defend=False)
    log_w = plan.draw("random", [PILOT], rng)[1]
    if effective_size(log_w) < PILOT_EVEN * PILOT:
        plan = bare_plan(box, ep, order=place) if widened is None else widened()  # the other one is not kept
        return reviewed(plan, box, ep, log_w, rng)
    return replace(plan, spread=float(relative_weights(log_w).std()))


def reviewed(plan: Plan, box: Box | BoxAnew, ep: SiteApproximation, log_w: Array, rng: np.random.Generator) -> Plan:
    """A plan of widened sites of a box, defended if its weights have a heavy tail.

    Log weights of an earlier pilot, of these sites or EP's own, raise the suspicion: so few draws often do by chance.
    """
    if pareto_khat(log_w) > UNEVEN and not plan.defended:
        log_w = plan.draw("random", [LONGER * PILOT], rng)[1]
        plan = plan.with_defence(box, ep) if pareto_khat(log_w) > UNEVEN else plan
    return replace(plan, spread=float(relative_weights(log_w).std()))


def bare_plan(
    box: Box | BoxAnew,
    ep: SiteApproximation,
    *,
    order: Order | IntArray = "sites",
    power: float = POWER,
    defend: bool | None = None,
) -> Plan:
    """A plan that depends on EP alone and on no draws, as pseudo-marginal sampling requires.

    By default it uses the defence where :func:`tail_index` is large.
    """
    place = coordinate_order(order, box, None, ep.sites)
    ordered = box.take(place)
    guide = propose(ordered.S, ep.widened(power).take(place), ordered.lower, ordered.upper, ordered.smooth)
    plan = Plan(replace(ordered, S=NO_MATRIX), place, (guide,), (1.0,), power, np.inf, False)
    return plan._defended(ordered, ep) if (tail_index(ep, power) > THIN if defend is None else defend) else plan


def tail_index(ep: SiteApproximation, power: float = POWER) -> float:
    """Pareto index of the weights along EP's mean, far out where no constraint binds, of sites widened to a power.

    There the target falls as exp(−½ r² muᵀ S^-1 mu) and the guide as exp(−½ r² muᵀ (S^-1 + T) mu).
    """
    T, mean = power * ep.sites.precision, ep.mean
    thin = mean @ (T * mean)
    return float(thin / (thin + mean @ (ep.sites.shift - ep.sites.precision * mean)))  # S^-1 mu = h − T mu


def coordinate_order(
    order: Order | IntArray, box: Box | BoxAnew, rng: np.random.Generator | None, sites: Sites | None = None
) -> IntArray:
    """The permutation for an ``order=`` argument."""
    if not isinstance(order, str):
        return permutation(order, box.n)
    if order == "given":
        return np.arange(box.n)
    if order == "random" and rng is not None:
        return rng.permutation(box.n)
    if order == "sites" and sites is not None:
        return np.argsort(-sites.precision, kind="stable")
    if order == "interleaved" and rng is not None:
        return _interleaved(box.S, rng)
    raise ValueError(f"order must be one of {ORDERS} for this method, or a permutation, not {order!r}")


def permutation(order: npt.ArrayLike, n: int) -> IntArray:
    """The permutation that an ``order=`` argument gives as numbers."""
    place = np.asarray(order)
    if place.shape != (n,) or not np.array_equal(np.sort(place), np.arange(n)):
        raise ValueError(f"order must name one of {ORDERS} or be a permutation of 0..{n - 1}")
    return place.astype(np.intp)


def _interleaved(S: Array, rng: np.random.Generator) -> IntArray:
    """Alternate the two classes (A §6.2).

    S = D_y (K + I) D_y of a classifier with positive K has a leading eigenvector with the signs of y.
    """
    x = rng.standard_normal(len(S))
    for _ in range(30):  # enough for the signs
        x = S @ x
        x /= np.linalg.norm(x)
    rank = np.empty(len(S))
    for side in (x >= 0, x < 0):
        rank[side] = (np.arange(side.sum()) + 0.5) / max(side.sum(), 1)
    return np.argsort(rank, kind="stable")
