"""How good the low-rank prior is: beside the dense one on rows that lie close together, and how much it leaves out.

The inducing inputs are spread over all rows. Whether they are enough shows where the rows are dense, so the comparison
takes neighbourhoods: the rows of largest covariance with a few random centres, two thirds of them to fit and one third
to predict. The same inference runs on the same rows under both priors at the same kernel parameters; the difference of
the probabilities is then the prior's alone (and, for draws, their Monte Carlo error).
Cost: one dense inference on 300 rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.latent.basis import Basis, blocks
from gpclass.latent.inducing import sample_rows
from gpclass.latent.low_rank_problem import Data, SparseProblem
from gpclass.likelihoods.binary import BinaryLikelihood
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource, Shard, Sums
from gpclass.predict.two import predict_proba

ROWS = 450  # rows of the comparison
CENTRES = 3
POOL = 20_000  # rows that neighbours are looked for among
COARSE = 2e-3  # Monte Carlo error of the probabilities that are compared: a tenth of what counts
TOO_FAR = 0.02  # mean |Δp| above which more inducing inputs are advised
ROUNDING = 1e-6  # of a prior variance: less is the jitter's
FAR = 0.9  # share of the variance that can be explained which a far row has left


def compare_with_dense(
    problem: SparseProblem, inference: Any, dense: Any, rng: np.random.Generator
) -> tuple[dict[str, Any], str | None]:
    """Figures for the report, and advice if the number of inducing inputs should grow."""
    source = problem.data.source
    assert source is not None
    X, y, weights = source.take(sample_rows(problem.n, POOL, rng))
    if weights is not None:
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    near = _neighbours(problem, X, rng)
    if len(np.unique(y[near])) < 2:
        near = np.arange(len(y))[:: max(1, len(y) // ROWS)]
    fitted, judged = _split(near)
    if len(judged) == 0:  # two rows or fewer
        return {"n_inducing": problem.basis.m}, None
    w = None if weights is None else weights[fitted]
    whole = Problem(X[fitted], y[fitted], problem.kernel, problem.likelihood, w)
    low = replace(problem, data=Data.of(ArraySource(X[fitted], y[fitted], w)), keep=True)
    streams = rng.spawn(2)
    log_p = [
        predict_proba(coarse(method)(task, noise).latent(X[judged]), problem.likelihood).log_proba
        for method, task, noise in ((dense, whole, streams[0]), (inference, low, streams[1]))
    ]
    gap = float(np.mean(np.abs(np.exp(log_p[0][:, 1]) - np.exp(log_p[1][:, 1]))))
    loss = [-float(np.mean(np.where(y[judged] > 0, part[:, 1], part[:, 0]))) for part in log_p]
    figures = {
        "n_inducing": problem.basis.m,
        "mean_abs_difference_from_dense": gap,
        "log_loss_above_dense": loss[1] - loss[0],
        "rows_compared_with_dense": len(judged),
    }
    if (
        gap <= TOO_FAR or loss[1] <= loss[0]
    ):  # θ was learned under the low-rank prior: it may be the better of the two
        return figures, None
    return figures, (
        f"probabilities under {problem.basis.m} inducing inputs differ from the dense ones by {gap:.3f} on average "
        f"(log loss {loss[1] - loss[0]:+.3f}; both fitted to {len(fitted)} rows that lie close together and compared "
        f"on {len(judged)} between them); raise n_inducing, for instance to {2 * problem.basis.m}"
    )


def coarse(method: Any) -> Any:
    """The method with no more draws than the comparison needs."""
    draws = getattr(method, "stochastic", False) and method.n_samples is None
    return replace(method, tol=max(method.tol, COARSE)) if draws else method


def _neighbours(problem: SparseProblem, X: Array, rng: np.random.Generator) -> IntArray:
    """Rows of the neighbourhoods of a few random rows, each once."""
    chosen: list[int] = []
    for centre in rng.choice(len(X), size=min(CENTRES, len(X)), replace=False):
        order = np.argsort(-problem.covariance(X[centre : centre + 1], X)[0], kind="stable")
        chosen += order[: ROWS // CENTRES].tolist()
    return np.unique(chosen)


def _split(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Two thirds and one third."""
    third = np.arange(len(rows)) % 3 == 2
    return rows[~third], rows[third]


def survey(
    shard: Shard, basis: Basis, likelihood: BinaryLikelihood, floor: float, noise: float
) -> tuple[Shard, Sums]:
    """Counts rows that are far from every inducing input, and adds up what is left of the prior variances.

    ``floor`` is the covariance of the inducing inputs that are farthest apart: what all rows share, such as a constant.
    ``noise`` is the variance of white noise, which no inducing input can explain.
    """
    far, left = 0, 0.0
    for _, A, rest in blocks(shard, basis):
        total = rest + np.einsum("ij,ij->i", A, A)
        explicable = np.maximum(total - noise - floor, ROUNDING * total)
        far += int(np.sum(rest - noise > FAR * explicable))
        left += float(np.sum(rest / np.maximum(total, 1e-300)))
    return shard, {"far": far, "left": left}


def look_over(problem: SparseProblem) -> dict[str, Any]:
    """Far rows and the mean share of the prior variance that the inducing inputs leave."""
    Z = problem.Z
    K = problem.covariance(Z, Z.copy())  # as of different points: without white noise
    floor = max(float(K.min()), 0.0) if len(Z) > 1 else 0.0
    noise = float(np.mean(problem.covariance.diag(Z) - np.diag(K)))
    _, sums = problem.map_reduce(survey, problem.data.held, floor, noise)
    return {"far_rows": sums["far"], "prior_variance_left": sums["left"] / problem.n}
