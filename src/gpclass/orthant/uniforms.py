"""Point sets in the unit cube, random and quasi-random, in independent randomisations.

A sampler that turns n uniforms into one draw computes an integral over the n-cube. Independent uniforms give an
error of order M^-½. A randomised lattice or net covers the cube more evenly, and mirroring every point, u and
1 − u, integrates odd functions exactly. Each point is still uniform, so the estimate stays unbiased; its error
is estimated from R independent randomisations.

- ``random``: independent uniforms; every point is its own group.
- ``lattice``: Richtmyer's k·√p_j mod 1 with a random shift, folded by the tent map, and mirrored.
- ``sobol``: Sobol's sequence with a random linear scramble in the first 32 coordinates, random in the rest,
  and mirrored.
- ``orthogonal``: normals in random directions that are at right angles to each other, up to n at a time, mirrored.
  Over n of them a quadratic function of one direction, whichever it is, is integrated with a variance 3/n of that
  of independent draws, and odd functions exactly. What lattices do for the leading coordinates alone, this does for
  all directions alike.
- ``perpendicular``: the same, faster: the directions come from a Cholesky factor of their products, and the sampler
  takes the normals themselves (:func:`normals`), of which most need no normal tail.
- ``frames``: the same in randomisations of whole frames, n directions and their mirror images each, wherever there are
  points for six. Directions of an incomplete frame integrate quadratic functions as independent draws do: with 57 pairs
  for 50 directions the variance of a probability is a third larger than with 50, per draw; with 250 pairs for 400
  directions it is nearly twice that of 400.

Models are saved with the name of their points, so that earlier names stay what they were.

Measured on the guided sampler (``benchmarks/orthant.py``, 1000 draws), the lattice and Sobol's sequence reduce
the standard deviation of log P by a factor of 1 to 2 against random points, up to 3 where few directions matter, with
little difference between them. The lattice costs no more than random numbers. Probabilities of new labels vary in
as many directions as there are new points: at the worst of 80 points orthogonal draws have a variance 2 to 8 times
smaller than a lattice's.
Cost: O(nM), orthogonal n²M. References: Richtmyer (1951); Owen (1998), Scrambling Sobol' and Niederreiter-Xing points;
L'Ecuyer & Lemieux (2002), Recent advances in randomized quasi-Monte Carlo methods; Stewart (1980), The efficient
generation of random orthogonal matrices.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import ndtr, ndtri

from gpclass._typing import Array, IntArray

PointSet = Literal["random", "lattice", "sobol", "orthogonal", "perpendicular", "frames"]
POINT_SETS: tuple[str, ...] = get_args(PointSet)
NORMAL = ("perpendicular", "frames")  # point sets that are made as normals
IN_DIRECTIONS = ("orthogonal", *NORMAL)
REPLICATES = 25  # randomisations per standard error, which then has an error of 14 %
LEAST = 1e-3  # smallest over largest new length of a vector, above which directions are orthogonal to 1e-8
FEWEST = 12  # of orthogonal draws, if more would have fewer than n directions each; then 21 %
FEWEST_FRAMES = 6  # then 32 %, which the wider error for few groups covers
EDGE = 2.0**-53  # least distance of a uniform from 0 and 1, where quantiles are infinite
PANEL = 32  # columns that a factorisation takes at a time; SciPy leaves room for three, 3 times slower at n = 800
SOBOL_DIMENSIONS = 32  # scrambling more coordinates does not pay


def frame(n: int, share: float = 1.0) -> int:
    """Points of a whole frame and its mirror image, in n dimensions, and those that other points have besides."""
    return round(2 * n / share)


def whole_frames(M: int, n: int, share: float = 1.0, most: float = np.inf) -> int:
    """About M points in whole frames, ``most`` at most; M itself if they are too few."""
    size = frame(n, share)
    whole = round(M / size) * size
    return (whole if whole <= most else M // size * size) if M >= FEWEST_FRAMES * size else M


def replicate_sizes(M: int, kind: PointSet = "lattice", n: int = 1, share: float = 1.0) -> list[int]:
    """Sizes of the randomisations of M points in n dimensions, at least four points each.

    ``share`` of the points of a randomisation are those that frames are made of.
    """
    size = frame(n, share)
    if kind == "frames" and M // size >= FEWEST_FRAMES:
        count = M // size
        bounds = size * np.linspace(0, count, min(count, REPLICATES) + 1).astype(int)
        bounds[-1] = M
        return [int(one) for one in np.diff(bounds)]
    most = min(max(M // (2 * n), FEWEST), REPLICATES) if kind in IN_DIRECTIONS else REPLICATES
    R = max(1, min(most, M // 4))
    bounds = np.linspace(0, M, R + 1).astype(int)
    return [int(size) for size in np.diff(bounds)]


def mirrored_pairs(group: IntArray) -> IntArray:
    """The pair of each point, (M,), of point sets that stand one after another; ``group`` numbers them, (M,)."""
    bounds = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(group)]
    pairs, first = np.empty(len(group), dtype=np.intp), 0
    for a, e in pairwise(bounds):
        half = (e - a + 1) // 2
        pairs[a:e] = first + np.arange(e - a) % half
        first += half
    return pairs


def directions(M: int, n: int, share: float = 1.0) -> float:
    """Share of the n directions that a randomisation of M draws in frames has, from 0 for one direction to 1."""
    size = round(share * M / len(replicate_sizes(M, "frames", n, share))) // 2
    return min(1.0, (size - 1) / max(n - 1, 1))


def point_sets(kind: PointSet, n: int, sizes: list[int], rng: np.random.Generator) -> Iterator[Array]:
    """Independent randomisations, each (n, size)."""
    for stream, size in zip(rng.spawn(len(sizes)), sizes, strict=True):
        yield points(kind, n, size, stream)


def normal_sets(kind: PointSet, n: int, sizes: list[int], rng: np.random.Generator) -> Iterator[Array]:
    """The same as standard normals."""
    for stream, size in zip(rng.spawn(len(sizes)), sizes, strict=True):
        yield normals(kind, n, size, stream)


def points(kind: PointSet, n: int, size: int, rng: np.random.Generator) -> Array:
    """One randomisation, (n, size)."""
    if kind in NORMAL:
        return as_uniforms(normals(kind, n, size, rng))
    if kind == "random":
        U = rng.random((n, size))
    else:
        half = (size + 1) // 2
        U = np.empty((n, size))
        U[:, :half] = {"lattice": lattice, "sobol": sobol, "orthogonal": orthogonal}[kind](n, half, rng)
        np.subtract(1.0, U[:, : size - half], out=U[:, half:])
    return np.clip(U, EDGE, 1 - EDGE, out=U)


def normals(kind: PointSet, n: int, size: int, rng: np.random.Generator) -> Array:
    """One randomisation as standard normals, (n, size)."""
    if kind not in NORMAL:
        return np.asarray(ndtri(points(kind, n, size, rng)))
    half = (size + 1) // 2
    Z = np.empty((n, size))
    Z[:, :half] = in_directions(rng.standard_normal((half, n)).T, spanned, rng)
    np.negative(Z[:, : size - half], out=Z[:, half:])
    return Z


def as_uniforms(Z: Array) -> Array:
    """The uniforms Φ(Z), in the open interval (0, 1)."""
    U = ndtr(Z)
    return np.clip(U, EDGE, 1 - EDGE, out=U)


def lattice(n: int, M: int, rng: np.random.Generator) -> Array:
    """One shifted and folded Richtmyer lattice, (n, M)."""
    U = np.outer(np.sqrt(primes(n)) % 1.0, np.arange(1, M + 1))
    U += rng.random((n, 1))
    U %= 1.0
    U *= 2.0
    U -= 1.0
    return np.asarray(np.abs(U, out=U))


def sobol(n: int, M: int, rng: np.random.Generator) -> Array:
    """One scrambled Sobol set in the first coordinates, uniforms in the rest, (n, M)."""
    from scipy.stats import qmc  # here, to keep the import of the package fast

    U = rng.random((n, M))
    d = min(n, SOBOL_DIMENSIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # M need not be a power of two for unbiasedness
        U[:d] = qmc.Sobol(d, scramble=True, bits=32, seed=rng).random(M).T
    return U


def orthogonal(n: int, M: int, rng: np.random.Generator) -> Array:
    """Normals in blocks of up to n orthogonal directions, as uniforms (n, M)."""
    return np.asarray(ndtr(in_directions(np.asfortranarray(rng.standard_normal((n, M))), reflected, rng)))


def in_directions(Z: Array, directions: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """Normals in blocks of up to n orthogonal directions, (n, M), from independent ones in Fortran's order.

    The directions are the columns of a random orthogonal matrix, their signs random (a factorisation's are not), and
    their lengths those of independent normal vectors: each column is a standard normal vector, exactly.
    """
    n, M = Z.shape
    length = np.sqrt(rng.chisquare(n, M)) * rng.choice((-1.0, 1.0), M)
    for a in range(0, M, n):
        Z[:, a : a + n] = directions(Z[:, a : a + n])
    Z *= length
    return Z


def reflected(Z: Array) -> Array:
    """An orthonormal basis of the columns of Z (n, k), by Householder's reflections."""
    packed, tau, _, _ = lapack.dgeqrf(Z, lwork=PANEL * len(Z))
    return np.asarray(lapack.dorgqr(packed, tau, lwork=PANEL * len(Z))[0])


def spanned(Z: Array) -> Array:
    """The same as Z L⁻ᵀ, ZᵀZ = L Lᵀ, in a third of the time; by reflections if rounding would show."""
    L, info = lapack.dpotrf(blas.dsyrk(1.0, Z, trans=1, lower=1), lower=1)
    if info != 0 or np.diag(L).min() < LEAST * np.diag(L).max():
        return reflected(Z)
    return np.asarray(blas.dtrsm(1.0, L, Z, side=1, lower=1, trans_a=1))


@lru_cache(maxsize=8)
def primes(n: int) -> Array:
    """The first n primes, read only: every randomisation asks for the same ones."""
    top = max(15, int(n * (np.log(n + 1) + np.log(np.log(n + 3)))) + 10)
    sieve = np.ones(top + 1, dtype=bool)
    sieve[:2] = False
    for p in range(2, int(top**0.5) + 1):
        if sieve[p]:
            sieve[p * p :: p] = False
    found = np.flatnonzero(sieve)[:n].astype(float)
    found.flags.writeable = False
    return found
