"""Names that do not exist, and the near ones."""

from pathlib import Path

import pytest

from gpclass.names import did_you_mean, no_column
from gpclass.priors import LogNormal, resolve_priors

SOURCES = Path(__file__).parents[1] / "src"


def test_near_names_are_offered():
    assert did_you_mean("laplce", ["ep", "laplace"]) == "; did you mean 'laplace'?"
    assert did_you_mean("Laplace", {"laplace": 1}) == "; did you mean 'laplace'?"  # capitals do not count
    assert did_you_mean("label1", ["label2", "label3"]) in (
        "; did you mean 'label2' or 'label3'?",
        "; did you mean 'label3' or 'label2'?",
    )
    assert did_you_mean("x", ["label"]) == "."
    assert did_you_mean(3, ["label"], "") == ""


def test_columns_that_are_not_there():
    assert no_column("t.csv", "eest", ["east", "north"]) == (
        "t.csv has no column 'eest'; did you mean 'east'? Its columns are east, north"
    )
    assert no_column("t.csv", "z", range(30)).endswith("18, 19, ...")


def test_priors_of_parameters_that_are_not_there():
    with pytest.raises(
        ValueError,
        match=r"unknown parameter 'length_scal'; did you mean 'length_scale'\? The parameters are ",
    ):
        resolve_priors({"length_scal": LogNormal(0, 1)}, ["length_scale", "variance"], [0.0, 0.0])


def test_nobody_else_guesses():
    found = [file.name for file in SOURCES.rglob("*.py") if "difflib" in file.read_text(encoding="utf-8")]
    assert found == ["names.py"]
