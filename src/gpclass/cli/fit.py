"""``gpclass fit``: fit a model to a table or a Parquet folder and save it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpclass.cli import build, folders, options
from gpclass.cli.errors import Mistake, check_converged
from gpclass.cli.files import read_labelled
from gpclass.cli.outputs import check_output
from gpclass.cli.show import answer, note
from gpclass.data.parquet import ParquetFolder
from gpclass.estimators.tables import TableClassifier
from gpclass.registry import FORMS


def fit(
    data: options.DataOrFolder,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the model.")] = Path("model.gpclass"),
    method: Annotated[
        build.InferenceName, typer.Option("--method", "--inference", "-m", help="Inference; see `gpclass methods`.")
    ] = build.METHOD,
    hyperparameters: Annotated[
        build.StrategyName, typer.Option(help="How kernel parameters are estimated.")
    ] = build.STRATEGY,
    likelihood: Annotated[build.LikelihoodName, typer.Option(help="Link to probabilities.")] = build.LIKELIHOOD,
    kernel: options.Kernel = build.KernelName.rbf,
    features: options.Features = "",
    exclude: options.Exclude = "",
    ids: options.Ids = "",
    categories: options.Categories = "",
    spatial: options.Spatial = "",
    drop_missing: options.DropMissing = False,
    impute: options.Impute = options.ImputeName.none,
    standardize: options.Standardize = True,
    tol: Annotated[float, typer.Option(help="Target Monte Carlo error of probabilities.")] = 1e-3,
    restarts: Annotated[int, typer.Option(min=0, help="Additional searches from random starts.")] = 0,
    inducing: Annotated[
        str, typer.Option(help="Inducing points, for large data: a number or auto.", show_default="none")
    ] = "",
    neighbors: Annotated[
        str,
        typer.Option(
            help="Neighbours of each row, for large maps, alone or beside --inducing: a number or auto; "
            "with --inference ep.",
            show_default="none",
        ),
    ] = "",
    latent_prior: Annotated[
        build.FormName | None,
        typer.Option(
            help="Form of the prior over latent values, at its own settings; local is for many rows of many "
            "columns, with --inference ep.",
            show_default="dense, or what --inducing and --neighbors ask for",
        ),
    ] = None,
    chains: Annotated[int | None, typer.Option(min=1, help="Chains over kernel parameters that are sampled.")] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws per chain.", show_default="until the chains have mixed")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to which a long fit is saved as it goes, and from which it resumes.")
    ] = None,
    jobs: options.Jobs = 1,
    seed: options.Seed = 0,
    sep: options.Sep = "",
    decimal: options.Decimal = "",
    encoding: options.TextEncoding = "",
    missing: options.Missing = None,
    force: options.Force = False,
    plan: Annotated[bool, typer.Option("--plan", help="Show expected time and memory; fit nothing.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a model to a table and save it.

    Text columns become one column per category, numbers are standardised; both mappings are saved with the model.
    A Parquet folder, whose rows need not fit into memory, needs --inducing; for rows that fit, --latent-prior local.
    """

    def make(columns: int) -> Any:
        return build.make_classifier(
            method.value,
            build.make_strategy(hyperparameters.value, chains=chains, draws=draws, checkpoint=checkpoint),
            likelihood=likelihood.value,
            restarts=restarts,
            jobs=jobs,
            kernel=build.make_kernel(kernel, columns),
            n_inducing=folders.check_number("--inducing", inducing, 1),
            n_neighbors=folders.check_number("--neighbors", neighbors, 0),
            latent_prior=form,
            tol=tol,
            random_state=seed,
            verbose=options.verbosity(quiet),
        )

    form = None if latent_prior is None else latent_prior.value
    if form and (inducing or neighbors):
        other = "--inducing" if inducing else "--neighbors"
        raise Mistake(f"--latent-prior {form} and {other} both choose the prior: leave one of them out")
    include, left_out = options.split_names(features), options.split_names(exclude)
    names, said = options.split_names(ids), options.split_names(categories)
    places = options.split_names(spatial) or None
    filling = None if impute is options.ImputeName.none else impute.value
    if not plan:
        check_output(out, [data], force)
    if data.is_dir():
        if plan:
            raise Mistake(f"{data} is a folder: --plan needs a table in one file; try it on a subset")
        reads = bool(neighbors) if form is None else not FORMS[form].predicts_from_rows or FORMS[form].reads
        if not inducing and not reads:
            raise Mistake(
                f"{data} is a folder: set the number of inducing points, for example --inducing 300, or, for rows "
                "that fit into memory, give --neighbors auto or --latent-prior local, with --inference ep"
            )
        if said:
            raise Mistake(f"{data} is a folder: write columns of names as text there, instead of --categories")
        left_out += names
        folder = ParquetFolder(data, tuple(include) or None, tuple(left_out), drop_missing=drop_missing)
        rules = {"standardize": standardize, "impute": filling, "spatial": places}
        model, dropped = folders.fit_folder(folder, target, rules, make)
        rows = model.fit_report_.n_points
        if dropped:
            note(f"{dropped} rows with missing values dropped, {rows} kept")
    else:
        text_format = options.text_format(sep, decimal, encoding, missing)
        table = read_labelled(
            data,
            target,
            include,
            left_out,
            drop_missing,
            form=text_format,
            ids=names,
            categories=said,
            impute=filling is not None,
        )
        rows, dropped = len(table.labels), table.dropped
        given = table.categories or None
        model = TableClassifier(standardize=standardize, impute=filling, categories=given, spatial=places)
        learned = model.learn_encoding(table.features)
        model.set_params(classifier=make(len(learned.outputs)))
        if plan:
            _plan(model.classifier, learned.encode(table.features), table.labels, as_json)
            return
        table.describe()
        model.fit(table.features, table.labels)
    model.save(out)
    new = "NEW_FOLDER --out PREDICTIONS" if data.is_dir() else "NEW.csv --out predictions.csv"
    text = f"{model.fit_report_}\n\n{out} written. Next: gpclass predict {out} {new}"
    facts = {
        "model": str(out),
        "rows": rows,
        "dropped": dropped,
        "classes": model.classes_,
        "columns": model.encoding_.names,
        "encoded": model.encoding_.outputs,
        "kernel": str(model.kernel_),
        "converged": model.fit_report_.converged,
        "report": {key: value for key, value in vars(model.fit_report_).items() if key != "details"},
    }
    answer(text, facts, as_json)
    check_converged(model.fit_report_.converged)


def _plan(classifier: Any, X: Any, labels: Any, as_json: bool) -> None:
    """Expected cost; separately for the search and the final fit where these differ."""
    steps = [classifier.guide, classifier.classifier] if hasattr(classifier, "guide") else [classifier]
    for final in steps[1:]:
        final.set_params(hyperparameters="fixed", n_restarts=0)
    plans = [step.plan(X, labels) for step in steps]
    answer("\n".join(map(str, plans)), [{**vars(plan), "fits": plan.fits} for plan in plans], as_json)
