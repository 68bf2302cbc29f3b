"""What is asked of a golden file's model, and on what numerical libraries: shared by ``make.py`` and the test.

Nothing here names a class or module behind the public names of the package, so that moving code does not touch it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info, threadpool_limits

from gpclass import load_model

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "expected.json"
# None far from all rows: there the classes' latent values are nearly exchangeable, and the eigenvectors that credible
# limits of many classes are built on are determined by rounding alone.
POINTS = np.array([[-0.8, 0.3], [0.1, 0.9], [0.55, -0.2], [1.2, 0.4], [2.3, -0.6], [0.4, 2.2]])
PLAIN = ("predict", "predict_proba", "decision_function", "predict_variance", "predict_indicator")
FIELDS = ("mcse", "lower", "upper", "latent_mean", "latent_sd")


def new_points(kind: str) -> Any:
    """The points at which a model is asked: an array, or a frame for models of tables."""
    if kind == "array":
        return POINTS
    import pandas as pd

    words = np.array(["sand", "clay", "sand", "loam", "clay", "loam"])
    return pd.DataFrame({"east": POINTS[:, 0], "soil": words, "north": POINTS[:, 1]})


def outputs(path: Path, kind: str) -> dict[str, Any]:
    """All that the model in a file says of the points, as lists of plain values.

    On one thread: the last bits of a triangular solve depend on how many threads share it.
    """
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return _outputs(load_model(path), new_points(kind), PLAIN if kind == "array" else PLAIN[:2])


def _outputs(model: Any, X: Any, methods: Sequence[str]) -> dict[str, Any]:
    found = {name: np.asarray(getattr(model, name)(X)).tolist() for name in methods if hasattr(model, name)}
    if hasattr(model, "predict_uncertainty"):
        told = model.predict_uncertainty(X)
        found |= {name: np.asarray(getattr(told, name)).tolist() for name in FIELDS}
    if getattr(model, "log_evidence_", None) is not None:
        found["log_evidence"] = float(model.log_evidence_)
    return found


def instructions() -> str:
    """The processor's instructions that NumPy's exp takes, if it tells."""
    try:
        from numpy.lib import introspect
    except ImportError:  # before NumPy 2.1
        return ""
    return str(introspect.opt_func_info(func_name="^exp$", signature="float64")["exp"]["dd"]["current"])


def fingerprint() -> dict[str, Any]:
    """The numerical libraries and the processor's kernels that they chose: what the last bits depend on."""
    blas = {
        "{user_api} {internal_api} {version} {architecture}".format(**({"architecture": ""} | pool))
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    versions = {"numpy": np.__version__, "scipy": scipy.__version__}
    return {"blas": sorted(blas), "instructions": instructions(), **versions}


def read_expected() -> dict[str, Any]:
    """The records of all golden files, by name."""
    found: dict[str, Any] = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    return found
