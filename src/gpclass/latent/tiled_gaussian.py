r"""The tiled neighbour prior times sites: exact means of all rows, variances tile by tile.

Sites of precision W and shift b make means S⁻¹b, S = Q + W, and α = Q S⁻¹b, of all rows together. They are found from
the means of the Gaussian before, ``near_mean``, to a small share of their distance: as sweeps or Newton's steps
converge, so do they. Variances of the core rows, the determinant and what is predicted come from the tiles
(:mod:`gpclass.latent.tile_passes`). A sweep is one pass over the tiles; if the response of a factor to the sites is
used (:mod:`gpclass.latent.near_sites`), in that pass too. The determinant takes another one, when it is asked for.
Sites are found to a small share of the error that the halos leave, as ``error_of_halo`` tells it.

A new point belongs to the tile of its nearest row, and is predicted by the Gaussian of that tile's rows. Joint draws,
and the joint Gaussian of rows and new points, take the rows of all tiles that they touch.
Cost: one factor and its selected inverse per tile and sweep, and conjugate gradients over all rows; a Newton step needs
the latter alone. A prediction needs one factor per tile that it touches; those used last are kept, within ``KEPT``.
Fails when: joint draws touch more rows than ``MOST_DRAWN``; an error says what to do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from gpclass._typing import Array, Generator, IntArray
from gpclass.latent import newton
from gpclass.latent import tile_passes as passes
from gpclass.latent.in_memory import GaussianByMean, only
from gpclass.latent.near_sites import relative_change
from gpclass.latent.neighbour_gaussian import RESPONSIVE, NeighbourGaussian
from gpclass.latent.sites import Held, SiteRule, Swept, remembered
from gpclass.latent.tiles import TiledPrior
from gpclass.likelihoods.local import RowMarginals
from gpclass.model.rows import Labels
from gpclass.numerics.memory import available_memory
from gpclass.posterior import LatentMixture

if TYPE_CHECKING:
    from gpclass.latent.joint import Joint, SitedRows

NOTABLE = 0.02  # relative error of a standard deviation that is warned of
COLD, WARM = 1e-10, 0.03  # share of the error of a first mean that is left: of none, and of one nearby
FINE = 1e-6  # the same of plain sweeps, whose first mean is that of the sweep before
FINEST, OF_HALO = 5e-4, 0.05  # change of the sites at which sweeps may end: at most, and over the error of the halos
ROUNDS, EXCHANGED = 5, 1e-3  # of means for sites and sites for means, and the change of a site at which they end
KEPT, MOST_KEPT = 0.15, 2.0**29  # share of the free memory, and bytes, for the factors of tiles that predict
PER_PAIR = 28.0  # bytes of a pair of rows in what is kept beside a factor
MOST_DRAWN = 150_000  # rows of the tiles of a joint draw


class Recent:
    """Gaussians of the tiles used last, within ``KEPT`` and ``MOST_KEPT``; threads may share it."""

    def __init__(self) -> None:
        self._found: OrderedDict[int, NeighbourGaussian] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, tile: int) -> NeighbourGaussian | None:
        """That of a tile, which is now the last used; None if it is not kept."""
        with self._lock:
            if tile in self._found:
                self._found.move_to_end(tile)
            return self._found.get(tile)

    def keep(self, tile: int, found: NeighbourGaussian) -> None:
        """Keep that of a tile instead of those used longest ago, if memory is short."""
        most = min(KEPT * available_memory(), MOST_KEPT)
        with self._lock:
            self._found[tile] = found
            sizes = [_bytes(one) for one in self._found.values()]
            while len(sizes) > 1 and sum(sizes) > most:
                self._found.popitem(last=False)
                sizes.pop(0)

    def clear(self) -> None:
        """Keep none."""
        with self._lock:
            self._found.clear()

    def __reduce__(self) -> tuple[type[Recent], tuple[()]]:
        """What is pickled: an empty one, since factors are found again."""
        return Recent, ()


@dataclass(frozen=True, eq=False)
class Seen:
    """What the tiles found when they were last visited; one latent value per row."""

    numbers: list[Array]  # (2, r) per tile, the sites of core and halo
    cov: list[Array]  # (r, 1, 1), their variances

    @classmethod
    def after(cls, before: Seen | None, rows: list[IntArray], due: list[int], numbers: Array, cov: list[Array]) -> Seen:
        """After a visit of some tiles, whose variances were found at sites ``numbers`` (2, n)."""
        made = cls([], []) if before is None else cls(list(before.numbers), list(before.cov))
        for t, found in zip(due, cov, strict=True):
            made.numbers[t : t + 1], made.cov[t : t + 1] = [numbers[:, rows[t]]], [found]
        return made


def exchanged(
    prior: TiledPrior, labels: Labels, rule: SiteRule, numbers: Array, mean: Array, variance: Array, tol: float
) -> tuple[Array, Array]:
    """Sites (2, n) that match the means of all rows together, which a tile knows without the rows beyond its halo.

    Variances (n,) are those that the tiles expect; they follow a row's own site, as if the others did not change.
    """
    likelihood, first = prior.problem.likelihood, np.inf
    for _ in range(ROUNDS):
        sites = rule.sites(likelihood, labels, numbers)
        mean = TiledGaussian(prior, sites, labels.copies, mean).mean_f
        at = RowMarginals(np.ascontiguousarray(mean.T), variance[:, None, None], sites)
        new = rule.update(likelihood, labels, numbers, at)[0]
        change = relative_change(numbers, new, variance)
        if change > first:
            break
        variance = variance / (1.0 + labels.copies * (new[0] - numbers[0]) * variance)
        numbers, first = new, min(first, change)
        if change < max(tol, EXCHANGED):
            break
    return numbers, mean


def _bytes(found: NeighbourGaussian) -> float:
    cliques, L = found.prior.cliques, found.prior.L
    return 8.0 * cliques.tree.numbers * L**2 + PER_PAIR * len(cliques.i)


@dataclass(frozen=True, eq=False)
class TiledGaussian(GaussianByMean):
    """The tiled neighbour prior times sites."""

    prior: TiledPrior
    near_mean: Array | None = None  # (n, L), from which the mean is found
    share: list[Array] | None = None  # per tile, of sites nearby (TiledPrior.shares), for one latent value
    left: float = WARM  # share of the error of that mean which is left
    begun: bool = False
    tol: float = 0.0  # relative change of the sites of a tile that leaves its variances as they are
    seen: Seen | None = field(default=None, repr=False)
    factors: Recent = field(default_factory=Recent, repr=False)

    # ---- the distribution -------------------------------------------------------------------------------------

    @cached_property
    def mean_f(self) -> Array:
        """At the rows, (n, L)."""
        return self.prior.mean(self.W, self.b, self.near_mean, COLD if self.near_mean is None else self.left)

    @property
    def alpha(self) -> Array:
        """Q E f, (n, L)."""
        return self.prior.means.product(self.mean_f)

    @cached_property
    def covariance(self) -> Array:
        """Of the latent values of each row, (n, L, L)."""
        return self.prior.of_cores(self.prior.map(passes.moments, self.W, False)["cov"])

    @cached_property
    def half_log_det(self) -> float:
        return self._half(self.prior.map(passes.determinant, self.W)["half"])

    def _half(self, found: float) -> float:
        return float(found - self.prior.half_log_det)

    @property
    def log_mass(self) -> float:
        """Log ∫ prior × sites."""
        return self._height - self.half_log_det

    @property
    def _height(self) -> float:
        """½ bᵀS⁻¹b, as bᵀf − ½ fᵀS f: an error of the mean counts by its square."""
        f = self.mean_f
        return float(np.vdot(self.b, f) - 0.5 * np.vdot(f, self.alpha + np.einsum("nab,nb->na", self.W, f)))

    @property
    def jitter(self) -> float:
        return self.prior.conditionals[1]

    @cached_property
    def error_of_halo(self) -> float:
        """The largest relative error of a standard deviation at the core of one tile, as a wider halo tells it."""
        prior, t = self.prior, len(self.prior.tiles) // 2
        core, rows = prior.layout.cores[t], prior.layout.wider(t)
        wide = prior.tile(rows, np.zeros(len(rows), dtype=np.int8), -1)
        variances = []
        for held, tile in ((rows, wide), (prior.layout.rows[t], prior.tiles[t])):
            found = passes.moments(tile, prior.spec, self.W, False)[1]["cov"][0][np.searchsorted(held, core)]
            variances.append(np.einsum("naa->na", found))
        return float(np.sqrt(variances[1] / variances[0]).max() - 1.0)

    @property
    def details(self) -> dict[str, Any]:
        return {"sd_error_of_halo": self.error_of_halo}

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.error_of_halo < NOTABLE:
            return ()
        form, k = self.prior.problem.form, self.prior.near.shape[1]
        wider = f"Neighbours({k}, halo={2 * getattr(form, 'halo', 15.0):g})"
        return (
            f"a standard deviation of the latent values is up to {self.error_of_halo:.1%} too large, since the halos "
            f"of the tiles are too narrow for this kernel; use latent_prior={wider}, or tile=0 for one factor",
        )

    # ---- sweeps and steps -------------------------------------------------------------------------------------

    def responds(self, rule: SiteRule) -> bool:
        """As that of a tile does."""
        return rule.careful and self.prior.L == 1 and self.prior.problem.n >= RESPONSIVE

    def sweep(self, held: Held, rule: SiteRule, step: float, remember: int) -> Swept:
        prior, likelihood = self.prior, self.prior.problem.likelihood
        shard, labels = only(held, likelihood)
        old = shard.kept[: rule.numbers(likelihood, prior.L)]
        whole, ahead, seen = None, None, None
        if step == 1.0 and self.responds(rule):
            due = self._due(old)
            ahead = prior.map(passes.ahead, rule, old, self.mean_f, self.share, some=due) if due else {}
            seen = Seen.after(self.seen, prior.layout.rows, due, old, ahead.get("cov", []))
            found = seen.cov
        else:
            sums = prior.map(passes.moments, self.W, rule.bound)
            found = sums["cov"]
            if rule.bound:
                vars(self).setdefault("half_log_det", self._half(sums["half"]))
        cov, mean = vars(self).setdefault("covariance", prior.of_cores(found)), self.mean_f
        new, terms = rule.update(likelihood, labels, old, self.marginals)
        if ahead is not None and 2 * ahead.get("plain", 0) <= len(due):
            whole, mean, variance = new.copy(), mean.copy(), cov[:, 0, 0].copy()
            for i, t in enumerate(due):
                core = prior.layout.cores[t]
                whole[:, core], mean[core] = ahead["numbers"][i], ahead["mean"][i]
                variance[core] = ahead["variance"][i]
            new, mean = exchanged(prior, labels, rule, whole, mean, variance, self.tol)
        moved = new if step == 1.0 else old + step * (new - old)
        next_held = (shard.with_values(remembered(shard.kept, moved, remember)),)
        share = prior.shares(cov[:, 0, 0], found) if prior.L == 1 else None
        left = FINE if whole is None else WARM
        after = TiledGaussian(prior, *prior.sited(next_held, rule), mean, share, left, tol=self.tol, seen=seen)
        value = partial(self._value, float(np.sum(labels.copies * terms)))
        return Swept(next_held, after, value, whole is not None)

    def _due(self, numbers: Array) -> list[int]:
        """Tiles that have other sites, core or halo, than when their variances were found."""
        rows, seen = self.prior.layout.rows, self.seen
        if seen is None:
            return list(range(len(rows)))
        each = enumerate(zip(rows, seen.numbers, seen.cov, strict=True))
        return [t for t, (own, then, cov) in each if relative_change(then, numbers[:, own], cov[:, 0, 0]) > self.tol]

    def _value(self, terms: float) -> float:
        """Evidence or bound, from what the rows add; the determinant takes a pass over the tiles."""
        return self.log_mass + terms

    def roughly(self, tol: float, rule: SiteRule) -> TiledGaussian:
        """The same, whose tiles are not visited again if their sites change by less than this."""
        return replace(self, tol=tol, factors=Recent())

    def beside(self, held: Held, rule: SiteRule) -> TiledGaussian:
        """The Gaussian of other sites, whose mean and variances are near these."""
        mean = vars(self).get("mean_f", self.near_mean)
        made = TiledGaussian(self.prior, *self.prior.sited(held, rule), mean, self.share, self.left)
        return replace(made, tol=self.tol, seen=self.seen)

    @property
    def proper(self) -> bool:
        """So it is if no site lowers a precision; else the determinant tells."""
        return bool(np.all(np.linalg.eigvalsh(self.W) >= 0.0)) or super().proper

    @property
    def finest(self) -> float:
        return min(OF_HALO * self.error_of_halo, FINEST)

    def moved_to(self, held: Held) -> TiledGaussian:
        (shard,) = held
        moved = replace(self, sites=self.sites_at(held), factors=Recent())
        f = shard.kept.reshape(newton.NUMBERS, self.prior.L, -1)[newton.F]
        vars(moved)["mean_f"] = np.ascontiguousarray(f.T)
        for name in ("half_log_det", "covariance"):
            if name in vars(self):
                vars(moved)[name] = vars(self)[name]
        return moved

    def gradient(self, held: Held, rule: SiteRule, extra: bool = False) -> tuple[Array, Array | None]:
        raise ValueError(
            f"the gradient of the evidence of {self.prior.problem.n} rows in tiles is not available; use one factor "
            "for all rows, latent_prior=Neighbours(k, tile=0), or hyperparameters='maximize', 'map', 'cv' or 'fixed', "
            "which do without it"
        )

    # ---- new points -------------------------------------------------------------------------------------------

    def _region(self, tiles: Sequence[int]) -> NeighbourGaussian:
        """The Gaussian of all rows of some tiles, with the means that they have."""
        prior = self.prior
        key = tiles[0] if len(tiles) == 1 else -1
        known = self.factors.get(key)
        if known is not None:
            return known
        rows = np.unique(np.concatenate([prior.layout.rows[t] for t in tiles]))
        tile = prior.tiles[key] if key >= 0 else prior.tile(rows, np.zeros(len(rows), dtype=np.int8), -1)
        found = prior.spec.prior(tile).centred(self.W[rows], self.mean_f[rows])
        if key >= 0:
            self.factors.keep(key, found)
        return found

    def blocks(self, X_new: Array, most: int) -> list[IntArray]:
        """One tile's points after another's."""
        of, step = self.prior.tile_of(X_new), max(1, most // (self.prior.near.shape[1] + 1) ** 2)
        tiles = (np.flatnonzero(of == t) for t in np.unique(of))
        return [points[begin : begin + step] for points in tiles for begin in range(0, len(points), step)]

    def means(self, X_new: Array) -> Array:
        return np.asarray(self.latent(X_new).means[0])

    def latent(self, X_new: Array) -> LatentMixture:
        """One Gaussian per point, from the tile of its nearest row."""
        prior, p, L = self.prior, len(X_new), self.prior.L
        of = prior.tile_of(X_new)
        used = np.unique(of)
        mean, cov = np.empty((1, p, L)), np.empty((1, p, L, L))
        for t in used.tolist():
            found = self._region([t]).latent(X_new[of == t])
            mean[0, of == t], cov[0, of == t] = found.means[0], found.covariances[0]
        return LatentMixture(np.ones(1), mean, cov, np.zeros(1, dtype=np.intp))

    def _together(self, tiles: IntArray) -> NeighbourGaussian:
        """The Gaussian of the rows of some tiles for what is joint, if these are not too many."""
        rows = sum(len(self.prior.layout.rows[t]) for t in tiles)
        if len(tiles) > 1 and rows > MOST_DRAWN:
            raise ValueError(
                f"the points touch {len(tiles)} tiles of together {rows} rows, and joint draws take at most "
                f"{MOST_DRAWN}; draw at the points of a smaller region at once, or fit with one factor for all rows, "
                "latent_prior=Neighbours(k, tile=0)"
            )
        return self._region(tiles.tolist())

    def joint(self, rows: SitedRows, X_new: Array) -> Joint:
        """Of the tiles of the rows and points together."""
        tiles = np.union1d(self.prior.layout.core_of[rows.index], self.prior.tile_of(X_new))
        held = np.unique(np.concatenate([self.prior.layout.rows[t] for t in tiles]))
        return self._together(tiles).joint(replace(rows, index=np.searchsorted(held, rows.index)), X_new)

    def draw(self, X_new: Array, n: int, rng: Generator) -> Array:
        """Joint draws over X_new, (n, p, L), of the tiles that it touches."""
        return self._together(np.unique(self.prior.tile_of(X_new))).draw(X_new, n, rng)

    def draw_rows(self, rng: Generator) -> Array:
        """From the rows of all tiles together, if these are not too many."""
        return self._together(np.arange(len(self.prior.tiles))).draw_rows(rng)

    def vectors(self) -> Array:
        """W, b and means, (L² + 2 L, n)."""
        L = self.prior.L
        return np.vstack([self.W.transpose(1, 2, 0).reshape(L * L, -1), self.b.T, self.mean_f.T])

    def kept(self) -> dict[str, Array]:
        """Sites, all copies together, and means."""
        return {"W": self.W, "b": np.ascontiguousarray(self.b.T), "mean": np.ascontiguousarray(self.mean_f.T)}
