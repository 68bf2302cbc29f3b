"""Maps of the command line: any class or all, equal scales where they fit, ticks that can be read."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib import cbook
from matplotlib.figure import Figure

from gpclass.cli.app import run
from gpclass.cli.maps import AspectName, dress


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """A model of three classes over metres; the figures that are saved."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = 181_000 + 3000 * rng.random(40), 331_000 + 4000 * rng.random(40)
    kind = np.where(x < 182_000, "sand $a$", np.where(y > 333_000, "clay", "peat $b$"))
    pd.DataFrame({"east $m$": x, "north": y, "kind": kind}).to_csv("data.csv", index=False)
    words = ["fit", "data.csv", "-t", "kind", "-m", "laplace", "--hyperparameters", "fixed", "-o", "m.gpclass"]
    assert run(words) == 0
    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: (figure.canvas.draw(), saved.append(figure)))
    yield saved
    plt.close("all")


def draw(*words):
    return run(["map", "m.gpclass", "data.csv", "-t", "kind", "--resolution", "6", "-f", *words])


def maps(figure):
    return [axes for axes in figure.axes if axes.get_xlabel()]


def bars(figure):
    """Labels of the colour bars, as drawn: a name with two $ is no formula."""
    labels = [one.yaxis.label for axes in figure.axes for one in (axes, *axes.child_axes)]
    assert not any(cbook.is_math_text(label.get_text()) for label in labels)
    return [label.get_text().replace("\\$", "$") for label in labels if label.get_text().startswith("probability of")]


@pytest.mark.slow
def test_any_class_or_all(drawn, capsys):
    assert draw("--class", "all") == 0
    assert bars(drawn[-1]) == [f"probability of class {name}" for name in ("clay", "peat $b$", "sand $a$")]
    assert draw("--class", "sand $a$", "--panel", "interval") == 0
    assert bars(drawn[-1]) == ["probability of class sand $a$"]
    assert len(maps(drawn[-1])) == 2
    assert draw() == 0
    assert bars(drawn[-1]) == []  # the most probable class
    capsys.readouterr()
    assert draw("--class", "cly") == 2
    assert "did you mean 'clay'" in capsys.readouterr().err
    assert draw("--class", "all", "--panel", "interval") == 2


@pytest.mark.slow
def test_metres_have_one_scale_and_plain_ticks(drawn):
    assert draw() == 0
    (axes,) = maps(drawn[-1])
    assert axes.get_aspect() == 1.0
    for axis in (axes.xaxis, axes.yaxis):
        texts = [text.get_text() for text in axis.get_ticklabels() if text.get_text()]
        assert 3 <= len(texts) <= 6
        assert all(text.isdigit() and len(text) == 6 for text in texts)
        assert axis.get_offset_text().get_text() == ""
    assert draw("--aspect", "free") == 0
    assert maps(drawn[-1])[0].get_aspect() == "auto"


@pytest.mark.parametrize(("wide", "aspect", "found"), [(100, "auto", "auto"), (100, "equal", 1.0), (3, "auto", 1.0)])
def test_equal_scales_where_they_fit(wide, aspect, found):
    _, axes = plt.subplots()
    axes.set(xlim=(0, wide), ylim=(0, 1))
    dress(axes, AspectName(aspect))
    assert axes.get_aspect() == found
    plt.close("all")


@pytest.mark.slow
def test_files_for_a_gis(drawn, capsys):
    rioxarray = pytest.importorskip("rioxarray", reason="rioxarray, of the optional extra [geo], is not installed")
    assert draw("-o", "map.tif", "--crs", "EPSG:28992") == 0
    with rioxarray.open_rasterio("map.tif") as read:
        assert read.rio.crs.to_epsg() == 28992
        assert read.shape == (3, 6, 6)
    assert draw("-o", "map.nc") == 0
    capsys.readouterr()
    assert draw("-o", "map.png", "--crs", "EPSG:28992") == 2
    assert "--crs goes with" in capsys.readouterr().err
