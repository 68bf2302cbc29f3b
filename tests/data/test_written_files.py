"""Whatever is written goes through one door: links stay, modes stay, what is no file is refused."""

import os
import stat

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier, load_model
from gpclass.cli.files import read_table
from gpclass.cli.outputs import write_table
from gpclass.hyper.checkpoint import read_archive, write_archive

FRAME = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})


@pytest.fixture(scope="module")
def model():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    return GPClassifier(RBF(1.0), inference="laplace", hyperparameters="fixed").fit(X, [0, 0, 1, 1])


@pytest.fixture(params=["model", "table", "checkpoint"])
def door(request, model):
    """A function that writes to a path, and one that reads it."""
    return {
        "model": (model.save, load_model),
        "table": (lambda path: write_table(FRAME, path), read_table),
        "checkpoint": (lambda path: write_archive(path, {}, {"x": np.ones(2)}), read_archive),
    }[request.param]


def test_links_and_modes_stay(door, tmp_path):
    write, read = door
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write(link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert read(link) is not None
    assert sorted(os.listdir(tmp_path)) == ["link.csv", "real.csv"]


def test_a_pipe_is_refused_and_stays(door, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="named pipe"):
        door[0](pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.parquet"])
def test_tables_are_read_as_they_were_written(tmp_path, name):
    write_table(FRAME, tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), FRAME)
    compressed = (tmp_path / name).read_bytes()[:2] == b"\x1f\x8b"
    assert compressed == name.endswith(".gz")
