"""Errors of the command line, and the exit codes."""

from __future__ import annotations

import typer

OK, FAILED, MISTAKE, NOT_CONVERGED = 0, 1, 2, 3


class Mistake(Exception):
    """An error that the user can fix; shown without a traceback."""


def check_converged(*converged: bool) -> None:
    """End with the exit code that tells of fits that did not converge."""
    if not all(converged):
        raise typer.Exit(NOT_CONVERGED)
