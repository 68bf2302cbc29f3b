"""How the columns of a table become numbers: learned from some rows, applied unchanged to others.

Numbers are standardised, (x − mean)/sd, coordinates of a place with a common sd; words and truth values become one
column per category, 1 or 0. A missing value is an error, or becomes the median or the most common category. An absent
column or an unseen category is an error.

Cost: O(rows × columns). Fails when: a column has more than ``MAX_CATEGORIES`` categories (an identifier), or words that
look like numbers or dates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.names import did_you_mean

MAX_CATEGORIES = 50
MAX_CODES = 20  # distinct numbers that may still be names of categories
FEW = 3  # distinct numbers with one unit that are no names any more
DROP_CURE = "--drop-missing, or frame.dropna()"
NAMES_CURE = "say that they are names (--categories {0}, or frame[{0!r}].astype('category'))"
QUANTITY = re.compile(r"[<>~$€£¥\s]*[+-]?[.,]?\d[\d.,'’\s]*([eE][+-]?\d+)?\s*(?P<unit>\D{0,8})")
FRACTION = re.compile(r"\d[.,]\d|[%$€£¥]")  # no code has these
MOMENT = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2}([T ].*)?)?|\d{1,2}[-/. ](\d{1,2}|[^\W\d]{3,9})[-/. ]\d{2,4}([T ].*)?"
    r"|\d{1,2}:\d\d(:\d\d.*)?"
)


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, entered as (x − centre)/scale."""

    name: str
    centre: float
    scale: float
    median: float  # position of the column on a map

    def encode(self, column: Any) -> Array:
        """The standardised column, (m, 1)."""
        try:
            values = column.astype(float).to_numpy()
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {self.name!r} held numbers when the model was fitted; now it does not: {error}"
            ) from error
        if not np.all(np.isfinite(values)):
            raise ValueError(f"column {self.name!r} holds {np.sum(~np.isfinite(values))} infinite values")
        return np.asarray((values - self.centre) / self.scale)[:, None]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name,)

    @property
    def usual(self) -> float:
        """The value that stands for an unknown one."""
        return self.median


@dataclass(frozen=True)
class CategoryColumn:
    """A column of words, entered as one column of 0 and 1 per category."""

    name: str
    categories: tuple[str, ...]
    most_common: str

    def encode(self, column: Any) -> Array:
        """Indicators, (m, number of categories)."""
        words = column.astype(str).to_numpy()
        strange = sorted(set(words) - set(self.categories))
        if strange:
            raise ValueError(
                f"column {self.name!r} holds {len(strange)} categories that the model has not seen: {_some(strange)}; "
                f"it knows {', '.join(map(repr, self.categories))}"
            )
        return np.column_stack([(words == category).astype(float) for category in self.categories])

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    @property
    def usual(self) -> str:
        """The category that stands for an unknown one."""
        return self.most_common


@dataclass(frozen=True)
class Encoding:
    """The mapping from a frame to a matrix."""

    columns: tuple[NumberColumn | CategoryColumn, ...]
    impute: bool = False  # missing values become the median or the most common category

    @classmethod
    def learn(
        cls,
        frame: Any,
        *,
        standardize: bool = True,
        impute: bool = False,
        categories: Mapping[str, Sequence[Any]] | None = None,
        spatial: Sequence[str] | None = None,
    ) -> Encoding:
        """The encoding of a frame, without missing values unless they are imputed; see :class:`TableClassifier`."""
        if 0 in frame.shape:
            raise ValueError(f"the data have no {'feature columns' if frame.shape[1] == 0 else 'rows'}")
        if not impute:
            check_missing(frame, list(frame.columns))
        columns = ColumnSummary.of(frame.columns, categories)
        for column, (_, values) in zip(columns, frame.items(), strict=True):
            column.add(values.dropna(), len(frame))
        return cls.of(columns, standardize, impute, spatial)

    @classmethod
    def of(
        cls, columns: Iterable[ColumnSummary], standardize: bool, impute: bool, spatial: Sequence[str] | None
    ) -> Encoding:
        """The encoding that summaries of the columns give; ``spatial`` columns get one scale, so that angles stay."""
        found = {column.name: column.result(standardize) for column in columns}
        together = {name: found.get(name) for name in spatial or ()}
        for name, column in together.items():
            if not isinstance(column, NumberColumn):
                what = "no feature column" if column is None else "no column of numbers"
                raise ValueError(f"spatial names {name!r}, which is {what}{did_you_mean(name, found)}")
        if together and standardize:
            numbers = [column for column in together.values() if isinstance(column, NumberColumn)]
            scale = float(np.sqrt(np.mean([column.scale**2 for column in numbers])))
            found.update({column.name: replace(column, scale=scale) for column in numbers})
        return cls(tuple(found.values()), impute)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that a frame must have."""
        return tuple(column.name for column in self.columns)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the matrix."""
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The categories of each column that has any."""
        return {column.name: column.categories for column in self.columns if isinstance(column, CategoryColumn)}

    def encode(self, frame: Any) -> Array:
        """The matrix (m, D) of a frame; further columns of the frame are ignored."""
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            listed = ", ".join(map(repr, missing))
            raise ValueError(
                f"the data lack the columns {listed}{did_you_mean(missing[0], frame.columns)} Name them as in the data "
                "that the model was fitted to"
            )
        if not self.impute:
            check_missing(frame, list(self.names))
        return np.hstack([column.encode(_filled(frame[column.name], column.usual)) for column in self.columns])


@dataclass
class ColumnSummary:
    """Statistics of a column over the rows seen so far, by Chan's update, which is numerically stable.

    Reference: Chan, Golub & LeVeque (1983), Algorithms for computing the sample variance.
    """

    name: str
    declared: tuple[str, ...] = ()  # the categories, if they are given
    count: int = 0
    mean: float = 0.0
    square: float = 0.0  # Σ (x − mean)²
    low: float = np.inf
    high: float = -np.inf
    some: list[Array] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    names: bool = False  # whether the words are known to be names of categories

    @classmethod
    def of(cls, names: Sequence[Any], categories: Mapping[str, Sequence[Any]] | None) -> list[ColumnSummary]:
        """Empty summaries of the named columns; ``categories`` of some of them."""
        given = categories or {}
        unknown = [name for name in given if name not in list(names)]
        if unknown:
            raise ValueError(f"categories are given for {unknown[0]!r}, which is no feature column")
        return [cls(str(name), tuple(map(str, given.get(name, ())))) for name in names]

    def add(self, column: Any, keep: int) -> None:
        """Add rows without missing values, about ``keep`` of them to the median."""
        import pandas as pd
        from pandas.api import types

        if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
            raise ValueError(
                f"column {self.name!r} holds dates: make numbers of them, such as days since a start, first"
            )
        if len(column) == 0:
            return
        number = types.is_numeric_dtype(column) and not types.is_bool_dtype(column) and not self.declared
        if self.words if number else self.count:
            raise ValueError(f"column {self.name!r} holds numbers in one file and text in another")
        if number:
            self._add_numbers(column.to_numpy(dtype=float), keep)
            return
        self.names = bool(self.declared) or isinstance(column.dtype, pd.CategoricalDtype)
        counts = column.astype(str).value_counts()
        self.words.update(counts[counts > 0].to_dict())
        if len(self.words) > MAX_CATEGORIES:
            self._check_names()
            raise ValueError(
                f"column {self.name!r} has {len(self.words)} different words in {self.words.total()} rows, more than "
                f"{MAX_CATEGORIES}: an identifier? Exclude it (--exclude {self.name}, or of a folder "
                f"ParquetFolder(path, exclude=[{self.name!r}])), or group its categories"
            )

    def _add_numbers(self, x: Array, keep: int) -> None:
        if not np.isfinite(x).all():
            many = int(np.sum(~np.isfinite(x)))
            raise ValueError(f"column {self.name!r} holds infinite values, {many} of {len(x)}: correct or exclude them")
        k, total = len(x), self.count + len(x)
        gap = float(x.mean()) - self.mean
        self.square += float(np.sum((x - x.mean()) ** 2)) + gap * gap * self.count * k / total
        self.mean += gap * k / total
        self.count = total
        self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
        self.some.append(x[:: max(1, -(-k // max(keep, 1)))])

    def result(self, standardize: bool) -> NumberColumn | CategoryColumn:
        """The column's encoding."""
        if self.words:
            self._check_names()
            known = tuple(sorted(self.declared or self.words))
            column = CategoryColumn(self.name, known, self.words.most_common(1)[0][0])
            if not set(self.words) <= set(known):
                strange = sorted(set(self.words) - set(known))
                raise ValueError(f"column {self.name!r} holds {_some(strange)}, not among its given categories")
            return column
        if not self.count:
            raise ValueError(f"column {self.name!r} holds no value at all: exclude it (--exclude {self.name})")
        spread = float(np.sqrt(self.square / self.count))
        # Values that differ by rounding alone are constant, and so is a column of one value, whose mean is rounded.
        constant = self.high - self.low <= 8 * np.finfo(float).eps * max(abs(self.low), abs(self.high))
        scale = 1.0 if constant or not standardize else spread
        centre = self.mean if standardize else 0.0
        return NumberColumn(self.name, centre, scale, float(np.median(np.concatenate(self.some))))

    def _check_names(self) -> None:
        """Reject words that are dates, or numbers that were not read as such."""
        if self.names:
            return
        total, cure = self.words.total(), NAMES_CURE.format(self.name)
        dates = [word for word in self.words if MOMENT.fullmatch(word)]
        if sum(self.words[word] for word in dates) > 0.5 * total:
            raise ValueError(
                f"column {self.name!r} holds dates or times ({_some(dates, 3)}): make numbers of them, such as days "
                f"since a start, exclude it (--exclude {self.name}), or {cure}"
            )
        units = {word: found["unit"].strip() for word in self.words if (found := QUANTITY.fullmatch(word))}
        common = max(units.values(), key=list(units.values()).count, default="")
        alike = [word for word, unit in units.items() if unit in ("", common)]
        share = sum(self.words[word] for word in alike)
        one_unit = len(alike) >= FEW and common != "" and all(units[word] == common for word in alike)
        if share <= 0.5 * total or not (len(alike) > MAX_CODES or one_unit or any(map(FRACTION.search, alike))):
            return
        strange = [word for word in self.words if word not in alike]
        if strange:
            raise ValueError(
                f"column {self.name!r} holds numbers, but {total - share} of its {total} values are words "
                f"({_some(strange)}): correct them, leave their cells empty, or {cure}"
            )
        raise ValueError(
            f"column {self.name!r} looks like numbers but was not read as such ({_some(alike, 3)}): make numbers of "
            f"them (--decimal sets the decimal sign), exclude it (--exclude {self.name}), or {cure}"
        )


def _filled(column: Any, value: Any) -> Any:
    """A column with a value in place of missing ones."""
    known = column.notna()
    return column if known.all() else column.astype(object).where(known, value)


def _some(words: Sequence[str], most: int = 5) -> str:
    return ", ".join(map(repr, words[:most])) + (", ..." if len(words) > most else "")


def missing_counts(frame: Any, names: Sequence[Any]) -> dict[Any, int]:
    """The number of missing values in each of the named columns that has any."""
    count = {name: int(frame[name].isna().sum()) for name in names}
    return {name: k for name, k in count.items() if k}


def check_missing(frame: Any, names: Sequence[Any], cure: str = DROP_CURE) -> None:
    """Reject missing values, with their number in each column; ``cure`` explains how to exclude their rows."""
    found = missing_counts(frame, names)
    if found:
        rows = int(frame[list(found)].isna().any(axis=1).sum())
        each = ", ".join(f"{name} {k}" for name, k in found.items())
        total = sum(found.values())
        raise ValueError(
            f"{total} value{'s are' if total > 1 else ' is'} missing in {rows} of {len(frame)} rows ({each}); fill "
            f"them in (--impute median, or TableClassifier(impute='median')), or exclude these rows ({cure})"
        )
