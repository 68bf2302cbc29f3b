"""One run of chains over θ, for ``benchmarks.bayes``: in its own process, so that it runs on any commit.

``python -m benchmarks.bayes_run DATA COVARIANCE METHOD DRAWS`` prints a line of JSON: the smallest bulk effective size
of the parameters, the processor seconds of the chains with their warm-up, and what identifies the run.
"""

import json
import sys
import time

import numpy as np
from papers.filippone2014.shared import data_set

from gpclass.hyper import Alternate, PseudoMarginal
from gpclass.hyper.chains import run_chains
from gpclass.hyper.defaults import priors_for
from gpclass.inference import Annealed, EllipticalSlice, Exact
from gpclass.inference.diagnostics import array_stats

METHODS = {
    "exact": (PseudoMarginal, {}, Exact()),
    "walk": (PseudoMarginal, {"proposal": "walk", "warmup": 300}, Exact()),
    "annealed": (PseudoMarginal, {}, Annealed(10, around="laplace")),
    "alternate": (Alternate, {}, EllipticalSlice()),
}


def run(name, covariance, method, draws, seed=0):
    """Chains of one method with the strategy's defaults."""
    problem = data_set(name, covariance)
    made, changes, inference = METHODS[method]
    strategy = made(draws=draws, vectors=1, default_priors="filippone", **changes)
    begin = time.process_time()
    prior = priors_for(problem, None, strategy.default_priors)
    sampler = strategy.sampling(problem, inference, prior).sampler
    set_up = time.process_time() - begin
    outcome = run_chains(sampler, strategy.chains, np.random.default_rng(seed))
    seconds = time.process_time() - begin
    theta = np.moveaxis(outcome.stack("theta"), -1, 0)  # (p, chains, draws)
    stats = array_stats()
    return {
        "rows": problem.n,
        "parameters": len(theta),
        "chains": strategy.chains,
        "draws": draws,
        "effective": float(np.min(stats.ess(theta))),
        "tail": float(np.min(stats.ess(theta, method="tail", prob=(0.05, 0.95)))),
        "rhat": float(np.max(stats.rhat(theta))),
        "accepted": float(outcome.stack("accepted").mean()),
        "seconds": seconds,
        "set_up": set_up,
        "mean": theta.mean(axis=(1, 2)).tolist(),
        "sd": theta.std(axis=(1, 2)).tolist(),
        "mcse": np.asarray(stats.mcse(theta)).tolist(),
    }


if __name__ == "__main__":
    data, covariance, method, draws = sys.argv[1:5]
    print(json.dumps(run(data, covariance, method, int(draws))))
