"""Commands that work on a user's own data: fit, predict, compare, map."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from gpclass.cli import folders, maps
from gpclass.cli.build import (
    LIKELIHOOD,
    METHOD,
    STRATEGY,
    InferenceName,
    KernelName,
    LikelihoodName,
    StrategyName,
    make_classifier,
    make_kernel,
)
from gpclass.cli.errors import NOT_CONVERGED, Mistake
from gpclass.cli.files import check_column, read_labelled, read_table, write_table
from gpclass.cli.show import emit, note, say
from gpclass.registry import INFERENCES
from gpclass.tables import Encoding, TableClassifier, predictions

PATIENCE = 60.0  # seconds for one method, when nobody asked for it by name
USUAL = ("exact", "ep", "laplace", "variational")  # compared by default: one of each kind that takes seconds


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("0 processes can do nothing; 1 is one, -1 as many as there are cores")
    return jobs


DataFile = Annotated[
    Path, typer.Argument(metavar="DATA", help="Table with a header: CSV, TSV or Parquet.", show_default=False)
]
DataOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table with a header: CSV, TSV or Parquet; or a Parquet folder.",
        show_default=False,
    ),
]
Target = Annotated[str, typer.Option("--target", "-t", help="Column with the labels.", show_default=False)]
Features = Annotated[
    str,
    typer.Option(
        "--features", help="Columns to use, with commas between them.", show_default="all but the target"
    ),
]
Exclude = Annotated[
    str, typer.Option("--exclude", help="Columns to leave out, with commas.", show_default="none")
]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")]
Standardize = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Scale columns of numbers to mean 0 and sd 1.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all randomness.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Processes; -1: as many as there are cores.", callback=_check_jobs)
]
Kernel = Annotated[
    KernelName, typer.Option("--kernel", "-k", help="Covariance function; ard: a length a feature.")
]
Level = Annotated[float, typer.Option("--level", min=0.01, max=0.999, help="Of the credible interval.")]


def fit(
    data: DataOrFolder,
    target: Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the model.")] = Path("model.gpclass"),
    method: Annotated[
        InferenceName, typer.Option("--method", "--inference", "-m", help="Inference; see `gpclass methods`.")
    ] = METHOD,
    hyperparameters: Annotated[
        StrategyName, typer.Option("--hyperparameters", help="How kernel parameters are found.")
    ] = STRATEGY,
    likelihood: Annotated[
        LikelihoodName, typer.Option("--likelihood", help="Link to probabilities.")
    ] = LIKELIHOOD,
    kernel: Kernel = KernelName.rbf,
    features: Features = "",
    exclude: Exclude = "",
    drop_missing: DropMissing = False,
    standardize: Standardize = True,
    tol: Annotated[float, typer.Option("--tol", help="Wanted Monte Carlo error of probabilities.")] = 1e-3,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, help="Further searches from random starts.")
    ] = 0,
    inducing: Annotated[
        str,
        typer.Option(
            "--inducing", help="Inducing points, for many rows: a number or auto.", show_default="none"
        ),
    ] = "",
    jobs: Jobs = 1,
    seed: Seed = 0,
    plan: Annotated[bool, typer.Option("--plan", help="Tell expected time and memory; fit nothing.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table and save it.

    Words become one column a category, numbers are standardised; both mappings are saved with the model.
    A Parquet folder, whose rows need not fit into memory, needs --inducing.
    """

    def make(columns: int) -> Any:
        return make_classifier(
            method.value,
            hyperparameters.value,
            kernel=make_kernel(kernel, columns),
            likelihood=likelihood.value,
            tol=tol,
            restarts=restarts,
            inducing=folders.check_inducing(inducing),
            jobs=jobs,
            seed=seed,
            verbose=0 if quiet or not sys.stderr.isatty() else 1,
        )

    if data.is_dir():
        if plan or drop_missing:
            raise Mistake(f"{data} is a folder: --plan and --drop-missing are for tables in one file")
        if not inducing:
            raise Mistake(f"{data} is a folder: say how many inducing points to use, such as --inducing 300")
        model = folders.fit_folder(data, target, _names(features), _names(exclude), standardize, make)
        rows, dropped = model.fit_report_.n_points, 0
    else:
        table = read_labelled(
            data, target, include=_names(features), exclude=_names(exclude), drop_missing=drop_missing
        )
        rows, dropped = len(table.labels), table.dropped
        if dropped:
            note(f"{dropped} rows with missing values left out, {rows} kept")
        encoding = Encoding.learn(table.features, standardize=standardize)
        classifier = make(len(encoding.outputs))
        if plan:
            _plan(classifier, encoding.encode(table.features), table.labels, as_json)
            return
        model = TableClassifier(classifier, standardize=standardize).fit(table.features, table.labels)
    model.save(out)
    report = model.fit_report_
    if as_json:
        emit({"model": str(out), "rows": rows, "dropped": dropped, **_facts(model)})
    else:
        say(str(report))
        new = "NEW_FOLDER --out PREDICTIONS" if data.is_dir() else "NEW.csv --out predictions.csv"
        say(f"\n{out} written. Next: gpclass predict {out} {new}")
    if not report.converged:
        raise typer.Exit(NOT_CONVERGED)


def predict(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="File that `gpclass fit` wrote.", show_default=False)
    ],
    data: DataOrFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="CSV, TSV or Parquet; a folder for a folder.", show_default="standard output"
        ),
    ] = None,
    level: Level = 0.9,
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column with true labels, to score.", show_default="none")
    ] = "",
    drop_missing: DropMissing = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table: class, probability, Monte Carlo error, credible interval.

    Column `row` counts the rows of the table from 1. `mcse` is how far the computed probability may be from the
    exact one (empty for a deterministic approximation); `lower` and `upper` hold the probability itself.
    A Parquet folder is predicted into a folder of files of the same names; those that are done are not done again.
    """
    model = _load(model_file)
    if data.is_dir():
        if target or drop_missing:
            raise Mistake(f"{data} is a folder: --target and --drop-missing are for tables in one file")
        folders.predict_into(model, data, out, level, jobs, as_json)
        return
    frame = read_table(data)
    rows = np.arange(1, len(frame) + 1)
    if drop_missing:
        known = [name for name in model.encoding_.names if name in frame.columns]
        whole = frame[known].notna().all(axis=1).to_numpy()
        if not whole.all():
            note(f"{int(np.sum(~whole))} rows with missing values left out, {int(whole.sum())} kept")
        frame, rows = frame[whole], rows[whole]
    if target:
        check_column(frame, target, data)
    found = _predictions(model, frame, rows, level)
    scores = _scores(found, model.classes_, frame[target].to_numpy()) if target else {}
    if out is not None:
        write_table(found, out)
    if as_json:
        emit(
            {"scores": scores, "predictions": found.to_dict("records")}
            if out is None
            else {"file": str(out), "scores": scores}
        )
    elif out is None:
        sys.stdout.write(found.to_csv(index=False))
    else:
        say(f"{out}: {len(found)} predictions")
    if scores and not as_json:
        note(", ".join(f"{name} {value:.4g}" for name, value in scores.items()))


def compare(
    data: DataFile,
    target: Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file of the report.")] = Path("report.html"),
    chosen: Annotated[
        str,
        typer.Option(
            "--methods",
            "-m",
            help="Inferences, with commas, or all; see `gpclass methods`.",
            show_default=", ".join(USUAL),
        ),
    ] = "",
    folds: Annotated[int, typer.Option("--folds", min=2, help="Of the cross-validation.")] = 5,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Times the folds are drawn.")] = 1,
    groups: Annotated[
        str,
        typer.Option("--groups", help="Column whose values stay together in a fold.", show_default="none"),
    ] = "",
    reference: Annotated[
        str, typer.Option("--reference", help="Method the others are measured from.")
    ] = "auto",
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds",
            min=0.0,
            help="Leave out a method that would take longer; 0: none.",
            show_default=f"{PATIENCE:g}, but none when --methods names them",
        ),
    ] = None,
    kernel: Kernel = KernelName.rbf,
    tol: Annotated[float, typer.Option("--tol", help="Wanted Monte Carlo error of probabilities.")] = 5e-3,
    features: Features = "",
    exclude: Exclude = "",
    drop_missing: DropMissing = False,
    standardize: Standardize = True,
    jobs: Jobs = 1,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on a table by cross-validation, and write one HTML report."""
    from gpclass.compare import compare as run_comparison
    from gpclass.compare.presets import default_methods
    from gpclass.report import write_report

    names = [] if chosen == "all" else _names(chosen)
    if max_seconds is None:
        max_seconds = 0.0 if names else PATIENCE
    for name in names:
        _check_method(name)
    if reference not in ("auto", "none"):
        _check_method(reference)
    table = read_labelled(
        data,
        target,
        include=_names(features),
        exclude=_names(exclude),
        drop_missing=drop_missing,
        groups=groups or None,
    )
    _check_folds(table.labels, folds)
    encoding = Encoding.learn(table.features, standardize=False)  # folds standardise on their own rows
    X = pd.DataFrame(encoding.encode(table.features), columns=list(encoding.outputs), index=table.rows)
    if not names:
        names = _able(list(INFERENCES) if chosen == "all" else list(USUAL), len(np.unique(table.labels)))
    found = run_comparison(
        X,
        table.labels,
        default_methods(
            names, kernel=make_kernel(kernel, X.shape[1]), standardize=standardize, settings={"tol": tol}
        ),
        cv=folds,
        repeats=repeats,
        reference=None if reference == "none" else reference,
        groups=table.groups,
        max_seconds=max_seconds or None,  # what the user names is wanted, however long it takes
        random_state=seed,
        n_jobs=jobs,
        verbose=0 if quiet or not sys.stderr.isatty() else 1,
    )
    if not found.succeeded:
        raise Mistake(
            "no method could be fitted: " + "; ".join(f"{r.name}: {r.error}" for r in found.results.values())
        )
    left_out = f" {table.dropped} rows with missing values were left out." if table.dropped else ""
    write_report(
        found,
        out,
        title=f"{data.name}: which method to trust",
        description=f"Target: {target}.{left_out} Rows are counted from 1, as they stand in the file.",
    )
    if as_json:
        emit(
            {
                "report": str(out),
                "advice": found.advice,
                "recommended": found.recommended,
                "methods": found.rows(),
            }
        )
    else:
        say(str(found))
        say(f"\n{out} written. Open it in a browser.")
    if not all(r.converged for r in found.succeeded):
        raise typer.Exit(NOT_CONVERGED)


def draw_map(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="File that `gpclass fit` wrote.", show_default=False)
    ],
    data: DataFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Picture (.png, .svg, .pdf) or grid (.csv, .parquet).")
    ] = Path("map.png"),
    x: Annotated[str, typer.Option("--x", help="Column across.", show_default="first of two")] = "",
    y: Annotated[str, typer.Option("--y", help="Column upwards.", show_default="second of two")] = "",
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column with labels, to draw the rows.", show_default="none")
    ] = "",
    panel: Annotated[
        str, typer.Option("--panel", help="Second panel: interval or mcse.", show_default="none")
    ] = "",
    resolution: Annotated[int, typer.Option("--resolution", min=2, max=1000, help="Points a side.")] = 100,
    level: Level = 0.9,
    as_json: Json = False,
) -> None:
    """Draw the probabilities of a saved model over two columns, the others at their median."""
    if panel not in ("", "interval", "mcse"):
        raise Mistake(f"--panel must be interval or mcse, not {panel!r}")
    model = _load(model_file)
    frame = read_table(data)
    across, upwards = maps.choose_axes(model, x or None, y or None)
    for name in (across, upwards, *([target] if target else [])):
        check_column(frame, name, data)
    frame = frame[frame[[across, upwards]].notna().all(axis=1)]
    view = maps.Slice(model, across, upwards)
    if out.suffix.lower() in maps.PICTURES:
        labels = frame[target].to_numpy() if target else None
        maps.write_picture(view, frame, labels, out, panel or None, resolution, level)
    else:
        points = maps.grid(frame, across, upwards, resolution)
        table = _predictions(model, view.frame(points), None, level)
        table.insert(0, across, points[:, 0])
        table.insert(1, upwards, points[:, 1])
        write_table(table, out)
    if as_json:
        emit({"file": str(out), "x": across, "y": upwards})
    else:
        say(f"{out}: {across} and {upwards}")


# ---- parts ---------------------------------------------------------------------------------------------


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _able(names: list[str], n_classes: int) -> list[str]:
    """Those of the methods that handle so many classes."""
    return [name for name in names if n_classes == 2 or INFERENCES[name].many is not None]


def _check_folds(labels: Any, folds: int) -> None:
    """Every class must be in every fold."""
    classes, count = np.unique(labels.astype(str), return_counts=True)
    if count.min() < folds:
        raise Mistake(
            f"class {str(classes[count.argmin()])!r} has {count.min()} of the {len(labels)} rows, too few for --folds "
            f"{folds}: lower it, or leave that class out"
        )


def _check_method(name: str) -> None:
    from gpclass.registry import get_inference

    get_inference(name)  # an unknown name is refused here, with the near ones


def _load(path: Path) -> TableClassifier:
    from gpclass import load_model

    if not path.exists():
        raise Mistake(f"there is no file {path}; gpclass fit writes one")
    model = load_model(path)
    if not isinstance(model, TableClassifier):
        raise Mistake(
            f"{path} holds a {type(model).__name__} without the names of its columns; open it in Python with "
            "gpclass.load_model, or fit it with gpclass fit"
        )
    return model


def _plan(classifier: Any, X: Any, labels: Any, as_json: bool) -> None:
    """Expected cost; of the search and the last fit where they are two."""
    steps = [classifier.guide, classifier.classifier] if hasattr(classifier, "guide") else [classifier]
    plans = []
    for step in steps:
        if step is not steps[0]:
            step = step.set_params(hyperparameters="fixed")
        plans.append(step.plan(X, labels))
    if as_json:
        emit([{**vars(one), "fits": one.fits} for one in plans])
    else:
        for one in plans:
            say(str(one))


def _facts(model: TableClassifier) -> dict[str, Any]:
    report = model.fit_report_
    return {
        "classes": model.classes_,
        "columns": model.encoding_.names,
        "encoded": model.encoding_.outputs,
        "kernel": str(model.kernel_),
        "converged": report.converged,
        "report": {key: value for key, value in vars(report).items() if key != "details"},
    }


def _predictions(model: TableClassifier, frame: Any, rows: Any, level: float) -> Any:
    """One row a prediction, after its place in the table if that is known."""
    found = predictions(model, frame, level)
    if rows is not None:
        found.insert(0, "row", rows)
    return found


def _scores(found: Any, classes: Any, truth: Any) -> dict[str, float]:
    """Accuracy, log loss and Brier score where the truth is known."""
    from gpclass import metrics

    if pd.isna(truth).any():
        raise Mistake(
            f"{int(pd.isna(truth).sum())} rows have no true label: fill them in or leave out --target"
        )
    strange = sorted(set(map(str, truth)) - set(map(str, classes)))
    if strange:
        raise Mistake(f"the true labels hold {', '.join(strange)}, which the model does not know")
    proba = found[[f"p_{label}" for label in classes]].to_numpy()
    y = np.array([list(map(str, classes)).index(str(label)) for label in truth])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that does not occur is no news here
        return {
            "accuracy": metrics.accuracy(y, proba, np.arange(len(classes))),
            "log_loss": metrics.log_loss(y, proba, np.arange(len(classes))),
            "brier": metrics.brier_score(y, proba, np.arange(len(classes))),
        }
