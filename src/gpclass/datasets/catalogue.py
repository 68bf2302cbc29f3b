"""What is known of each named data set: size, origin, licence, checksum, and where it can be had.

The checksum is of the numbers, features as float64 and labels as int64, so it is the same whatever file or package
they came from; :func:`gpclass.datasets.load` compares it with what it has read, whatever the source. OpenML's copies
have none: what is known of each is in ``OpenML.unseen``. Licences are those that the sources state; most sets are
decades old, and some state none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpclass.numerics.fingerprint import fingerprint

MASS = "Venables & Ripley, R package MASS"
GPL, UCI = "GPL-2 or GPL-3", "CC BY 4.0 (UCI)"
FREE = "public domain"
SHORT = 12  # digits of a checksum that are shown to people
UNSEEN = "the copy there was not at hand when the checksum was computed"


@dataclass(frozen=True)
class OpenML:
    """The copy of a data set on OpenML."""

    name: str
    version: int = 1
    positive: str | None = None  # the category that becomes label 1; None: labels in order
    unseen: str = UNSEEN  # why it may differ from the catalogue's; empty once the checksum was found to agree


@dataclass(frozen=True)
class Known:
    """One data set."""

    n: int
    d: int
    classes: int
    origin: str
    licence: str
    checksum: str
    bundled: str = ""  # function of sklearn.datasets
    openml: OpenML | None = None


KNOWN: dict[str, Known] = {
    "iris": Known(
        *(150, 4, 3, "Fisher (1936), Anderson's irises", FREE, "5151a00c18b1f084f8fc4d0819c05b79"), bundled="load_iris"
    ),
    "wine": Known(
        *(178, 13, 3, "Forina: wines of three cultivars", UCI, "4afb45e52e70889d5792d4522ac092a2"), bundled="load_wine"
    ),
    "breast_diagnostic": Known(
        *(569, 30, 2, "Wolberg, Street & Mangasarian (1995)", UCI, "fdb836b2e3d2ec9ea0f8095c99af48fd"),
        bundled="load_breast_cancer",
    ),
    "crabs": Known(200, 6, 2, f"Campbell & Mahon (1974); {MASS}", GPL, "8da862cbaf25e9483cadc93d12345a8a"),
    "pima_ripley_train": Known(200, 7, 2, f"Pima.tr; {MASS}", GPL, "9553687dcb67775d6398604d92e8ef95"),
    "pima_ripley_test": Known(332, 7, 2, f"Pima.te; {MASS}", GPL, "20bf0a35cf9da5157fe9b015d65bef32"),
    "pima_uci": Known(
        *(768, 8, 2, "Smith et al. (1988); UCI", "none stated", "d3084a8cba36f77913a6f9c86fb878a0"),
        openml=OpenML("diabetes", positive="tested_positive"),
    ),
    "forensic_glass_fgl": Known(214, 9, 6, f"German (1987), fgl; {MASS}", GPL, "94ba3b7fd9460da7ba502fbf3670109e"),
    "glass_uci": Known(
        *(214, 9, 6, "German (1987); UCI", UCI, "bd4e3a94d668c75d6462968302a545b3"),
        openml=OpenML("glass", unseen="its labels are names, which are numbered in alphabetical order"),
    ),
    "glass_window": Known(214, 9, 2, "German (1987), windows or not", GPL, "4e5e8b5ef0c0f7616f4f43e0b2fa50c6"),
    "breast_wisconsin_699_with_missing": Known(
        *(699, 9, 2, f"Wolberg & Mangasarian (1990), biopsy; {MASS}", GPL, "86bfab2bd6e634f74b8cefbb9e8a3941"),
        openml=OpenML("breast-w", positive="malignant"),
    ),
    "breast_wisconsin_683": Known(
        683, 9, 2, f"biopsy without missing values; {MASS}", GPL, "7a14edcfd95386cb8ce6f46c3edf7462"
    ),
    "breast_wisconsin_449_unique": Known(
        449, 9, 2, f"biopsy, distinct complete rows; {MASS}", GPL, "817d17cb8fc8afb759cf600331e0ad5a"
    ),
    "new_thyroid": Known(
        *(215, 5, 3, "Coomans et al. (1983); UCI", UCI, "32a97c3dbcd75010f0cebdc3ec005cdc"),
        openml=OpenML("thyroid-new"),
    ),
    "banknote": Known(
        *(1372, 4, 2, "Lohweg & Dörksen (2013); UCI", UCI, "330b357b10ee2e1c9cedae4cae7f2f06"),
        openml=OpenML("banknote-authentication", positive="2"),
    ),
    "usps35_train": Known(
        767, 256, 2, "Hull (1994), GPML's split, 3 against 5", "none stated", "65df2ce5d632d9d930d4d10146a66fb7"
    ),
    "usps35_test": Known(
        773, 256, 2, "Hull (1994), GPML's split, 3 against 5", "none stated", "16f2f1582ce9b2075b23d2ddb87f503b"
    ),
    "meuse": Known(155, 7, 2, "van Rijn & Rikken; R package sp", "GPL-3", "c99be01f4499d2805dbf66cd598f055f"),
    "jura_train": Known(
        259, 4, 2, "Goovaerts (1997); R package gstat", "GPL-2 or later", "a139137a92603e05be456870ad0f5144"
    ),
    "jura_test": Known(
        100, 4, 2, "Goovaerts (1997); R package gstat", "GPL-2 or later", "945f395300890c86e47fd5de52f42a75"
    ),
    "walker_sample": Known(
        *(470, 2, 2, "Isaaks & Srivastava (1989); R package gstat", "GPL-2 or later"),
        checksum="3e441ec3a86aa7000963fb3d6b1cdf13",
    ),
    "walker_exhaustive": Known(
        *(78_000, 2, 2, "Isaaks & Srivastava (1989); R package gstat", "GPL-2 or later"),
        checksum="9738ac4aa7181c3e6ff38f0da3b196a6",
    ),
    "ndbc_waves_snapshot": Known(
        243, 2, 2, "NOAA National Data Buoy Center, 27 May 2026", FREE, "0ba7374753900903ec978fb3d389afbe"
    ),
    "magic": Known(
        *(19_020, 10, 2, "Bock (2007); UCI", UCI, "9379eccb1df9b5d4800246f51c3d16ae"),
        openml=OpenML("MagicTelescope", positive="g"),
    ),
    "banana": Known(
        *(5300, 2, 2, "Rätsch (2001)", "none stated", "53728abd9f3eff34d2dc61105dfc0dcc"),
        openml=OpenML("banana", positive="2"),
    ),
    "electricity": Known(
        *(45_312, 6, 2, "Harries (1999)", "none stated", "a60d25831ed8063dbf5c2ac3667ac523"),
        openml=OpenML("electricity", positive="UP", unseen="the original has two more features, date and day"),
    ),
    "skin": Known(
        *(245_057, 3, 2, "Bhatt & Dhall (2012); UCI", UCI, "a922767cacba5cc44a985fca8e626224"),
        openml=OpenML("skin-segmentation", positive="1"),
    ),
}


def checksum(X: Any, y: Any) -> str | None:
    """The digest of features and labels; None if some are not numbers."""
    try:
        numbers = np.ascontiguousarray(np.asarray(X, dtype=float)), np.asarray(y).astype(np.int64, casting="same_kind")
    except (TypeError, ValueError):
        return None
    return fingerprint(*numbers)
