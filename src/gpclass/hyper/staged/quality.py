"""Quality of the low-rank prior: compared with the dense one on rows close together, and the variance it misses.

The inducing inputs are spread over all rows, and too few of them matter most where rows are dense. So the comparison
takes neighbourhoods: the rows of largest covariance with a few random centres, two thirds of them to fit and one third
to predict. The same inference runs on the same rows under both priors at the same kernel parameters; the difference of
the probabilities is then due to the prior alone (and, for draws, to their Monte Carlo error).
Cost: one dense inference on 300 rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpclass._typing import Array, IntArray
from gpclass.hyper.base import Fit
from gpclass.inference.base import Inference
from gpclass.inference.exact import Exact
from gpclass.latent.basis import blocks
from gpclass.latent.dense import Dense
from gpclass.latent.inducing import sample_rows
from gpclass.latent.low_rank import LowRank, LowRankPrior
from gpclass.latent.low_rank_q import Spec
from gpclass.likelihoods.base import Likelihood
from gpclass.model.problem import Problem
from gpclass.model.rows import Shard, Sums, let_go
from gpclass.predict import predict_proba

ROWS = 450  # rows of the comparison
CENTRES = 3
POOL = 20_000  # rows searched for neighbours
COARSE = 2e-3  # Monte Carlo error of the compared probabilities: a tenth of the relevant difference
TOO_FAR = 0.02  # mean |Δp| above which more inducing inputs are advised
ROUNDING = 1e-6  # of a prior variance: less is due to jitter
FAR = 0.9  # unexplained share of the explainable variance from which a row counts as far


def compare_with_dense(
    problem: Problem, inference: Inference, rng: np.random.Generator
) -> tuple[dict[str, Any], str | None]:
    """Figures for the report, and advice if the number of inducing inputs should grow."""
    Z, form = problem.inducing, problem.form
    assert Z is not None
    assert isinstance(form, LowRank)
    X, y, weights = problem.rows.take(sample_rows(problem.n, POOL, rng))
    if weights is not None:
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    near = _neighbours(problem, X, rng)
    if len(np.unique(y[near])) < problem.n_classes:
        near = np.arange(len(y))[:: max(1, len(y) // ROWS)]
    third = np.arange(len(near)) % 3 == 2
    fitted, judged = near[~third], near[third]
    if len(judged) == 0:  # two rows or fewer
        return {"n_inducing": len(Z)}, None
    rows = (X[fitted], y[fitted], None if weights is None else weights[fitted])
    whole = replace(problem, form=Dense()).on(*rows)
    low = replace(problem, form=replace(form, keep=True)).on(*rows)
    streams, method = rng.spawn(2), coarse(inference)
    log_p = [
        predict_proba(method(task, noise).latent(X[judged]), problem.likelihood).log_proba
        for task, noise in ((whole, streams[0]), (low, streams[1]))
    ]
    gap = float(np.mean(np.abs(np.exp(log_p[0][:, 1:]) - np.exp(log_p[1][:, 1:]))))
    label = problem.likelihood.decode(y[judged])
    loss = [-float(np.mean(part[np.arange(len(label)), label])) for part in log_p]
    figures = {
        "n_inducing": len(Z),
        "mean_abs_difference_from_dense": gap,
        "log_loss_above_dense": loss[1] - loss[0],
        "rows_compared_with_dense": len(judged),
    }
    # θ was learned under the low-rank prior, which may be the better of the two.
    if gap <= TOO_FAR or loss[1] <= loss[0]:
        return figures, None
    return figures, (
        f"probabilities under {len(Z)} inducing inputs differ from the dense ones by {gap:.3f} on average "
        f"(log loss {loss[1] - loss[0]:+.3f}; both fitted to {len(fitted)} rows that lie close together and compared "
        f"on {len(judged)} between them); raise n_inducing, for instance to {2 * len(Z)}"
    )


def coarse(method: Inference) -> Inference:
    """The method with no more draws than the comparison needs."""
    if isinstance(method, Exact) and method.n_samples is None:
        return method.with_tol(max(method.tol, COARSE))
    return method


def _neighbours(problem: Problem, X: Array, rng: np.random.Generator) -> IntArray:
    """Rows of the neighbourhoods of a few random rows, each once."""
    chosen: list[int] = []
    for centre in rng.choice(len(X), size=min(CENTRES, len(X)), replace=False):
        order = np.argsort(-problem.covariance(X[centre : centre + 1], X)[0], kind="stable")
        chosen += order[: ROWS // CENTRES].tolist()
    return np.unique(chosen)


def survey(shard: Shard, likelihood: Likelihood, spec: Spec, floor: float, noise: float) -> tuple[Shard, Sums]:
    """Counts rows that are far from every inducing input, and sums the unexplained prior variances.

    ``floor`` is the covariance of the inducing inputs that are farthest apart: what all rows share, such as a constant.
    ``noise`` is the variance of white noise, which no inducing input can explain. Only the first kernel is examined.
    """
    far, left = 0, 0.0
    for _, A, rest in blocks(shard, spec.bases[:1]):
        total = rest[0] + np.einsum("ij,ij->i", A[0], A[0])
        explicable = np.maximum(total - noise - floor, ROUNDING * total)
        far += int(np.sum(rest[0] - noise > FAR * explicable))
        left += float(np.sum(rest[0] / np.maximum(total, 1e-300)))
    return shard, {"far": far, "left": left}


def look_over(problem: Problem) -> dict[str, Any]:
    """Far rows and the mean share of the prior variance that the inducing inputs do not explain."""
    Z, prior = problem.inducing, problem.prior
    assert Z is not None
    assert isinstance(prior, LowRankPrior)
    K = problem.covariance(Z, Z.copy())  # as of different points: without white noise
    floor = max(float(K.min()), 0.0) if len(Z) > 1 else 0.0
    noise = float(np.mean(problem.covariance.diag(Z) - np.diag(K)))
    _, sums = problem.map(survey, problem.rows.held, prior.spec, floor, noise)
    return {"far_rows": sums["far"], "prior_variance_left": sums["left"] / problem.n}


def reviewed(fit: Fit, inference: Inference, rng: np.random.Generator) -> Fit:
    """A fit with inducing inputs, checked and compared with the dense prior; its rows release cached blocks."""
    problem = fit.problem
    if problem.inducing is None:
        return fit
    details = look_over(problem)
    compared, advice = compare_with_dense(problem, inference, rng)
    problem.rows.map(let_go, problem.rows.held)  # a fitted model stores its sites, not n m numbers
    warned = () if advice is None else (advice,)
    return replace(fit, warnings=(*fit.warnings, *warned)).with_details({**compared, **details})
