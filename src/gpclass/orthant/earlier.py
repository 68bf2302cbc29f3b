"""Plans as earlier versions made them: the predictions of their files depend on them."""

from __future__ import annotations

import numpy as np

from gpclass.orthant.box import Box, BoxAnew
from gpclass.orthant.plan import LONGER, PILOT, PILOT_EVEN, UNEVEN, Plan, bare_plan, tail_index
from gpclass.orthant.weights import effective_size, pareto_khat
from gpclass.propagation.sites import SiteApproximation

POWER, THIN = 0.9, 0.75  # of the sites of the proposal; tail index above which the defence was used


def earlier_plan(box: Box | BoxAnew, ep: SiteApproximation, rng: np.random.Generator | None) -> Plan:
    """As earlier versions planned, with a pilot or, without random numbers, by EP alone: for predictions of files."""
    heavy, thin = False, tail_index(ep, POWER) > THIN
    if rng is not None:
        plan = bare_plan(box, ep, power=1.0, defend=False)
        log_w = plan.draw("random", [PILOT], rng)[1]
        if effective_size(log_w) >= PILOT_EVEN * PILOT:
            return plan
        if pareto_khat(log_w) > UNEVEN:
            log_w = np.append(log_w, plan.draw("random", [LONGER * PILOT], rng)[1])
        heavy = pareto_khat(log_w) > UNEVEN
    return bare_plan(box, ep, power=POWER, defend=heavy or thin)
