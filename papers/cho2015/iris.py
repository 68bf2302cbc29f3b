"""Section 5.2: iris, 90 training and 60 test flowers, random splits; the confusion matrix of Table 2."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from papers.cho2015.methods import log_loss, methods
from papers.common import Section, Setting, Table, Verdict, read_published, tell

PUBLISHED = 0.98
SPECIES = ("setosa", "versicolor", "virginica")


def run(setting: Setting) -> Section:
    """All methods on the same splits."""
    repeats = setting.count(20, 20, 3)
    X, y = load_iris(return_X_y=True)
    found: dict[str, list[tuple[float, float, float]]] = {}
    confusion = np.zeros((3, 3))
    for r in range(repeats):
        X1, X2, y1, y2 = train_test_split(X, y, train_size=90, stratify=y, random_state=setting.seed + r)
        for k, (name, clf) in enumerate(methods(3, setting.seed + r).items()):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                proba = clf.fit(X1, y1).predict_proba(X2)
            guess = proba.argmax(axis=1)
            row = (
                float(np.mean(guess == y2)),
                log_loss(proba, y2, np.arange(3)),
                time.process_time() - began,
            )
            found.setdefault(name, []).append(row)
            if k == 0:
                np.add.at(confusion, (y2, guess), 1.0)
            tell(r, name, *row)
    confusion /= confusion.sum(axis=1, keepdims=True)
    rows = []
    for name, runs in found.items():
        accuracy, loss, seconds = np.array(runs).T
        rows.append((name, accuracy.mean(), accuracy.std(ddof=1), loss.mean(), seconds.mean()))
    rows.append(("Cho et al., as printed", PUBLISHED, None, None, None))
    table2 = read_published(Path(__file__).parent / "published" / "table2.csv")
    beside = [
        (f"{species} (published)" if printed else species, *(values))
        for i, species in enumerate(SPECIES)
        for printed, values in ((False, confusion[i]), (True, [table2.rows[i][s] for s in SPECIES]))
    ]
    mean, se, best = rows[0][1], rows[0][2] / np.sqrt(repeats), max(row[1] for row in rows[:-1])
    reached = sum(row[0] >= PUBLISHED for row in next(iter(found.values())))
    return Section(
        "iris",
        f"Iris, 90 train / 60 test, {repeats} splits",
        (
            Table("iris", ("method", "accuracy", "sd of a split", "log loss", "CPU seconds"), tuple(rows)),
            Table("iris_confusion", ("true", *SPECIES), tuple(beside), "Confusion matrix of the paper's method:"),
        ),
        (
            Verdict(
                "accuracy of the paper's method",
                f"at least {PUBLISHED}, or within two standard errors of it",
                f"{mean:.3f}, standard error {se:.3f}; the best of the methods here has {best:.3f} on the same splits",
                bool(mean > PUBLISHED - 2 * se),
            ),
        ),
        (
            f"The paper's average comes after “many experiments to get meaningful results”; {reached} of our {repeats} "
            f"splits reach it, and {'no' if best < PUBLISHED else 'some'} method here does on average.",
            "![The flowers from four viewpoints](cho2015_iris.png)",
        ),
        {"iris": lambda: draw(X, y)},
    )


def draw(X: Any, y: Any) -> Any:
    """The paper's Figure 2: the flowers from different viewpoints, three measurements at a time."""
    import matplotlib.pyplot as plt

    names = ("sepal length", "sepal width", "petal length", "petal width")
    figure, axes = plt.subplots(2, 2, figsize=(9, 8), subplot_kw={"projection": "3d"}, layout="constrained")
    for left, ax in enumerate(axes.flat):
        three = [k for k in range(4) if k != left]
        for c, species in enumerate(SPECIES):
            ax.scatter(*X[y == c][:, three].T, s=10, label=species)
        ax.set(xlabel=names[three[0]], ylabel=names[three[1]], zlabel=names[three[2]])
    axes.flat[0].legend(frameon=False)
    return figure
