"""``gpclass map``: predictions of a saved model over two features, as a figure or a table of grid points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from gpclass._typing import Array
from gpclass.cli.errors import Mistake
from gpclass.cli.files import check_column, read_table, write_table
from gpclass.cli.options import DataFile, Json, Level, ModelFile, load_table_model
from gpclass.cli.show import answer
from gpclass.estimators.tables import NumberColumn, TableClassifier, predictions
from gpclass.estimators.wrapping import Wrapping
from gpclass.numerics.files import replacing

PICTURES = (".png", ".svg", ".pdf")


def draw_map(
    model_file: ModelFile,
    data: DataFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Figure (.png, .svg, .pdf) or grid (.csv, .parquet).")
    ] = Path("map.png"),
    x: Annotated[str, typer.Option(help="Column on the x axis.", show_default="first of two")] = "",
    y: Annotated[str, typer.Option(help="Column on the y axis.", show_default="second of two")] = "",
    target: Annotated[
        str,
        typer.Option("--target", "-t", help="Column with labels; also plots the rows.", show_default="none"),
    ] = "",
    panel: Annotated[str, typer.Option(help="Second panel: interval or mcse.", show_default="none")] = "",
    resolution: Annotated[int, typer.Option(min=2, max=1000, help="Grid points per side.")] = 100,
    level: Level = 0.9,
    as_json: Json = False,
) -> None:
    """Draw the probabilities of a saved model over two columns, the others at their median."""
    if panel not in ("", "interval", "mcse"):
        raise Mistake(f"--panel must be interval or mcse, not {panel!r}")
    model = load_table_model(model_file)
    frame = read_table(data)
    across, upwards = choose_axes(model, x or None, y or None)
    for name in (across, upwards, *([target] if target else [])):
        check_column(frame, name, data)
    frame = frame[frame[[across, upwards]].notna().all(axis=1)]
    view = Slice(model, across, upwards)
    if out.suffix.lower() in PICTURES:
        labels = frame[target].to_numpy() if target else None
        write_picture(view, frame, labels, out, panel or None, resolution, level)
    else:
        points = grid(frame, across, upwards, resolution)
        table = predictions(model, view.frame(points), level)
        table.insert(0, across, points[:, 0])
        table.insert(1, upwards, points[:, 1])
        write_table(table, out)
    answer(f"{out}: {across} and {upwards}", {"file": str(out), "x": across, "y": upwards}, as_json)


class Slice(Wrapping):
    """The model as a function of two columns; the others stay at their median or most common category."""

    def __init__(self, model: TableClassifier, x: str, y: str) -> None:
        self.classifier = self.classifier_ = model
        self.names = [x, y]
        self.classes_ = model.classes_

    def frame(self, points: Any) -> Any:
        """Complete rows for points (m, 2)."""
        values = np.asarray(points, dtype=float)
        filled: dict[str, Any] = {}
        for column in self.classifier_.encoding_.columns:
            if column.name in self.names:
                filled[column.name] = values[:, self.names.index(column.name)]
            else:
                held = column.median if isinstance(column, NumberColumn) else column.most_common
                filled[column.name] = [held] * len(values)
        return pd.DataFrame(filled)

    def _seen(self, points: Any) -> Any:
        return self.frame(points)


def choose_axes(model: TableClassifier, x: str | None, y: str | None) -> tuple[str, str]:
    """The two columns to draw: those requested, or the only two numeric columns."""
    numbers = [column.name for column in model.encoding_.columns if isinstance(column, NumberColumn)]
    for name in (x, y):
        if name is not None and name not in numbers:
            raise Mistake(f"{name!r} is not a numeric column of the model; choose from {', '.join(numbers)}")
    if x is not None and y is not None:
        if x == y:
            raise Mistake("a map needs two different columns")
        return x, y
    if len(numbers) == 2 and x is None and y is None:
        return numbers[0], numbers[1]
    raise Mistake(f"choose the columns with --x and --y; the model has {', '.join(numbers)}")


def grid(frame: Any, x: str, y: str, resolution: int) -> Array:
    """Grid points over the range of the data plus a margin, (resolution², 2)."""
    axes = []
    for name in (x, y):
        low, high = float(frame[name].min()), float(frame[name].max())
        pad = 0.05 * (high - low) or 1.0
        axes.append(np.linspace(low - pad, high + pad, resolution))
    gx, gy = np.meshgrid(*axes)
    return np.column_stack([gx.ravel(), gy.ravel()])


def write_picture(
    view: Slice, frame: Any, labels: Any, path: Path, panel: str | None, resolution: int, level: float
) -> None:
    """Draw the decision map to a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from gpclass.plots import decision_map

    axes = decision_map(view, frame[view.names], labels, panel=panel, resolution=resolution, level=level)
    figure = np.atleast_1d(np.asarray(axes, dtype=object))[0].figure
    try:
        with replacing(path) as draft:
            figure.savefig(draft, dpi=150, bbox_inches="tight")
    finally:
        plt.close(figure)
