"""A folder of Parquet files as data: rows read by shards, labels read once, columns checked per file.

A shard consists of row groups with at most ``SHARD_ROWS`` rows in total. A larger row group is split, and its beginning
is then decoded again for each part, so row groups of about ten thousand rows are best. Files are read in the order of
their names. Column types are taken from the files' footers, so an unsuitable file raises an error before any row is
read.
Fails when: files differ in their columns, values are missing, or a feature column holds text
(:class:`gpclass.estimators.tables.TableClassifier` encodes it).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpclass._typing import Array
from gpclass.data.columns import Encoding
from gpclass.data.sources import Found, Labels, checked, gathered
from gpclass.model.rows import SHARD_ROWS
from gpclass.names import did_you_mean, no_column, optional

ENDINGS = (".parquet", ".pq", ".parq")
# Remedies for the command line and for Python.
MISSING_CURE = "--drop-missing, or drop_missing=True"
SAME_CURE = (
    "write all files with the same columns, or list those to use "
    "(--features A,B, or ParquetFolder(path, features=['A', 'B']))"
)
EXCLUDE_CURE = "--exclude A,B, or ParquetFolder(path, exclude=['A', 'B'])"


@dataclass(frozen=True)
class ParquetFolder:
    """A folder of Parquet files, or one file, and its feature columns.

    Parameters
    ----------
    path : path
    features : names of the columns to use, default=None
        None: all but the target, the weights, those in ``exclude`` and the index columns written by pandas.
    exclude : names of columns to exclude
    encoding : Encoding, default=None
        How to convert a frame of the columns to numbers; None: they are numeric.
    drop_missing : bool, default=False
        Drop rows with a missing feature, label or weight; otherwise they raise an error. Features that the encoding
        imputes are not missing.
    """

    path: str | PathLike[str]
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    encoding: Encoding | None = None
    drop_missing: bool = False

    def files(self) -> list[Path]:
        """The files, sorted by name."""
        return parquet_files(self.path)


def arrow() -> Any:
    """PyArrow's Parquet module."""
    return optional("pyarrow.parquet", "reading Parquet", "dask")


def parquet_file(file: str | PathLike[str]) -> Any:
    """A Parquet file, whose page checksums, where it has any, are verified as it is read."""
    return arrow().ParquetFile(file, page_checksum_verification=True)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Prefix errors with the file's name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """A Parquet file; the error of an unreadable one says what to do."""
    try:
        with parquet_file(file) as found:
            yield found
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise ValueError(f"{file} cannot be read as Parquet ({error}); write it again") from error


def batches(file: Path, rows: int, columns: Sequence[str] | None) -> Iterator[Any]:
    """Batches of so many rows of a file, some of its columns or all."""
    with opened(file) as found:
        yield from found.iter_batches(rows, columns=columns)


def parquet_files(path: str | PathLike[str]) -> list[Path]:
    """The Parquet files of a folder, sorted by name; a single file is a folder of one."""
    place = Path(path).absolute()
    if not place.exists():
        siblings = [p.name for p in place.parent.iterdir()] if place.parent.is_dir() else []
        raise ValueError(f"folder {place} not found{did_you_mean(place.name, siblings, '')}")
    if place.is_file():
        return [place]
    found, others = _walked(place)
    if others:
        listed = ", ".join(str(p.relative_to(place)) for p in others[:3]) + (", ..." if len(others) > 3 else "")
        warnings.warn(
            f"{place}: {len(others)} of its files are not read, since they do not end in {' or '.join(ENDINGS)} or "
            f"begin with an underscore ({listed})",
            stacklevel=3,
        )
    if not found:
        raise ValueError(f"{place} contains no Parquet file (ending {' or '.join(ENDINGS)})")
    keyed = next((p for p in found if any("=" in part for part in p.relative_to(place).parts[:-1])), None)
    if keyed is not None:
        raise ValueError(
            f"{keyed.relative_to(place)} lies in a partition folder, which is not supported; write "
            "the folder without partitions, with that column in the files"
        )
    return found


def _walked(place: Path) -> tuple[list[Path], list[Path]]:
    """The Parquet files below a folder and its other files, both sorted; hidden ones and writers' marks are neither.

    Links to folders are followed. A link to nothing and a file compressed as a whole raise: their rows would be missed.
    """
    found: list[Path] = []
    others: list[Path] = []
    seen: set[Path] = set()
    for folder, below, files in os.walk(place, followlinks=True):
        here = Path(folder)
        if (real := here.resolve()) in seen:
            raise ValueError(f"{here} leads to a folder that is read already: remove the link")
        seen.add(real)
        below[:] = [name for name in below if not name.startswith(".")]
        for path in (here / name for name in files if not name.startswith(".")):
            if not path.exists():
                raise ValueError(f"{path} is a link to nothing: restore its file, or remove it")
            if any(path.name.lower().endswith(ending + ".gz") for ending in ENDINGS):
                raise ValueError(f"{path} is compressed as a whole and cannot be read by parts: unpack it with gunzip")
            hidden = any(part.startswith("_") for part in path.relative_to(place).parts)
            if path.suffix.lower() in ENDINGS:
                (others if hidden else found).append(path)
            elif not hidden and path.suffix.lower() != ".crc":
                others.append(path)
    return sorted(found), sorted(others)


@dataclass(frozen=True)
class Piece:
    """Rows of one row group of a file."""

    file: str
    group: int
    start: int
    stop: int
    rows: int  # rows used

    def read(self, columns: Sequence[str]) -> Any:
        """An Arrow table of these rows, columns in the given order."""
        import pyarrow as pa

        wanted, found, at = list(columns), [], 0
        try:
            with parquet_file(self.file) as file:
                if self.stop - self.start == file.metadata.row_group(self.group).num_rows:
                    return file.read_row_group(self.group, columns=wanted).select(wanted)
                # in batches, so that the row group is never in memory as a whole
                for batch in file.iter_batches(8192, row_groups=[self.group], columns=wanted):
                    a, b = max(self.start - at, 0), min(self.stop - at, batch.num_rows)
                    if a < b:
                        found.append(batch.slice(a, b - a))
                    at += batch.num_rows
                    if at >= self.stop:
                        break
        except OSError as error:
            raise ValueError(
                f"{self.file} cannot be read ({error}); the files must not change during a fit, and must be "
                "readable by all workers under this name"
            ) from error
        return pa.Table.from_batches(found).select(wanted)


@dataclass(frozen=True)
class ParquetRows:
    """Features of some pieces of files, read when called."""

    pieces: tuple[Piece, ...]
    columns: tuple[str, ...]
    encoding: Encoding | None = None
    needed: tuple[str, ...] = ()  # columns whose missing values drop a row

    def __call__(self) -> Array:
        found = [self._matrix(piece) for piece in self.pieces]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _matrix(self, piece: Piece) -> Array:
        table = piece.read(tuple(dict.fromkeys([*self.columns, *self.needed])))
        if self.needed:
            table = table.filter(whole_rows(table.select(list(self.needed))))
        table = table.select(list(self.columns))
        try:
            if self.encoding is not None:
                return self.encoding.encode(table.to_pandas(ignore_metadata=True))
            matrix = np.empty((table.num_rows, len(self.columns)))
            for k, column in enumerate(table.columns):
                matrix[:, k] = column.to_numpy()
        except (ValueError, TypeError) as error:  # a boolean column has None for missing values
            cure = f"fill in missing values or drop the rows ({MISSING_CURE})"
            raise ValueError(f"{piece.file}: {error}; {cure}") from error
        name = f"{piece.file}, row group {piece.group}"
        return checked(matrix, name, f"drop rows with missing values ({MISSING_CURE})")


def whole_rows(table: Any) -> Any:
    """Which rows of an Arrow table or batch are complete: neither null nor NaN."""
    from pyarrow import compute, types

    found = np.ones(table.num_rows, dtype=bool)
    for column in table.columns:
        found &= ~np.asarray(compute.is_null(column, nan_is_null=types.is_floating(column.type)))
    return found


def parquet_source(folder: ParquetFolder, y: Any, sample_weight: Any, class_weight: Any) -> Found:
    """Shards of a folder, its classes and the names of its features."""
    if not isinstance(y, str):
        raise ValueError("a Parquet folder needs the name of the column of labels: fit(folder, 'label')")
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise ValueError("for a Parquet folder sample_weight must be the name of a column")
    beside = [y] if sample_weight is None else [y, sample_weight]
    files = folder.files()
    columns = check_columns(folder, files, beside)
    labels, weights = Labels(MISSING_CURE), []
    filled = folder.encoding is not None and folder.encoding.impute
    needed = (*(() if filled else columns), *beside) if folder.drop_missing else ()
    pieces: list[Piece] = []
    for file in files:
        with opened(file) as parquet:
            groups = [parquet.metadata.row_group(g).num_rows for g in range(parquet.num_row_groups)]
            table = parquet.read(beside)
        found = list(_pieces(str(file), groups))
        if folder.drop_missing:
            masks = [whole_rows(piece.read(needed)) for piece in found]
            if masks:
                table = table.filter(np.concatenate(masks))
            found = [replace(piece, rows=int(mask.sum())) for piece, mask in zip(found, masks, strict=True)]
            found = [piece for piece in found if piece.rows]
            if not found:
                continue
        labels.add(_numpy(table.column(y)), str(file))
        if sample_weight is not None:
            weights.append(np.asarray(_numpy(table.column(sample_weight)), dtype=np.float64))
        pieces += found
    parts = [ParquetRows(part, columns, folder.encoding, needed) for part in _packed(pieces)]
    sizes = [sum(piece.rows for piece in part.pieces) for part in parts]
    each = np.concatenate(weights) if weights else None
    # an encoded matrix is addressed by position, as in memory
    names = list(columns) if folder.encoding is None else None
    d = len(columns) if folder.encoding is None else len(folder.encoding.outputs)
    return gathered(parts, sizes, labels, each, class_weight, d, names)


def check_columns(
    folder: ParquetFolder, files: Sequence[Path], beside: Sequence[str], *, numbers: bool = True
) -> tuple[str, ...]:
    """Names of the feature columns, which every file must have, numeric if required."""
    schemas = []
    for file in files:
        with opened(file) as found:
            schemas.append(found.schema_arrow)
    first = [str(name) for name in schemas[0].names]
    for name in (*beside, *folder.exclude, *(folder.features or ())):
        if name not in first:
            raise ValueError(no_column(files[0], name, first))
    given = folder.features if folder.encoding is None else folder.encoding.names
    columns = tuple(without_index(schemas[0]) if given is None else given)
    columns = tuple(name for name in columns if name not in folder.exclude and name not in beside)
    if not columns:
        raise ValueError(f"{files[0]} has no feature columns besides {', '.join(beside)}")
    wanted = {*(without_index(schemas[0]) if given is None else columns), *beside}
    for file, schema in zip(files, schemas, strict=True):
        names = {*without_index(schema), *beside} & set(schema.names) if given is None else set(schema.names)
        if not wanted <= names or (given is None and names != wanted):
            lacks, more = sorted(wanted - names), sorted(names - wanted) if given is None else []
            said = [f"lacks {', '.join(map(repr, lacks))}"] if lacks else []
            said += [f"has {', '.join(map(repr, more))} in addition"] if more else []
            raise ValueError(
                f"{file} does not have the columns of {files[0].name}: it {' and '.join(said)}; "
                + ("write all files with these columns" if given is not None else SAME_CURE)
            )
        if numbers and folder.encoding is None:
            _check_types(file, schema, columns, nulls=folder.drop_missing)
    return columns


def without_index(schema: Any) -> list[str]:
    """The columns without the index of a pandas frame: row numbers are not features."""
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [str(name) for name in schema.names if name not in index]


def _check_types(file: Path, schema: Any, columns: Sequence[str], *, nulls: bool) -> None:
    """Raise for non-numeric feature columns; ``nulls`` allows columns whose values are all missing."""
    from pyarrow import types

    for name in columns:
        kind = schema.field(name).type
        if nulls and types.is_null(kind):
            continue
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(
                f"{file}: column {name!r} holds {kind}, not numbers; exclude it "
                f"(ParquetFolder(path, exclude=[{name!r}])), or fit a TableClassifier, which encodes text"
            )


def _numpy(column: Any) -> npt.NDArray[Any]:
    """A column as a NumPy array; text as objects, so that missing values stay None."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count and not types.is_floating(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_numpy())


def _pieces(file: str, groups: Sequence[int]) -> Iterator[Piece]:
    """Row groups, split where they are longer than a shard."""
    for group, rows in enumerate(groups):
        cuts = max(1, -(-rows // SHARD_ROWS))
        for a, b in pairwise(np.linspace(0, rows, cuts + 1).astype(int)):
            if b > a:
                yield Piece(file, group, int(a), int(b), int(b - a))


def _packed(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Pieces in order, combined into shards of at most SHARD_ROWS rows."""
    held: list[Piece] = []
    rows = 0
    for piece in pieces:
        if held and rows + piece.rows > SHARD_ROWS:
            yield tuple(held)
            held, rows = [], 0
        held.append(piece)
        rows += piece.rows
    if held:
        yield tuple(held)
