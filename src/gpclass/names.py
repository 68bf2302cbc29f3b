"""Errors about what is missing: unknown names, with suggestions of similar ones, and packages not installed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

LISTED = 20  # most columns listed in an error message


def did_you_mean(given: Any, names: Iterable[Any], otherwise: str = ".") -> str:
    """The end of an error message about an unknown name: similar ones, whatever their case, or ``otherwise``.

    Examples
    --------
    >>> "unknown method 'laplce'" + did_you_mean("laplce", ["laplace", "ep"])
    "unknown method 'laplce'; did you mean 'laplace'?"
    """
    known = {str(name).lower(): str(name) for name in names}
    near = get_close_matches(str(given).lower(), known, n=3)
    return f"; did you mean {' or '.join(repr(known[one]) for one in near)}?" if near else otherwise


def no_column(where: Any, name: str, columns: Iterable[Any]) -> str:
    """Error message for a column missing from a table."""
    there = [str(column) for column in columns]
    listed = ", ".join(there[:LISTED]) + (", ..." if len(there) > LISTED else "")
    return f"{where} has no column {name!r}{did_you_mean(name, there)} Its columns are {listed}"


def feature_names(given: Iterable[Any] | None, X: Any, d: int) -> list[str]:
    """Names of d features: those given, else the columns of X, else numbers from 1."""
    columns = getattr(X, "columns", [f"feature {k + 1}" for k in range(d)])
    names = [str(name) for name in (columns if given is None else given)]
    if len(names) != d:
        raise ValueError(f"{len(names)} feature names for {d} features")
    return names


def class_index(label: Any, classes: Iterable[Any], default: int) -> int:
    """The place of a label among the classes; ``default`` for None."""
    known = list(classes)
    if label is not None and label not in known:
        raise ValueError(f"label {label!r} is not among the classes {known}")
    return default if label is None else known.index(label)


def optional(module: str, purpose: str, extra: str) -> Any:
    """Import a module of an optional package; the error says what it is for, and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {package}: pip install 'gpclass[{extra}]'") from error
