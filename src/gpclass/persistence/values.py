"""The parts of a fitted model as JSON and arrays, and back.

A model is a graph of estimators and frozen dataclasses of this package, scikit-learn kernels, arrays and
plain values. Each kind has one spelling:

    None, bool, int, str, finite float, list    themselves
    everything else                             {"$": kind, ...}

Dataclasses and estimators go to a table, children before parents, and are written once for any number of references;
equal arrays are stored once. The state of a dataclass are its fields, that of an estimator its attributes, and that of
a class with ``state()`` and ``from_state(state)`` what these say, for values that are better recomputed than stored.

A class is written under its stable name (:mod:`gpclass.persistence.names`). Only the classes listed there, and those
of scikit-learn below, are created on reading; nothing is imported or called by a name that the file chooses. Other
transformers of scikit-learn go through skops (:mod:`gpclass.persistence.foreign`).

Cost: O(bytes). Fails when: a value has no spelling, with its place and type named.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import isabstract, signature
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels as sk
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from gpclass.covariance import Covariance, compile_kernel
from gpclass.inference.redraw import GENERATORS
from gpclass.kernels import On
from gpclass.persistence import names
from gpclass.persistence.foreign import NAME, is_foreign, packed, unpacked
from gpclass.priors import FromScipy

KERNELS: dict[str, type] = {  # all of scikit-learn's, and the one of columns
    kind.__name__: kind
    for kind in (*vars(sk).values(), On)
    if isinstance(kind, type) and issubclass(kind, sk.Kernel) and not isabstract(kind)
}
FOREIGN: Mapping[str, type] = {  # of scikit-learn, saved in a pipeline with a classifier
    f"sklearn.{cls.__name__}": cls for cls in (Pipeline, StandardScaler, MinMaxScaler, RobustScaler)
}


def register(name: str, cls: type) -> type:
    """Let models with a kernel, likelihood or other dataclass of one's own be saved, and read where it is registered.

    Parameters
    ----------
    name : str
        Under which files know it, such as ``"mine/robust-probit"``; keep it when the class moves.
    cls : type
        Of a module that can be imported: a scikit-learn kernel, a dataclass, or with ``state`` and ``from_state``.

    Returns
    -------
    type
        The class.
    """
    if issubclass(cls, sk.Kernel):
        if KERNELS.setdefault(name, cls) is not cls:
            raise ValueError(f"{name!r} is the name of another kernel: choose another")
        return cls
    if "/" not in name or names.name_of(cls) not in (None, name):
        raise ValueError(f"{name!r}: give a class one name, with a prefix of your own, such as 'mine/robust-probit'")
    path = f"{cls.__module__}:{cls.__qualname__}"
    if name in names.MIGRATIONS or name in names.registered() or names.PATHS.setdefault(name, path) != path:
        raise ValueError(f"{name!r} is the name of another class: choose another")
    return cls


class NotSavableError(ValueError):
    """The model holds something that has no spelling in a file."""


# Classes not defined by their attributes: what to store of them, and how to recreate them.
_HOOKS: dict[type, tuple[Callable[[Any], dict[str, Any]], Callable[[dict[str, Any]], Any]]] = {
    Covariance: (lambda c: {"kernel": c.kernel}, lambda s: compile_kernel(s["kernel"]))
}


def array_names(value: npt.NDArray[Any]) -> tuple[str, str]:
    """The names under which an array is stored, by its type, shape and values: if it is contiguous, and if not."""
    data = value.tobytes()
    what = (f"{value.dtype.str}{value.shape}{contiguous}".encode() for contiguous in (True, False))
    one, two = (hashlib.sha256(kind + data).hexdigest()[:24] for kind in what)
    return one, two


class Encoder:
    """Collects the arrays and objects of one value."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}  # by member name
        self.objects: list[dict[str, Any]] = []
        self._seen: dict[int, int] = {}  # id of an object -> its row in ``objects``
        self._alive: list[Any] = []  # keeps objects alive, so that no id is reused

    def encode(self, value: Any, place: str) -> Any:
        """The spelling of a value; ``place`` is named when there is none."""
        if value is None or isinstance(value, (bool, int, str)):
            return value if type(value) in (type(None), bool, int, str) else _plain(value, place)
        if isinstance(value, (float, np.floating)):
            return float(value) if math.isfinite(value) else {"$": "float", "v": repr(float(value))}
        if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
            return self.encode(value.item(), place)
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, list):
            return [self.encode(item, f"{place}[{k}]") for k, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$": "tuple", "v": [self.encode(item, f"{place}[{k}]") for k, item in enumerate(value)]}
        if isinstance(value, Mapping):
            pairs = [[self.encode(k, f"a key of {place}"), self.encode(v, f"{place}[{k!r}]")] for k, v in value.items()]
            return {"$": "dict", "v": pairs}
        if isinstance(value, PurePath):
            return {"$": "path", "v": str(value)}
        if isinstance(value, sk.Kernel):
            return self._kernel(value, place)
        if isinstance(value, type) and names.name_of(value) is not None:
            return {"$": "class", "v": names.name_of(value)}
        if isinstance(value, (np.random.Generator, np.random.RandomState)):
            return self._random(value, place)
        return self._object(value, place)

    def _array(self, value: npt.NDArray[Any], place: str) -> Any:
        if value.dtype == object:
            items = [self.encode(item, place) for item in value.ravel().tolist()]
            return {"$": "objects", "shape": list(value.shape), "v": items}
        if value.dtype.kind not in "biufcUSMm":
            raise NotSavableError(f"{place}: an array of {value.dtype} cannot be written to a file")
        value = np.asarray(value)  # a subclass, such as a memory map, as what it holds
        name = array_names(value)[not value.flags.c_contiguous]
        self.arrays[name] = value
        return {"$": "array", "v": name}

    def _kernel(self, kernel: Any, place: str) -> Any:
        known = (name for name, kind in KERNELS.items() if kind is type(kernel))  # a subclass may compute another thing
        name = next(known, None)
        if name is None:
            raise NotSavableError(
                f"{place}: the kernel {type(kernel).__module__}.{type(kernel).__qualname__} cannot be written to a "
                f"file; a file can hold {', '.join(KERNELS)}, what is built from them, and what was registered "
                "(gpclass.persistence.register)"
            )
        params = kernel.get_params(deep=False)
        spelled = {key: self.encode(item, f"{name}.{key} of {place}") for key, item in params.items()}
        return {"$": "kernel", "class": name, "v": spelled}

    def _random(self, source: Any, place: str) -> Any:
        legacy = isinstance(source, np.random.RandomState)
        state: Any = source.get_state(legacy=False) if legacy else source.bit_generator.state
        if state["bit_generator"] not in GENERATORS:
            raise NotSavableError(f"{place}: the bit generator {state['bit_generator']} cannot be written")
        return {"$": "random", "legacy": legacy, "v": self.encode(state, place)}

    def _object(self, value: Any, place: str) -> Any:
        if id(value) in self._seen:
            return {"$": "ref", "v": self._seen[id(value)]}
        name, state = _take_apart(value, place)
        spelled = {key: self.encode(item, f"{place}.{key}") for key, item in sorted(state.items())}
        self.objects.append({"class": name, "state": spelled})
        self._alive.append(value)
        self._seen[id(value)] = len(self.objects) - 1
        return {"$": "ref", "v": len(self.objects) - 1}


def _plain(value: Any, place: str) -> Any:
    """An instance of a subclass of int or str as its base: numpy's strings, but not an enum."""
    if isinstance(value, np.str_):
        return str(value)
    raise NotSavableError(f"{place}: a {type(value).__qualname__} cannot be written to a file")


def _take_apart(value: Any, place: str) -> tuple[str, dict[str, Any]]:
    """The name of an object's class and the object's state."""
    if hasattr(value, "dist") and hasattr(value, "logpdf"):  # a frozen distribution of scipy.stats
        value = FromScipy.of(value)
    cls = type(value)
    foreign = next((name for name, known in FOREIGN.items() if known is cls), None)
    if foreign is not None:
        return foreign, vars(value)
    if is_foreign(value):
        try:
            return NAME, {"data": packed(value)}
        except (ValueError, ImportError) as error:
            raise NotSavableError(f"{place}: {_describe(value)} cannot be written to a file: {error}") from error
    name = names.name_of(cls)
    if name is not None:
        if cls in _HOOKS:
            return name, _HOOKS[cls][0](value)
        if hasattr(cls, "from_state"):
            return name, value.state()
        if is_dataclass(cls):
            return name, {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        if issubclass(cls, BaseEstimator):
            return name, dict(vars(value))
    raise NotSavableError(
        f"{place}: {_describe(value)} cannot be written to a file; a model may hold arrays, plain values, "
        "known kernels, the classes of this package that have a name in files, and those that were registered "
        "(gpclass.persistence.register)"
    )


def _describe(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the function or class {value.__qualname__}"
    return f"an object of {type(value).__module__}.{type(value).__qualname__}"


class Decoder:
    """Makes values from their spelling. Any error here means that the file is invalid."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.arrays = arrays
        self.objects: list[Any] = []

    def add(self, row: Any) -> None:
        """Make the next object of the table."""
        state = {str(key): self.decode(item) for key, item in row["state"].items()}
        self.objects.append(_made(row["class"], state))

    def decode(self, spelled: Any) -> Any:
        """The value of a spelling."""
        if isinstance(spelled, list):
            return [self.decode(item) for item in spelled]
        if not isinstance(spelled, dict):
            return spelled
        kind, v = spelled["$"], spelled["v"]
        if kind == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[v]
        if kind == "array":
            return self.arrays[v]
        if kind == "objects":
            return _object_array([self.decode(item) for item in v], spelled["shape"])
        if kind == "tuple":
            return tuple(self.decode(item) for item in v)
        if kind == "dict":
            return {self.decode(key): self.decode(item) for key, item in v}
        if kind == "path":
            return Path(v)
        if kind == "kernel":
            return KERNELS[spelled["class"]](**{key: self.decode(item) for key, item in v.items()})
        if kind == "class":
            return names.class_of(names.stable(v))
        if kind == "random":
            return _random_source(self.decode(v), bool(spelled["legacy"]))
        if kind == "ref":
            if not 0 <= v < len(self.objects):
                raise ValueError(f"object {v} is referred to before it is defined")
            return self.objects[v]
        raise ValueError(f"{kind!r} is not a kind of value")


def _made(name: str, state: dict[str, Any]) -> Any:
    """The object of a name in a file, stable or legacy, and a state; any other name is rejected."""
    if name in FOREIGN:
        return _bare(FOREIGN[name], state)
    if name == NAME:
        return unpacked(state["data"])
    name = names.stable(name)
    if name in names.MIGRATIONS:
        return names.migration(name)(state)
    cls: Any = names.class_of(name)
    if cls in _HOOKS:
        return _HOOKS[cls][1](state)
    if hasattr(cls, "from_state"):
        return cls.from_state(state)
    return cls(**state) if hasattr(cls, "__dataclass_fields__") else _bare(cls, state)


def _bare(cls: Any, state: Mapping[str, Any]) -> Any:
    """An instance with these attributes, without the constructor's checks."""
    made = cls.__new__(cls)
    for key in state:
        if not key.isidentifier() or key.startswith("__"):
            raise ValueError(f"{key!r} is not an attribute")
    if issubclass(cls, BaseEstimator):  # parameters that are newer than the file
        own = signature(cls).parameters.values()
        vars(made).update({p.name: p.default for p in own if p.default is not p.empty})
    vars(made).update(state)
    return made


def _object_array(items: Sequence[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    flat = np.empty(len(items), dtype=object)
    flat[:] = items
    return flat.reshape(shape)


def _random_source(state: dict[str, Any], legacy: bool) -> Any:
    name = state["bit_generator"]
    if name not in GENERATORS:
        raise ValueError(f"{name!r} is not a bit generator")
    if legacy:
        made = np.random.RandomState()
        made.set_state(state)
        return made
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)
