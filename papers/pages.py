"""What the papers' pages say, read back: sections, their tables, and the numbers in them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

Row = dict[str, str]


def sections(page: Path) -> dict[str, str]:
    """Name to text of the experiments on a paper's page."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return dict(re.findall(r"<!-- (\S+): begin -->\n(.*?)\n<!-- \1: end -->", text, flags=re.DOTALL))


class Tables(list[list[Row]]):
    """The tables of a section, and its heading."""

    heading = ""

    def count(self, words: str) -> float:
        """The number in the heading that ``words``, with a # in its place, has."""
        found = re.search(re.escape(words).replace(r"\#", r"(\d+)"), self.heading)
        if found is None:
            raise MissingRowsError(f"no {words!r} in {self.heading!r}")
        return float(found[1])


def tables(text: str) -> Tables:
    """The tables of a section, row by row; of columns that share a name the first counts."""
    found = Tables()
    found.heading = "".join(re.findall(r"^## (.*)$", text, flags=re.MULTILINE)[:1])
    for block in re.findall(r"(?:^\|.*\|\n?)+", text, flags=re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.strip().split("\n")
        )
        found.append([dict(reversed(list(zip(head, row, strict=True)))) for row in rows])
    return found


def number(cell: str) -> float:
    """A number as the pages print it; NaN for a dash or text."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return float("nan")


class MissingRowsError(ValueError):
    """A table has none of the rows that were asked for: a part of the experiment was run."""


def values(rows: list[Row], column: str, **wanted: str) -> np.ndarray:
    """Numbers of a column, of the rows with these cells, one at least; underscores in names are spaces."""
    keys = {name.replace("_", " "): value for name, value in wanted.items()}
    chosen = [row for row in rows if all(row.get(name) == value for name, value in keys.items())]
    found = np.array([number(row[column]) for row in chosen if column in row])
    if not len(found):
        raise MissingRowsError(f"no {column!r} with {keys}")
    return found


def spread(text: str, column: str) -> str:
    """The values of a column over all tables of a section: the only one, the least and the most, or a few words."""
    cells = [row[column] for table in tables(text) for row in table if column in row and row[column] != "–"]
    distinct = list(dict.fromkeys(cells))
    if not distinct:
        return ""
    by_size = sorted(distinct, key=number)
    if len(distinct) > 2 and not np.isnan(number(by_size[0])):
        distinct = [by_size[0], by_size[-1]]
        return f"{column} {distinct[0]} to {distinct[1]}"
    return f"{column} {', '.join(distinct)}"
