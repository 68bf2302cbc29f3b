"""A messy table from end to end: nothing is lost or changed without a word."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons

from gpclass import load_model
from gpclass.cli.app import run

QUICK = ("-m", "laplace", "--hyperparameters", "fixed")


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """Clean data; the tests make them messy."""
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(60, noise=0.25, random_state=0)
    soil = np.where(X[:, 0] > 0.5, "clay", "sand")
    return pd.DataFrame({"east": 1000 + 500 * X[:, 0], "north": X[:, 1], "soil": soil, "kind": y})


def said(capsys, *words):
    code = run([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def fitted(capsys, *words):
    code, out, err = said(capsys, "fit", *words, "-t", "kind", *QUICK, "--json")
    assert code == 0, err
    return json.loads(out), err


def test_semicolons_and_decimal_commas(frame, capsys):
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("german.csv", index=False, sep=";", decimal=",")
    fitted(capsys, "plain.csv", "-o", "plain.gpclass")
    found, _ = fitted(capsys, "german.csv", "-o", "german.gpclass")
    assert found["encoded"] == ["east", "north", "soil=clay", "soil=sand"]
    proba = [load_model(f"{name}.gpclass").predict_proba(frame) for name in ("plain", "german")]
    np.testing.assert_allclose(*proba, rtol=1e-9)
    code, out, _ = said(capsys, "predict", "plain.gpclass", "german.csv", "-t", "kind", "--json")
    assert code == 0
    assert json.loads(out)["scores"]["auc"] > 0.9


def test_options_say_how_a_file_is_written(frame, capsys):
    text = frame.assign(east=[f"{v / 10:.3f}".replace(".", ",") for v in frame["east"]])  # 143,212
    text[["east", "kind"]].to_csv("a.csv", index=False, sep=";", encoding="utf-16")
    code, _, err = said(capsys, "fit", "a.csv", "-t", "kind", *QUICK)
    assert code == 2
    assert "column 'east' looks like numbers" in err
    assert "--decimal" in err
    fitted(capsys, "a.csv", "--decimal", ",", "--sep", ";", "--encoding", "utf-16")
    east = load_model("model.gpclass").encoding_.columns[0]
    assert east.centre == pytest.approx(frame["east"].mean() / 10, abs=1e-3)
    code, _, err = said(capsys, "fit", "a.csv", "-t", "kind", *QUICK, "--decimal", "x", "--force")
    assert code == 2
    assert "decimal sign" in err


@pytest.mark.parametrize(
    ("words", "classes"),
    [
        (("01", "1"), ["01", "1"]),
        (("1e3", "1000"), ["1000", "1e3"]),
        (("None", "NA"), ["NA", "None"]),
        (("7", "8"), [7, 8]),
    ],
)
def test_labels_are_neither_merged_nor_lost(frame, capsys, words, classes):
    frame.assign(kind=np.array(words)[frame["kind"]]).to_csv("a.csv", index=False)
    found, err = fitted(capsys, "a.csv")
    assert found["classes"] == classes
    assert found["rows"] == 60
    assert ("if it means no label, set --missing NA" in err) == ("NA" in words)
    code, out, _ = said(capsys, "predict", "model.gpclass", "a.csv", "-t", "kind", "--json")
    assert code == 0
    assert json.loads(out)["scores"]["accuracy"] > 0.8
    assert set(frame["kind"].map(dict(enumerate(words)))) >= {str(p["class"]) for p in json.loads(out)["predictions"]}


def test_a_word_for_missing_labels_is_the_user_s(frame, capsys):
    frame.assign(kind=np.where(frame.index < 3, "?", np.array(["a", "b"])[frame["kind"]])).to_csv("a.csv", index=False)
    assert fitted(capsys, "a.csv")[0]["classes"] == ["?", "a", "b"]
    found, _ = fitted(capsys, "a.csv", "--missing", "?", "--drop-missing", "--force")
    assert (found["classes"], found["dropped"]) == (["a", "b"], 3)


def test_thousands_are_numbers(frame, capsys):
    frame.assign(east=[f"{v:,.0f}" for v in frame["east"]]).to_csv("a.csv", index=False)
    assert '"1,' in Path("a.csv").read_text()
    assert fitted(capsys, "a.csv")[0]["encoded"][0] == "east"
    assert load_model("model.gpclass").encoding_.columns[0].centre == pytest.approx(frame["east"].mean(), abs=0.5)


def test_numbers_with_units_and_dates_are_refused(frame, capsys):
    frame.assign(mass=[f"{v:.1f} kg" for v in frame["north"]]).to_csv("mass.csv", index=False)
    frame.assign(day=pd.date_range("2020-01-01", periods=60).strftime("%d/%m/%Y")).to_csv("day.csv", index=False)
    for name, message in (("mass", "looks like numbers"), ("day", "holds dates")):
        code, _, err = said(capsys, "fit", f"{name}.csv", "-t", "kind", *QUICK, "--force")
        assert code == 2
        assert f"column {name!r} {message}" in err
        assert err.count(" kg'" if name == "mass" else "/2020'") == 3  # shows three of them
        fitted(capsys, f"{name}.csv", "--exclude", name, "--force")


def test_codes_that_look_like_numbers(frame, capsys):
    zone = np.where(frame["soil"] == "clay", "01", "2")
    frame.assign(zone=zone).drop(columns="soil").to_csv("a.csv", index=False)
    found, _ = fitted(capsys, "a.csv", "--categories", "zone")
    assert found["encoded"] == ["east", "north", "zone=01", "zone=2"]
    code, out, err = said(capsys, "predict", "model.gpclass", "a.csv")  # read as names again
    assert code == 0, err
    assert len(out.splitlines()) == 61


def test_missing_values_are_imputed_on_request(frame, capsys):
    frame.loc[[1, 4], "north"] = np.nan
    frame.loc[7, "soil"] = None
    frame.to_csv("a.csv", index=False)
    code, _, err = said(capsys, "fit", "a.csv", "-t", "kind", *QUICK)
    assert code == 2
    assert "--impute median" in err
    found, err = fitted(capsys, "a.csv", "--impute", "median")
    assert (found["rows"], found["dropped"]) == (60, 0)
    assert "most common category: north 2, soil 1" in err
    code, out, _ = said(capsys, "predict", "model.gpclass", "a.csv", "--drop-missing")
    assert code == 0
    assert len(out.splitlines()) == 61
    frame["kind"] = frame["kind"].astype(object)
    frame.loc[0, "kind"] = None
    frame.to_csv("b.csv", index=False)
    found, _ = fitted(capsys, "b.csv", "--impute", "median", "--drop-missing", "--force")
    assert (found["rows"], found["dropped"], found["classes"]) == (59, 1, [0, 1])


def test_names_of_rows_are_carried_through(frame, capsys):
    frame.assign(sample=[f"{k:03}" for k in range(60)]).to_csv("a.csv", index=False)
    assert fitted(capsys, "a.csv", "--id", "sample")[0]["columns"] == ["east", "north", "soil"]
    assert said(capsys, "predict", "model.gpclass", "a.csv", "--id", "sample,kind", "-o", "p.csv")[0] == 0
    found = pd.read_csv("p.csv", dtype=str)
    assert list(found.columns[:4]) == ["row", "sample", "kind", "class"]
    assert found["sample"].tolist() == [f"{k:03}" for k in range(60)]
    assert found["kind"].tolist() == frame["kind"].astype(str).tolist()
    code, _, err = said(capsys, "predict", "model.gpclass", "a.csv", "--id", "simple")
    assert code == 2
    assert "did you mean 'sample'" in err
    frame.assign(mcse=1.0).to_csv("b.csv", index=False)
    assert said(capsys, "predict", "model.gpclass", "b.csv", "--id", "mcse")[0] == 2


def test_a_constant_column_is_named_and_harmless(frame, capsys):
    frame.assign(same=0.1).to_csv("a.csv", index=False)
    _, err = fitted(capsys, "a.csv")
    assert "the same in every row, so of no use: same" in err
    model = load_model("model.gpclass")
    proba = model.predict_proba(frame.assign(same=0.1))
    np.testing.assert_allclose(model.predict_proba(frame.assign(same=0.10001)), proba, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("default:the best parameters lie on a bound")
def test_fit_and_compare_judge_the_same_model(frame, capsys, monkeypatch):
    frame.loc[[1, 4], "north"] = np.nan
    rare = frame["soil"].where(frame.index != 3, "peat")  # in one fold alone
    frame.assign(soil=rare, flag=frame["kind"] > 5).to_csv("a.csv", index=False)
    kept = []
    monkeypatch.setattr("gpclass.report.write_report", lambda comparison, *_, **__: kept.append(comparison))
    words = ("a.csv", "-t", "kind", "-m", "laplace", "--impute", "median", "-k", "ard")
    code, out, err = said(capsys, "compare", *words, "--folds", "2")
    assert code == 0, err
    assert "AUC" in out
    assert said(capsys, "fit", *words)[0] == 0
    (comparison,) = kept
    compared, saved = comparison.results["laplace"].estimator, load_model("model.gpclass")
    assert compared.encoding_ == saved.encoding_
    new = pd.read_csv("a.csv")
    np.testing.assert_allclose(compared.predict_proba(new), saved.predict_proba(new), atol=1e-6)
    names = [name for name, _ in comparison.results["laplace"].parameters]
    assert "length scale[soil=peat]" in names


@pytest.mark.slow
def test_a_report_of_words_and_gaps(frame, capsys, coarse_maps):
    frame.loc[[1, 4], "north"] = np.nan
    frame.loc[7, "soil"] = None
    frame.assign(flag=frame.index % 2 == 0).to_csv("a.csv", index=False)
    words = ("a.csv", "-t", "kind", "-m", "laplace,ep", "--impute", "median", "--folds", "2")
    code, _, err = said(capsys, "compare", *words)
    assert code == 0, err
    page = Path("report.html").read_text(encoding="utf-8")
    assert "soil, by category" in page
    assert "flag, by category" in page
    assert "north, in its own units" in page


@pytest.mark.slow
def test_excel(frame, capsys, tmp_path):
    pytest.importorskip("openpyxl")
    frame = frame.assign(kind=np.array(["01", "NA"])[frame["kind"]])
    frame.to_excel("a.xlsx", index=False)
    found, _ = fitted(capsys, "a.xlsx")
    assert found["classes"] == ["01", "NA"]
    assert found["encoded"] == ["east", "north", "soil=clay", "soil=sand"]
    (tmp_path / "b.xlsx").write_bytes(b"PK")
    code, _, err = said(capsys, "fit", "b.xlsx", "-t", "kind", "--force")
    assert code == 2
    assert "b.xlsx cannot be read as a table" in err


def test_excel_needs_its_extra(frame, capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    code, _, err = said(capsys, "fit", "a.xlsx", "-t", "kind")
    assert code == 2
    assert "pip install 'gpclass[excel]'" in err
