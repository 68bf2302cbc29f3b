"""A constructor parameter named ``transform`` on an estimator that is not a transformer.

scikit-learn treats any object with an attribute ``transform`` as a transformer. Here the value is stored in the
instance dictionary and read with ``get_params``; attribute access raises AttributeError.
"""

from __future__ import annotations

from typing import Any


class Keyword:
    """Descriptor that can be set but not read as an attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        raise AttributeError(f"{self.name} is a parameter; read it with get_params()[{self.name!r}]")

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value


class TransformKeyword:
    """Mixin with the parameter ``transform`` and a ``get_params`` that includes it."""

    transform = Keyword()

    @property
    def _transform(self) -> str:
        return str(self.__dict__["transform"])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep``, also those of the kernel."""
        names: list[str] = self._get_param_names()  # type: ignore[attr-defined]  # of BaseEstimator
        found = {name: self.__dict__[name] for name in names}
        kernel: Any = found["kernel"]
        if deep and hasattr(kernel, "get_params") and not isinstance(kernel, type):
            found |= {f"kernel__{key}": value for key, value in kernel.get_params().items()}
        return found
