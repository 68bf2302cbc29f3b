"""The page docs/calibration.md, from calibration.json, unbiased.json and effective_share.json.

``python -m benchmarks.calibration_page`` writes it from what is stored.
"""

import json
from functools import partial
from itertools import product
from textwrap import fill as filled

import numpy as np
from scipy.stats import binom

from benchmarks import effective_share
from benchmarks.calibration import (
    DATA,
    EDITION,
    HARD,
    KEPT,
    KEPT_UNBIASED,
    LONG,
    LONG_RUNS,
    MODELS,
    SIZES,
    TOL,
    VARIANCES,
    key,
)
from benchmarks.common import HERE, cpu

PAGE = HERE.parent / "docs" / "calibration.md"
DEFAULT_TOL = 1e-3
GOAL = 0.92  # of the coverage of ±2 mcse at the worst point
LEVEL = 0.05  # of the corrected tests
EARLIER = "†"
NORMAL = 0.9545  # of ±2 standard errors
fill = partial(filled, width=120, break_on_hyphens=False, break_long_words=False)


def cells(kept):
    """The stored cells, in order, as (model, n, variance, data, figures)."""
    for one in product(MODELS, SIZES, VARIANCES, DATA):
        if key(*one) in kept:
            yield *one, kept[key(*one)]


def new(r):
    """Whether a cell has the stated errors of today."""
    return r.get("edition", 1) == EDITION


def low_at_the_median(kept):
    """Names of the problems of today's errors whose coverage at the median point is below the goal, not by chance."""
    found = [(key(*one), r) for *one, r in cells(kept) if new(r)]
    p = holm(binom.cdf([round(r["median"] * r["seeds"]) for _, r in found], [r["seeds"] for _, r in found], GOAL))
    return [name for (name, _), one in zip(found, p, strict=True) if one < LEVEL]


def near_the_ends(kept):
    """What the coverage of probabilities close to 0 and 1 is, and was."""
    today = [new(r) for *_, r in cells(kept)]
    text = (
        "Below, problem by problem. Column *rms z* is over all twenty points, some of them with probabilities so close "
        "to 0 or 1 that few of the draws carry them. There the stated error includes draws that were not seen "
        "({py:mod}`gpclass.predict.rare`), and tends to be too large rather than too small. A test of the coverage at "
        f"the median point against {GOAL}, corrected by Holm's method, rejects {len(low_at_the_median(kept))} of "
        f"{sum(today)} problems."
    )
    if not all(today):
        text += (
            f" Runs marked {EARLIER}, of {len(today) - sum(today)} problems, were made before, when errors left such "
            "draws out: that is why *rms z* exceeds one and the coverage at the median point is low in some of them."
        )
    return text


def silent(r):
    """Runs that missed at the worst point without a warning."""
    return round(r["missed without warning"] * r["seeds"])


def holm(p):
    """P-values corrected for their number, by Holm's method."""
    p = np.asarray(p)
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))), 1.0)
    return corrected


def p_values(kept):
    """Of each stored problem, for a true share of silent misses of the goal at most; corrected."""
    rs = [r for *_, r in cells(kept)]
    return holm(binom.sf([silent(r) - 1 for r in rs], [r["seeds"] for r in rs], 1 - GOAL))


def rejected(kept):
    """Names of the problems that miss more often than the goal allows."""
    return [key(*one[:4]) for one, p in zip(cells(kept), p_values(kept), strict=True) if p < LEVEL]


def verdict(kept):
    """What the cells say together: how many are below the goal, how many chance allows, and the corrected tests."""
    found = list(cells(kept))
    rs = [r for *_, r in found]
    most = [int(np.floor((1 - GOAL) * r["seeds"] + 1e-9)) for r in rs]  # misses that the goal allows
    missed = np.array([silent(r) for r in rs])
    seeds = np.array([r["seeds"] for r in rs])
    below = int(np.sum(missed > most))
    chance = binom.sf(most, seeds, 1 - NORMAL)
    low, high = np.quantile(np.random.default_rng(0).binomial(1, chance, (20_000, len(rs))).sum(axis=1), (0.025, 0.975))
    p = p_values(kept)
    worst = int(np.argmin(p))
    model, n, variance, kind, r = found[worst]
    total = len(MODELS) * len(SIZES) * len(VARIANCES) * len(DATA)
    return (
        f"Of {total} problems {len(rs)} have run, {seeds.sum()} times altogether. In {below} of them more than "
        f"{1 - GOAL:.0%} of the runs missed at the worst point without a warning; if each run missed with probability "
        f"{1 - NORMAL:.3f}, as a normal error does, chance alone would make it {chance.sum():.1f} ({low:.0f} to "
        f"{high:.0f} with probability 0.95). A binomial test of each problem against a true share of {1 - GOAL:.0%}, "
        f"corrected by Holm's method, rejects {len(rejected(kept))}; the smallest corrected p-value is "
        f"{p[worst]:.2g} ({model}, n = {n}, variance {variance:g}, {kind}: {silent(r)} of {r['seeds']} runs)."
    )


def pooled(kept):
    """One line per model and n: runs of all its problems together."""
    lines = [
        "| model | n | problems | runs | worst point | median point | log p(y) | warned | silent |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for model, n in product(MODELS, SIZES):
        rs = [r for m, size, *_, r in cells(kept) if (m, size) == (model, n)]
        if rs:
            seeds = np.array([r["seeds"] for r in rs], dtype=float)
            names = ("worst", "median", "evidence", "warned", "missed without warning")
            shares = [seeds @ [r[name] for r in rs] / seeds.sum() for name in names]
            error = np.sqrt(NORMAL * (1 - NORMAL) / seeds.sum())
            lines.append(
                f"| {model} | {n} | {len(rs)} | {seeds.sum():.0f} | {shares[0]:.3f} ± {error:.3f} "
                + "".join(f"| {share:.3f} " for share in shares[1:])
                + "|"
            )
    return lines


def table(kept):
    """One line per problem."""
    lines = [
        "| model | n | variance | data | tol | runs | rms z | worst point | median point | log p(y) | warned "
        "| silent |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for model, n, variance, kind, r in cells(kept):
        lines.append(
            f"| {model} | {n} | {variance:g} | {kind} | {r.get('tol', DEFAULT_TOL):g} "
            f"| {r['seeds']}{'' if new(r) else EARLIER} | {r['rms']:.2f} "
            f"| {r['worst']:.2f} | {r['median']:.2f} | {r['evidence']:.2f} | {r['warned']:.2f} "
            f"| {r['missed without warning']:.2f} |"
        )
    return lines


def bias(found):
    """Mean of Z/Z₀ less one, and its standard error with that of Z₀."""
    k = found["seeds"]
    mean = found["sum"] / k
    variance = (found["squares"] - k * mean**2) / (k - 1)
    return mean - 1.0, float(np.sqrt(variance / k + (mean * found["truth error"]) ** 2))


def unbiased_section():
    """The table of biases."""
    kept = json.loads(KEPT_UNBIASED.read_text()) if KEPT_UNBIASED.exists() else {}
    lines = [
        "",
        "## Is the evidence unbiased?",
        "",
        fill(
            "The number of draws is decided by pilots that are discarded, so that the estimate Z of p(y) has no bias, "
            f"here with tol = {TOL:g}. Z₀ is the mean of {LONG_RUNS} further runs of {LONG} draws each, whose number "
            "is fixed; the standard error is that of both. Made by `python -m benchmarks.calibration --unbiased 1000`."
        ),
        "",
        "| model | n | variance | data | runs | E[Z/Z₀] − 1 | standard error | ratio |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for model, n, variance, kind in HARD:
        found = kept.get(key(model, n, variance, kind))
        if found and found["seeds"]:
            off, error = bias(found)
            lines.append(
                f"| {model} | {n} | {variance:g} | {kind} | {found['seeds']} "
                f"| {off:+.5f} | {error:.5f} | {off / error:+.1f} |"
            )
    return lines


def write():
    """The page from what is stored."""
    kept = json.loads(KEPT.read_text())
    lines = [
        "# Are the stated errors right?",
        "",
        fill(
            "Each problem is fitted exactly many times, with other random numbers each time. Every run is compared "
            "with the mean of the others: the share of runs within ±2 mcse of the probability at the point with the "
            f"largest and with the median mcse, and of log p(y) ({NORMAL:.3f} for a normal error), the share of runs "
            "with a warning, and the share that missed at the worst point without one (*silent*), of which the goal "
            f"is {1 - GOAL:.0%} at most. The tolerance *tol* is {DEFAULT_TOL:g} by default; larger ones need fewer "
            "draws, so that more runs could be made. Made by `python -m benchmarks.calibration` on "
            f"{cpu()}."
        ),
        "",
        fill(verdict(kept)),
        "",
        *pooled(kept),
        "",
        fill(near_the_ends(kept)),
        "",
        *table(kept),
        *unbiased_section(),
        *effective_share.section(),
    ]
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write()
