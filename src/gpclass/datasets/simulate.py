"""Simulators of the papers' problems. Each data set includes the true class probabilities of every row.

- Atiya, Abdel-Gawad & Fayed (2020), experiment 4, problems 1–6: two Gaussian classes, Bayes' posterior known.
- Filippone & Girolami (2014), section on importance sampling: a latent Gaussian process on the unit square.
- Cho, Kim & Lee (2015): four Gaussian classes in the plane.
- Röder, Tolosana-Delgado & Hamprecht (2011): the doubly stochastic model, labels drawn from σ(c0 φ(x)).

Cost: O(n³) for the two with a latent process, O(n) for the others. Results depend only on the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import expit, log_ndtr, softmax

from gpclass._typing import Array
from gpclass.datasets.load import Dataset

# problem: rows for training and for test, dimension, mean of class 2 on every axis, its covariance
_ATIYA: dict[int, tuple[int, int, int, float, str]] = {
    1: (50, 50, 2, 1.0, "plane"),
    2: (200, 200, 2, 1.0, "plane"),
    3: (50, 50, 2, 0.5, "plane"),
    4: (50, 50, 2, 2.0, "plane"),
    5: (50, 50, 10, 1.0, "band"),
    6: (1000, 1000, 2, 1.0, "plane"),
}
_CHO_MEANS = ((1.75, -1.0), (-1.75, 1.0), (2.0, 2.0), (-2.0, -2.0))
_CHO_CORRELATIONS = (0.0, 0.5, -0.5, -0.5)


def _gaussian_classes(
    name: str, sizes: Sequence[int], means: Sequence[Any], covariances: Sequence[Any], seed: Any, source: str
) -> tuple[Dataset, Dataset]:
    """Training and test set of these sizes: rows of each class, shuffled, with Bayes' posterior for equal priors."""
    rng = np.random.default_rng(seed)
    classes = list(zip(means, covariances, strict=True))
    made = []
    for n in sizes:
        counts = [n // len(means) + (k < n % len(means)) for k in range(len(means))]  # as even as possible
        rows = [rng.multivariate_normal(*one, size=k) for one, k in zip(classes, counts, strict=True)]
        y = np.repeat(np.arange(len(counts)), counts)
        order = rng.permutation(len(y))
        X, y = np.concatenate(rows)[order], y[order]
        log_density = np.column_stack([stats.multivariate_normal(*one).logpdf(X) for one in classes])
        made.append(_simulated(name, X, y, softmax(log_density, axis=1), source))
    return made[0], made[1]


def atiya_gaussians(problem: int, *, random_state: Any = None) -> tuple[Dataset, Dataset]:
    """Problems 1 to 6 of experiment 4: class 0 is N(0, I), class 1 N(m e, Σ); training and test set.

    Parameters
    ----------
    problem : int
        1 to 6. The fifth has ten features and a tridiagonal Σ; the others two, with covariance ¼.
    random_state : int or Generator, optional

    Returns
    -------
    train, test : Dataset
        ``probability`` is Bayes' posterior, the reference of MAE-POST.
    """
    if problem not in _ATIYA:
        raise ValueError(f"problem must be one of {list(_ATIYA)}, not {problem!r}")
    n_train, n_test, d, mean, shape = _ATIYA[problem]
    if shape == "plane":
        S = np.array([[1.0, 0.25], [0.25, 1.0]])
    else:
        S = 0.5 * np.eye(d) + 0.2 * (np.eye(d, k=1) + np.eye(d, k=-1))
    means, covariances = [np.zeros(d), np.full(d, mean)], [np.eye(d), S]
    name, source = f"atiya_problem_{problem}", f"Atiya et al. (2020), experiment 4, problem {problem}"
    return _gaussian_classes(name, (n_train, n_test), means, covariances, random_state, source)


def cho_four_gaussians(n_train: int = 160, n_test: int = 400, *, random_state: Any = None) -> tuple[Dataset, Dataset]:
    """Four Gaussian classes in the plane; Bayes' error is 8.2 %."""
    covariances = [[[1.0, r], [r, 1.0]] for r in _CHO_CORRELATIONS]
    name, source = "cho_four_gaussians", "Cho et al. (2015), four Gaussian classes"
    return _gaussian_classes(name, (n_train, n_test), _CHO_MEANS, covariances, random_state, source)


def filippone_square(
    n: int = 200,
    *,
    variance: float = 20.0,
    length_scale: float = 0.255,
    balance: float = 0.05,
    random_state: Any = None,
) -> Dataset:
    """A latent Gaussian process on the unit square, labels by probit, balanced classes.

    Latent values have covariance variance · exp(−½ r²/length_scale²). At fixed locations they are redrawn until the
    class frequencies are within ``balance`` of one half. With the default parameters the posterior is far from
    Gaussian: importance sampling and Laplace's approximation fail here.

    Parameters
    ----------
    n : int
    variance, length_scale : float
        By default those of the paper (σ and τ there).
    balance : float
        Largest deviation of a class frequency from one half; a deviation of one row is always allowed.
    random_state : int or Generator, optional

    Returns
    -------
    Dataset
        ``probability`` is Φ(±f), ``values`` the latent values (n, 1).
    """
    if n < 2:
        raise ValueError(f"n must be at least 2, not {n}")
    rng = np.random.default_rng(random_state)
    X = rng.random((n, 2))
    L = _latent_factor(variance * np.exp(-0.5 * cdist(X, X, "sqeuclidean") / length_scale**2))
    for _ in range(10_000):
        f = L @ rng.standard_normal(n)
        y = (rng.random(n) < np.exp(log_ndtr(f))).astype(int)
        if abs(y.mean() - 0.5) <= max(balance, 1.0 / n):
            break
    else:
        raise ValueError(f"none of 10,000 draws had classes within balance={balance}; increase it")
    proba = np.exp(log_ndtr(np.column_stack([-f, f])))
    source = "Filippone & Girolami (2014): latent GP on the unit square"
    source += f", σ = {variance:g}, τ = {length_scale:g}"
    return _simulated("filippone_square", X, y, proba, source, latent=f)


def roeder_field(
    n: int = 114,
    *,
    n_features: int = 2,
    sill: float = 4.0,
    nugget: float = 0.0,
    nu: float = 1.5,
    length_scale: float = 0.3,
    scale: float = 1.0,
    random_state: Any = None,
) -> Dataset:
    """The doubly stochastic model: a Matérn field φ, then labels drawn with p = σ(scale · φ).

    Parameters
    ----------
    n : int
        Rows; 114 as in the paper, whose wave heights are not public.
    n_features : int
        2: points in the unit square. 8: the paper's number of pixels; lengths are scaled by √(d/2) so that
        neighbours stay as close as in the plane.
    sill, nugget, nu, length_scale : float
        Covariance (sill − nugget)·Matérn_ν(r/length_scale) + nugget·1(r = 0).
    scale : float
        c0.
    random_state : int or Generator, optional

    Returns
    -------
    Dataset
        ``probability`` is the true probability, ``values`` the field φ (n, 1).
    """
    from sklearn.gaussian_process.kernels import Matern

    if not 0.0 <= nugget <= sill:
        raise ValueError(f"the nugget ({nugget}) must lie between 0 and the sill ({sill})")
    rng = np.random.default_rng(random_state)
    X = rng.random((n, n_features))
    correlation = Matern(length_scale * np.sqrt(n_features / 2.0), nu=nu)(X)
    phi = _latent_factor((sill - nugget) * correlation + nugget * np.eye(n)) @ rng.standard_normal(n)
    p = expit(scale * phi)
    y, proba = (rng.random(n) < p).astype(int), np.column_stack([expit(-scale * phi), p])
    source = f"Röder et al. (2011): doubly stochastic field, n = {n}, {n_features} features"
    return _simulated("roeder_field", X, y, proba, source, latent=phi)


def _simulated(name: str, X: Array, y: Any, probability: Array, source: str, latent: Array | None = None) -> Dataset:
    """A data set with features x1, x2, ...; latent values over two of them have these as coordinates."""
    names = tuple(f"x{k + 1}" for k in range(X.shape[1]))
    values = None if latent is None else latent[:, None]
    at = None if latent is None or len(names) != 2 else (names[0], names[1])
    return Dataset(name, X, y, names, {}, values, None, at, probability, source)


def _latent_factor(K: Array) -> Array:
    """A factor A with A Aᵀ = K, by eigenvalues: needs no jitter, even for smooth kernels."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
