"""A progress bar that is silent by default.

A thin wrapper around tqdm: ``verbose=0`` costs nothing and prints nothing; otherwise one line on standard error shows
the fraction done, the remaining time and, for chains, the acceptance rate. Standard output is reserved for results,
so that a command can be piped.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any, TextIO

DELAY = 2.0  # seconds before a bar that is cleared at the end appears


class Progress:
    """One bar. Use :func:`progress`, which closes it; ``update`` does nothing if the bar is silent."""

    def __init__(self, total: int | None, label: str, verbose: int, stream: TextIO | None = None) -> None:
        self._bar: Any = None
        self._tried = 0
        self._accepted = 0
        if verbose > 0:
            from tqdm import tqdm  # on demand: the import takes longer than a short fit

            where = sys.stderr if stream is None else stream
            delay = 0.0 if verbose > 1 else DELAY
            self._bar = tqdm(total=total, desc=label, file=where, leave=verbose > 1, dynamic_ncols=True, delay=delay)

    @property
    def acceptance(self) -> float | None:
        """Fraction of proposals accepted so far; None before the first."""
        return self._accepted / self._tried if self._tried else None

    def update(self, steps: int = 1, *, accepted: bool | int | None = None, **figures: Any) -> None:
        """Advance by ``steps``; ``accepted`` is the number of accepted proposals among them, ``figures`` are shown."""
        if accepted is not None:
            self._tried += steps
            self._accepted += int(accepted)
        if self._bar is None:
            return
        shown = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in figures.items()}
        if self.acceptance is not None:
            shown = {"accepted": f"{100 * self.acceptance:.0f}%", **shown}
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(steps)

    def more(self, steps: int) -> None:
        """Increase the total number of steps."""
        if self._bar is not None and self._bar.total is not None:
            self._bar.total += steps

    def doing(self, what: str) -> None:
        """Set the label of the current step, and show it."""
        if self._bar is not None:
            self._bar.set_description(what, refresh=False)
            self._show()

    def note(self, **figures: Any) -> None:
        """Show figures of a step that is not counted."""
        self.update(0, **figures)
        self._show()

    def _show(self) -> None:
        """Now, if the bar may appear, and not only at the next step."""
        bar = self._bar
        if bar is not None and bar._time() - bar.start_t >= bar.delay:
            bar.refresh()
            bar.last_print_t = bar._time()  # so that it is cleared at the end

    def close(self) -> None:
        """Finish the line."""
        if self._bar is not None:
            self._bar.close()


def progress(
    total: int | None = None, label: str = "", *, verbose: int = 0, stream: TextIO | None = None
) -> closing[Progress]:
    """Open a bar of ``total`` steps and close it in any case.

    Parameters
    ----------
    total : int, optional
        Number of steps; None if unknown (the remaining time is then not shown).
    label : str
        Description of the task.
    verbose : int
        0: nothing. 1: a bar that appears after two seconds and is cleared at the end. 2: a bar that stays.
    stream : file, optional
        Where to write; standard error by default.

    Examples
    --------
    >>> with progress(3, "chain") as bar:
    ...     for _ in range(3):
    ...         bar.update(accepted=True)
    >>> bar.acceptance
    1.0
    """
    return closing(Progress(total, label, verbose, stream))
