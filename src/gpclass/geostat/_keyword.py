"""A constructor parameter named ``transform`` on an estimator that is not a transformer.

scikit-learn treats any object with an attribute ``transform`` as a transformer. Here the value is stored in the
instance dictionary and read with ``get_params``; attribute access raises AttributeError.
"""

from __future__ import annotations

from typing import Any


class TransformKeyword:
    """Mixin with the parameter ``transform`` and a ``get_params`` that includes it."""

    @property
    def transform(self) -> Any:
        """Raises an error: not an attribute that can be read."""
        raise AttributeError("transform is a parameter; read it with get_params()['transform']")

    @transform.setter
    def transform(self, value: Any) -> None:
        self.__dict__["transform"] = value

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
