"""Data sets by name: from a folder, from scikit-learn or another package that ships them, or from OpenML with a cache.

A folder (argument ``folder`` or environment variable ``GPCLASS_DATA``) holds ``NAME.csv`` or ``NAME.csv.gz``: a
header, the label in the last column, ``value_*`` columns for other responses and ``id_*`` columns for identifiers;
neither are used as features. An optional ``manifest.json`` gives the sha256 of each file, which is checked before
reading. A set in the folder is used before any other; then packages that are installed
(:mod:`gpclass.datasets.packages`), then OpenML. Whatever the source, the numbers of a set of the catalogue are compared
with its checksum there.

Fails when: the name is unknown (the error suggests similar ones), the data are not those of the manifest or the
catalogue (a warning for copies on OpenML that are not known to agree), or none of the sources has them
(:class:`DatasetUnavailable`: one line that says what to do).
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gpclass._typing import Array
from gpclass.datasets.catalogue import KNOWN, SHORT, Known, checksum
from gpclass.datasets.packages import READERS
from gpclass.names import did_you_mean, optional

Place: TypeAlias = "str | os.PathLike[str] | None"

FOLDER_VARIABLE = "GPCLASS_DATA"
UNCHECKED = "gpclass datasets: --unchecked"
COORDINATES = (("x", "y"), ("x_km", "y_km"), ("x_m", "y_m"), ("lon", "lat"))


class DatasetUnavailable(OSError):
    """The data are neither stored nor reachable; the message is one line that says what to do."""


@dataclass(frozen=True)
class Dataset:
    """Features, labels and metadata."""

    name: str
    X: Any  # (n, d) DataFrame, or array for simulated data
    y: Any  # (n,)
    feature_names: tuple[str, ...]
    label_names: dict[Any, str] = field(default_factory=dict)  # label to its meaning
    values: Any = None  # (n, k) other responses, or the variable behind the label: never features
    ids: Any = None  # (n, k) identifiers: never features
    coordinates: tuple[str, str] | None = None  # names of the two coordinates
    probability: Array | None = None  # (n, C) true probability of each class, when simulated
    description: str = ""
    licence: str = ""

    @property
    def checksum(self) -> str | None:
        """The digest of features and labels, to compare with another computer's."""
        return checksum(self.X, self.y)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return len(self.y), len(self.feature_names)


@dataclass(frozen=True)
class Available:
    """A name accepted by :func:`load`, and its source."""

    name: str
    source: str  # "folder", "scikit-learn", the name of a package, "OpenML", or "file" if it must be supplied
    n: int | None = None
    d: int | None = None
    classes: int | None = None
    licence: str | None = None
    checksum: str | None = None


def available(folder: Place = None) -> list[Available]:
    """All names accepted by :func:`load`, with the source that would be used."""
    found: dict[str, Available] = {}
    place = _folder(folder)
    if place is not None:
        manifest = _manifest(place)
        for path in sorted([*place.glob("*.csv"), *place.glob("*.csv.gz")]):
            facts = manifest.get(path.name)
            if manifest and facts is None:
                continue  # a grid or a list of splits, without labels
            facts = facts or {}
            name = path.name.removesuffix(".gz").removesuffix(".csv")
            found[name] = Available(name, "folder", facts.get("n"), facts.get("d"), facts.get("classes"))
    for name, known in KNOWN.items():
        row = found.get(name) or Available(name, (*sources(name), "file")[0], known.n, known.d, known.classes)
        found[name] = replace(row, licence=known.licence, checksum=known.checksum)
    return sorted(found.values(), key=lambda row: row.name)


def sources(name: str) -> list[str]:
    """Where a set of the catalogue can be had without a folder, in the order in which they are asked."""
    known = KNOWN[name]
    found = ["scikit-learn"] if known.bundled else []
    found += [READERS[name][0]] if name in READERS else []
    return [*found, "OpenML"] if known.openml is not None else found


def load(name: str, *, folder: Place = None, cache: Place = None, check: bool = True) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of :func:`available`, or ``"openml:NAME"`` or ``"openml:NAME:VERSION"`` for any other OpenML data set.
    folder : path, optional
        Folder of the files; the environment variable ``GPCLASS_DATA`` by default.
    cache : path, optional
        Cache folder for OpenML files; scikit-learn's data folder by default.
    check : bool
        Compare a file with the manifest's sha256, and the numbers, whatever their source, with the catalogue's
        checksum. A difference is an error, or a warning for copies on OpenML that are not known to agree.
    """
    place = _folder(folder)
    path = _file(place, name) if place is not None else None
    known = KNOWN.get(name)
    if path is not None:
        data = _from_folder(name, path, check)
        if check and known is not None:
            _compare(data, known, str(path), "download it again, rename it if it is another data set")
        return data
    if known is not None:
        data = _from_elsewhere(name, known, place, cache)
        if check:
            cure = f"set {FOLDER_VARIABLE} to a folder with the catalogue's {name}.csv"
            remote = known.openml if data.description.startswith("OpenML ") else None
            _compare(data, known, data.description, cure, remote.unseen if remote is not None else "")
        return _with_facts(data, known)
    if name.startswith("openml:"):
        return _from_openml(name, place, cache)
    names = [row.name for row in available(folder)]
    where = f"in {place}" if place is not None else f"anywhere ({FOLDER_VARIABLE} is not set)"
    raise ValueError(
        f"data set {name!r} not found {where}{did_you_mean(name, names)} gpclass.datasets.available() lists the names"
    )


def _folder(folder: Place) -> Path | None:
    given = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not given:
        return None
    place = Path(given)
    if not place.is_dir():
        source = "folder" if folder is not None else f"the environment variable {FOLDER_VARIABLE}"
        raise ValueError(f"{source} is {str(place)!r}, which is not a folder")
    return place


def _file(place: Path, name: str) -> Path | None:
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not a plain name: remove the folder")
    return next((p for p in (place / f"{name}.csv", place / f"{name}.csv.gz") if p.is_file()), None)


def _manifest(place: Path) -> dict[str, Any]:
    path = place / "manifest.json"
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON ({error}); download it again or remove it") from error
    return found if isinstance(found, dict) else {}


def _pandas() -> Any:
    return optional("pandas", "reading data files", "data")


def _from_folder(name: str, path: Path, check: bool) -> Dataset:
    facts = _manifest(path.parent).get(path.name, {})
    wanted = facts.get("sha256")
    if check and wanted is not None:
        with path.open("rb") as handle:
            found = hashlib.file_digest(handle, "sha256").hexdigest()
        if found != wanted:
            raise ValueError(
                f"{path} was modified: its sha256 is {found[:12]}…, the manifest says {wanted[:12]}…. "
                f"Download it again, or pass check=False ({UNCHECKED}) to read it as it is"
            )
    frame = _pandas().read_csv(path)
    columns = list(frame.columns)
    if columns[-1] != "label":
        raise ValueError(f"{path} has no label: its last column is {columns[-1]!r}, not 'label'")
    values = [c for c in columns if c.startswith("value_")]
    ids = [c for c in columns if c.startswith("id_")]
    features = [c for c in columns[:-1] if c not in values and c not in ids]
    known = KNOWN.get(name)
    return Dataset(
        name=name,
        X=frame[features],
        y=frame["label"].to_numpy(),
        feature_names=tuple(features),
        label_names={int(k): v for k, v in facts.get("label_map", {}).items()},
        values=frame[values] if values else None,
        ids=frame[ids] if ids else None,
        coordinates=next((pair for pair in COORDINATES if set(pair) <= set(features)), None),
        description=str(facts.get("source", "")),
        licence=known.licence if known is not None else "",
    )


def _with_facts(data: Dataset, known: Known) -> Dataset:
    return replace(data, description=f"{known.origin} ({data.description})", licence=known.licence)


def _compare(data: Dataset, known: Known, copy: str, cure: str, unseen: str = "") -> None:
    """Refuse numbers that are not the catalogue's; warn of an OpenML copy that is not known to agree."""
    found = data.checksum
    if found == known.checksum:
        return
    seen = "are not all numbers" if found is None else f"have the checksum {found[:SHORT]}…"
    text = (
        f"{data.name!r} from {copy} is not the catalogue's: features and labels {seen}, not {known.checksum[:SHORT]}…"
    )
    cures = f"{cure}, or pass check=False ({UNCHECKED}) to use it as it is"
    if unseen:
        warnings.warn(f"{text} ({unseen}): results may not compare. To be sure, {cures}", stacklevel=3)
        return
    raise ValueError(f"{text}. {cures[0].upper()}{cures[1:]}")


def _from_elsewhere(name: str, known: Known, place: Path | None, cache: Place) -> Dataset:
    """From the first source that has it: scikit-learn, an installed package, OpenML."""
    if known.bundled:
        return _from_scikit_learn(name, known.bundled)
    cures = []
    if name in READERS:
        try:
            return _from_package(name)
        except ImportError as error:
            cures.append(str(error).rpartition(": ")[2])
    if known.openml is not None:
        try:
            return _from_openml(name, place, cache)
        except DatasetUnavailable:
            if not cures:
                raise
    cures.append(f"set {FOLDER_VARIABLE} to a folder with {name}.csv")
    origin = "" if name in READERS else f" ({known.origin})"
    raise DatasetUnavailable(f"{name!r} is not available{origin}: {', or '.join(cures)}")


def _from_package(name: str) -> Dataset:
    package, read = READERS[name]
    X, y, label_names, values = read()
    return _table(name, X, y, label_names, f"package {package}", values)


def _table(name: str, X: Any, y: Any, label_names: dict[Any, str], description: str, values: Any = None) -> Dataset:
    names = tuple(str(c) for c in X.columns)
    at = next((pair for pair in COORDINATES if set(pair) <= set(names)), None)
    return Dataset(name, X, np.asarray(y), names, label_names, values, None, at, None, description)


def _from_scikit_learn(name: str, function: str) -> Dataset:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, function)()
    names = tuple(str(f) for f in bunch.feature_names)
    try:
        X: Any = _pandas().DataFrame(bunch.data, columns=list(names))
    except ImportError:
        X = bunch.data
    return Dataset(
        name=name,
        X=X,
        y=bunch.target,
        feature_names=names,
        label_names=dict(enumerate(str(t) for t in bunch.target_names)),
        description=f"scikit-learn's {function}",
    )


def _from_openml(name: str, place: Path | None, cache: Place) -> Dataset:
    from sklearn.datasets import fetch_openml, get_data_home

    _pandas()
    known = KNOWN.get(name)
    if known is not None and known.openml is not None:
        remote, version, positive = known.openml.name, known.openml.version, known.openml.positive
    else:
        parts = name.split(":")
        remote, version, positive = parts[1], int(parts[2]) if len(parts) > 2 else 1, None
    home = None if cache is None else str(cache)
    try:
        bunch = fetch_openml(remote, version=version, as_frame=True, data_home=home)
    except (OSError, ValueError) as error:  # no network, or unknown to OpenML
        kept = get_data_home(home)
        where = f"{FOLDER_VARIABLE} is not set" if place is None else f"the folder {place} does not hold it"
        raise DatasetUnavailable(
            f"{name!r} is not available: {where}, and OpenML did not answer "
            f"({type(error).__name__}: {error}). Either set {FOLDER_VARIABLE} to a folder with {name}.csv, "
            f"or call load once with network access: the file is then cached in {kept}"
        ) from error
    categories = sorted(map(str, set(bunch.target)))
    if positive is not None and len(categories) == 2:
        categories.sort(key=lambda c: c == positive)
    as_they_are = known is not None and positive is None and all(c.isdigit() for c in categories)
    code = {c: int(c) if as_they_are else k for k, c in enumerate(categories)}
    y = np.array([code[str(t)] for t in bunch.target])
    return _table(name, bunch.data, y, {k: c for c, k in code.items()}, f"OpenML {remote}, version {version}")
