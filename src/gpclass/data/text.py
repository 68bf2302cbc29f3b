"""Tables in text files: separator, decimal sign and encoding are seen in the file unless they are given.

Every cell is read as text, and a column becomes numbers only if each of its cells is one: with the decimal sign of the
file and its thousands separated by the other sign, a blank or an apostrophe, or else with the other decimal sign
throughout. Labels and names are kept as they are spelled (:func:`labels_from`), so that "01" and "1" stay apart.

Where the decimal sign remains unknown, as of "1,234" alone, the column stays text, for whoever uses it to refuse.

Cost: the file in memory as text. Fails when: rows have more cells than the header, the first line holds numbers, or a
column has no name.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

SEPARATORS = (",", ";", "\t", "|")
BLANKS = r"\s+"  # separator of tables in columns of fixed width
SAMPLE = 200  # lines in which separator and decimal sign are seen
MISSING = ("NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan")
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
FALLBACK = "cp1252"  # what spreadsheets in Western Europe and America write
TRUTHS = ({"True", "False"}, {"TRUE", "FALSE"}, {"true", "false"})
WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)(\.0*)?")


@dataclass(frozen=True)
class TextFormat:
    """How a text file spells a table; what is empty is seen in the file.

    Parameters
    ----------
    separator : str
        Between cells: a character.
    decimal : {"", ".", ","}
    encoding : str
        As Python names it, such as utf-8 or cp1252.
    missing : words that stand for a missing value in every column, default=None
        Empty cells do always. None: ``MISSING``, but not in a column of words that is read as text: a class may have
        the name None.
    """

    separator: str = ""
    decimal: str = ""
    encoding: str = ""
    missing: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.decimal not in ("", ".", ","):
            raise ValueError(f"the decimal sign must be . or , and not {self.decimal!r}")
        if self.decimal and self.decimal == self.separator:
            raise ValueError(f"{self.decimal!r} cannot be both the separator and the decimal sign")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ValueError(f"unknown encoding {self.encoding!r}; utf-8, cp1252 and utf-16 are known ones") from None


SEEN = TextFormat()  # everything is seen in the file


def read_text(data: bytes, form: TextFormat = SEEN, text: Iterable[str] = (), label: str = "") -> Any:
    """A data frame from the contents of a file.

    The columns named in ``text`` stay as they are spelled; that of the labels is read by :func:`labels_from`.
    """
    content = _decoded(data, form.encoding)
    separator = form.separator or _separator([line for line in islice(io.StringIO(content), SAMPLE) if line.strip()])
    sample = _cells(content, separator, header=None, nrows=SAMPLE, dtype=str)
    names = _column_names(sample.iloc[0])
    decimal = form.decimal or _decimal(sample.iloc[1:], separator)
    empty = ["", *(form.missing or ())]
    kept = {"", *text, label}  # a column without a name is looked at before it is left out
    frame = _cells(
        content,
        separator,
        header=0,
        names=range(len(names)),
        index_col=False,
        dtype={k: str for k, name in enumerate(names) if name in kept},
        na_values={
            k: empty if name in kept or form.missing is not None else [*empty, *MISSING] for k, name in enumerate(names)
        },
        decimal=decimal or ".",
        low_memory=False,
    )
    frame = _without_nameless(frame, names)
    for name in frame.columns:
        column = frame[name]
        if name in kept:
            if form.missing is None and not _has_names(column):
                column = column.mask(column.isin(MISSING))
            frame[name] = labels_from(column) if name == label else column
        elif column.dtype.kind not in "biuf":
            frame[name] = typed(column, decimal)
    return frame


def _cells(content: str, separator: str, **settings: Any) -> Any:
    """What pandas reads from a text; no cell is left out."""
    import pandas as pd

    common: Any = {"sep": separator, "keep_default_na": False, "skipinitialspace": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # of rows that are longer than the first line
        try:
            return pd.read_csv(io.StringIO(content), **common, **settings)
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            said = re.sub(r".*C error: |Length of header.*", "", str(error)).strip()
            raise ValueError(
                f"rows have more cells than the first line ({said + ', ' * bool(said)}separator {separator!r}; --sep "
                "sets another)"
            ) from error


def typed(column: Any, decimal: str = ".") -> Any:
    """A column of texts as numbers or truth values if all of them are; an undecided decimal sign is empty."""
    import pandas as pd

    words = column.dropna().astype(str)
    if len(words) == 0:
        return column.astype(float)
    if {word.lower() for word in words.head(SAMPLE)} <= {"true", "false"}:
        lower = words.str.lower()
        if lower.isin(["true", "false"]).all():
            return (lower == "true").reindex(column.index)
    number = pd.to_numeric(words, errors="coerce") if decimal != "," else None
    if number is None or number.isna().any():
        number = _spelled(words, decimal)
    return column if number is None else number.reindex(column.index)


def labels_from(column: Any) -> Any:
    """Labels that were read as text: numbers if every one is a whole number in its usual form, else as spelled."""
    words = column.dropna()
    distinct = words.unique().tolist()
    if distinct and all(map(WHOLE.fullmatch, distinct)):
        numbers = {word: float(word) if "." in word else int(word) for word in distinct}
        if len(set(numbers.values())) == len(distinct):
            return words.map(numbers).astype(object).reindex(column.index)
    return typed(column) if any(set(distinct) <= both for both in TRUTHS) else column


def is_number(word: str) -> bool:
    """Whether a text is a number with any decimal sign."""
    return any(_pattern(decimal).fullmatch(word) for decimal in ".,")


# ---- what is seen in the file ----------------------------------------------------------------------------------------


def _decoded(data: bytes, encoding: str) -> str:
    found = encoding or next((name for mark, name in MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        return data.decode(found)
    except UnicodeDecodeError as error:
        if encoding:
            raise ValueError(f"it is not text in {encoding} ({error.reason})") from error
        try:
            content = data.decode(FALLBACK)
        except UnicodeDecodeError:
            raise ValueError(f"it is not text in UTF-8 ({error.reason}); set its --encoding") from error
    warnings.warn(f"the file is not in UTF-8: read as {FALLBACK} (--encoding sets another)", stacklevel=3)
    return content


def _separator(lines: Sequence[str]) -> str:
    """The separator that gives most lines as many cells as the first has, and the first more than one."""
    if not lines:
        raise ValueError("it is empty")

    def agreement(separator: str) -> tuple[float, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator, skipinitialspace=True)]
        return counts.count(counts[0]) / len(counts) if counts[0] > 1 else 0.0, counts[0]

    best = max(SEPARATORS, key=agreement)
    if agreement(best)[0] == 0.0:
        counts = {len(line.split()) for line in lines}
        return BLANKS if len(counts) == 1 and counts != {1} else SEPARATORS[0]
    return best


def _column_names(first: Any) -> list[str]:
    """The names in the first line."""
    names = [str(name).strip() for name in first]
    if all(names) and all(map(is_number, names)):
        raise ValueError(f"its first line holds numbers ({', '.join(names[:3])}): write the names of the columns there")
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise ValueError(f"it has duplicate column names: {', '.join(twice)}")
    return names


def _without_nameless(frame: Any, names: Sequence[str]) -> Any:
    """The frame under its names; columns without one are left out if they hold nothing, or number the rows."""
    for k, name in enumerate(names):
        if name or frame[k].isna().all():
            continue
        if k > 0 or not _counts(frame[k]):
            raise ValueError(f"column {k + 1} has no name in the first line")
        warnings.warn("the first column has no name and numbers the rows: it is left out", stacklevel=3)
    keep = [k for k, name in enumerate(names) if name]
    return frame[keep].set_axis([names[k] for k in keep], axis=1)


def _has_names(column: Any) -> bool:
    """Whether a column of texts is other than numbers and usual words for missing values."""
    words = [word for word in column.dropna().unique() if word not in MISSING]
    return not words or not all(map(is_number, words))


def _counts(column: Any) -> bool:
    """Whether a column numbers the rows, from 0 or 1."""
    return any(column.tolist() == [str(k + first) for k in range(len(column))] for first in (0, 1))


def _decimal(sample: Any, separator: str) -> str:
    """The decimal sign of the cells that allow only one; without any, a point beside commas, else undecided."""
    comma = point = 0
    for column in sample:
        for cell in sample[column]:
            as_point, as_comma = (_pattern(sign).fullmatch(cell) is not None for sign in ".,")
            comma += as_comma and not as_point
            point += as_point and not as_comma
    return "," if comma > point else "." if point or separator == "," else ""


def _pattern(decimal: str) -> re.Pattern[str]:
    """Numbers with this decimal sign, thousands separated by one sign throughout."""
    return POINT if decimal == "." else COMMA


def _number(decimal: str, thousands: str) -> re.Pattern[str]:
    whole = rf"(\d+|[1-9]\d{{0,2}}(?P<between>[{thousands} \u00a0\u202f'’])\d{{3}}((?P=between)\d{{3}})*)"
    return re.compile(rf"\s*[+-]?({whole}({decimal}\d*)?|{decimal}\d+)([eE][+-]?\d+)?\s*")


POINT, COMMA = _number(r"\.", ","), _number(",", r"\.")


def _spelled(words: Any, decimal: str) -> Any:
    """A column of texts as numbers, with this decimal sign or else the other; None if they are none, or ambiguous."""
    distinct = words.unique().tolist()
    fits = [sign for sign in (".", ",") if all(_pattern(sign).fullmatch(word) for word in distinct)]
    if not fits:
        return None
    if len(fits) == 2 and not decimal and any("," in word for word in distinct):
        return None
    sign = decimal if decimal in fits else fits[0]
    drop = str.maketrans("", "", ("," if sign == "." else ".") + " \u00a0\u202f'’")
    number = {word: float(word.translate(drop).replace(",", ".")) for word in distinct}
    return words.map(number)
