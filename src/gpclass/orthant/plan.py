"""How the guided sampler goes about one problem: order, strength of the sites, defence, number of draws.

Everything is fixed before the draws that count, by EP and a small pilot whose draws are thrown away, so
that the estimate stays unbiased.

- Order: sharpest sites first. The constraints that decide most are met while the sampler still sees the whole
  problem (the variance of the weights falls 2 to 4 times on hard problems against the given order).
- Strength: full. Where the pilot's weights are heavy-tailed, sites tempered by a power below 1, the strongest
  that cures the tail: EP's Gaussian is too thin in directions along which the constraints no longer bind.
- Defence: where tempering does not cure it, a fifth of the draws comes from flat sites (classical
  separation of variables, whose weights are bounded by 1), and all draws are weighted by the mixture.

Cost: EP, and a pilot of 400 draws for each strength tried (one, as a rule).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.orthant.box import Box, BoxFactors
from gpclass.orthant.guided import Proposal, mixture_draws, propose
from gpclass.orthant.uniforms import PointSet, point_sets
from gpclass.orthant.weights import heavy, relative_weights
from gpclass.sites import SiteApproximation, Sites, expectation_propagation

Order = Literal["sites", "given", "random", "interleaved"]
ORDERS: tuple[str, ...] = get_args(Order)
POWERS = (1.0, 0.85, 0.7, 0.5)
DEFENCE = 0.2  # share of the draws that the flat proposal makes
PILOT = 400


@dataclass(frozen=True)
class Plan:
    """Proposals with their shares, in the order in which coordinates are drawn."""

    box: Box  # reordered
    order: IntArray
    proposals: tuple[Proposal, ...]
    shares: tuple[float, ...]
    power: float
    spread: float  # the pilot's standard deviation of w over its mean, for one draw
    cured: bool  # False when the pilot's weights are heavy-tailed whatever was tried

    def draw(
        self, kind: PointSet, sizes: list[int], rng: np.random.Generator
    ) -> tuple[Array, Array, IntArray]:
        """Independent randomisations of the given sizes, drawn together.

        Returns x (n, M) in the plan's order, log weights (M,), and the randomisation of each draw (M,).
        """
        parts = [self._split(size) for size in sizes]
        U, group = [], []
        for j in range(len(self.shares)):
            own = [part[j] for part in parts]
            U.append(np.hstack(list(point_sets(kind, self.box.n, own, rng))))
            group.append(np.repeat(np.arange(len(own)), own))
        return *mixture_draws(self.proposals, U), np.concatenate(group)

    def _split(self, size: int) -> list[int]:
        if len(self.shares) == 1:
            return [size]
        first = max(1, min(size - 1, round(self.shares[0] * size)))
        return [first, size - first]


def fit_sites(box: Box, *, tol: float = 1e-4, max_sweeps: int = 30) -> SiteApproximation:
    """EP's sites for the box. The sampler needs no more than four digits of them."""
    return expectation_propagation(box.S, BoxFactors(box.lower, box.upper), tol=tol, max_sweeps=max_sweeps)


def make_plan(box: Box, sites: Sites, rng: np.random.Generator, *, order: Order | IntArray = "sites") -> Plan:
    """Choose order, strength and defence by a pilot."""
    place = coordinate_order(order, box, rng, sites)
    box, sites = box.take(place), sites.take(place)
    best: Plan | None = None
    for power in POWERS:
        proposal = propose(box.S, sites.tempered(power), box.lower, box.upper)
        plan, tail = _tried(Plan(box, place, (proposal,), (1.0,), power, np.inf, True), rng)
        if not tail:
            return plan
        best = plan if best is None or plan.power >= 0.7 else best
    assert best is not None
    flat = propose(box.S, Sites.flat(box.n), box.lower, box.upper)
    mixed = Plan(box, place, (best.proposals[0], flat), (1 - DEFENCE, DEFENCE), best.power, np.inf, True)
    plan, tail = _tried(mixed, rng)
    return plan if not tail else Plan(**{**vars(plan), "cured": False})


def _tried(plan: Plan, rng: np.random.Generator) -> tuple[Plan, bool]:
    """The plan with its spread, and whether its weights are heavy-tailed."""
    log_w = plan.draw("random", [PILOT], rng)[1]
    return Plan(**{**vars(plan), "spread": float(relative_weights(log_w).std())}), heavy(log_w)


def coordinate_order(
    order: Order | IntArray, box: Box, rng: np.random.Generator, sites: Sites | None = None
) -> IntArray:
    """The permutation that an ``order=`` argument asks for."""
    if not isinstance(order, str):
        place = np.asarray(order)
        if place.shape != (box.n,) or not np.array_equal(np.sort(place), np.arange(box.n)):
            raise ValueError(f"order must name one of {ORDERS} or be a permutation of 0..{box.n - 1}")
        return place.astype(np.intp)
    if order == "given":
        return np.arange(box.n)
    if order == "random":
        return rng.permutation(box.n)
    if order == "sites" and sites is not None:
        return np.argsort(-sites.precision, kind="stable")
    if order == "interleaved":
        return _interleaved(box.S, rng)
    raise ValueError(f"order {order!r} is none of {ORDERS} for this method, nor a permutation")


def _interleaved(S: Array, rng: np.random.Generator) -> IntArray:
    """The two classes in turn (A §6.2).

    S = D_y (K + I) D_y of a classifier with positive K has a leading eigenvector with the signs of y.
    """
    x = rng.standard_normal(len(S))
    for _ in range(30):  # signs need no more
        x = S @ x
        x /= np.linalg.norm(x)
    rank = np.empty(len(S))
    for side in (x >= 0, x < 0):
        rank[side] = (np.arange(side.sum()) + 0.5) / max(side.sum(), 1)
    return np.argsort(rank, kind="stable")
