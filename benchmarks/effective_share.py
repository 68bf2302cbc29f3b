"""How even are the weights of exact draws under the logit link? Hard problems, written to docs/calibration.md.

``python -m benchmarks.effective_share [--seeds 20]``: for every problem the effective share of the draws and log p(y),
over random states, of the engine and of what it replaced: draws under a similar probit, weighted by the ratio of the
two links. Figures are kept in effective_share.json.
"""

import argparse
import json
import time
from textwrap import fill

import numpy as np
from scipy.special import log_expit, log_ndtr, logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.common import HERE
from gpclass.inference import Exact
from gpclass.inference.exact_latent import white_latents
from gpclass.latent.dense import dense_prior
from gpclass.likelihoods import Logit, Probit
from gpclass.likelihoods.binary import K0
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import factor
from gpclass.orthant.weights import effective_size

KEPT = HERE / "effective_share.json"
DRAWS = 2000
PROBLEMS = [
    (30, 2, 100.0, 1.0),
    (60, 2, 10.0, 1.0),
    (200, 3, 5.5, 1.04),
    (200, 3, 100.0, 1.5),
    (200, 3, 1000.0, 2.0),
    (500, 8, 50.0, 2.5),
]  # rows, features, signal variance, length scale


def make(n, d, variance, length, likelihood):
    """Two noisy classes with a curved border."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    f = 1.5 * np.sin(2 * X[:, 0]) + X[:, 1 % d]
    y = np.where(f + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return Problem.of(X, y, ConstantKernel(variance) * RBF(length), likelihood)


def guided(problem):
    """Effective share and log p(y) by the engine, as a function of a random generator."""
    outline = Exact(n_samples=DRAWS).outline(problem)

    def run(rng):
        posterior = outline.complete(rng)
        return posterior.report.ess / DRAWS, posterior.evidence.log_z

    return run


def reweighted(problem):
    """The same by draws under a similar probit, two latent vectors for each, weighted by the ratio of the links."""
    outline = Exact(n_samples=DRAWS).outline(problem)
    L, scale = factor(dense_prior(problem).K)[0], problem.likelihood.scale

    def run(rng):
        near = outline.complete(rng)
        yf = problem.y[:, None] * (L @ white_latents(L, near.A[0], near.factor, scale, rng))
        log_w = np.tile(np.log(near.weights / 2), 2) + np.sum(log_expit(yf) - log_ndtr(scale * yf), axis=0)
        return effective_size(log_w) / len(log_w), near.evidence.log_z + logsumexp(log_w)

    return run


def figures(run, seeds):
    """Mean and smallest share, and mean and standard deviation of log p(y), over random states."""
    share, log_z = np.array([run(np.random.default_rng(seed)) for seed in range(seeds)]).T
    return {
        "share": share.mean(), "smallest": share.min(), "log_z": log_z.mean(), "sd": log_z.std(ddof=1)
    }  # fmt: skip


def section():
    """The table, for the page."""
    if not KEPT.exists():
        return []
    kept = json.loads(KEPT.read_text())
    lines = [
        "",
        "## How even are the draws under the logit link?",
        "",
        fill(
            f"Effective share of {DRAWS} draws, mean and smallest, and the standard deviation of log p(y), over "
            f"{kept[0]['seeds']} random states. In brackets the same for draws under a similar probit, weighted by the "
            "ratio of the two links, which the engine made before it drew the logit itself. Made by "
            "`python -m benchmarks.effective_share`.",
            width=120,
        ),
        "",
        "| n | features | variance | share | smallest | sd of log p(y) | (share) | (smallest) | (sd) | ratio of sd |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in kept:
        n, d, variance, _ = row["problem"]
        new, old = row["guided"], row["reweighted"]
        lines.append(
            f"| {n} | {d} | {variance:g} | {new['share']:.2f} | {new['smallest']:.2f} | {new['sd']:.3f} "
            f"| {old['share']:.2f} | {old['smallest']:.2f} | {old['sd']:.3f} | {old['sd'] / new['sd']:.1f} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds, rows = parser.parse_args().seeds, []
    for problem in PROBLEMS:
        begin = time.process_time()
        new = figures(guided(make(*problem, Logit())), seeds)
        old = figures(reweighted(make(*problem, Probit(K0))), seeds)
        rows.append({"problem": problem, "seeds": seeds, "guided": new, "reweighted": old})
        print(
            problem,
            new["share"],
            new["smallest"],
            new["sd"],
            old["sd"],
            f"{time.process_time() - begin:.1f} s",
            flush=True,
        )
    KEPT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
