"""Finished cells of long runs in the repository: gathered, found again, and measured again if asked for."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from papers import keep, store
from papers.common import Setting
from papers.filippone2014 import table1
from papers.store import Limit, NoTime, Spent, cell

SETTINGS = {"draws": 3, "rows": None}


def never():
    raise AssertionError("measured again")


@pytest.fixture
def gathered(tmp_path, monkeypatch):
    """Results of some runs, kept; the file, in place of the repository's."""
    monkeypatch.setattr(store, "PAPERS", tmp_path / "papers")
    (tmp_path / "papers" / "p").mkdir(parents=True)
    for name, found in (("b", {"x": 1.5, "none": None}), ("a", {"x": [1, 2]}), ("usual-a", {"x": 1}), ("quick-a", {})):
        cell("p", name, SETTINGS, lambda found=found: found, tmp_path / "results")
    cell("p", "chain", SETTINGS, lambda: {"x": np.linspace(0.0, 1.0, 2000)}, tmp_path / "results")
    assert keep.main([], results=tmp_path / "results", papers=tmp_path / "papers") == {"p": 2}
    return tmp_path / "papers" / "p" / "measured.json"


def test_kept_cells_are_lines_in_order_without_short_runs_and_chains(gathered, tmp_path):
    lines = gathered.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line.rstrip(","))["name"] for line in lines[1:-1]] == ["a", "b"]
    before = gathered.read_bytes()
    assert keep.main(["p"], results=tmp_path / "results", papers=tmp_path / "papers") == {"p": 0}
    assert gathered.read_bytes() == before


@pytest.mark.usefixtures("gathered")
def test_kept_cells_are_found_without_results_unless_settings_differ(tmp_path):
    empty = tmp_path / "other results"
    assert cell("p", "a", SETTINGS, never, empty) == {"x": [1, 2]}
    assert cell("p", "b", SETTINGS, never, empty) == {"x": 1.5, "none": None}
    assert cell("p", "a", {**SETTINGS, "draws": 4}, lambda: {"x": 5}, empty) == {"x": 5}
    assert cell("p", "usual-a", SETTINGS, lambda: {"x": 7}, empty) == {"x": 7}
    assert cell("p", "chain", SETTINGS, lambda: {"x": 8}, empty) == {"x": 8}


@pytest.mark.usefixtures("gathered")
def test_kept_cells_are_answered_after_the_limit_and_measured_again_if_asked_for(tmp_path):
    try:
        Limit.set(-1.0)
        assert cell("p", "a", SETTINGS, never, tmp_path / "none") == {"x": [1, 2]}
        Limit.set(None, again=True)
        assert cell("p", "a", SETTINGS, lambda: {"x": 9}, tmp_path / "none") == {"x": 9}
    finally:
        Limit.set(None)


def test_other_settings_stand_beside_and_the_same_are_replaced(gathered, tmp_path):
    results, papers = tmp_path / "later", tmp_path / "papers"
    cell("p", "a", {**SETTINGS, "draws": 4}, lambda: {"x": 5}, results)
    assert keep.main(["p"], results=results, papers=papers) == {"p": 1}
    try:
        Limit.set(None, again=True)
        cell("p", "b", SETTINGS, lambda: {"x": 6}, results)
    finally:
        Limit.set(None)
    assert keep.main(["p"], results=results, papers=papers) == {"p": 1}
    found = [(one["name"], one["settings"]["draws"], one["found"]["x"]) for one in store.read_measured(gathered)]
    assert found == [("a", 3, [1, 2]), ("a", 4, 5), ("b", 3, 6)]
    assert cell("p", "b", SETTINGS, never, tmp_path / "none") == {"x": 6}


def test_an_assembled_cell_is_made_after_the_limit_and_has_the_seconds_of_its_parts(tmp_path):
    def parts(names):
        return {"x": [cell("p", name, {}, lambda: {"x": 1.0}, tmp_path)["x"] for name in names]}

    parts("ab")
    for name, seconds in (("a", 20.0), ("b", 30.0)):
        file = tmp_path / "p" / "cells" / f"{name}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "seconds": seconds}))
    Spent.whole.clear()
    try:
        Limit.set(-1.0)
        assert cell("p", "both", {}, lambda: parts("ab"), tmp_path, assembled=True) == {"x": [1.0, 1.0]}
        with pytest.raises(NoTime):
            cell("p", "all", {}, lambda: parts("abc"), tmp_path, assembled=True)
    finally:
        Limit.set(None)
    assert json.loads((tmp_path / "p" / "cells" / "both.json").read_text())["seconds"] == pytest.approx(50.0, abs=0.1)


def test_a_row_of_table_one_needs_its_chains_once(tmp_path, monkeypatch):
    """Measured from chains, kept, and found again when these are gone."""
    monkeypatch.setattr(store, "PAPERS", tmp_path)
    monkeypatch.setattr(table1, "missing", lambda name: "")
    monkeypatch.setattr(table1, "tuned_proposal", lambda *asked: SimpleNamespace(problem=SimpleNamespace(n=7)))
    monkeypatch.setattr(table1, "_noise", lambda *asked: 0.25)

    def chain(setting, covariance, name, label, r):
        rng = np.random.default_rng(r)
        return {"accepted": rng.integers(0, 2, 1500), "theta": rng.standard_normal((1500, 2)), "seconds": 0.5}

    monkeypatch.setattr(table1, "one_chain", chain)
    asked = (Setting(full=True), "ard", "glass", "IS, 1")
    row = table1.measured(*asked)
    assert row["n"] == 7
    assert row["sd"] == 0.25
    assert row["seconds"] == 0.5
    (tmp_path / "filippone2014").mkdir()
    keep.main(["filippone2014"], results=store.RESULTS, papers=tmp_path)
    monkeypatch.setattr(store, "RESULTS", tmp_path / "none")
    monkeypatch.setattr(table1, "one_chain", lambda *asked: never())
    assert table1.measured(*asked) == row
