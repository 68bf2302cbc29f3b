"""Rows of a table that a run with ``--minutes`` has not reached: their names, and the hours that they take."""

from __future__ import annotations


class Later:
    """Rows that are not measured yet; ``what`` is repeated in a row."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.rows: list[tuple[str, str, int, int]] = []
        self.per_draw: dict[tuple[str, str], float] = {}  # CPU seconds, of the row with the most draws

    def add(self, case: str, method: str, draws: int, repeats: int) -> None:
        """A row that is left for a later run."""
        self.rows.append((case, method, draws, repeats))

    def took(self, case: str, method: str, draws: int, seconds: float) -> None:
        """CPU seconds of one repeat of a row; rows come in the order of their draws."""
        self.per_draw[case, method] = seconds / draws

    def note(self) -> tuple[str, ...]:
        """Which rows are left, and how long they take in proportion to their draws; empty if none is."""
        if not self.rows:
            return ()
        names = ", ".join(f"{case} {method} {draws:,}" for case, method, draws, _ in self.rows)
        known = [(self.per_draw.get(row[:2]), row) for row in self.rows]
        hours = sum(each * row[2] * row[3] for each, row in known if each is not None) / 3600.0
        unknown = sum(each is None for each, _ in known)
        rest = f", not counting {unknown} without a shorter row" if unknown else ""
        return (
            f"Not measured yet with all {self.what}, and so not shown: {names}. By the times of the rows with fewer "
            f"draws they take about {hours:.1f} hours of one processor{rest}.",
        )
