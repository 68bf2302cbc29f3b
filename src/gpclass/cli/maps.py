"""``gpclass map``: predictions of a saved model over two features: a figure, files for a GIS, or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from gpclass._typing import Array
from gpclass.cli import options
from gpclass.cli.errors import Mistake
from gpclass.cli.files import check_column, read_table
from gpclass.cli.options import DataFile, Json, Level, ModelFile, load_table_model
from gpclass.cli.outputs import check_output, write_table
from gpclass.cli.show import answer
from gpclass.data.columns import NumberColumn
from gpclass.data.predicted import predictions
from gpclass.estimators.tables import TableClassifier
from gpclass.estimators.wrapping import Wrapping
from gpclass.geostat.export import GEOTIFF, NETCDF
from gpclass.geostat.maps import predict_maps
from gpclass.names import did_you_mean
from gpclass.numerics.files import replacing

PICTURES = (".png", ".svg", ".pdf")
AspectName = StrEnum("AspectName", ["auto", "equal", "free"])
AUTO = AspectName["auto"]
LONGEST = 4.0  # longer side over shorter side up to which equal scales are the default
ABREAST = 3  # maps beside each other
PLAIN = (1e-4, 1e7)  # sides whose ticks are written without powers of ten


def draw_map(
    model_file: ModelFile,
    data: DataFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Figure (.png, .svg, .pdf), GIS (.tif, .nc) or grid (.csv, .parquet).")
    ] = Path("map.png"),
    x: Annotated[str, typer.Option(help="Column on the x axis.", show_default="first of two")] = "",
    y: Annotated[str, typer.Option(help="Column on the y axis.", show_default="second of two")] = "",
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column with labels; also plots the rows.", show_default="none")
    ] = "",
    label: Annotated[
        str,
        typer.Option(
            "--class", help="Class whose probability is drawn; all: each.", show_default="second, or most probable"
        ),
    ] = "",
    aspect: Annotated[AspectName, typer.Option(help="Scales of the axes; auto: equal where that fits.")] = AUTO,
    panel: Annotated[str, typer.Option(help="Second panel: interval or mcse.", show_default="none")] = "",
    resolution: Annotated[int, typer.Option(min=2, max=1000, help="Grid points per side.")] = 100,
    crs: Annotated[
        str, typer.Option(help="Reference system of .tif and .nc, such as EPSG:28992.", show_default="none")
    ] = "",
    level: Level = 0.9,
    sep: options.Sep = "",
    decimal: options.Decimal = "",
    encoding: options.TextEncoding = "",
    missing: options.Missing = None,
    force: options.Force = False,
    as_json: Json = False,
) -> None:
    """Draw the probabilities of a saved model over two columns, the others at their median."""
    if panel not in ("", "interval", "mcse"):
        raise Mistake(f"--panel must be interval or mcse, not {panel!r}")
    if panel and label == "all":
        raise Mistake("--panel goes with the map of one class, not with --class all")
    picture, raster = (out.suffix.lower() in kinds for kinds in (PICTURES, (*NETCDF, *GEOTIFF)))
    if crs and not raster:
        raise Mistake(f"--crs goes with {', '.join((*NETCDF, *GEOTIFF))}; {out} has no place for it")
    model = load_table_model(model_file)
    shown = choose_classes(model.classes_, label)
    frame = read_table(data, options.text_format(sep, decimal, encoding, missing), label=target)
    across, upwards = choose_axes(model, x or None, y or None)
    for name in (across, upwards, *([target] if target else [])):
        check_column(frame, name, data)
    check_output(out, [data, model_file], force, table=not (picture or raster))
    frame = frame[frame[[across, upwards]].notna().all(axis=1)]
    view = Slice(model, across, upwards)
    if picture:
        labels = frame[target].to_numpy() if target else None
        style = {"panel": panel or None, "resolution": resolution, "level": level}
        write_picture(view, frame, labels, out, shown, aspect, style)
    elif raster:
        cells = pd.DataFrame(grid(frame, across, upwards, resolution), columns=view.names)
        predict_maps(view, cells, level=level).write(out, crs or None)
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
                filled[column.name] = [column.usual] * len(values)
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


def choose_classes(classes: Any, name: str) -> list[Any]:
    """The classes to draw: the one of this name, or all; None for the default."""
    if name == "all":
        return list(classes)
    found = [label for label in classes if str(label) == name]
    if name and not found:
        known = ", ".join(map(str, classes))
        raise Mistake(f"{name!r} is no class of the model{did_you_mean(name, classes)} Its classes are {known}")
    return found or [None]


def write_picture(
    view: Slice, frame: Any, labels: Any, path: Path, shown: Sequence[Any], aspect: AspectName, style: Mapping[str, Any]
) -> None:
    """Draw a decision map per class to a file; ``style``: settings of :func:`gpclass.plots.decision_map`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from gpclass.plots import decision_map

    two = style["panel"] is not None
    wide = min(len(shown), ABREAST)
    high = -(-len(shown) // wide)
    panels = wide * (2 if two else 1)
    figure, axes = plt.subplots(high, panels, figsize=(5.2 * panels, 4.6 * high), squeeze=False, layout="constrained")
    places = list(axes.flat)
    try:
        for one, place in zip(shown, [places] if two else places, strict=False):
            decision_map(view, frame[view.names], labels, label=one, ax=place, **style)
        for place in places:
            dress(place, aspect) if place.has_data() else place.remove()
        with replacing(path) as draft:
            figure.savefig(draft, dpi=150, bbox_inches="tight")
    finally:
        plt.close(figure)


def dress(axes: Any, aspect: AspectName) -> None:
    """Equal scales on both axes, if asked for or if neither side gets too short, and few plain tick labels."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    sides = [abs(float(np.diff(limits)[0])) for limits in (axes.get_xlim(), axes.get_ylim())]
    fits = max(sides) <= LONGEST * min(sides)
    axes.set_aspect("equal" if aspect is AspectName.equal or (aspect is AUTO and fits) else "auto")
    for axis, side in zip((axes.xaxis, axes.yaxis), sides, strict=True):
        axis.set_major_locator(MaxNLocator(4))
        form = ScalarFormatter(useOffset=False)
        form.set_scientific(not PLAIN[0] < side < PLAIN[1])
        axis.set_major_formatter(form)
