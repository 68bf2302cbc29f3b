"""Errors of the command line, and the exit codes."""

from __future__ import annotations

OK, FAILED, MISTAKE, NOT_CONVERGED = 0, 1, 2, 3


class Mistake(Exception):
    """An error that the user can fix; shown without a traceback."""
