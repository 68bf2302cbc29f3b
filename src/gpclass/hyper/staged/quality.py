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
from gpclass.latent.dense import Dense
from gpclass.latent.inducing import sample_rows
from gpclass.model.problem import Problem
from gpclass.model.rows import let_go
from gpclass.predict import in_blocks, predict_proba

ROWS = 450  # rows of the comparison
CENTRES = 3
POOL = 20_000  # rows searched for neighbours
COARSE = 2e-3  # Monte Carlo error of the compared probabilities: a tenth of the relevant difference
TOO_FAR = 0.02  # mean |Δp| above which more inducing inputs are advised
BLURRED = 0.1  # share of the prior variance; above it, they are unless the dense prior is worse by two standard errors


def compare_with_dense(
    problem: Problem, inference: Inference, rng: np.random.Generator, left: float = 0.0
) -> tuple[dict[str, Any], str | None]:
    """Figures for the report, and advice if the number of inducing inputs should grow.

    ``left``: share of the prior variance that they do not explain.
    """
    form = problem.form
    X, y, weights = problem.rows.take(sample_rows(problem.n, POOL, rng))
    if weights is not None:
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    near = _neighbours(problem, X, rng)
    if len(np.unique(y[near])) < problem.n_classes:
        near = np.arange(len(y))[:: max(1, len(y) // ROWS)]
    third = np.arange(len(near)) % 3 == 2
    fitted, judged = near[~third], near[third]
    if len(judged) == 0:  # two rows or fewer
        return {}, None
    rows = (X[fitted], y[fitted], None if weights is None else weights[fitted])
    whole = replace(problem, form=Dense()).on(*rows)
    low = replace(problem, form=form.for_few_rows()).on(*rows)
    streams, method = rng.spawn(2), inference.coarser(COARSE)
    log_p = [
        in_blocks(X[judged], method(task, stream), lambda at: predict_proba(at, problem.likelihood)).log_proba
        for task, stream in ((whole, streams[0]), (low, streams[1]))
    ]
    differences = np.abs(np.exp(log_p[0][:, 1:]) - np.exp(log_p[1][:, 1:]))
    gap, most = float(np.mean(differences)), float(np.max(differences))
    label = problem.likelihood.decode(y[judged])
    losses = [-part[np.arange(len(label)), label] for part in log_p]
    loss, noise = [float(np.mean(part)) for part in losses], float(np.std(losses[1] - losses[0])) / len(label) ** 0.5
    figures = {
        "mean_abs_difference_from_dense": gap,
        "largest_abs_difference_from_dense": most,
        "log_loss_above_dense": loss[1] - loss[0],
        "rows_compared_with_dense": len(judged),
    }
    # θ was learned under the low-rank prior, which may be the better of the two; but the loss of so few rows is noisy.
    better = loss[0] - 2.0 * noise if left > BLURRED else loss[0]
    if gap <= TOO_FAR or loss[1] <= better:
        return figures, None
    blurs = f"; {left:.0%} of the prior variance is finer than it shows" if left > BLURRED else ""
    return figures, (
        f"probabilities under the prior {form.name!r} differ from the dense ones by {gap:.3f} on average "
        f"and by up to {most:.2f} (log loss {loss[1] - loss[0]:+.3f}; both fitted to {len(fitted)} rows that lie close "
        f"together and compared on {len(judged)} between them){blurs}; {form.cure}"
    )


def _neighbours(problem: Problem, X: Array, rng: np.random.Generator) -> IntArray:
    """Rows of the neighbourhoods of a few random rows, each once."""
    chosen: list[int] = []
    for centre in rng.choice(len(X), size=min(CENTRES, len(X)), replace=False):
        order = np.argsort(-problem.covariance(X[centre : centre + 1], X)[0], kind="stable")
        chosen += order[: ROWS // CENTRES].tolist()
    return np.unique(chosen)


def reviewed(fit: Fit, inference: Inference, rng: np.random.Generator) -> Fit:
    """A fit with an approximate prior, checked and compared with the dense one; its rows release cached blocks."""
    problem = fit.problem
    if not problem.form.cure:
        return fit
    figures = problem.prior.survey()
    compared, advice = compare_with_dense(problem, inference, rng, figures.get("prior_variance_left", 0.0))
    problem.rows.map(let_go, problem.rows.held)  # a fitted model stores its sites, not n m numbers
    warned = () if advice is None else (advice,)
    return replace(fit, warnings=(*fit.warnings, *warned)).with_details({**figures, **compared})
