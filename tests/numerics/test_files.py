"""Files are replaced whole or not at all, in place and with the mode that they had."""

import os
import stat

import pytest

from gpclass.numerics.files import replacing


def write(path, text="new"):
    with replacing(path) as draft:
        draft.write_text(text)


def fail_halfway(path, error):
    with replacing(path) as draft:
        draft.write_text("half")
        raise error


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """Sets a mask, which is taken back after the test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def test_a_file_is_written_and_its_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "file.csv.gz"
    with replacing(path) as draft:
        assert draft.parent == path.parent
        assert draft.name.startswith(".")
        assert draft.suffixes[-2:] == [".csv", ".gz"]  # libraries choose the format by the ending
        draft.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_the_umask_gives(tmp_path, umask, mask):
    umask(mask)
    write(tmp_path / "file")
    assert mode(tmp_path / "file") == 0o666 & ~mask
    assert umask(0o022) == mask  # never touched, not even for a moment: other threads may create files


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664, 0o444])
def test_an_existing_file_keeps_its_mode(tmp_path, kept):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(kept)
    write(path)
    assert path.read_text() == "new"
    assert mode(path) == kept


def test_a_private_file_is_never_readable_by_others(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o600)
    with replacing(path) as draft:
        assert mode(draft) == 0o600


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    real = tmp_path / "real" / "file"
    real.parent.mkdir()
    real.write_text("old")
    link, chain = tmp_path / "link", tmp_path / "chain"
    link.symlink_to("real/file")
    chain.symlink_to(link)
    with replacing(chain) as draft:
        assert draft.parent == real.parent  # a rename works within a file system alone
        draft.write_text("new")
    assert chain.is_symlink()
    assert link.is_symlink()
    assert real.read_text() == "new"
    real.unlink()
    write(link, "newer")
    assert link.is_symlink()
    assert real.read_text() == "newer"


def test_what_is_no_file_is_not_replaced(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "link").symlink_to(fifo)
    cases = {tmp_path: "a folder", fifo: "a named pipe", tmp_path / "link": "a named pipe"}
    cases |= {"/dev/null": "a device"}
    for path, what in cases.items():
        with pytest.raises(ValueError, match=rf"is {what}.*give the name of a file"):
            write(path)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        write(loop)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link", "loop"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(error):
        fail_halfway(path, error)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failure_of_the_last_step_leaves_nothing_either(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                write(tmp_path / "file")
        assert os.listdir(tmp_path) == []


def test_contents_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *pair: (done.append("replace"), replace(*pair)))
    write(tmp_path / "file")
    assert done == ["fsync", "replace"]


def test_long_names(tmp_path):
    path = tmp_path / ("x" * 250 + ".csv")
    write(path)
    assert path.read_text() == "new"
