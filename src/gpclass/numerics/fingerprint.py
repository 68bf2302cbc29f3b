"""A digest of data and settings at full precision: two things that differ in any digit have different digests.

Arrays count by type, shape and bytes; floats exactly; scikit-learn kernels by class and all parameters, including
their bounds; dataclasses by class and fields, but for those declared with ``compare=False``; other objects by class and
attributes; functions by what they do (their code, defaults and enclosed values) and not where they are in memory.
Numbers that are equal are the same whatever their type, so that ``RBF(1)`` is ``RBF(1.0)``; truth values are no
numbers.

Cost: O(bytes). Fails when: an object keeps what matters out of its attributes, such as an extension type; its ``repr``
is then all there is to tell it by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel

LENGTH = 32  # hexadecimal digits


def fingerprint(*things: Any) -> str:
    """A digest of arrays, numbers, text, kernels, dataclasses, and containers of them: 32 hexadecimal digits.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> fingerprint(RBF(1.00001)) == fingerprint(RBF(1.00002))
    False
    >>> fingerprint(RBF(1.0, (0.1, 10))) == fingerprint(RBF(1.0, (0.1, 20)))
    False
    """
    return _digest(things, ()).hex()[:LENGTH]


def _digest(thing: Any, above: tuple[int, ...]) -> bytes:
    """The digest of one thing; ``above`` are the identities of the objects that it is part of."""
    plain = _plain(thing)
    if plain is not None:
        return _hashed(plain)
    if id(thing) in above:  # an object that refers to itself: how far up
        return _hashed([b"above", str(len(above) - above.index(id(thing))).encode()])
    kind, parts = _taken_apart(thing)
    return _hashed([kind.encode(), *(_digest(part, (*above, id(thing))) for part in parts)])


def _hashed(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _plain(thing: Any) -> list[bytes] | None:
    """A value without parts; None if it has some."""
    if isinstance(thing, np.generic) and not isinstance(thing, (np.datetime64, np.timedelta64, np.void)):
        thing = thing.item()
    if thing is None or thing is Ellipsis or isinstance(thing, bool):
        return [b"constant", repr(thing).encode()]
    if type(thing) is int:
        with suppress(OverflowError):
            thing = float(thing) if float(thing) == thing else thing
    if type(thing) is int:  # more digits than a float has
        return [b"int", str(thing).encode()]
    if type(thing) is float:
        return [b"number", thing.hex().encode()]
    if type(thing) is complex:
        return [b"complex", thing.real.hex().encode(), thing.imag.hex().encode()]
    if type(thing) is str:
        return [b"text", thing.encode("utf-8", "surrogatepass")]
    if isinstance(thing, (bytes, bytearray)):
        return [b"bytes", bytes(thing)]
    if isinstance(thing, PurePath):
        return [b"path", str(thing).encode("utf-8", "surrogatepass")]
    if isinstance(thing, (np.ndarray, np.generic)):
        return _array(np.asarray(thing))
    return None


def _array(array: npt.NDArray[Any]) -> list[bytes] | None:
    """Type, shape and bytes; None where the bytes are addresses."""
    if array.dtype.kind not in "biufcUSMmV" or array.dtype.hasobject:
        return None
    kind = repr(array.dtype.descr) if array.dtype.kind == "V" else array.dtype.str
    return [b"array", kind.encode(), repr(array.shape).encode(), array.tobytes()]


def _taken_apart(thing: Any) -> tuple[str, list[Any]]:
    """The kind of a thing, and its parts."""
    name = _name(type(thing))
    if isinstance(thing, np.ndarray):
        return "objects", [list(thing.shape), thing.ravel().tolist()]
    if type(thing) in (list, tuple):
        return name, list(thing)
    if isinstance(thing, Kernel):
        return name, [list(pair) for pair in sorted(thing.get_params(deep=False).items())]
    if is_dataclass(thing) and not isinstance(thing, type):
        return name, [[item.name, getattr(thing, item.name)] for item in fields(thing) if item.compare]
    if isinstance(thing, Mapping):
        return name, [list(pair) for pair in thing.items()]  # in order: patterns are tried one after another
    if isinstance(thing, Set):
        return name, sorted(_digest(item, ()) for item in thing)
    if isinstance(thing, np.random.Generator):
        return name, [thing.bit_generator.state]
    if isinstance(thing, np.random.RandomState):
        return name, [thing.get_state(legacy=False)]
    if isinstance(thing, partial):
        return "partial", [thing.func, thing.args, thing.keywords]
    if isinstance(thing, (type, FunctionType, MethodType, BuiltinFunctionType, CodeType)):
        return _function(thing)
    if isinstance(thing, (list, tuple)):  # of a class of their own
        return name, list(thing)
    values: tuple[Any, ...] = (int, float, complex, str)
    base = next((kind(thing) for kind in values if isinstance(thing, kind)), None)
    state = object.__getstate__(thing)
    return name, [repr(thing)] if base is state is None else [base, state]


def _function(thing: Any) -> tuple[str, list[Any]]:
    """A function, a class or code, by what it does."""
    if isinstance(thing, CodeType):
        return "code", [thing.co_code, thing.co_consts, thing.co_names, thing.co_varnames, thing.co_freevars]
    if isinstance(thing, MethodType):
        return "method", [thing.__self__, thing.__func__]
    if isinstance(thing, FunctionType):
        enclosed = [cell.cell_contents for cell in thing.__closure__ or ()]
        return "function", [_name(thing), thing.__code__, thing.__defaults__, thing.__kwdefaults__, enclosed]
    return "named", [_name(thing)]


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None)}.{thing.__qualname__}"
