"""``gpclass compare``: compare methods on a table, in one HTML report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from gpclass.cli import build, options
from gpclass.cli.errors import Mistake, check_converged
from gpclass.cli.files import read_labelled
from gpclass.cli.outputs import check_output
from gpclass.cli.show import answer
from gpclass.data.columns import Encoding
from gpclass.estimators.tables import TableClassifier
from gpclass.likelihoods import LIKELIHOODS
from gpclass.registry import INFERENCES, get_inference

PATIENCE = 60.0  # seconds per method, unless it was requested by name
USUAL = ("exact", "ep", "laplace", "variational")  # compared by default: one of each kind that takes seconds


def compare(
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file of the report.")] = Path("report.html"),
    chosen: Annotated[
        str,
        typer.Option(
            "--methods",
            "-m",
            help="Inferences, separated by commas, or all; see `gpclass methods`.",
            show_default=", ".join(USUAL),
        ),
    ] = "",
    folds: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Number of times the folds are drawn.")] = 1,
    groups: Annotated[
        str, typer.Option(help="Column of groups; a group is never split between folds.", show_default="none")
    ] = "",
    reference: Annotated[str, typer.Option(help="Method that the others are compared with.")] = "auto",
    max_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Skip a method that would take longer; 0: no limit.",
            show_default=f"{PATIENCE:g}, no limit for methods named in --methods",
        ),
    ] = None,
    kernel: options.Kernel = build.KernelName.rbf,
    tol: Annotated[float, typer.Option(help="Target Monte Carlo error of probabilities.")] = 5e-3,
    features: options.Features = "",
    exclude: options.Exclude = "",
    ids: options.Ids = "",
    categories: options.Categories = "",
    spatial: options.Spatial = "",
    drop_missing: options.DropMissing = False,
    impute: options.Impute = options.ImputeName.none,
    standardize: options.Standardize = True,
    jobs: options.Jobs = 1,
    seed: options.Seed = 0,
    sep: options.Sep = "",
    decimal: options.Decimal = "",
    encoding: options.TextEncoding = "",
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare methods on a table by cross-validation, and write one HTML report.

    The table is read and encoded as by `gpclass fit`; means, deviations and medians are those of each fold's rows.
    """
    from gpclass.compare import compare as run_comparison
    from gpclass.compare.presets import default_methods
    from gpclass.report import write_report

    names = [] if chosen == "all" else options.split_names(chosen)
    if max_seconds is None:
        max_seconds = 0.0 if names else PATIENCE
    for name in names:
        get_inference(name)  # raises for an unknown name and suggests similar ones
    if reference not in ("auto", "none"):
        get_inference(reference)
    check_output(out, [data], force)
    named, filling = options.split_names(ids), impute is not options.ImputeName.none
    table = read_labelled(
        data,
        target,
        options.split_names(features),
        options.split_names(exclude),
        drop_missing,
        groups,
        form=options.text_format(sep, decimal, encoding, missing),
        ids=named,
        categories=options.split_names(categories),
        impute=filling,
    )
    table.describe()
    _check_folds(table.labels, folds)
    encoding_of_all = Encoding.learn(table.features, impute=filling, categories=table.categories)
    if not names:
        names = _able(list(INFERENCES) if chosen == "all" else list(USUAL), len(np.unique(table.labels)))
    start = build.make_kernel(kernel, len(encoding_of_all.outputs))
    rules: dict[str, Any] = {
        "standardize": standardize,
        "impute": impute.value if filling else None,
        "categories": encoding_of_all.categories,  # of all rows, since a fold may lack one
        "spatial": options.split_names(spatial) or None,
    }
    methods = default_methods(names, kernel=start, standardize=False, settings={"tol": tol})
    found = run_comparison(
        table.features.set_axis(table.rows),
        table.labels,
        {name: TableClassifier(method, **rules) for name, method in methods.items()},
        cv=folds,
        repeats=repeats,
        reference=None if reference == "none" else reference,
        groups=table.groups,
        max_seconds=max_seconds or None,  # no limit for methods named by the user
        random_state=seed,
        n_jobs=jobs,
        verbose=options.verbosity(quiet),
    )
    if not found.succeeded:
        said = "; ".join(f"{r.name}: {r.error}" for r in found.results.values())
        cure = "" if not max_seconds else "; try --max-seconds 0 (no limit), fewer rows, or gpclass fit --inducing 300"
        raise Mistake(f"no method could be fitted: {said}{cure}")
    gone = f" {table.dropped} rows with missing values were dropped." if table.dropped else ""
    rows = f"named by {named[0]}" if named else "numbered from 1, in file order"
    description = f"Target: {target}.{gone} Rows are {rows}."
    write_report(found, out, title=f"{data.name}: which method to trust", description=description)
    advised = {"advice": found.advice, "recommended": found.recommended}
    results = {"report": str(out), **advised, "methods": found.rows()}
    answer(f"{found}\n\n{out} written. Open it in a browser.", results, as_json)
    check_converged(*(r.converged for r in found.succeeded))


def _able(names: list[str], n_classes: int) -> list[str]:
    """Those of the methods that handle so many classes."""
    if n_classes == 2:
        return names
    return [name for name in names if any(LIKELIHOODS[known].many for known in INFERENCES[name].likelihoods)]


def _check_folds(labels: Any, folds: int) -> None:
    """Every class must occur in every fold."""
    classes, count = np.unique(labels.astype(str), return_counts=True)
    if count.min() < folds:
        raise Mistake(
            f"class {str(classes[count.argmin()])!r} has {count.min()} of the {len(labels)} rows, too few for --folds "
            f"{folds}: lower it, or remove that class"
        )
