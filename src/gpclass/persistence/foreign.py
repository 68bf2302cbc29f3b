"""Transformers of scikit-learn inside a saved pipeline, by skops: no pickle, and only types that it knows.

skops writes an estimator as a zip archive of JSON and arrays and names the type of every part; reading creates types
of scikit-learn, NumPy and SciPy that it lists as safe and refuses all others, such as functions of one's own. Its
archive is kept here as one array of bytes, beside the other arrays of the model. skops names parts by their addresses
in memory and dates them; here they are counted and have no date, so that the same model gives the same bytes.

Cost: that of the transformer's arrays. Fails when: a part is none of these types; it is named, on writing as on
reading.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpclass._typing import Array
from gpclass.names import optional

NAME = "skops"  # in the place of a class, in files
SCHEMA, ID, FILE = "schema.json", "__id__", "file"  # in the archives of skops
# In addition to what skops trusts; the second is a list in a ColumnTransformer of scikit-learn 1.6.
TRUSTED = ("numpy.dtype", "sklearn.compose._column_transformer._RemainderColsList")


def is_foreign(value: Any) -> bool:
    """Whether it is an estimator of scikit-learn."""
    return isinstance(value, BaseEstimator) and type(value).__module__.split(".")[0] == "sklearn"


def packed(value: Any) -> Array:
    """The bytes of an estimator; raises ValueError with the reason if it has a part that would not be read."""
    sio = optional("skops.io", f"saving a {type(value).__name__}", "skops")
    try:
        data = sio.dumps(value)
    except Exception as error:  # whatever a part raises: skops has no error of its own for it
        raise ValueError(f"skops cannot write it ({type(error).__name__}: {error})") from error
    _check(sio, data)
    return np.frombuffer(_counted(data), dtype=np.uint8)


def _counted(data: bytes) -> bytes:
    """The archive with its parts counted in the order in which they are named, and without dates."""
    buffer, ids, files = io.BytesIO(), dict[int, int](), dict[str, str]()

    def count(node: dict[str, Any]) -> dict[str, Any]:
        if isinstance(node.get(ID), int):
            node[ID] = ids.setdefault(node[ID], len(ids))
        if isinstance(name := node.get(FILE), str):
            node[FILE] = files.setdefault(name, f"{len(files)}{Path(name).suffix}")
        return node

    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        schema = json.dumps(json.loads(given.read(SCHEMA), object_hook=count)).encode()
        for name, content in ((SCHEMA, schema), *((new, given.read(old)) for old, new in files.items())):
            archive.writestr(zipfile.ZipInfo(name), content)  # of 1980
    return buffer.getvalue()


def unpacked(data: Array) -> Any:
    """The estimator of such bytes."""
    sio = optional("skops.io", "this file", "skops")
    text = data.tobytes()
    _check(sio, text)
    return sio.loads(text, trusted=list(TRUSTED))


def _check(sio: Any, data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # bounds the sizes by that of the file
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise ValueError("its members are compressed")
    unknown = sorted(set(sio.get_untrusted_types(data=data)) - set(TRUSTED))
    if unknown:
        raise ValueError(f"it holds {', '.join(unknown)}, which a file must not create")
