r"""The last steps of an ascent, from a point near the maximum where the curvature is known.

An ascent over a part of the rows, or of a guide's evidence, ends near the maximum of the evidence that counts, and with
an estimate C of the inverse curvature there. The steps Δθ = C g from its slope g then need few evaluations, and ½ g·C g
says how many nats are left: they end when that is less than what is wanted, or than the noise of the evidence. An error
of the slope of covariance Σ adds ½ tr(C Σ) nats to it on average, with a variance of ½ tr(C Σ C Σ). Σ is known from a
few groups of draws alone, so that what noise promises over that mean is about an F variable; as much as it is with
probability ``SURE`` is subtracted. If the evidence has no noise, every step improves C (BFGS), a step that
falls is halved, and slopes must be small as well, unless C is ``known``, since it may be wrong along a ridge; a noisy
step that falls is the last. Parameters on a bound that the slope leads out of stay there.
Cost: one inference with gradient per evaluation, 2 to 5 evaluations.
Fails when: C is far from the curvature of this evidence: the steps do not arrive, and an ascent must go on.
Reference: Nocedal & Wright (2006), Numerical optimization, section 6.1, for the update of C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri

from gpclass._typing import Array, BoolArray
from gpclass.latent.sites import Start

LONGEST, LONGEST_NOISY = 1.0, 0.3  # change of a log-parameter in one step, without and with noise
STEEP = 0.03  # nats per log-parameter, or per root of the curvature: a slope that is left at a maximum, at most
SURE = 0.99  # probability that noise promises no more
GROUPS = 12  # of draws behind the noise of a slope
CLOSE = 0.1  # nats, below which the error of rough ones may decide
MUCH = 2.0  # nats that are left, as far as the curvature tells, while rough evaluations do
HALVINGS = 3  # of a step that falls
CONCAVE = 1e-4  # least cosine of a step and the fall of the slope, below which rounding would make the curvature


@dataclass(frozen=True, eq=False)
class Seen:
    """The log evidence (+ log prior) at one θ."""

    value: float
    slope: Array  # (p,)
    error: float = 0.0  # Monte Carlo standard error of the value
    start: Start | None = None  # of the posterior
    noise: Array | None = None  # (p, p), covariance of the Monte Carlo error of the slope


@dataclass(frozen=True, eq=False)
class Arrival:
    """Where the steps ended."""

    theta: Array  # (p,)
    seen: Seen  # at ``theta``
    evaluations: int
    steps: int  # that were taken
    inverse_curvature: Array  # (p, p)
    arrived: bool  # whether nothing that is wanted can be gained


def last_steps(
    evaluate: Callable[[Array], Seen],
    theta: Array,
    inverse_curvature: Array,
    bounds: Array,
    *,
    steps: int,
    gain: float,
    flat: float = 0.0,
    known: bool = False,
    roughly: Callable[[Array], Seen] | None = None,
) -> Arrival:
    """Quasi-Newton steps until less than ``gain`` nats are expected.

    Parameters
    ----------
    evaluate : callable
        The evidence at a θ; its value is −inf where the inference fails.
    theta : (p,) array
        Where to begin.
    inverse_curvature : (p, p) array
        Of minus the evidence, positive definite.
    bounds : (p, 2) array
        Of θ.
    steps : int
        The most steps.
    gain : float
        Nats that are worth a step.
    flat : float
        Slope of a parameter that is worth none, whatever the curvature.
    known : bool
        Whether the curvature is known in all directions, so that it tells what a slope is worth.
    roughly : callable, optional
        The evidence to some hundredths of a nat, for a cheaper begin, while more than ``MUCH`` nats are left.
    """
    low, high = bounds.T
    here, C, evaluations, taken = (roughly or evaluate)(theta), inverse_curvature, 1, 0
    rough = roughly is not None
    noisy = here.error > 0
    longest = LONGEST_NOISY if noisy else LONGEST
    while np.isfinite(here.value):
        out = led_out(theta, here.slope, bounds)
        slope, newton, free = np.where(out, 0.0, here.slope), np.zeros_like(theta), np.ix_(~out, ~out)
        bend = np.asarray(np.linalg.inv(C)[free], dtype=float)
        newton[~out] = np.linalg.solve(bend, slope[~out])  # the others stay
        shorter = np.zeros_like(theta)
        shorter[~out] = _within(bend, slope[~out], longest)
        step = np.clip(theta + shorter, low, high) - theta
        bound = bool(np.any(step != (theta + shorter) - theta))
        left = float(slope @ step) if bound else 0.5 * float(slope @ newton)  # nats, at most and about
        if here.noise is not None:
            left -= (2.0 if bound else 1.0) * _promised_by_noise(np.linalg.solve(bend, here.noise[free]))
        steepest = float(np.abs(slope).max(initial=0.0))
        if rough and (steepest <= flat or left < max(gain, CLOSE) or taken == steps):
            here, rough, evaluations = evaluate(theta), False, evaluations + 1
            continue
        at_rest = noisy or known or _steep(bend, slope[~out]) < STEEP
        if steepest <= flat or (left < max(here.error, gain) and at_rest):
            return Arrival(theta, here, evaluations, taken, C, True)
        if taken == steps:
            break
        at = roughly if rough and roughly is not None and left > MUCH else evaluate
        there, evaluations = at(theta + step), evaluations + 1
        for _ in range(0 if noisy else HALVINGS):
            if there.value >= here.value:
                break
            step = 0.5 * step
            there = at(theta + step)
            evaluations += 1
        if there.value < here.value:
            if rough:  # perhaps by its error
                here, rough, evaluations = evaluate(theta), False, evaluations + 1
                continue
            break
        rough = at is roughly
        C = C if noisy else updated(C, step, here.slope - there.slope)
        theta, here, taken = theta + step, there, taken + 1
    return Arrival(theta, here, evaluations, taken, C, False)


def led_out(theta: Array, slope: Array, bounds: Array) -> BoolArray:
    """Which parameters are on a bound that the slope leads out of, (p,)."""
    low, high = bounds.T
    return np.asarray(((theta <= low) & (slope < 0)) | ((theta >= high) & (slope > 0)))


def nothing_left(theta: Array, slope: Array, inverse_curvature: Array, bounds: Array, gain: float) -> bool:
    """Whether less than ``gain`` nats are left, as a curvature tells that may be wrong along a ridge."""
    free = ~led_out(theta, slope, bounds)
    bend, g = np.asarray(np.linalg.inv(inverse_curvature)[np.ix_(free, free)], dtype=float), slope[free]
    return 0.5 * float(g @ np.linalg.solve(bend, g)) < gain and _steep(bend, g) < STEEP


def _within(bend: Array, slope: Array, longest: float) -> Array:
    """Newton's step (p,) with components up to ``longest``: those beyond are shortened, and the others follow them."""
    step, short = np.linalg.solve(bend, slope), np.zeros(len(slope), dtype=bool)
    while np.any(beyond := ~short & (np.abs(step) > longest)):
        step, short = np.clip(step, -longest, longest), short | beyond
        rest = slope[~short] - bend[np.ix_(~short, short)] @ step[short]
        step[~short] = np.linalg.solve(bend[np.ix_(~short, ~short)], rest)
    if slope @ step <= 0.0:  # shortened more than once, it may not rise
        step = np.clip(np.linalg.solve(bend, slope), -longest, longest)
    return np.asarray(step)


def _steep(bend: Array, slope: Array) -> float:
    """The steepest slope along a principal axis of the curvature, in units of its root where that is above one."""
    values, axes = np.linalg.eigh(bend)
    return float(np.max(np.abs(axes.T @ slope) / np.sqrt(np.maximum(values, 1.0)), initial=0.0))


def _promised_by_noise(CS: Array) -> float:
    """Nats that the noise of a slope promises, at most, from C Σ, with Satterthwaite's number of directions."""
    mean, square = 0.5 * float(np.trace(CS)), float(np.trace(CS @ CS))
    if mean <= 0.0 or square <= 0.0:
        return 0.0
    return mean * float(fdtri(4.0 * mean**2 / square, GROUPS - 1, SURE))


def curvature(slope: Callable[[Array], Array], theta: Array, bounds: Array, step: float) -> Array:
    """Minus the second derivatives at ``theta``, (p, p), by differences of slopes ``step`` to either side."""
    low, high = bounds.T
    H = np.zeros((len(theta), len(theta)))
    for j in range(len(theta)):
        side = step * (np.arange(len(theta)) == j)
        up, down = (np.clip(theta + side, low, high), np.clip(theta - side, low, high))
        H[j] = (slope(down) - slope(up)) / max(up[j] - down[j], step)
    return 0.5 * (H + H.T)


def inverse_of(H: Array, least: float, most: float) -> Array:
    """The inverse of a curvature, with eigenvalues between these."""
    values, axes = np.linalg.eigh(H)
    return np.asarray((axes * np.clip(1.0 / np.maximum(values, 1e-12), least, most)) @ axes.T)


def updated(C: Array, step: Array, fall: Array) -> Array:
    """The inverse curvature after a step by which the slope falls: fall = C⁻¹ step, BFGS's formula."""
    bend = float(step @ fall)
    if bend <= CONCAVE * float(np.linalg.norm(step) * np.linalg.norm(fall)):
        return C
    rest = np.eye(len(step)) - np.outer(step, fall) / bend
    return np.asarray(rest @ C @ rest.T + np.outer(step, step) / bend)
