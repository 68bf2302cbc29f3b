"""What commands write: never over an input, over other files only on request, and checked before the work."""

import gzip
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from gpclass.cli.app import run
from gpclass.cli.files import read_table
from gpclass.cli.outputs import as_text, write_table

FIT = ("fit", "data.csv", "-t", "kind", "-m", "laplace", "--hyperparameters", "fixed")


@pytest.fixture
def folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-2, 2, 30)
    pd.DataFrame({"x": x, "z": x**2, "kind": np.where(x > 0, "=up", "down")}).to_csv("data.csv", index=False)
    assert run([*FIT, "-o", "m.gpclass"]) == 0
    capsys.readouterr()
    return tmp_path


def said(capsys, *words):
    code = run([str(word) for word in words])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        (*FIT, "-o", "data.csv"),
        (*FIT, "-o", "link.csv"),
        ("predict", "m.gpclass", "data.csv", "-o", "data.csv"),
        ("predict", "m.gpclass", "data.csv", "-o", "m.gpclass.csv"),
        ("map", "m.gpclass", "data.csv", "-o", "data.csv"),
        ("compare", "data.csv", "-t", "kind", "-m", "laplace", "-o", "data.csv"),
    ],
    ids=lambda words: " ".join(words),
)
def test_an_input_is_never_replaced(folder, capsys, words):
    (folder / "link.csv").symlink_to("data.csv")
    os.link("m.gpclass", "m.gpclass.csv")
    before = (folder / "data.csv").read_bytes(), (folder / "m.gpclass").read_bytes()
    for force in ((), ("--force",)):
        code, err = said(capsys, *words, *force)
        assert code == 2
        assert "is read by this command and would be replaced" in err
    assert ((folder / "data.csv").read_bytes(), (folder / "m.gpclass").read_bytes()) == before


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (FIT, "m.gpclass"),
        (("predict", "m.gpclass", "data.csv"), "old.csv"),
        (("map", "m.gpclass", "data.csv", "--resolution", "5"), "old.csv"),
        (("datasets", "iris"), "old.csv"),
    ],
)
def test_an_existing_file_is_replaced_on_request(folder, capsys, words, out):
    (folder / "old.csv").write_text("old")
    before = (folder / out).read_bytes()
    code, err = said(capsys, *words, "-o", out)
    assert code == 2
    assert f"{out} exists" in err
    assert "--force" in err
    assert (folder / out).read_bytes() == before
    assert said(capsys, *words, "-o", out, "--force")[0] == 0
    if out == "old.csv":
        assert (folder / out).read_bytes() != before


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("/dev/null", "is a device"),
        ("pipe", "is a named pipe"),
        ("data.csv/m.gpclass", "data.csv/m.gpclass cannot be written"),
        (".", "is a folder"),
    ],
)
def test_outputs_are_checked_before_the_work(folder, capsys, monkeypatch, out, message):
    def work(*_, **__):
        raise AssertionError("the work began")

    os.mkfifo("pipe")
    monkeypatch.setattr("gpclass.cli.fit.read_labelled", work)
    monkeypatch.setattr("gpclass.cli.compare.read_labelled", work)
    for command in ("fit", "compare"):
        code, err = said(capsys, command, "data.csv", "-t", "kind", "-o", out, "--force")
        assert code == 2
        assert message in err
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert sorted(os.listdir()) == ["data.csv", "m.gpclass", "pipe"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_seen_before_the_work(folder, capsys, monkeypatch):
    os.mkdir("closed", 0o500)
    monkeypatch.setattr("gpclass.cli.fit.read_labelled", None)
    code, err = said(capsys, *FIT, "-o", "closed/new/m.gpclass")
    assert code == 2
    assert "cannot be written: Permission denied" in err


def test_predictions_are_as_private_as_the_umask_says(folder, capsys):
    before = os.umask(0o077)
    try:
        assert said(capsys, "predict", "m.gpclass", "data.csv", "-o", "p.csv")[0] == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("p.csv").st_mode) == 0o600
    os.umask(before)
    assert said(capsys, "predict", "m.gpclass", "data.csv", "-o", "p.csv", "--force")[0] == 0
    assert stat.S_IMODE(os.stat("p.csv").st_mode) == 0o600  # a private file stays private


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv.gz", "t.parquet.gz", "t.parquet", "t.parq", "t.TSV"])
def test_files_are_what_their_names_say(tmp_path, name):
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
    path = tmp_path / name
    write_table(frame, path)
    pd.testing.assert_frame_equal(read_table(path), frame)
    data = path.read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    assert data[:4] == b"PAR1" if ".parq" in name else data.startswith(b"a\tb" if "tsv" in name.lower() else b"a,b")


def test_formulas_are_escaped_on_request(folder, capsys):
    words = ("predict", "m.gpclass", "data.csv")
    code = run([*words, "--escape-formulas"])
    out = capsys.readouterr().out
    assert code == 0
    head, *rows = out.splitlines()
    assert "p_=up" in head.split(",")  # which begins with a letter
    assert {row.split(",")[1] for row in rows} == {"'=up", "down"}
    assert run(list(words)) == 0
    assert "'" not in capsys.readouterr().out
    text = as_text(pd.DataFrame({"=cmd": [-1.5], "b": ["@x"]}), escape=True)
    assert text == "'=cmd,b\n-1.5,'@x\n"


@pytest.mark.slow
def test_a_request_to_end_leaves_nothing_behind(folder):
    code = (
        "import os, sys, time, gpclass.cli.app as app, gpclass.cli.outputs as outputs\n"
        "def slow(*_, **__):\n"
        "    open('ready', 'w').close()\n"
        "    time.sleep(60)\n"
        "outputs.as_text = slow\n"
        "sys.exit(app.run(['predict', 'm.gpclass', 'data.csv', '-o', 'p.csv']))\n"
    )
    running = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    for _ in range(600):
        if os.path.exists("ready"):
            break
        time.sleep(0.1)
    assert any(name.startswith(".p.csv") for name in os.listdir())
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in err
    assert sorted(os.listdir()) == ["data.csv", "m.gpclass", "ready"]


def test_a_full_disk_leaves_nothing_behind(folder, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, err = said(capsys, "predict", "m.gpclass", "data.csv", "-o", "p.csv")
    assert code == 2
    assert "No space left" in err
    assert sorted(os.listdir()) == ["data.csv", "m.gpclass"]
