"""Initial inducing inputs (cluster centres, random rows, or given ones) and their number.

k-means centres lie where the rows lie, more of them where there are more rows. Columns are first divided by the
kernel's length scales, if it has one per column, so that an irrelevant column does not spread the centres.
``"auto"`` takes the smallest number m whose greedy choice (always the row of largest remaining prior variance, a
pivoted Cholesky factorisation of a sample of rows) leaves on average a variance below 3 m/n: n labels, each worth about
a third of an observation with unit noise, leave the m functions of the inducing inputs that uncertain, and what is
smaller they cannot tell. So m grows with the rows. It is at least ``FEWEST``, at least what leaves one per cent of the
prior variance (or ``USUAL``), and at most what rows, an hour and memory allow (:func:`most_inducing`).
White noise in the kernel is excluded: no inducing input can explain it.
Cost: O(rows × m × d) for a sample of ``SAMPLE`` rows, or 3 m if that is more; "auto" O(m² ``LOOKED_AT``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpclass._typing import Array, Generator, IntArray
from gpclass.covariance import compile_kernel
from gpclass.model.rows import Source
from gpclass.numerics.memory import available_memory
from gpclass.numerics.spread import spreads

SAMPLE = 10_000  # rows for k-means
LEAST = 20  # rows of each class in a sample that has all classes, if there are as many
FEWEST, USUAL, MOST = 50, 500, 3000  # inducing inputs that "auto" may choose
LEFT = 0.01  # share of the prior variance that up to ``USUAL`` inducing inputs may not leave
LABEL = 3.0  # variance of the noise of an observation that tells as much as a label
EACH = 20  # rows for each inducing input beyond ``USUAL``
LOOKED_AT = 4000  # rows examined by "auto"
HOUR = 1e11  # n m² of a fit that takes about an hour, for one latent value per row
FEW_COLUMNS = 3  # up to which a map is better served by neighbours
ROOM = 0.1  # share of the free memory that four matrices of L m × L m may take


def check_inducing(n_inducing: Any, inducing: Any, n: int, d: int) -> int | None:
    """The number of inducing inputs that the settings request, None for "auto"; errors name the remedy."""
    if isinstance(n_inducing, np.ndarray | list | tuple):
        raise ValueError("n_inducing is a number; to give the inducing inputs themselves, use inducing=")
    if not isinstance(inducing, str):
        Z = np.asarray(inducing, dtype=float)
        if Z.ndim != 2 or Z.shape[1] != d:
            raise ValueError(
                f"inducing must have one row per inducing input and {d} columns, as X has; got shape {Z.shape}"
            )
        if not np.all(np.isfinite(Z)):
            raise ValueError("inducing holds NaN or infinity: give finite inducing inputs")
        if n_inducing not in (None, "auto") and n_inducing != len(Z):
            raise ValueError(
                f"n_inducing={n_inducing!r} and inducing has {len(Z)} rows; leave n_inducing at None or 'auto'"
            )
        n_inducing = len(Z)
    elif inducing not in ("kmeans", "random"):
        raise ValueError(f"inducing must be 'kmeans', 'random' or an array (m, {d}), got {inducing!r}")
    if n_inducing == "auto":
        return None
    if not isinstance(n_inducing, (int, np.integer)) or n_inducing is True or n_inducing < 1:
        raise ValueError(f"n_inducing must be None (dense), 'auto' or a whole number of at least 1, got {n_inducing!r}")
    if n_inducing > n:
        raise ValueError(
            f"n_inducing={n_inducing} is more than the {n} rows; at most {n} make sense, and n_inducing=None "
            "is the dense model"
        )
    return int(n_inducing)


def most_inducing(n: int, latents: int = 1) -> tuple[int, str]:
    """The most that "auto" may choose for n rows of so many latent values, and what sets this limit."""
    limits = {
        "as many as are ever chosen": float(MOST),
        f"one for {EACH} rows": max(USUAL, n / EACH),
        "as many as about an hour allows": np.sqrt(HOUR / n) / latents,
        "as many as memory allows": np.sqrt(ROOM * available_memory() / 32.0) / latents,
    }
    why = min(limits, key=lambda name: limits[name])
    return max(FEWEST, int(limits[why])), why


def because(m: int, n: int, latents: int) -> str:
    """Why "auto" chose m inducing inputs."""
    most, limit = most_inducing(n, latents)
    return limit if m >= most else f"where they were placed, {n} rows tell nothing about what they leave"


def choose_inducing(
    source: Source, kernel: Kernel, m: int | None, inducing: Any, rng: Generator, latents: int = 1
) -> Array:
    """Inducing inputs to start from, (m, d), for so many latent values per row."""
    if not isinstance(inducing, str):
        return np.array(inducing, dtype=float)
    rows = sample_rows(source.n, max(SAMPLE, 3 * (m or 0)), rng)
    X = np.unique(source.take(rows)[0], axis=0)
    if m is None:
        m = _enough(X, kernel, source.n, most_inducing(source.n, latents)[0], rng)
    if m >= len(X):  # as many as there are distinct rows
        return X
    if inducing == "random":
        return np.asarray(X[np.sort(rng.permutation(len(X))[:m])])
    from sklearn.cluster import MiniBatchKMeans  # imported here to keep the import of the package fast

    scale = length_scales(kernel, X)
    seed = int(rng.integers(2**31))
    means = MiniBatchKMeans(m, random_state=seed, n_init=1, batch_size=2048, max_iter=20).fit(X / scale)
    return np.asarray(means.cluster_centers_ * scale)


def sample_rows(n: int, most: int, rng: Generator) -> IntArray:
    """Rows of a random sample, in increasing order."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, size=most, replace=False))


def sample_of_classes(y: Array, most: int, rng: Generator) -> IntArray:
    """A random sample of the rows, in increasing order, with more of a class of which it has less than ``LEAST``."""
    rows = sample_rows(len(y), most, rng)
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        others = np.setdiff1d(own, rows)
        wanted = min(len(others), LEAST - (len(own) - len(others)))
        if wanted > 0:
            rows = np.union1d(rows, rng.choice(others, wanted, replace=False))
    return rows


def length_scales(kernel: Kernel, X: Array) -> Array:
    """The first length scales of the kernel with one per column; else the columns' standard deviations."""
    for name, value in kernel.get_params().items():
        if name.endswith("length_scale") and np.size(value) == X.shape[1] > 1:
            return np.asarray(value, dtype=float)
    return spreads(X)


def common_length(kernel: Kernel) -> float | None:
    """The first length scale of the kernel that all columns share; None if it has none."""
    for name, value in kernel.get_params().items():
        if name.endswith("length_scale") and np.size(value) == 1:
            return float(np.squeeze(value))
    return None


def _enough(X: Array, kernel: Kernel, n: int, most: int, rng: Generator) -> int:
    """How many inducing inputs, found by greedy choice among some of n rows, leave what these cannot tell."""
    X = X[sample_rows(len(X), LOOKED_AT, rng)]
    covariance = compile_kernel(kernel)
    left = total = covariance.pairs(X, X)[0]  # as of different points: without white noise
    most = min(most, len(X))
    C = np.empty((most, len(X)))
    for k in range(most):
        others = len(X) - k  # nothing is left at those chosen
        little = k >= FEWEST and np.sum(left) < LABEL * k / n * others
        if little and (k >= USUAL or np.sum(left / total) < LEFT * others):
            return k
        i = int(np.argmax(left))
        if left[i] <= 1e-10 * total[i]:
            return max(k, min(FEWEST, len(X)))
        C[k] = (covariance(X[i : i + 1], X)[0] - C[:k, i] @ C[:k]) / np.sqrt(left[i])
        left = np.maximum(left - C[k] ** 2, 0.0)
    return most
