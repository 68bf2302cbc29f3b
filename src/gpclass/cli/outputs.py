"""Files that commands write: what may stand there is settled before the work, and tables are what their names say.

A command never writes over what it reads, and over another existing file only with ``--force``.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpclass.cli.errors import Mistake
from gpclass.numerics.files import check_writable, replacing

PARQUET = (".parquet", ".pq", ".parq")
TEXT = (".csv", ".tsv", ".txt", ".dat", "")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # beginnings of cells that a spreadsheet would compute


def endings(path: Path) -> tuple[str, bool]:
    """The ending that says what a file is, in lower case, and whether it is compressed by gzip."""
    name = path.name.lower()
    packed = name.endswith(".gz")
    return Path(name.removesuffix(".gz")).suffix, packed


def check_output(path: Path | None, inputs: Iterable[Path], force: bool, *, table: bool = False) -> None:
    """Raise unless a file may be written, and can be; ``table`` if its ending has to name a format of tables."""
    if path is None:
        return
    if table and endings(path)[0] not in (*PARQUET, *TEXT):
        raise Mistake(f"{path} ends in {path.suffix}: a table can be written as .csv, .tsv or .parquet, also with .gz")
    check_writable(path)
    if not path.exists():
        return
    for one in inputs:
        if one.exists() and (path.samefile(one) or path.resolve().is_relative_to(one.resolve())):
            raise Mistake(f"{path} is read by this command and would be replaced: choose another --out")
    if not force:
        raise Mistake(f"{path} exists: choose another --out, or replace it with --force")


def write_table(frame: Any, path: Path, *, escape: bool = False) -> None:
    """Write a frame in the format that the name says; ``escape`` as in :func:`as_text`."""
    ending, packed = endings(path)
    with (
        replacing(path) as draft,
        draft.open("wb") as raw,
        gzip.GzipFile(path.stem, "wb", fileobj=raw) if packed else raw as file,
    ):
        if ending in PARQUET:
            frame.to_parquet(file, index=False)
        else:
            file.write(as_text(frame, "\t" if ending == ".tsv" else ",", escape=escape).encode())


def as_text(frame: Any, separator: str = ",", *, escape: bool = False) -> str:
    """A frame as CSV; ``escape`` puts an apostrophe before texts that a spreadsheet would take as formulas."""
    if escape:
        frame = frame.rename(columns=_escaped)
        words = frame.select_dtypes(exclude=["number", "bool"]).columns
        frame = frame.assign(**{name: frame[name].map(_escaped) for name in words})
    return str(frame.to_csv(index=False, sep=separator))


def _escaped(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
