"""No rows of a Parquet folder are left out without a word."""

import os

import numpy as np
import pandas as pd
import pytest

pq = pytest.importorskip("pyarrow.parquet")

from gpclass.data.encoded import encoded_folder  # noqa: E402
from gpclass.data.parquet import ParquetFolder, parquet_files  # noqa: E402
from gpclass.data.sources import as_source  # noqa: E402

FRAME = pd.DataFrame({"x": np.arange(40.0), "label": [0, 1] * 20})


def write(path, **settings):
    path.parent.mkdir(parents=True, exist_ok=True)
    FRAME.to_parquet(path, index=False, **settings)
    return path


def test_links_to_folders_and_all_endings_are_read(tmp_path):
    inside = tmp_path / "data"
    write(inside / "a.parquet")
    write(inside / "b.parq")
    write(inside / "c.PQ")
    write(tmp_path / "elsewhere" / "d.parquet")
    (inside / "linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (inside / "e.parquet").symlink_to(tmp_path / "elsewhere" / "d.parquet")
    write(inside / ".hidden" / "f.parquet")
    (inside / "_SUCCESS").touch()
    (inside / ".a.parquet.crc").touch()
    names = [str(path.relative_to(inside)) for path in parquet_files(inside)]
    assert names == ["a.parquet", "b.parq", "c.PQ", "e.parquet", "linked/d.parquet"]
    assert as_source(inside, "label")[0].n == 5 * len(FRAME)


def test_what_is_not_read_is_named(tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "_b.parquet")
    FRAME.to_csv(tmp_path / "c.csv")
    with pytest.warns(UserWarning, match=r"2 of its files are not read.*\(_b\.parquet, c\.csv\)"):
        assert len(parquet_files(tmp_path)) == 1


def test_what_cannot_be_read_raises(tmp_path):
    write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "gone.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet is a link to nothing"):
        parquet_files(tmp_path)
    (tmp_path / "b.parquet").unlink()
    (tmp_path / "b.parquet.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"compressed as a whole.*gunzip"):
        parquet_files(tmp_path)
    (tmp_path / "b.parquet.gz").unlink()
    (tmp_path / "round").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(ValueError, match="read already"):
        parquet_files(tmp_path)


def test_page_checksums_are_verified(tmp_path):
    file = write(tmp_path / "a.parquet", write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(file.read_bytes())
    place = bytes(data).index(np.float64(17.0).tobytes())
    data[place : place + 8] = np.float64(18.0).tobytes()  # readable, and wrong
    file.write_bytes(bytes(data))
    assert pq.read_table(file).column("x").to_pylist()[17] == 18.0
    with pytest.raises(ValueError, match=r"a\.parquet.*(CRC|crc|checksum)"):
        as_source(file, "label")[0].shards()[0].X()
    with pytest.raises(ValueError, match=r"a\.parquet.*(CRC|crc|checksum)"):
        encoded_folder(ParquetFolder(tmp_path), "label")
    assert os.path.exists(file)
