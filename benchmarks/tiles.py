"""Neighbours in tiles beside one factor, by the width of the halo: ``python -m benchmarks.tiles``.

The map of ``benchmarks.scale`` with 20,000 rows and a range of 0.08, at fixed kernel parameters, in four tiles: what
EP's evidence, its means and standard deviations at the rows and the probabilities of 2,000 further places differ by.
Writes the table of docs/scale.md.
"""

from dataclasses import replace

import numpy as np
from sklearn.gaussian_process.kernels import Matern

from benchmarks.scale import PAGE, field, replaced
from gpclass.inference import EP
from gpclass.latent.neighbours import Neighbours
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.predict import predict_proba

ROWS, REACH, TILE, NEIGHBOURS = 20_000, 0.08, 5_000, 15
WIDTHS = (0, 5, 10, 15, 20)
BEGIN, END = "<!-- halos: begin -->", "<!-- halos: end -->"


def main():
    data = field(ROWS, REACH)
    labels = np.where(data["y"] == 1, 1, -1)
    form = Neighbours(NEIGHBOURS, 0, tile=0)
    one = Problem.of(data["X"], labels, 4.0 * Matern(REACH, nu=1.5), Probit(), form=form)
    one = one.placed(np.random.default_rng(0))
    truth = EP()(one)
    sd = np.sqrt(truth.gaussian.covariance[:, :, 0])
    p = predict_proba(truth.latent(data["X_test"]), Probit()).proba
    lines = [
        "| halo | rows of a halo | error of log Z | largest error of a mean, in sd | of an sd, relative | of p |",
        "|" + 6 * "---:|",
    ]
    for width in WIDTHS:
        tiled = EP()(replace(one, form=replace(one.form, tile=TILE, halo=float(width))))
        q = tiled.gaussian
        errors = (
            tiled.evidence.log_z - truth.evidence.log_z,
            np.max(np.abs(q.mean_f - truth.gaussian.mean_f) / sd),
            np.max(np.abs(np.sqrt(q.covariance[:, :, 0]) / sd - 1.0)),
            np.max(np.abs(predict_proba(tiled.latent(data["X_test"]), Probit()).proba - p)),
        )
        cells = " | ".join([f"{errors[0]:+.4f}", *(f"{error:.1e}" for error in errors[1:])])
        lines.append(f"| {width} | {q.prior.survey()['halo_rows']:,.0f} | {cells} |")
        print(lines[-1], flush=True)
    note = f"{ROWS:,} rows in tiles of {TILE:,}, {NEIGHBOURS} neighbours; log Z is {truth.evidence.log_z:,.1f}."
    replaced(PAGE, BEGIN, END, [*lines, "", note])


if __name__ == "__main__":
    main()
