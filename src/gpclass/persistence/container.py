"""The file of a saved model: a zip archive of a JSON manifest and arrays in NumPy's own format.

    manifest.json      format, version, versions of the libraries, the objects, and for each array its sha256
    manifest.sha256    of manifest.json
    arrays/NAME.npy    read with allow_pickle=False

Everything is checked before anything is used: that members are stored uncompressed, which bounds their sizes by the
file's, the checksums, that no member is missing or superfluous, the version, and that each array has the type, shape
and values of its name.
An old file stays intact when writing fails (:mod:`gpclass.numerics.files`). The same model gives the same bytes.

The checksums detect damage, not malice: whoever can write the file can write the sums. A reader is protected because
nothing in a file is executed (:mod:`gpclass.persistence.values`).

Cost: O(bytes); for Gaussian approximations one factorisation on loading. Fails when: the model holds what
cannot be written (``NotSavableError``), or the file is damaged (``ModelFileError``).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gpclass._version import __version__
from gpclass.numerics.files import replacing
from gpclass.persistence.values import Decoder, Encoder, array_names

FORMAT = "gpclass-model"
VERSION = 2  # raise it when an old reader would misunderstand; 1 named classes by the paths of modules
READ = (1, 2)  # versions that are understood
MANIFEST, DIGEST, ARRAYS = "manifest.json", "manifest.sha256", "arrays/"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the archive's dates, so that the same model gives the same bytes


class ModelFileError(ValueError):
    """The file is not a saved model, is damaged, or was written by a newer version."""


def save_model(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted model to one file.

    Parameters
    ----------
    model : estimator
        A fitted :class:`~gpclass.GPClassifier`, :class:`~gpclass.geostat.IndicatorKriging` or
        :class:`~gpclass.estimators.tables.TableClassifier`, or a scikit-learn pipeline of scalers that ends in one.
    path : path
        The file; ``.gpclass`` is the usual ending. An existing file is replaced.

    Raises
    ------
    NotSavableError
        A kernel, setting or posterior of a class that cannot be written; it is named.
    """
    check_is_fitted(model)
    encoder = Encoder()
    root = encoder.encode(model, type(model).__name__)
    members = {f"{ARRAYS}{name}.npy": _npy(array) for name, array in sorted(encoder.arrays.items())}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": {"gpclass": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "arrays": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        "objects": encoder.objects,
        "model": root,
    }
    text = json.dumps(manifest, allow_nan=False, indent=1).encode()
    members = {MANIFEST: text, DIGEST: hashlib.sha256(text).hexdigest().encode(), **members}
    with replacing(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return Path(path)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save_model`, ``clf.save`` or ``gpclass fit`` wrote.

    Predictions are the same to the last bit on the machine that wrote the file, and to rounding elsewhere.

    Parameters
    ----------
    path : path

    Raises
    ------
    ModelFileError
        The file is truncated, was changed, or is of a newer version.
    FileNotFoundError
        The file does not exist.
    """
    path = Path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a saved model")
    try:
        return _load(path)
    except (ModelFileError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # any error of a damaged file, from zipfile, json, numpy or our own classes
        raise ModelFileError(
            f"{path} is damaged or not a saved model ({type(error).__name__}: {error}); save the model again"
        ) from error


def _load(path: Path) -> Any:
    manifest, members = _read(path)
    arrays = {name: np.load(io.BytesIO(data), allow_pickle=False) for name, data in members.items()}
    named = {name.removeprefix(ARRAYS).removesuffix(".npy"): a for name, a in arrays.items()}
    for name, a in named.items():
        if name not in array_names(a):
            raise ModelFileError(f"{path} was changed: {name} is not the array that was written under this name")
    decoder = Decoder(named)
    try:
        for row in manifest["objects"]:
            decoder.add(row)
        model = decoder.decode(manifest["model"])
        if not isinstance(model, BaseEstimator):
            raise ValueError(f"it holds a {type(model).__name__}, not a model")
        check_is_fitted(model)
    except Exception as error:  # the sums are right, so a class has changed, or someone rewrote the file
        raise ModelFileError(
            f"{path} cannot be interpreted ({type(error).__name__}: {error}); it was written by gpclass "
            f"{manifest.get('written_by', {}).get('gpclass', '?')}, this is {__version__}"
        ) from error
    return model


def _read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and all members, once every check has passed."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        sizes = [info.file_size for info in archive.infolist() if info.compress_type == zipfile.ZIP_STORED]
        if len(sizes) < len(names) or sum(sizes) > path.stat().st_size:
            raise ModelFileError(f"{path} is not a saved model: its members are compressed, or larger than the file")
        if len(set(names)) != len(names) or MANIFEST not in names:
            raise ModelFileError(f"{path} is not a saved model: it lacks a manifest, or has a member twice")
        text = archive.read(MANIFEST)
        manifest = json.loads(text)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ModelFileError(f"{path} is not a saved model: its manifest does not say {FORMAT!r}")
        version = manifest.get("version")
        if isinstance(version, int) and version > VERSION:
            raise ModelFileError(
                f"{path} has format version {version} and this gpclass ({__version__}) reads up to "
                f"{VERSION}; upgrade with: pip install --upgrade gpclass"
            )
        if hashlib.sha256(text).hexdigest().encode() != archive.read(DIGEST):
            raise ModelFileError(f"{path} was changed after it was written: its manifest's checksum is wrong")
        if type(version) is not int or version not in READ:
            raise ModelFileError(f"{path} has the unknown format version {version!r}")
        sums = manifest["arrays"]
        if set(names) != {MANIFEST, DIGEST, *sums}:
            raise ModelFileError(f"{path} was changed: its members are not those that its manifest lists")
        members = {name: archive.read(name) for name in sums}
    for name, data in members.items():
        if hashlib.sha256(data).hexdigest() != sums[name]:
            raise ModelFileError(f"{path} was changed after it was written: the checksum of {name} is wrong")
    return manifest, members


def _npy(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()
