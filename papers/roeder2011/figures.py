"""R Figures 1 to 6 redrawn, and a map of the Meuse."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from gpclass import GPClassifier, plots
from gpclass.datasets import load, roeder_field
from gpclass.datasets.load import FOLDER_VARIABLE
from gpclass.geostat import IndicatorKriging, predict_map, regular_grid
from gpclass.inference import AMP, DSGQ
from gpclass.likelihoods.binary import K0
from papers.common import Section, Setting, Table, Verdict, left_out
from papers.roeder2011.diagrams import figure1, figure5
from papers.roeder2011.ladder import Effort, tune

FIGURE_4 = ((0.92, 0.128), (0.0, 0.5))  # correlation after the noise is added, published p(y* = 1)

NOTES = (
    "![The doubly stochastic model](roeder2011_figure1.png)",
    "Figure 1: features and labels are observed, the probabilities f are not; they are joined by the Gaussian process.",
    "![The normal on the interval](roeder2011_figure2.png)",
    "Figure 2: the paper names neither its means nor its variances; these show what its caption says, mass at the ends "
    "as σ² grows, and asymmetry for μ ≠ 0.",
    "![Two links](roeder2011_figure3.png)",
    "Figure 3: the logistic function and the stretched probit, and their difference.",
    "![Two orthants](roeder2011_figure4.png)",
    "Figure 4: the mass of two orthants is the odds of the new label.",
    "![Variance of log wave heights](roeder2011_figure5.png)",
    "Figure 5: the paper's forecasts are not public; this is the simulated sea of the experiment `storms`, whose "
    "storms come from the East as the paper's do.",
    "![Four maps of one set of samples](roeder2011_figure6.png)",
    "Kriging follows every sample; the doubly stochastic model treats a single deviating sample as possible "
    "chance. CIK and SIK have the same decision line.",
)
MEUSE = (
    "![Probability of zinc above 500 ppm along the Meuse, and its uncertainty](roeder2011_meuse.png)",
    "The Meuse by DSGQ: smoothness and sill of the variogram, no nugget, length and k0 by cross-validation.",
)


def run(setting: Setting) -> Section:
    """The figures, with the paper's numbers."""
    u = np.linspace(-15.0, 15.0, 200_001)
    worst = float(np.abs(expit(u) - ndtr(K0 * u)).max())
    rows, verdicts = (
        [],
        [Verdict("Figure 3: largest gap of the links", "below 0.01", f"{worst:.4f}", worst < 0.01)],
    )
    for rho, published in FIGURE_4:
        above, below = orthants(rho)
        p = above / (above + below)
        rows.append((rho, above, below, p, published))
        verdicts.append(
            Verdict(f"Figure 4, correlation {rho:g}", f"{published}", f"{p:.4f}", abs(p - published) < 5e-4)
        )
    fitted = six_maps(setting)
    dissent = [(name, *at) for name, at in dissenting(fitted).items()]
    draw = {"figure1": figure1, "figure2": figure2, "figure3": figure3, "figure4": figure4}
    draw |= {"figure5": lambda: figure5(setting.seed), "figure6": lambda: figure6(fitted)}
    notes = left_out(["meuse"])
    if not notes:
        draw["meuse"], notes = lambda: meuse_map(setting), MEUSE
    return Section(
        "figures",
        "Figures 1 to 6",
        (
            Table(
                "figure4",
                ("correlation", "p(y*=1, y)", "p(y*=0, y)", "p(y*=1) given y", "paper"),
                tuple(rows),
                "Figure 4.",
            ),
            Table(
                "figure6",
                ("method", "samples on the wrong side", "lone samples", "of these followed"),
                tuple(dissent),
                "Figure 6, with the paper's parameters: ν = 0.5, s = 0.17, s0 = 0; l = 0.4, for AMP 0.99 and "
                "c0 = 6.81, for DSGQ 3 and k0 = 4. A lone sample is one whose five nearest neighbours are all of the "
                "other class.",
            ),
        ),
        tuple(verdicts),
        (*NOTES, *notes),
        draw,
    )


def orthants(rho: float) -> tuple[float, float]:
    """Mass of (ξ < 0, ξ* > 0) and of (ξ < 0, ξ* < 0)."""
    below = float(multivariate_normal.cdf([0.0, 0.0], cov=[[1.0, rho], [rho, 1.0]]))
    return 0.5 - below, below


def figure2() -> Any:
    """The normal on ]0,1[ for several variances and for several means."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plots.normal_on_interval(0.0, [0.25, 1.0, 2.0, 8.0], title="μ = 0", ax=axes[0])
    plots.normal_on_interval([0.0, 0.5, 1.0, 2.0], 1.0, title="σ² = 1", ax=axes[1])
    return figure


def figure3() -> Any:
    """The logistic function, its stretched probit, and their difference."""
    import matplotlib.pyplot as plt

    u = np.linspace(-6.0, 6.0, 600)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    axes[0].plot(u, expit(u), color=plots.PALETTE[0], label="logistic")
    axes[0].plot(u, ndtr(K0 * u), color=plots.PALETTE[1], linestyle="--", label=f"Φ({K0} φ)")
    axes[0].set(xlabel="φ", ylabel="probability", title="The two links, c0 = 1")
    axes[0].legend(frameon=False)
    axes[1].plot(u, expit(u) - ndtr(K0 * u), color=plots.PALETTE[2])
    axes[1].axhline(0.0, linewidth=0.7, color="#777777")
    axes[1].set(xlabel="φ", ylabel="logistic − probit", title="Difference")
    return figure


def figure4() -> Any:
    """Contours of the density of (ξ, ξ*), the two orthants of y = 0 shaded."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.4), layout="constrained")
    g = np.linspace(-3.0, 3.0, 200)
    a, b = np.meshgrid(g, g)
    for ax, (rho, _) in zip(axes, FIGURE_4, strict=True):
        density = multivariate_normal([0.0, 0.0], [[1.0, rho], [rho, 1.0]]).pdf(np.dstack([a, b]))
        above, below = orthants(rho)
        ax.axhspan(0.0, 3.0, xmax=0.5, color=plots.PALETTE[1], alpha=0.25, linewidth=0)
        ax.axhspan(-3.0, 0.0, xmax=0.5, color=plots.PALETTE[0], alpha=0.25, linewidth=0)
        ax.contour(a, b, density, levels=7, colors="#222222", linewidths=0.8)
        ax.text(-2.8, 2.5, f"y* = 1: {above:.3f}")
        ax.text(-2.8, -2.8, f"y* = 0: {below:.3f}")
        ax.axhline(0.0, linewidth=0.7, color="#777777")
        ax.axvline(0.0, linewidth=0.7, color="#777777")
        ax.set(xlabel="ξ (training point, y = 0)", ylabel="ξ* (new point)", aspect="equal")
        ax.set_title(f"correlation {rho:g}: p(y* = 1) = {above / (above + below):.3f}", fontsize=10)
    return figure


def six_maps(setting: Setting) -> dict[str, tuple[Any, Any, Any]]:
    """The four methods with the paper's own parameters for its Figure 6, on 114 samples of a similar field."""
    data = roeder_field(114, sill=6.0, length_scale=0.45, random_state=setting.seed + 14)
    sill = ConstantKernel(0.17)
    common = {"hyperparameters": "fixed", "random_state": setting.seed}
    methods = {
        "CIK": IndicatorKriging("classical", kernel=sill * Matern(0.4, nu=0.5)),
        "SIK": IndicatorKriging("simplicial", kernel=sill * Matern(0.4, nu=0.5)),
        "AMP": GPClassifier(sill * Matern(0.99, nu=0.5), inference=AMP(c0=6.81), **common),
        "DSGQ": GPClassifier(sill * Matern(3.0, nu=0.5), inference=DSGQ(k0=4.0), **common),
    }
    return {name: (estimator.fit(data.X, data.y), data.X, data.y) for name, estimator in methods.items()}


def dissenting(fitted: dict[str, tuple[Any, Any, Any]]) -> dict[str, tuple[int, int, int]]:
    """Per method: samples on the wrong side; samples alone in the other class; the number of these that it follows."""
    found = {}
    for name, (estimator, X, y) in fitted.items():
        near = np.argsort(((X[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, 1:6]
        alone = np.all(y[near] != y[:, None], axis=1)
        right = estimator.predict(X) == y
        found[name] = int((~right).sum()), int(alone.sum()), int((alone & right).sum())
    return found


def figure6(fitted: dict[str, tuple[Any, Any, Any]]) -> Any:
    """Contours of the four methods."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10.5, 9.5), layout="constrained")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ax, (name, (estimator, X, y)) in zip(axes.flat, fitted.items(), strict=True):
            found = predict_map(estimator, regular_grid(X, 90))
            plots.probability_map(found, X, y, title=name, contours=(0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9), ax=ax)
    return figure


def flood_plain(X: Any) -> Any:
    """The cells of the flood plain from the data folder, or a grid over the samples if it is not there."""
    file = Path(os.environ.get(FOLDER_VARIABLE, "")) / "meuse_grid.csv"
    if not file.is_file():
        return regular_grid(X, 60)
    return (pd.read_csv(file)[["x", "y"]] / 1000.0).set_axis(X.columns, axis=1)


def meuse_map(setting: Setting) -> Any:
    """Zinc above 500 ppm in the flood plain of the Meuse, with the width of the interval."""
    meuse = load("meuse")
    X = meuse.X[["x", "y"]] / 1000.0
    X.columns = ["east (km)", "north (km)"]
    grid = flood_plain(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        effort = Effort(n_points=setting.choose(30, 30, 8), rounds=setting.choose(2, 2, 1), tol=0.003, nugget=0.0)
        estimator = tune("DSGQ", X.to_numpy(), meuse.y, setting.seed, effort)
        axes = plots.probability_map(
            estimator.fit(X, meuse.y),
            X,
            meuse.y,
            points=grid,
            panel="interval",
            event="zinc > 500 ppm",
            title="Meuse: probability that zinc exceeds 500 ppm",
        )
    return axes[0].figure
