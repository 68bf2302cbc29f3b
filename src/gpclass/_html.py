"""Tables for notebooks."""

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
