r"""Likelihoods of C classes, each with a latent value f_c.

Softmax: p(y = c | f) = exp(f_c) / Σ_b exp(f_b). Multinomial probit: utilities u_c = f_c + ε_c with
independent ε_c ~ N(0, 1), and y is the class of the largest, so

    p(y = c | f) = ∫ φ(t − f_c) Π_{b≠c} Φ(t − f_b) dt.

For C = 2 the first is the logit of f_1 − f_0 and the second its probit with scale 1/√2: since f_1 − f_0 has
covariance 2K, multinomial probit with K is probit with K, and softmax with K is logit with 2K.

Averages of softmax over a Gaussian (for the variational bound, and over the residual of inducing inputs) are means
over fixed normal points, mirrored and with the right covariance, so that nothing is random. For latent standard
deviations below 1 ``POINTS`` of them leave errors of about 1e-4, and ``REST_POINTS`` errors of 1e-3; near 2 they are a
hundredth, and for the residual of an unlikely label a tenth of a nat.
Averages for predictions are in :mod:`gpclass.likelihoods.averages`.
Reference: Rasmussen & Williams (2006), §3.5; Girolami & Rogers (2006) for the utilities.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from gpclass._typing import Array, BoolArray, Generator, IntArray
from gpclass.likelihoods import averages, nested
from gpclass.likelihoods.base import Averages, Expansion, Likelihood
from gpclass.likelihoods.local import RowMarginals, RowSites, symmetric_root
from gpclass.likelihoods.nested import PointSites, other_classes
from gpclass.likelihoods.utilities import largest_slopes, log_largest
from gpclass.model.rows import Labels
from gpclass.numerics.products import MANY
from gpclass.numerics.special import log_sum_exp

ENOUGH = 16  # components of a mixture from which a few nodes each suffice
POINTS = 256  # normal points of an average over a Gaussian, and their mirror images
REST_POINTS = 16  # of an average over the residual of inducing inputs, and their mirror images


@dataclass(frozen=True)
class MultiLikelihood(Likelihood):
    """One latent value per class."""

    many: ClassVar[bool] = True

    @abstractmethod
    def log_classes(self, f: Array) -> Array:
        """Log probability of every class, for latent values f (..., C)."""

    def log(self, y: IntArray, f: Array) -> Array:
        return np.asarray(self._by_row(f)[..., np.arange(len(y)), y])

    def draw_labels(self, f: Array, rng: Generator) -> IntArray:
        steps = np.cumsum(np.exp(self._by_row(f)), axis=-1)
        return np.asarray((rng.random(steps.shape[:-1])[..., None] > steps[..., :-1]).sum(axis=-1))

    def _by_row(self, f: Array) -> Array:
        """Log probability of every class, (..., r, C), for f (..., C, r)."""
        return self.log_classes(np.ascontiguousarray(np.swapaxes(f, -1, -2)))


@dataclass(frozen=True)
class Softmax(MultiLikelihood):
    """The softmax link."""

    name: ClassVar[str] = "softmax"
    average_error: ClassVar[float] = 3e-3

    def log_classes(self, f: Array) -> Array:
        return np.asarray(f - logsumexp(f, axis=-1, keepdims=True))

    def log_averaged(self, means: Array, covariances: Array) -> Array:
        S, m, C = means.shape
        if S >= ENOUGH and C > 2:
            return averages.log_softmax_few_nodes(means, covariances)
        full = np.broadcast_to(covariances, (S, m, C, C)).reshape(-1, C, C)
        return averages.log_softmax_average(means.reshape(-1, C), full).reshape(S, m, C)

    def log(self, y: IntArray, f: Array) -> Array:
        top = f.max(axis=-2)
        true = np.take_along_axis(f, np.broadcast_to(y, top.shape)[..., None, :], axis=-2)[..., 0, :]
        return np.asarray(true - top - np.log(np.exp(f - top[..., None, :]).sum(axis=-2)))

    def slope(self, y: IntArray, f: Array) -> tuple[Array, Array]:
        top = f.max(axis=1)
        pi = np.exp(f - top[:, None])
        total = pi.sum(axis=1)
        pi /= total[:, None]
        log_p = f[:, y, np.arange(len(y))] - top - np.log(total)
        return np.asarray(log_p), np.asarray(one_hot(y, f.shape[1]) - pi)

    def expand(self, y: IntArray, f: Array) -> Expansion:
        """To second order at f (C, r): curvature diag(π) − π πᵀ."""
        log_pi = f - log_sum_exp(f, axis=0)
        pi = np.exp(log_pi)
        return Expansion(log_pi[y, np.arange(len(y))], one_hot(y, len(f)) - pi, pi)

    def third(self, y: IntArray, f: Array, cov: Array) -> Array:
        """−½ π_c [Σ_cc − Σ_a π_a Σ_aa − 2 (Σπ)_c + 2 πᵀΣπ]."""
        pi = np.exp(f - log_sum_exp(f, axis=0))
        own = np.einsum("icc->ci", cov) * pi
        cross = np.einsum("iab,bi->ai", cov, pi)
        mean_own, mean_cross = own.sum(axis=0), (pi * cross).sum(axis=0)
        return np.asarray(-0.5 * (own - pi * (mean_own + 2.0 * cross - 2.0 * mean_cross)))

    def average(self, y: IntArray, mean: Array, cov: Array) -> Averages:
        """Averages over N(mean, cov) at fixed points."""
        C, r = mean.shape
        value, slope, W = np.empty(r), np.empty((C, r)), np.empty((r, C, C))
        root = symmetric_root(cov)
        z = _mirrored(C, POINTS)
        for rows in averages.chunks(np.arange(r), C * z.shape[1]):
            f = mean.T[rows][:, :, None] + root[rows] @ z  # (r, C, nodes)
            value[rows], pi = softmax_at(f, y[rows])
            average = pi.mean(axis=2)
            slope[:, rows] = one_hot(y[rows], C) - average.T
            W[rows] = -(pi @ pi.transpose(0, 2, 1)) / z.shape[1]
            W[rows] += average[:, :, None] * np.eye(C)
        return Averages(value, slope, W)

    def smear(self, labels: Labels, g: Array, rest: Array) -> Array:
        """By a mean over fixed points of the residual."""
        C, r, M = g.shape
        out = np.empty((r, M))
        if not np.any(rest):
            return np.asarray(labels.power_column * self._log_true(labels.y, g[:, :, :, None])[..., 0])
        e = np.sqrt(rest)[:, :, None] * _mirrored(C, REST_POINTS)[:, None, :]  # (C, r, nodes)
        for rows in averages.chunks(np.arange(r), M * C * e.shape[2]):
            log_p = self._log_true(labels.y[rows], g[:, rows, :, None] + e[:, rows, None, :])
            out[rows] = log_sum_exp(labels.take(rows).power_column[..., None] * log_p, axis=2)
        return np.asarray(out - np.log(e.shape[2]))

    def smear_slopes(self, labels: Labels, g: Array, rest: Array) -> tuple[Array, Array]:
        C, r, M = g.shape
        first, second = np.empty((C, r, M)), np.empty((C, r, M))
        e = np.sqrt(rest)[:, :, None] * _mirrored(C, REST_POINTS)[:, None, :]
        for rows in averages.chunks(np.arange(r), 3 * M * C * e.shape[2]):
            part, y = labels.take(rows), labels.y[rows]
            f = g[:, rows, :, None] + e[:, rows, None, :]  # (C, r, M, nodes)
            pi = np.exp(f - f.max(axis=0))
            pi /= pi.sum(axis=0)
            w = part.power_column[..., None]
            mass = w * np.log(np.maximum(pi[y, np.arange(len(y))], 1e-300))
            share = np.exp(mass - log_sum_exp(mass, axis=2, keepdims=True))
            d1 = w * (one_hot(y, C)[:, :, None, None] - pi)  # of w log π_y
            first[:, rows] = (share * d1).sum(axis=3)
            second[:, rows] = (share * (d1**2 - w * pi * (1.0 - pi))).sum(axis=3)
        return first, second

    @staticmethod
    def _log_true(y: IntArray, f: Array) -> Array:
        """The log p(y | f) for f (C, r, ...), (r, ...)."""
        return np.asarray(f[y, np.arange(len(y))] - log_sum_exp(f, axis=0))


@dataclass(frozen=True)
class MultinomialProbit(MultiLikelihood):
    """The class of the largest utility, each utility with independent standard normal noise."""

    name: ClassVar[str] = "multinomial-probit"
    normal_tail: ClassVar[bool] = True
    powers: ClassVar[bool] = False
    site_step: ClassVar[float] = 0.7

    def log_classes(self, f: Array) -> Array:
        flat = f.reshape(-1, f.shape[-1])
        return log_largest(flat, np.ones(f.shape[-1]), fine=False).reshape(f.shape)

    def log_averaged(self, means: Array, covariances: Array) -> Array:
        return self._averaged(means, covariances, len(means) >= MANY)

    def rough_average(self, means: Array, covariances: Array) -> Array:
        """In single precision."""
        return np.exp(self._averaged(means, covariances, single=True))

    @staticmethod
    def _averaged(means: Array, covariances: Array, single: bool) -> Array:
        S, m, C = means.shape
        full = np.broadcast_to(covariances, (S, m, C, C)).reshape(-1, C, C)
        return averages.log_probit_average(means.reshape(-1, C), full, fine=S == 1, single=single).reshape(S, m, C)

    def site_numbers(self, L: int) -> int:
        """Precision and shift of C − 1 constraints."""
        return 2 * (L - 1)

    def sites(self, y: IntArray, numbers: Array) -> RowSites:
        """The constraints' sites in hub form (:mod:`gpclass.likelihoods.nested`)."""
        D, b = nested.hub_form(y, PointSites.of(numbers))
        return RowSites(b=b, D=D)

    def pack_sites(self, numbers: Array) -> Array:
        """log t and h/√t, in which every mixture is a site."""
        half = numbers.shape[-2] // 2
        t, h = np.maximum(numbers[..., :half, :], nested.LEAST), numbers[..., half:, :]
        return np.concatenate([np.log(t), h / np.sqrt(t)], axis=-2)

    def unpack_sites(self, packed: Array) -> Array:
        """t and h, within their range."""
        log_t, z = packed[: len(packed) // 2], packed[len(packed) // 2 :]
        t = np.exp(np.clip(log_t, np.log(nested.LEAST), np.log(nested.MOST)))
        return np.concatenate([t, z * np.sqrt(t)])

    def first_site(self, labels: Labels, at: RowMarginals) -> Array:
        """Sites on the scale of the marginals."""
        return nested.sharp_sites(labels.y, at.var).numbers

    def match(self, labels: Labels, numbers: Array, at: RowMarginals) -> tuple[Array, Array]:
        """Nested expectation propagation: a row's constraints are fitted against its cavity."""
        old = PointSites.of(numbers)
        mean, cov = at.cavity()
        lost = without_cavity(labels, cov)
        if lost.any():  # without as much of the site as there is; the evidence is then not EP's
            rest = at.cavity(np.minimum(labels.copies, 1.0))
            mean, cov = np.where(lost, rest[0], mean), np.where(lost[:, None, None], rest[1], cov)
        moments = nested.local_moments(*nested.differences(labels.y, mean, cov), old)
        new = nested.fitted_sites(*moments, old)
        if np.any(np.asarray(labels.copies) > 1.0):  # copies move together: each takes its share of the step
            step = 1.0 / np.maximum(labels.copies, 1.0)[:, None]
            new = PointSites(old.t ** (1 - step) * new.t**step, (1 - step) * old.h + step * new.h)
        return new.numbers, old.log_noise + nested.log_corrections(*moments, old)

    def smear(self, labels: Labels, g: Array, rest: Array) -> Array:
        """The residual is added to the noise of the utilities."""
        C, r, M = g.shape
        flat = g.reshape(C, -1).T
        sds = np.repeat(np.sqrt(1.0 + rest).T, M, axis=0)
        log_p = log_largest(flat, sds, fine=False).reshape(r, M, C)
        return np.asarray(log_p[np.arange(r), :, labels.y])

    def smear_slopes(self, labels: Labels, g: Array, rest: Array) -> tuple[Array, Array]:
        """By quadrature over the largest utility."""
        C, r, M = g.shape
        sds = np.repeat(np.sqrt(1.0 + rest).T, M, axis=0)
        first, second = largest_slopes(g.reshape(C, -1).T, sds, np.repeat(labels.y, M))
        return first.T.reshape(C, r, M), second.T.reshape(C, r, M)

    def orthant(self, y: IntArray, covariances: list[Array]) -> tuple[Array, Array]:
        """v_(i,c) = u_{i,y_i} − u_{i,c} for c ≠ y_i; coordinates run over rows, and within a row over classes.

        With Ã_c = K_c + I, cov(v_(i,a), v_(j,b)) at (i, j) is
        [y_i = y_j] Ã_{y_i} − [y_i = b] Ã_{y_i} − [a = y_j] Ã_a + [a = b] Ã_a.
        """
        n, C = len(y), len(covariances)
        others, rows = other_classes(y, C), np.arange(n)
        sign = np.zeros((C, n, C - 1))  # of each utility in each coordinate
        sign[y, rows] = 1.0
        sign[others, rows[:, None], np.arange(C - 1)] = -1.0
        S = np.zeros((n, C - 1, n, C - 1))
        for c in range(C):
            # Only coordinates that involve class c: those of its own rows, and one of every other row.
            K = covariances[c].copy()
            K.flat[:: n + 1] += 1.0
            i, a = np.nonzero(sign[c])
            s = sign[c][i, a]
            S[i[:, None], a[:, None], i, a] += s[:, None] * K[np.ix_(i, i)] * s
        flat = S.reshape(n * (C - 1), n * (C - 1))
        scale = np.sqrt(np.diag(flat))
        flat /= scale[:, None]
        flat /= scale
        flat.flat[:: len(flat) + 1] = 1.0
        return flat, scale


def softmax_at(f: Array, y: IntArray) -> tuple[Array, Array]:
    """Mean over the nodes of log p(y | f), (r,), and softmax of f (r, C, nodes), which is overwritten."""
    f -= f.max(axis=1, keepdims=True)
    true = f[np.arange(len(y)), y]
    pi = np.exp(f, out=f)
    total = pi.sum(axis=1)
    pi /= total[:, None]
    return (true - np.log(total)).mean(axis=1), pi


def without_cavity(labels: Labels, cov: Array) -> BoolArray:
    """Rows of weight below 1 whose marginal without a whole copy, of covariance (r, L, L), is no Gaussian, (r,)."""
    light = np.broadcast_to(np.asarray(labels.copies) < 1.0, len(cov))
    lost = np.zeros(len(cov), dtype=bool)
    lost[light] = np.linalg.eigvalsh(cov[light])[:, 0] <= 0.0
    return lost


def one_hot(y: IntArray, C: int) -> Array:
    """Labels as zeros and ones, (C, r)."""
    return np.asarray(np.arange(C)[:, None] == y, dtype=float)


@cache
def _mirrored(C: int, N: int) -> Array:
    """Fixed standard normal points and their mirror images, (C, 2N or more); cubic polynomials have no error."""
    z = averages.normal_points(C, max(N, 1 << int(np.ceil(np.log2(4 * C))))).T
    values, vectors = np.linalg.eigh(z @ z.T / z.shape[1])
    z = (vectors / np.sqrt(values)) @ vectors.T @ z
    z = np.hstack([z, -z])
    z.flags.writeable = False
    return np.asarray(z)
