"""One rule for what our numbers say of a paper's claim, whatever it is about.

A claim of an order is borne out if our difference has its sign and is beyond two standard errors; of several
comparisons, if more than half are and none is beyond two the other way. A claim of a value is borne out within two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

HELD, SIGN, PART = "borne out", "borne out in sign", "in part"
OPEN, AGAINST = "undecided", "contradicted"
BEYOND = 2.0  # standard errors
ABSOLUTE = float(np.sqrt(np.pi / 2.0 - 1.0))  # relative standard deviation of the absolute value of a normal error

RULE = f"""One rule gives all verdicts. A claim that one thing exceeds another is *{HELD}* if our difference has its
sign and is beyond two standard errors; of several comparisons, if more than half are and none is beyond two the
other way. It is *{SIGN}* if the paper calls its difference slight or not significant, and ours is beyond
two standard errors; *{PART}* if some comparisons are beyond two its way, but no more than half, or others are
beyond two the other way; *{AGAINST}* if comparisons are beyond two the other way alone; *{OPEN}* if
none is beyond two. A claim of a value, or that things are equal, is *{HELD}* within two standard errors and
*{AGAINST}* beyond. The paper's method is the one it names, never the best of our variants; it is set against
the best of the others. Shares have binomial errors, taken as independent; an average over runs has that of normal
errors in as many runs, where the page has none. Where we measured no error the number alone decides, and the cell
has none."""


def above(gaps: npt.ArrayLike, errors: npt.ArrayLike, slight: bool = False) -> str:
    """Of a claim that all gaps are positive; ``slight``: and small, or not significant."""
    z = np.atleast_1d(np.asarray(gaps, dtype=float) / np.asarray(errors, dtype=float))
    more, less = int(np.sum(z > BEYOND)), int(np.sum(z < -BEYOND))
    if less == 0 and 2 * more > len(z):
        return SIGN if slight else HELD
    if more:
        return PART
    return AGAINST if less else OPEN


def near(gap: float, error: float) -> str:
    """Of a claim that a gap is zero, or not negative if the gap is cut off at zero."""
    return plain(abs(gap) <= BEYOND * error)


def plain(held: bool | np.bool_) -> str:
    """Of a number without an error."""
    return HELD if held else AGAINST


def binomial(share: float, n: float) -> float:
    """Standard error of a share of n."""
    return float(np.sqrt(share * (1.0 - share) / n))


def times(log_ratio: float, error: float) -> str:
    """A ratio, and where it is within a standard error of its logarithm."""
    low, middle, high = np.exp([log_ratio - error, log_ratio, log_ratio + error])
    return f"{middle:.2g} ({low:.2g} to {high:.2g})"
