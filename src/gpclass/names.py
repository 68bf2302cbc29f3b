"""Errors for names that do not exist, with the near ones: the one place that guesses what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

LISTED = 20  # columns that an error names at most


def did_you_mean(given: Any, names: Iterable[Any], otherwise: str = ".") -> str:
    """The end of a sentence about a name that does not exist.

    Parameters
    ----------
    given : what was asked for
    names : those that there are
    otherwise : str, default="."
        What is said where none is near; capitals do not count.

    Examples
    --------
    >>> "there is no method 'laplce'" + did_you_mean("laplce", ["laplace", "ep"])
    "there is no method 'laplce'; did you mean 'laplace'?"
    """
    known = {str(name).lower(): str(name) for name in names}
    near = get_close_matches(str(given).lower(), known, n=3)
    return f"; did you mean {' or '.join(repr(known[one]) for one in near)}?" if near else otherwise


def no_column(where: Any, name: str, columns: Iterable[Any]) -> str:
    """The error for a column that a table does not have."""
    there = [str(column) for column in columns]
    listed = ", ".join(there[:LISTED]) + (", ..." if len(there) > LISTED else "")
    return f"{where} has no column {name!r}{did_you_mean(name, there)} Its columns are {listed}"
