"""The paper's own classifier: hard counts in training (A eq. 57) and at prediction (A eq. 61), from one run of points.

The library's estimator keeps M final points and multiplies each with every new row. Here a new row's noisy latent value
is one coordinate more, without limits: its mean is W z for the normal variables z of a point, a product with the tree
of histories, and the share of draws above zero is its probability. The same draws as the estimator's, without ever
having all histories in memory.
Cost: O(M) per new row, and O(n) times the ancestors that are left.
"""

from __future__ import annotations

import time

import numpy as np

from gpclass._typing import Array
from gpclass.inference.noise import noise_factor, noisy_latents
from gpclass.latent.dense import dense_prior
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import factor
from gpclass.numerics.normals import single_normals
from gpclass.orthant.bootstrap import bootstrap_run
from gpclass.orthant.box import Box
from gpclass.orthant.plan import coordinate_order
from papers.atiya2020.shared import Answer, Linear, linear_kernel

ROWS = 8  # new rows that are counted together, in a processor's cache


def count_run(problem: Linear, M: int, seed: int) -> Answer:
    """One run of M points, in a random order of the training points."""
    begin, rng = time.process_time(), np.random.default_rng(seed)
    data, x_new = Problem.of(problem.x[:, None], problem.y, linear_kernel(), Probit()), problem.x_new[:, None]
    box = data.prior.box()
    box = box.take(coordinate_order("random", box, rng))
    run = bootstrap_run(box, M, rng, soft=False, keep=False)
    if run.extinct is not None:
        return Answer(np.full(len(x_new), 0.5), -np.inf, time.process_time() - begin)
    W, sd = new_rows(data, box, x_new)
    share, z = np.empty(len(W)), np.empty(M, np.float32)
    slopes = (W / sd[:, None]).astype(np.float32)
    for a in range(0, len(W), ROWS):
        for j, mean in enumerate(run.histories.product(slopes[a : a + ROWS]), a):
            mean += single_normals(rng, z)
            share[j] = np.count_nonzero(mean > 0) / M
    return Answer(share, run.log_p, time.process_time() - begin)


def new_rows(data: Problem, box: Box, x_new: Array) -> tuple[Array, Array]:
    """W (m, n) and sd (m,), with which the noisy latent values at new rows are N(W z, sd²) given z (A eq. 59-60)."""
    prior, noise = dense_prior(data), noise_factor(data)
    cross, variances = prior.per_latent(prior.cross(x_new)), prior.per_latent(prior.variances(x_new))
    points = box.restore(factor(box.S, what="cov")[0])  # those of unit z
    W = cross[0].T @ noisy_latents(data, noise, points, None)[0]
    return W, np.sqrt(1.0 + noise.variances(cross, variances)[:, 0])
