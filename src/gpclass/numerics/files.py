"""Files that are replaced whole or not at all: the one way in which this package writes them.

The contents go to a hidden file in the same folder, are flushed to the disk, and then take the name in one step. A
reader sees the old file or the new one, never a part; a failure or an interrupt leaves the old one and nothing else.
Cost: one write and one flush to the disk. Fails when: the name belongs to something that is no regular file, such as a
folder, a device or a named pipe, which a rename would destroy (``ValueError``), or the folder cannot be written
(``OSError``).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 100  # characters of the name that the temporary file repeats: names have at most 255


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary, empty file to write to; when the block ends without an error, it becomes ``path``.

    An existing file keeps its mode; a new one gets what the umask gives. Where ``path`` is a symbolic link, the link
    stays and the file that it points to is replaced. Folders that do not exist are made. The temporary name ends as
    ``path`` does, so that libraries which choose a format by the ending choose the same one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "table.csv"
    >>> with replacing(path) as draft:
    ...     _ = draft.write_text("a,b")
    >>> path.read_text()
    'a,b'
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    ending = "".join(Path(path).suffixes[-2:])[-LONGEST:]
    draft = target.with_name(f".{target.name[:LONGEST]}.{secrets.token_hex(8)}{ending}")
    try:
        # The umask applies as the file is created. One that replaces a private file is private from the start.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600))
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            draft.chmod(mode)
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise now what :func:`replacing` would raise later: before long work, by making a file and removing it."""
    target = Path(os.path.realpath(path))
    _mode(target, path)
    folder = next(place for place in target.parents if os.path.lexists(place))
    try:
        probe = folder / f".{secrets.token_hex(8)}"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        probe.unlink()
    except OSError as error:
        raise type(error)(f"{os.fspath(path)} cannot be written: {error.strerror} ({folder})") from error


def _mode(target: Path, path: str | os.PathLike[str]) -> int | None:
    """The mode of the file that will be replaced; None if there is none."""
    try:
        found = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):  # the latter shows as the folder is made, with its name
        return None
    if stat.S_ISREG(found):
        return stat.S_IMODE(found)
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    what = kinds.get(stat.S_IFMT(found), "a device")
    raise ValueError(f"{os.fspath(path)} is {what} and cannot be replaced by a file: give the name of a file")
