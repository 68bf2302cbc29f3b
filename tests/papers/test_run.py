"""Runs of experiments: kept and taken up again, without data that cannot be had, and with the time left."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from papers import common, resume, run
from papers.__main__ import main as run_all
from papers.__main__ import papers
from papers.common import Section, Setting, Table, Verdict, left_out
from papers.store import Limit, NoTime, Spent, cell

from gpclass.datasets import DatasetUnavailable


def paper(calls):
    def works(setting):
        calls.append(setting)
        table = Table("numbers", ("a", "b"), ((1, 0.5), ("x", None)))
        return Section("works", "It works", (table,), (Verdict("c", "1", "2", False),), ("a note",))

    def lacks(setting):
        raise DatasetUnavailable("'x' is not available: pip install it")

    return run.Paper("someone1999", "Someone", "A method.", {"lacks": lacks, "works": works})


def test_results_are_kept_until_settings_or_code_change(tmp_path, capsys, monkeypatch):
    calls = []
    one = paper(calls)
    places = {"results": tmp_path / "results", "docs": tmp_path / "docs"}
    first = run.main(one, [], **places)
    out, err = capsys.readouterr()
    assert "someone1999 lacks left out: 'x' is not available: pip install it" in out
    assert "[2/2] someone1999 works" in err
    assert "left" in err
    again = run.main(one, [], **places)
    assert len(calls) == 1
    assert "stored" in capsys.readouterr().out
    assert [s.text() for s in again] == [s.text() for s in first]
    run.main(one, ["--quick"], **places)
    run.main(one, ["--again"], **places)
    assert [setting.size for setting in calls] == ["usual", "quick", "usual"]
    monkeypatch.setattr(run, "code_of", lambda name: "changed")
    run.main(one, ["works"], **places)
    assert len(calls) == 4
    (tmp_path / "results" / "someone1999" / "numbers.csv").unlink()  # what it wrote is gone
    run.main(one, ["works"], **places)
    assert len(calls) == 5


def test_time_left_is_scaled_by_what_was_measured(tmp_path, monkeypatch):
    file = tmp_path / "seconds.json"
    monkeypatch.setattr(resume, "SECONDS", file)
    resume.remember("quick", "a", "one", 10.0)
    resume.remember("quick", "a", "two", 30.0)
    assert json.loads(file.read_text())["quick"]["a"] == {"one": 10.0, "two": 30.0}
    said = []
    monkeypatch.setattr(resume, "tell", said.append)
    progress = resume.Progress([("a", "one"), ("a", "two")], "quick")
    progress.announce()
    progress.finished(20.0)
    progress.announce()
    assert "[1/2] a one" in said[0]
    assert "about 40 s left" in said[0]
    assert "about 60 s left" in said[1]


def test_sizes():
    quick, usual, full = Setting(quick=True), Setting(), Setting(full=True)
    assert [s.choose(1, 2) for s in (quick, usual, full)] == [1, 1, 2]
    assert [s.choose(1, 2, 3) for s in (quick, usual, full)] == [3, 1, 2]
    assert [s.count(20, 50) for s in (quick, usual, full)] == [4, 20, 50]
    assert Setting(quick=True).count(1, 5) == 1
    assert Setting(repeats=7, quick=True).count(20, 50) == 7


def test_a_missing_set_is_a_note(monkeypatch):
    def gone(name):
        raise DatasetUnavailable(f"{name!r} is not available: pip install it")

    monkeypatch.setattr("papers.common.load", gone)
    common._why_missing.cache_clear()
    assert left_out(["a", "b"]) == tuple(f"Left out: {name!r} is not available: pip install it." for name in "ab")
    common._why_missing.cache_clear()


def test_a_section_that_left_a_set_out_is_made_again_when_it_can_be_had(monkeypatch, tmp_path):
    calls = []

    def experiment(setting):
        calls.append(setting)
        return Section("works", "It works", (Table("numbers", ("a",), ((1,),)),), notes=left_out(["x"]))

    one = run.Paper("someone1999", "Someone", "A method.", {"works": experiment})
    places = {"results": tmp_path / "results", "docs": tmp_path / "docs"}
    gone = {"x": "'x' is not available: set GPCLASS_DATA"}
    monkeypatch.setattr(common, "_why_missing", lambda name: gone.get(name, ""))
    assert "Left out" in run.main(one, [], **places)[0].text()
    run.main(one, [], **places)
    assert len(calls) == 1  # still missing
    gone.clear()
    assert "Left out" not in run.main(one, [], **places)[0].text()
    run.main(one, [], **places)
    assert len(calls) == 2
    gone["x"] = "'x' is not available: set GPCLASS_DATA"
    assert "Left out" not in run.main(one, [], **places)[0].text()  # complete already
    assert len(calls) == 2


def test_an_interrupted_run_ends_with_one_line(tmp_path, capsys):
    def experiment(setting):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:  # as the samplers do
            pass
        raise AssertionError("went on with half a chain")

    one = run.Paper("someone1999", "Someone", "A method.", {"works": experiment})
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        run.main(one, [], results=tmp_path / "results", docs=tmp_path / "docs")
    assert ended.value.code == run.INTERRUPTED
    assert ended.value.__suppress_context__
    assert capsys.readouterr().err.splitlines()[-1].startswith("interrupted; what was measured is stored")
    assert signal.getsignal(signal.SIGINT) is before
    assert not list((tmp_path / "results").rglob("*.json"))


def test_a_small_run_does_not_replace_the_pages_larger_one(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "SECONDS", tmp_path / "seconds.json")
    calls = []
    one = paper(calls)
    places = {"results": tmp_path / "results", "docs": tmp_path / "docs"}
    run.main(one, ["works", "--write"], **places)
    with pytest.raises(SystemExit, match="larger runs of someone1999 works"):
        run.main(one, ["works", "--quick", "--write"], **places)
    assert len(calls) == 1  # and nothing was measured
    run.main(one, ["works", "--quick"], **places)
    run.main(one, ["works", "--full", "--write"], **places)
    with pytest.raises(SystemExit, match="larger runs"):
        run.main(one, ["works", "--write"], **places)
    page = (tmp_path / "docs" / "someone1999.md").read_text(encoding="utf-8")
    assert "works --full`" in page


def test_work_that_is_stored_is_not_left_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(resume, "SECONDS", tmp_path / "seconds.json")
    kept = tmp_path / "kept" / "someone1999" / "measured.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps([{"name": "slow", "settings": {}, "found": {"x": 1.0}, "seconds": 5000.0}]))
    monkeypatch.setattr("papers.store.PAPERS", tmp_path / "kept")

    def experiment(setting):
        cell("someone1999", "slow", {}, lambda: {"x": 2.0}, tmp_path)
        return Section("works", "It works", (Table("numbers", ("a",), ((1,),)),))

    one = run.Paper("someone1999", "Someone", "A method.", {"works": experiment})
    places = {"results": tmp_path / "results", "docs": tmp_path / "docs"}
    resume.remember("usual", "someone1999", "works", 5000.0)
    run.main(one, ["--write"], **places)
    out, err = capsys.readouterr()
    assert "5000 s of CPU, from the repository)" in out
    assert "works: about 83 min left" in err  # not known yet
    Path(tmp_path / "results" / "someone1999" / "numbers.csv").unlink()
    run.main(one, [], **places)
    out, err = capsys.readouterr()
    assert "works: from the repository, about 0 s left" in err
    run.main(one, [], **places)
    out, err = capsys.readouterr()
    assert "works: stored, about 0 s left" in err
    assert ", stored)" in out


def test_all_papers_are_run_in_one_go(monkeypatch, tmp_path):
    assert [one.name for one in papers()] == sorted(one.name for one in papers())
    asked = []
    monkeypatch.setattr("papers.__main__.run", lambda chosen, given, **places: asked.append((chosen, given)))
    run_all(["--quick"])
    ((chosen, given),) = asked
    assert given.quick
    assert len(chosen) == sum(len(one.experiments) for one in papers())
    with pytest.raises(SystemExit):
        run_all(["--quick", "--full"])


def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return {"x": 1.0}


def test_cells_of_earlier_runs_count_in_the_time_once(tmp_path):
    def outer():
        return cell("p", "inner", {}, lambda: busy(0.04), tmp_path) | busy(0.02)

    for _ in range(2):
        cell("p", "outer", {}, outer, tmp_path)
        cell("p", "inner", {}, outer, tmp_path)
    stored = {path.stem: json.loads(path.read_text())["seconds"] for path in (tmp_path / "p" / "cells").iterdir()}
    assert stored["inner"] == pytest.approx(0.04, abs=0.015)
    assert stored["outer"] == pytest.approx(0.02, abs=0.015)  # without the cell inside
    Spent.stored.clear()
    for name in ("outer", "inner", "inner"):
        cell("p", name, {}, outer, tmp_path)
    assert Spent.earlier() == pytest.approx(sum(stored.values()))


def test_a_run_says_what_all_its_parts_took(tmp_path):
    def experiment(setting):
        cell("someone1999", "slow", {}, lambda: busy(0.1), tmp_path)
        return Section("works", "It works", (Table("numbers", ("a",), ((0.123456789,),)),))

    one = run.Paper("someone1999", "Someone", "A method.", {"works": experiment})
    places = {"results": tmp_path / "results", "docs": tmp_path / "docs"}
    run.main(one, ["--repeats", "3"], **places)
    run.main(one, ["--repeats", "3", "--write", "--seed", "1"], **places)  # the cell is stored, the section is not
    kept = json.loads((tmp_path / "docs" / "results" / "someone1999_works.json").read_text())
    assert kept["seconds"] >= 0.1
    assert kept["command"] == "python -m papers.someone1999 works --repeats 3 --seed 1"
    assert kept["tables"][0]["rows"] == [[0.123456789]]
    assert "Generated by `python -m papers.someone1999 works --repeats 3 --seed 1`, 0 s of CPU." in (
        tmp_path / "docs" / "someone1999.md"
    ).read_text(encoding="utf-8")


def test_the_time_of_a_part_is_not_that_of_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "SECONDS", tmp_path / "seconds.json")

    def experiment(setting):
        with suppress(NoTime):
            cell("someone1999", "slow", {}, lambda: {"x": 1.0}, tmp_path)
        return Section("works", "It works", (Table("numbers", ("a",), ((1,),)),))

    one = run.Paper("someone1999", "Someone", "A method.", {"works": experiment})
    places = {"results": tmp_path / "results", "docs": tmp_path / "docs"}
    try:
        run.main(one, ["--write", "--minutes", "-1"], **places)
        assert not (tmp_path / "seconds.json").exists()
        run.main(one, ["--write"], **places)
        assert "someone1999" in (tmp_path / "seconds.json").read_text()
    finally:
        Limit.set(None)


def test_again_measures_cells_again(tmp_path):
    cell("p", "a", {}, lambda: {"x": 1.0}, tmp_path)
    file = tmp_path / "p" / "cells" / "a.json"
    os.utime(file, (time.time() - 5, time.time() - 5))
    try:
        Limit.set(None, again=True)
        assert cell("p", "a", {}, lambda: {"x": 2.0}, tmp_path) == {"x": 2.0}
        os.utime(file, (time.time() + 5, time.time() + 5))  # measured in this run
        assert cell("p", "a", {}, lambda: {"x": 3.0}, tmp_path) == {"x": 2.0}
    finally:
        Limit.set(None)
