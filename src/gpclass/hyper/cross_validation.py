"""Parameters with the best cross-validated score: R's way to l, c0 and k0.

Every candidate is fitted to all folds but one and scored on that one, in turn; the candidate with the best score
over all points is fitted to all data. Candidates are a full grid, or Halton or random points in a box, uniform in the
logarithms; later rounds use a smaller box about the best so far. No gradient and no evidence is needed, so this works
for every inference and every parameter: those of the kernel, free or fixed (also a smoothness), the scale of the
likelihood (c0 of AMP, k0 of DSGQ), and settings of the inference.

All candidates see the same folds and the same random numbers. Around the estimator, an outer cross-validation
makes it nested: the parameters are then chosen without the outer test fold (R §5.2).

Cost: candidates × folds inferences, side by side with ``n_jobs``. Fails when: a class has few points, or the best
lies at the end of its grid (with a warning). The score of the best candidate is optimistic because of the selection.
Reference: Röder, Tolosana-Delgado & Hamprecht (2011), §5.2; Varma & Simon (2006), BMC Bioinformatics 7, 91.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from gpclass._typing import Array, IntArray
from gpclass.folds import spatial_folds, stratified_folds
from gpclass.hyper.base import Fit, Run, Strategy
from gpclass.inference.base import Inference
from gpclass.model.parameters import SCALE_NAME
from gpclass.model.problem import Problem
from gpclass.predict import in_blocks, predict_proba
from gpclass.progress import progress

SCALE_NAMES = (SCALE_NAME, "c0", "k0", "scale")
SHRINK = 1.0 / 3.0  # of the box's logarithmic width, from one round to the next


@dataclass(frozen=True)
class CrossValidation(Strategy):
    """Settings of the search.

    Parameters
    ----------
    grid : mapping of name to values, optional
        Every combination is tried. Names are those of the kernel's parameters as scikit-learn gives them
        (``k2__length_scale``; the end, ``length_scale``, suffices if it is unique), ``likelihood__scale`` (or c0,
        k0), or ``inference__`` and a setting.
    ranges : mapping of name to (low, high), optional
        Positive ranges for ``search``, instead of a grid. By default all free parameters, each from 1/span to span
        times its starting value, within its bounds.
    search : {"halton", "random"}
        How points are placed in the ranges.
    n_points : int
        Points per round, in addition to the starting values.
    rounds : int
        Rounds; each after the first has a box of a third of the width, about the best so far.
    span : float
        Factor from the starting values, without ranges.
    scoring : {"log-loss", "brier", "accuracy"}
        Score that ranks the candidates.
    folds : int
        Number of folds, stratified by class. Rows at one place (y of N labels) stay together, so that no place is in
        both training and test.
    block_size : float or "auto", optional
        Keep blocks in space of this edge together; "auto" takes about six blocks per fold.
    coordinates : tuple of int, optional
        Columns that are the coordinates of the blocks; all by default.
    """

    grid: Mapping[str, Sequence[Any]] | None = None
    ranges: Mapping[str, tuple[float, float]] | None = None
    search: str = "halton"
    n_points: int = 20
    rounds: int = 1
    span: float = 10.0
    scoring: str = "log-loss"
    folds: int = 5
    block_size: float | str | None = None
    coordinates: tuple[int, ...] | None = None

    name: ClassVar[str] = "cv"
    ignores: ClassVar[frozenset[str]] = frozenset(["priors", "n_restarts"])
    limits: ClassVar = {
        "search": ("halton", "random"),
        "scoring": ("log-loss", "brier", "accuracy"),
        "folds": 2,
        "block_size": ("auto",),
    }

    @classmethod
    def brief(cls) -> CrossValidation:
        return cls(n_points=1, folds=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.span > 1:
            raise ValueError(f"CrossValidation: span must be above 1, got {self.span!r}")
        if self.grid is not None and self.ranges is not None:
            raise ValueError("give a grid or ranges, not both")
        for name, values in (self.grid or {}).items():
            if np.ndim(values) != 1 or len(values) == 0:
                raise ValueError(f"the grid of {name} must be a list of one value at least, not {values!r}")
        for name, limits in (self.ranges or {}).items():
            if np.shape(limits) != (2,) or not 0 < limits[0] <= limits[1]:
                raise ValueError(f"the range of {name} must satisfy 0 < low <= high, not {limits!r}")

    @property
    def keeps_start(self) -> bool:
        """Parameters that are not searched stay as given."""
        return self.grid is not None or self.ranges is not None

    def __call__(self, problem: Problem, inference: Inference, run: Run) -> Fit:
        problem = problem.placed(run.rng)
        fold = self._fold_of(problem, run.rng)
        seed = int(run.rng.integers(2**63))
        tried, losses = self._scan(problem, inference.for_search, run, fold, seed)
        score = _pooled(losses, problem.weights)
        best = int(np.argmin(score))
        if not np.isfinite(score[best]):
            raise ValueError(
                "no candidate has a finite score: the inference fails at all of them, or is certain of wrong labels; "
                "try other ranges, or scoring='brier'"
            )
        at_best, chosen = assign(problem, inference, tried[best])
        posterior = chosen(at_best, np.random.default_rng(seed))
        trace = Search(self.scoring, tried, losses, fold, best, problem.weights)
        shown = {"cv_score": trace.scores[best], "cv_score_error": trace.errors[best]}
        shown |= {f"chosen_{name}": value for name, value in tried[best].items()}
        return Fit(
            at_best,
            posterior,
            figures={"evaluations": len(tried) * (int(fold.max()) + 1) + 1},
            warnings=self._at_an_end(tried[best]),
            trace=trace,
        ).with_details(shown)

    def _fold_of(self, problem: Problem, rng: np.random.Generator) -> IntArray:
        n_folds = min(self.folds, problem.n)
        if self.block_size is None:
            return _stratified_by_place(problem, n_folds, rng)
        if self.coordinates is not None and not set(self.coordinates) <= set(range(problem.n_features)):
            raise ValueError(f"coordinates {self.coordinates} are not among the {problem.n_features} columns of X")
        x = problem.X if self.coordinates is None else problem.X[:, list(self.coordinates)]
        size = None if isinstance(self.block_size, str) else float(self.block_size)
        return spatial_folds(x, n_folds, size, rng)

    def _scan(
        self, problem: Problem, inference: Inference, run: Run, fold: IntArray, seed: int
    ) -> tuple[tuple[dict[str, Any], ...], Array]:
        """All candidates and their loss at each point, (P, n)."""
        start, box = self._box(problem, inference)
        tried: list[dict[str, Any]] = []
        found: list[Array] = []
        for k in range(1 if self.grid is not None else self.rounds):
            fresh = [*(start if k == 0 else []), *self._points(box, run.rng)]
            with progress(label=f"cv ({inference.name})", total=len(fresh), verbose=run.verbose) as bar:
                losses = delayed(point_losses)
                work = (losses(problem, inference, at, fold, seed, self.scoring) for at in fresh)
                for one in Parallel(n_jobs=run.n_jobs, return_as="generator")(work):
                    found.append(one)
                    bar.update()
            tried += fresh
            best = tried[int(np.argmin(_pooled(np.array(found), problem.weights)))]
            for name, (low, high) in box.items():
                centre, half = float(best[name]), (high / low) ** (0.5 * SHRINK)
                box[name] = max(low, centre / half), min(high, centre * half)
        return tuple(tried), np.array(found)

    def _box(
        self, problem: Problem, inference: Inference
    ) -> tuple[list[dict[str, Any]], dict[str, tuple[float, float]]]:
        """The first candidates, which are the starting values or the whole grid, and the ranges to search."""
        if self.grid is not None:
            cells = product(*self.grid.values())
            return [dict(zip(self.grid, values, strict=True)) for values in cells], {}
        if self.ranges is not None:
            names = {full_name(name, problem, inference): name for name in self.ranges}
            box = {full: (float(self.ranges[n][0]), float(self.ranges[n][1])) for full, n in names.items()}
            return [{name: current(name, problem, inference) for name in box}], box
        start = dict(zip(problem.names, np.exp(problem.theta).tolist(), strict=True))
        ends = np.exp(problem.bounds)
        box = {
            name: (max(value / self.span, low), min(value * self.span, high))
            for (name, value), (low, high) in zip(start.items(), ends, strict=True)
        }
        return [start], box

    def _points(self, box: dict[str, tuple[float, float]], rng: np.random.Generator) -> list[dict[str, Any]]:
        from scipy.stats import qmc  # imported here to keep the import of the package fast

        if not box:
            return []
        d, n = len(box), self.n_points
        unit = qmc.Halton(d, seed=rng).random(n) if self.search == "halton" else rng.random((n, d))
        low, high = np.log(np.array(list(box.values()))).T
        return [dict(zip(box, row.tolist(), strict=True)) for row in np.exp(low + unit * (high - low))]

    def _at_an_end(self, chosen: dict[str, Any]) -> tuple[str, ...]:
        """A warning if the best value is the first or last of three or more in the grid."""
        ends = [
            f"{name}={chosen[name]!r}"
            for name, values in (self.grid or {}).items()
            if len(values) > 2
            and all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
            and chosen[name] in (min(values), max(values))
        ]
        return (f"the best score lies at an end of the grid: {', '.join(ends)}; widen it",) if ends else ()


@dataclass(frozen=True, eq=False)
class Search:
    """The results of the search: every candidate with its loss at every point."""

    scoring: str
    candidates: tuple[dict[str, Any], ...]  # P of them, name to value
    losses: Array  # (P, n), of each point while held out; 1 − accuracy for accuracy
    fold: IntArray  # (n,), the fold of each point
    best: int
    weights: Array | None = None  # (n,), weight of each point; None: all equal

    @property
    def scores(self) -> Array:
        """Mean loss of each candidate, (P,); the share right for accuracy."""
        mean = _pooled(self.losses, self.weights)
        return np.asarray(1.0 - mean if self.scoring == "accuracy" else mean)

    @property
    def errors(self) -> Array:
        """Standard error of each score, from the folds, (P,)."""
        K = int(self.fold.max()) + 1
        w = np.ones(len(self.fold)) if self.weights is None else self.weights
        means = np.stack([_pooled(self.losses[:, self.fold == k], w[self.fold == k]) for k in range(K)])
        return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(K))

    def rows(self) -> list[dict[str, Any]]:
        """One row per candidate, the best first: for a table."""
        order = np.argsort(_pooled(self.losses, self.weights), kind="stable")
        scores, errors = self.scores, self.errors
        return [{**self.candidates[k], "score": float(scores[k]), "error": float(errors[k])} for k in order.tolist()]


def point_losses(
    problem: Problem, inference: Inference, candidate: dict[str, Any], fold: IntArray, seed: int, scoring: str
) -> Array:
    """Loss of each point under the fit to the other folds, (n,); infinite if the inference fails."""
    at, chosen = assign(problem, inference, candidate)
    out = np.empty(problem.n)
    for k in range(int(fold.max()) + 1):
        test = fold == k
        train = at.subset(~test)
        try:
            posterior = chosen(train, np.random.default_rng(seed))
        except (np.linalg.LinAlgError, ValueError):
            out[test] = np.inf
            continue
        found = in_blocks(at.X[test], posterior, lambda latent: predict_proba(latent, at.likelihood, errors=False))
        out[test] = _loss(found.log_proba, problem.likelihood.decode(problem.y[test]), scoring)
    return out


def _stratified_by_place(problem: Problem, n_folds: int, rng: np.random.Generator) -> IntArray:
    """The fold of each row, (n,): stratified by class, the rows of one place together."""
    _, place = np.unique(problem.X, axis=0, return_inverse=True)
    place = place.ravel()
    n_places = int(place.max()) + 1
    if n_places in (1, problem.n):
        return stratified_folds(problem.y, n_folds, rng)
    column = problem.likelihood.decode(problem.y)  # of each label among the probabilities
    counts = np.zeros((n_places, int(column.max()) + 1))
    np.add.at(counts, (place, column), 1.0 if problem.weights is None else problem.weights)
    return stratified_folds(np.argmax(counts, axis=1), min(n_folds, n_places), rng)[place]


def _loss(log_proba: Array, label: IntArray, scoring: str) -> Array:
    """Loss of each point, (m,), from log probabilities (m, C)."""
    rows = np.arange(len(label))
    if scoring == "log-loss":
        return np.asarray(-log_proba[rows, label])
    if scoring == "accuracy":
        return np.asarray(np.argmax(log_proba, axis=1) != label, dtype=float)
    gap = np.exp(log_proba)
    gap[rows, label] -= 1.0
    return np.asarray((gap**2).sum(axis=1) * (0.5 if log_proba.shape[1] == 2 else 1.0))


def _pooled(losses: Array, weights: Array | None) -> Array:
    return np.asarray(np.average(losses, axis=1, weights=weights))


def assign(problem: Problem, inference: Inference, values: Mapping[str, Any]) -> tuple[Problem, Inference]:
    """The problem and the inference with these parameters."""
    theta, names = np.array(problem.theta), problem.names
    settings, fixed = {}, {}
    for given, value in values.items():
        name = full_name(given, problem, inference)
        if name in names:
            if not value > 0:
                raise ValueError(f"{given} must be positive, not {value}")
            theta[names.index(name)] = np.log(value)
        elif name.startswith("inference__"):
            settings[name.removeprefix("inference__")] = value
        elif name == SCALE_NAME:
            problem = replace(problem, likelihood=problem.likelihood.with_scale(float(value)))
        else:
            fixed[name] = value
    moved = problem.at(theta)
    if fixed:
        moved = replace(moved, kernel=clone(moved.kernel).set_params(**fixed))
    return moved, replace(inference, **settings) if settings else inference


def current(name: str, problem: Problem, inference: Inference) -> Any:
    """The current value of a parameter."""
    if name in problem.names:
        return float(np.exp(problem.theta[problem.names.index(name)]))
    if name.startswith("inference__"):
        return getattr(inference, name.removeprefix("inference__"))
    return problem.likelihood.scale if name == SCALE_NAME else problem.kernel.get_params()[name]


def full_name(name: str, problem: Problem, inference: Inference) -> str:
    """The one parameter that a name, or the end of a name, matches."""
    if name in SCALE_NAMES and not problem.likelihood.many:
        return SCALE_NAME
    if name.startswith("inference__"):
        if name.removeprefix("inference__") in {item.name for item in fields(inference)}:
            return name
        raise ValueError(f"{inference!r} has no setting {name.removeprefix('inference__')!r}")
    held = {
        key: value
        for key, value in problem.kernel.get_params().items()
        if not key.endswith("_bounds") and np.ndim(value) == 0 and isinstance(value, (int, float, np.number))
    }
    known: list[str] = list(dict.fromkeys([*problem.names, *held]))
    if name in known:
        return name
    near = [key for key in known if key.endswith(f"__{name}")]
    if len(near) == 1:
        return near[0]
    what = f"it could be any of {near}" if near else f"the names are {[*known, SCALE_NAME]}"
    raise ValueError(f"{name!r} does not name one parameter: {what}")
