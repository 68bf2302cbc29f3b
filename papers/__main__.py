"""``python -m papers [--quick | --full] [--write]``: every experiment of every paper."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from papers.common import Section
from papers.run import Paper, parser_for, run


def papers() -> list[Paper]:
    """All papers, by name."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/__main__.py"))
    return [import_module(f"papers.{name}.__main__").PAPER for name in folders]


def main(argv: Sequence[str] | None = None, **places: Any) -> list[Section]:
    """The command line."""
    given = parser_for("python -m papers", "The papers' experiments").parse_args(argv)
    return run([(paper, name) for paper in papers() for name in paper.experiments], given, **places)


if __name__ == "__main__":
    main()
