"""Every public method has a docstring: its own, or that of the interface member that it implements."""

import importlib
import inspect
import pkgutil
from functools import cached_property

import gpclass


def modules():
    for found in pkgutil.walk_packages(gpclass.__path__, "gpclass."):
        try:
            yield importlib.import_module(found.name)
        except ImportError:  # an optional package is missing
            continue


def public_classes():
    for module in modules():
        for name, value in vars(module).items():
            if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                yield value


def documented(cls, name):
    return any(inspect.getdoc(vars(base)[name]) for base in cls.__mro__ if name in vars(base))


def is_method(value):
    return inspect.isroutine(value) or isinstance(value, property | cached_property)


def test_public_methods_are_documented():
    missing = [
        f"{cls.__module__}.{cls.__qualname__}.{name}"
        for cls in public_classes()
        for name, value in vars(cls).items()
        if not name.startswith("_") and is_method(value) and not documented(cls, name)
    ]
    assert missing == []
