"""What a command line says when something is wrong, and the exit codes."""

from __future__ import annotations

OK, FAILED, MISTAKE, NOT_CONVERGED = 0, 1, 2, 3


class Mistake(Exception):
    """Something the user can put right; shown without a traceback."""
