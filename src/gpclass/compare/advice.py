"""One sentence: which method to use here, and why. It is derived from the measured numbers alone.

1. Methods that failed or did not converge are advised only if no other is left.
2. The best method has the smallest log loss. Methods whose paired difference from it is below two standard
   errors (or below 0.005 nats per point) count as equally good.
3. If the reference is equally good: consider the methods whose probabilities are within 0.02 of the reference's
   and that are at least three times faster. Timings are noisy, so among those within a factor of two of the
   fastest take the closest to the reference. If no method qualifies, take the reference.
4. If the reference is not equally good, or there is no reference: the fastest of the equally good methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from gpclass._typing import IntArray
from gpclass.compare.result import LEFT_OUT, MethodResult

TIES = 0.005  # nats per point; smaller differences do not matter
CLOSE = 0.02  # |Δp| that changes few decisions
FASTER = 3.0
ALIKE = 2.0  # times within this factor count as equal


def difference(a: MethodResult, b: MethodResult) -> tuple[float, float]:
    """Mean log loss of ``a`` minus that of ``b``, point by point, and its standard error."""
    if a.point_log_loss is None or b.point_log_loss is None:
        raise ValueError("both methods must have been scored")
    d = a.point_log_loss - b.point_log_loss
    return float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))


def base_rate_log_loss(y_index: IntArray) -> float:
    """Log loss of predicting the class frequencies for every point."""
    share = np.bincount(y_index) / len(y_index)
    share = share[share > 0]
    return float(-np.sum(share * np.log(share)))


def advise(results: Sequence[MethodResult], reference: str | None, base_rate: float) -> tuple[str, str | None]:
    """The sentence, and the name of the advised method (None if no method could be fitted)."""
    scored = [r for r in results if r.error is None and r.scores is not None]
    if not scored:
        return "No method could be fitted: see the errors.", None
    sound = [r for r in scored if r.converged] or scored
    best = min(sound, key=_loss)
    gaps = [(r, *difference(r, best)) for r in sound]
    as_good = [r for r, gap, se in gaps if gap <= max(2.0 * se, TIES)]
    ref = next((r for r in sound if r.name == reference), None)
    if ref is not None and ref in as_good:
        text, chosen = _around_reference(as_good, ref)
    else:
        text, chosen = _fastest(as_good, best, ref)
    text += _caveats(chosen, scored, sound, base_rate)
    return text, chosen.name


def _loss(r: MethodResult) -> float:
    return float("inf") if r.scores is None else r.scores.log_loss


def _around_reference(as_good: Sequence[MethodResult], ref: MethodResult) -> tuple[str, MethodResult]:
    gaps = [(r.agreement.largest, r) for r in as_good if r is not ref and r.agreement is not None]
    gaps.sort(key=itemgetter(0))  # the closest first
    fast = [(gap, r) for gap, r in gaps if gap <= CLOSE and ref.seconds >= FASTER * r.seconds]
    if fast:
        least = min(r.seconds for _, r in fast)
        gap, quick = next(pair for pair in fast if pair[1].seconds <= ALIKE * least)
        return (
            f"Use {quick.name}: its probabilities stay within {gap:.2g} of {ref.name}'s, "
            f"its log loss ({_loss(quick):.3f}) is not measurably worse, "
            f"and it is {ref.seconds / quick.seconds:.0f} times faster."
        ), quick
    if not gaps:
        return f"Use {ref.name}: no other method predicts as well (its log loss is {_loss(ref):.3f}).", ref
    gap, near = gaps[0]
    if gap > CLOSE:
        return (
            f"Use {ref.name}: no method predicts measurably better (its log loss is {_loss(ref):.3f}), and "
            f"even the closest of the others ({near.name}) changes a probability by {gap:.2g}."
        ), ref
    return (
        f"Use {ref.name}: no method predicts measurably better (its log loss is {_loss(ref):.3f}), and none that is "
        f"{FASTER:g} times faster gives the same probabilities to within {CLOSE:g}."
    ), ref


def _fastest(as_good: Sequence[MethodResult], best: MethodResult, ref: MethodResult | None) -> tuple[str, MethodResult]:
    quick = min(as_good, key=lambda r: r.seconds)
    rank = f"not measurably worse than the lowest ({best.name}, {_loss(best):.3f})"
    why = f"its log loss ({_loss(quick):.3f}) is {'the lowest' if quick is best else rank}"
    if ref is not None:
        gap, se = difference(ref, quick)
        why += f" and {gap:.3f} ± {se:.3f} below that of {ref.name}, so the model matters more than exactness"
    elif len(as_good) > 1:
        why += f", and it is the fastest of the {len(as_good)} methods that are"
    return f"Use {quick.name}: {why}.", quick


def _caveats(
    chosen: MethodResult, scored: Sequence[MethodResult], sound: Sequence[MethodResult], base_rate: float
) -> str:
    text = ""
    if chosen.point_log_loss is not None:
        gain = base_rate - float(chosen.point_log_loss.mean())
        se = float(chosen.point_log_loss.std(ddof=1) / np.sqrt(len(chosen.point_log_loss)))
        if gain <= 2.0 * se:
            text += (
                f" But no method clearly beats the base rate (log loss {base_rate:.3f}): "
                "these features carry little information on the label, or the kernel does not fit."
            )
    unsound = [r.name for r in scored if not r.converged]
    if len(sound) == len(scored) and unsound:
        text += " None of the methods converged: do not rely on these numbers before resolving the warnings."
    elif unsound:
        text += f" Not considered, as they did not converge: {', '.join(unsound)}."
    return text


def what_went_wrong(r: MethodResult, reference: str | None) -> str:
    """What the approximation changed, as text; all methods use the reference's kernel parameters."""
    if r.error is not None:
        return f"It was {r.error}." if r.state == LEFT_OUT else f"It failed: {r.error}"
    if r.name == reference:
        return "The reference: the others are compared with it."
    a = r.same_kernel if r.same_kernel is not None else r.agreement
    if a is None:
        return "There is no reference to compare it with."
    where = "In sample, with the reference's kernel, its" if a is r.same_kernel else "Out of fold, its"
    text = f"{where} probabilities are off by {a.mean:.1g} on average and {a.largest:.1g} at worst"
    top = a.most_changed(0)
    row, p, reference_p = (a.rows or a.points)[0], a.proba[0, top], a.proba_reference[0, top]
    text += f" (row {row}: {p:.3f} instead of {reference_p:.3f})"
    if abs(a.confidence) > 0.2 * a.mean and a.largest > 1e-3:
        kind = "underconfident" if a.confidence < 0 else "overconfident"
        text += f"; it is {kind} by {abs(a.confidence):.1g} on average"
    rows = "1 row" if a.flips == 1 else f"{a.flips} rows"
    text += "; it decides " + ("every row the same" if a.flips == 0 else f"{rows} differently")
    gap = r.same_kernel_evidence
    if a is r.same_kernel and gap is not None:
        text += f"; its log evidence is {abs(gap):.2g} nats too {'low' if gap < 0 else 'high'}"
    return text + "."
