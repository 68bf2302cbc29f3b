"""Every public method has a docstring: its own, or that of the interface member that it implements."""

import importlib
import inspect
import pkgutil

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


def test_public_methods_are_documented():
    missing = [
        f"{cls.__module__}.{cls.__qualname__}.{name}"
        for cls in public_classes()
        for name, value in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isroutine(value) or hasattr(value, "fget") or hasattr(value, "attrname"))
        and not inspect.getdoc(getattr(cls, name))
    ]
    assert missing == []
