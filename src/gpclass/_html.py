"""Tables for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """A table of text cells, the first of each row its name.

    Examples
    --------
    >>> html_table([("method", "a < b")])
    '<table><tbody><tr><th>method</th><td>a &lt; b</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{escape(str(cell))}</th>" for cell in head)
    lines = (
        f"<tr><th>{escape(str(first))}</th>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if top else ''}<tbody>{''.join(lines)}</tbody></table>"


def columns(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of left-justified columns."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    width = [max(len(line[k]) for line in lines) for k in range(len(head))]
    text = ["  ".join(cell.ljust(w) for cell, w in zip(line, width, strict=True)).rstrip() for line in lines]
    return "\n".join([text[0], "  ".join("-" * w for w in width), *text[1:]])


class Tabular:
    """Printed as a table, in notebooks too: a class gives its head and its rows, of which the first are shown."""

    _MOST = 20  # rows shown

    def _head(self) -> Sequence[str]:
        raise NotImplementedError

    def _rows(self) -> Sequence[Sequence[str]]:
        """At least the rows that are shown."""
        raise NotImplementedError

    def _length(self) -> int:
        """Number of all rows."""
        return len(self._rows())

    def _shown(self) -> Sequence[Sequence[str]]:
        hidden = self._length() - self._MOST
        rest = [[f"... {hidden} more", *[""] * (len(self._head()) - 1)]] if hidden > 0 else []
        return [*self._rows()[: self._MOST], *rest]

    def __repr__(self) -> str:
        return f"{type(self).__name__}\n{columns(self._head(), self._shown())}"

    def _repr_html_(self) -> str:
        return html_table(self._shown(), self._head())
