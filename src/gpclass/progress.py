"""A progress bar that is silent unless asked for.

A thin wrapper on tqdm: ``verbose=0`` costs nothing and prints nothing; otherwise one line on standard
error with the share done, the time left and, for chains, the acceptance rate. Standard output stays free
for results, so that a command can be piped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar

T = TypeVar("T")


class Progress:
    """One bar. Use :func:`progress`, which closes it; ``update`` is a no-op when the bar is silent."""

    def __init__(self, total: int | None, label: str, verbose: int, stream: TextIO | None = None) -> None:
        self._bar: Any = None
        self._tried = 0
        self._accepted = 0
        if verbose > 0:
            from tqdm import tqdm  # only when a bar is wanted: importing it costs more than a short fit

            self._bar = tqdm(
                total=total,
                desc=label,
                file=stream if stream is not None else sys.stderr,
                leave=verbose > 1,
                dynamic_ncols=True,
            )

    @property
    def acceptance(self) -> float | None:
        """Share of proposals accepted so far; None before the first."""
        return self._accepted / self._tried if self._tried else None

    def update(self, steps: int = 1, *, accepted: bool | int | None = None, **figures: Any) -> None:
        """Move on by ``steps``; ``accepted`` counts accepted proposals among them, ``figures`` are shown."""
        if accepted is not None:
            self._tried += steps
            self._accepted += int(accepted)
        if self._bar is None:
            return
        shown = {
            name: f"{value:.4g}" if isinstance(value, float) else value for name, value in figures.items()
        }
        if self.acceptance is not None:
            shown = {"accepted": f"{100 * self.acceptance:.0f}%", **shown}
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(steps)

    def more(self, steps: int) -> None:
        """There is more to do than was known."""
        if self._bar is not None and self._bar.total is not None:
            self._bar.total += steps
            self._bar.refresh()

    def doing(self, what: str) -> None:
        """Say what is being done now."""
        if self._bar is not None:
            self._bar.set_description(what)

    def close(self) -> None:
        """Finish the line."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress(
    total: int | None = None, label: str = "", *, verbose: int = 0, stream: TextIO | None = None
) -> Iterator[Progress]:
    """Open a bar of ``total`` steps and close it whatever happens.

    Parameters
    ----------
    total : int, optional
        Number of steps; None when it is not known (no time left is shown then).
    label : str
        What is being done.
    verbose : int
        0: nothing. 1: a bar that is cleared at the end. 2: a bar that stays.
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
    bar = Progress(total, label, verbose, stream)
    try:
        yield bar
    finally:
        bar.close()


def track(items: Iterable[T], label: str = "", *, total: int | None = None, verbose: int = 0) -> Iterator[T]:
    """Yield from ``items`` and move a bar along."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(total, label, verbose=verbose) as bar:
        for item in items:
            yield item
            bar.update()
