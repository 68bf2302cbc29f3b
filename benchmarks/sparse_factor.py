"""The work of a sparse factor under the neighbour prior: ``python -m benchmarks.sparse_factor`` writes docs/scale.md.

Random places in the unit square; Gflop and megabytes are those that ``fit_report_`` gives, known before a fit.
"""

import numpy as np
from sklearn.gaussian_process.kernels import Matern

from benchmarks.common import HERE
from gpclass.latent.neighbours import Neighbours
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem

PAGE = HERE.parent / "docs" / "scale.md"
BEGIN, END = "<!-- factors: begin -->", "<!-- factors: end -->"
CASES = ((10_000, 10), (10_000, 15), (10_000, 20), (50_000, 10), (50_000, 20), (200_000, 10), (200_000, 20))


def cost(n, k):
    """Gflop and megabytes of a factor."""
    X = np.random.default_rng(0).uniform(size=(n, 2))
    y = np.where(X[:, 0] > 0.5, 1, -1)
    problem = Problem.of(X, y, Matern(0.1, nu=1.5), Probit(), form=Neighbours(k, tile=0))
    found = problem.placed(np.random.default_rng(0)).prior.survey()
    return found["factor_gflops"], found["factor_mb"]


def main():
    lines = ["| rows | neighbours | Gflop | MB |", "|---:|---:|---:|---:|"]
    for n, k in CASES:
        gflops, mb = cost(n, k)
        lines.append(f"| {n:,} | {k} | {gflops:.1f} | {mb:.0f} |")
        print(lines[-1], flush=True)
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([f"{head}{BEGIN}", *lines, f"{END}{rest.partition(END)[2]}"]))


if __name__ == "__main__":
    main()
