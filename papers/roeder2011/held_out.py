"""Maps with a separate test set: jura (cadmium, 259 and 100 sites), walker (V > 500, 470 sites, all cells)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gpclass.datasets import load
from papers.common import Section, Setting, Table, Verdict, tell
from papers.roeder2011.ladder import CORE, MORE, SCORE_COLUMNS, Effort, answer, score_rows

BLOCK = 20  # cells per side of the blocks that are resampled together on walker


def jura(setting: Setting) -> Section:
    """Train on 259 sites, test on 100."""
    train, test = load("jura_train"), load("jura_test")
    places = ["x_km", "y_km"]
    found = _ladder(train.X[places].to_numpy(), train.y, test.X[places].to_numpy(), (*CORE, *MORE), setting)
    tables = [_table("jura", found, test.y, np.arange(len(test.y)), setting)]
    both = {"exact": found["exact"][0]}
    both["exact, rock and land use too"] = _with_covariates(train, test, setting)
    tables.append(
        Table(
            "jura_covariates",
            SCORE_COLUMNS,
            tuple(score_rows(test.y, both, np.arange(len(test.y)), setting.seed)),
            "Covariates besides the coordinates, which indicator kriging cannot use.",
        )
    )
    share = float(train.y.mean()), float(test.y.mean())
    note = f"Cadmium above 0.8 mg/kg at {share[0]:.0%} of the training sites and {share[1]:.0%} of the test sites."
    return Section("jura", "Jura: separate test set", tuple(tables), _verdicts(found), (note,))


def _with_covariates(train: Any, test: Any, setting: Setting) -> np.ndarray:
    """Exact with rock and land use as indicators, with one length scale per kind."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

    from gpclass import GPClassifier
    from gpclass.kernels import on

    whole = pd.concat([train.X, test.X], ignore_index=True)
    codes = pd.get_dummies(whole[["rock", "landuse"]].astype(str), dtype=float)
    X = np.column_stack([whole[["x_km", "y_km"]].to_numpy(), codes.to_numpy()])
    n, d = len(train.y), X.shape[1]
    kernel = (
        ConstantKernel(2.0, (1e-2, 1e3)) * on(Matern(0.3, (0.01, 30.0), nu=1.5), [0, 1])
        + ConstantKernel(1.0, (1e-3, 1e2)) * on(RBF(1.0, (0.1, 100.0)), list(range(2, d)))
        + ConstantKernel(0.5, (1e-3, 1e2))
    )
    clf = GPClassifier(kernel, tol=0.005, random_state=setting.seed).fit(X[:n], train.y)
    return np.asarray(clf.predict_proba(X[n:])[:, 1])


def walker(setting: Setting) -> Section:
    """Train on the preferential sample, test on all other cells."""
    sample, whole = load("walker_sample"), load("walker_exhaustive")
    places = ["x_m", "y_m"]
    cells = whole.X[places].to_numpy()
    seen = set(map(tuple, sample.X[places].to_numpy()))
    kept = np.array([tuple(cell) not in seen for cell in cells])
    step = setting.choose(4, 1, 10)
    kept &= (cells[:, 0] % step == 1 % step) & (cells[:, 1] % step == 1 % step)
    X_new, y_new = cells[kept], whole.y[kept]
    names = (*CORE, *MORE, "CIK, declustered mean")
    found = _ladder(sample.X[places].to_numpy(), sample.y, X_new, names, setting)
    corner = ((X_new - 1) // BLOCK).astype(int)
    group = np.unique(corner, axis=0, return_inverse=True)[1].ravel()
    table = _table("walker", found, y_new, group, setting)
    shares = Table(
        "walker_share",
        ("", "share above 500"),
        (
            ("sample", float(sample.y.mean())),
            ("truth", float(y_new.mean())),
            *((f"mean of {name}", float(p.mean())) for name, (p, _) in found.items()),
        ),
        "The sample is preferential: rich places were sampled more densely.",
    )
    note = (
        f"{len(y_new):,} cells, without the {len(sample.y)} sampled ones; intervals resample blocks of "
        f"{BLOCK} × {BLOCK} metres, since neighbouring cells are correlated."
    )
    return Section("walker", "Walker Lake: all cells known", (table, shares), _verdicts(found), (note,))


Found = dict[str, tuple[np.ndarray, Any]]


def _ladder(X: Any, y: Any, X_new: Any, names: tuple[str, ...], setting: Setting) -> Found:
    effort = setting.choose(
        Effort(rounds=2, tol=0.01),
        Effort(n_points=40, rounds=3, draws=1000, tol=0.005),
        Effort(n_points=6, draws=100, tol=0.02),
    )
    found: Found = {}
    for name in names:
        p, tuning, spent, estimator = answer(name, X, y, X_new, setting.seed, effort)
        found[name] = p, (tuning, spent, _parameters(estimator))
        tell(name, tuning, spent, found[name][1][2])
    return found


def _parameters(estimator: Any) -> str:
    """The fitted parameters, in short."""
    scale = getattr(getattr(estimator, "likelihood_", None), "scale", None)
    return f"{estimator.kernel_}" + (f", scale {scale:.3g}" if scale is not None else "")


def _table(name: str, found: Found, y: Any, group: np.ndarray, setting: Setting) -> Table:
    rows = score_rows(y, {method: p for method, (p, _) in found.items()}, group, setting.seed)
    full = tuple((*row, *found[row[0]][1]) for row in rows)
    return Table(
        name,
        (*SCORE_COLUMNS, "s to tune", "s", "parameters"),
        full,
        "Coordinates only. Differences from exact with 95 % paired bootstrap intervals; CPU seconds to find the "
        "parameters, and to fit and predict with them.",
    )


def _verdicts(found: Found) -> tuple[Verdict, ...]:
    cik, sik = found["CIK"][0], found["SIK"][0]
    same = float(np.mean((cik > 0.5) == (sik > 0.5)))
    edge = float(np.mean((cik == 0.0) | (cik == 1.0)))
    return (
        Verdict("CIK and SIK share their decisions", "all points", f"{100 * same:.2f} %", same > 0.99),
        Verdict(
            "SIK stays inside [0, 1] where CIK is clipped",
            "none of SIK's at 0 or 1",
            f"{100 * edge:.1f} % of CIK's clipped",
            bool(np.all((sik > 0) & (sik < 1))),
        ),
    )
