"""Rows in files with two classes or more: labels become places among the sorted classes."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gpclass import GPClassifier
from gpclass.data import sources
from gpclass.data.encoded import encoded_folder
from gpclass.data.parquet import ParquetFolder
from gpclass.data.sources import Labels, as_source, in_files, is_dask, is_source

N = 240
NAMES = np.array(["wet", "dry", "mist", "frost"])


def make_frame(n_classes=3):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": NAMES[np.arange(N) * n_classes // N]})


def write(folder, frame, parts=4, **options):
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        frame.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False, **options)
    return folder


def expected(frame):
    return np.unique(frame["label"].to_numpy(dtype=str), return_inverse=True)


KINDS = ["parquet", "parquet of categories", "memmap", "dask array", "dask frame", "dask frame and series"]


def collection(kind, frame, tmp_path):
    """The same rows in each kind of collection."""
    X, y = frame[["a", "b"]].to_numpy(), frame["label"].to_numpy()
    if kind == "memmap":
        np.save(tmp_path / "x.npy", X)
        return np.load(tmp_path / "x.npy", mmap_mode="r"), y
    if kind.startswith("parquet"):
        pytest.importorskip("pyarrow")
        frame = frame.astype({"label": "category"}) if "categories" in kind else frame
        return write(tmp_path / "data", frame), "label"
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    if kind == "dask array":
        return da.from_array(X, chunks=(50, 1)), da.from_array(y.astype(str), chunks=70)
    whole = dd.from_pandas(frame, npartitions=5, sort=False)
    return (whole, "label") if kind == "dask frame" else (whole[["a", "b"]], whole["label"])


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_places_among_the_sorted_classes(kind, n_classes, tmp_path):
    frame = make_frame(n_classes)
    source, classes, names = as_source(*collection(kind, frame, tmp_path))
    want, index = expected(frame)
    np.testing.assert_array_equal(classes, want)
    assert names == (None if kind in ("memmap", "dask array") else ["a", "b"])
    assert source.y.dtype == np.intp
    np.testing.assert_array_equal(source.y, index)
    shards = source.shards()
    np.testing.assert_array_equal(np.concatenate([s.y for s in shards]), index)
    np.testing.assert_array_equal(np.vstack([s.rows() for s in shards]), frame[["a", "b"]])
    some = np.array([0, 7, 100, N - 1])
    X, y, weights = source.take(some)
    np.testing.assert_array_equal(X, frame[["a", "b"]].to_numpy()[some])
    np.testing.assert_array_equal(y, index[some])
    assert weights is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_takes_other_labels(kind, tmp_path):
    frame = make_frame()
    source, *_ = as_source(*collection(kind, frame, tmp_path))
    signs = np.where(source.y == 1, 1.0, -1.0)
    other = replace(source, y=signs)
    np.testing.assert_array_equal(np.concatenate([s.y for s in other.shards()]), signs)
    np.testing.assert_array_equal(other.take(np.array([3, 200]))[1], signs[[3, 200]])
    assert other.n == source.n
    assert source.y.dtype == np.intp  # as it was


@pytest.mark.parametrize("kind", ["parquet", "memmap", "dask frame"])
@pytest.mark.parametrize("by", ["dict", "balanced"])
def test_weights_of_three_classes(kind, by, tmp_path):
    frame = make_frame()
    frame["label"] = np.where(np.arange(N) < 150, "wet", frame["label"])
    frame["w"] = np.linspace(0.5, 2.0, N)
    X, y = collection(kind, frame, tmp_path)
    weight = frame["w"].to_numpy() if kind == "memmap" else "w"
    classes, index = expected(frame)
    price = {"wet": 1.0, "dry": 2.0, "mist": 5.0} if by == "dict" else "balanced"
    count = np.bincount(index)
    each = np.array([price[c] for c in classes]) if by == "dict" else N / (3 * count)
    if kind == "dask frame":
        X = X[["a", "b", "label", "w"]]
    source, *_ = as_source(X, y, weight, price)
    np.testing.assert_allclose(source.weights, frame["w"] * each[index])
    np.testing.assert_allclose(np.concatenate([s.weights for s in source.shards()]), source.weights)


def test_weights_that_cannot_be(tmp_path):
    frame = make_frame()
    X, y = collection("memmap", frame, tmp_path)
    with pytest.raises(ValueError, match="every row of class 'mist' has weight zero"):
        as_source(X, y, class_weight={"wet": 1.0, "dry": 1.0, "mist": 0.0})
    with pytest.raises(ValueError, match="every row of class 'dry' has weight zero"):
        as_source(X, y, (y != "dry").astype(float))
    with pytest.raises(ValueError, match="not negative"):
        as_source(X, y, np.where(np.arange(N) == 5, -1.0, 1.0))
    with pytest.raises(ValueError, match="there are 240 rows"):
        as_source(X, y, np.ones(5))
    assert as_source(X, y, np.ones(N))[0].weights is None


def collected(*parts):
    labels = Labels()
    for k, part in enumerate(parts):
        labels.add(part, f"part {k}")
    return labels.result()


def test_numbers_of_several_types_are_one_class():
    classes, index = collected(np.array([3, 1], dtype=np.int8), np.array([1.0, 2.0]), np.array([3, 2, 1]))
    np.testing.assert_array_equal(classes, [1, 2, 3])
    np.testing.assert_array_equal(index, [2, 0, 0, 1, 2, 1, 0])


def test_classes_are_sorted_as_numpy_sorts_them():
    classes, index = collected(np.array(["b", "B", "10"]), np.array(["9", "ab"]))
    np.testing.assert_array_equal(classes, np.unique(["b", "B", "10", "9", "ab"]))
    assert list(classes[index]) == ["b", "B", "10", "9", "ab"]
    classes, _ = collected(np.array([10, 9, -1]))
    assert list(classes) == [-1, 9, 10]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (np.linspace(0, 1, 10), "measurements, not classes; cut them into classes first"),
        (np.array(["a", None, "b"], dtype=object), "1 of 3 labels are missing"),
        (np.array(["a", pd.NA, "b"], dtype=object), "1 of 3 labels are missing"),
        (np.array(["a", np.nan, "b"], dtype=object), "1 of 3 labels are missing"),
        (np.array([0.0, np.nan, 1.0]), "1 of 3 labels are missing"),
        (np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="M8[D]"), "1 of 3 labels are missing"),
        (np.array([1, "a", 2], dtype=object), "numbers and words.*one type"),
        (np.array([]), "has no rows: remove the file, or repartition"),
        (np.array([[1, 2]]), "one label per row"),
        (np.arange(1001), r"1001 different labels.*more than 1000.*identifier.*Name the column"),
        (np.arange(1001).astype(str), "1001 different labels"),
    ],
)
def test_labels_that_are_refused_name_the_part(labels, text):
    with pytest.raises(ValueError, match=f"(?s)part 0.*{text}"):
        collected(labels)


def test_too_many_classes_over_several_parts():
    assert len(collected(np.arange(600), np.arange(400, 1000))[0]) == 1000
    with pytest.raises(ValueError, match=r"part 2.*1001 different labels"):
        collected(np.arange(600), np.arange(400, 1000), np.array([5000]))


def test_too_few_classes():
    with pytest.raises(ValueError, match="one class only"):
        collected(np.array(["a", "a"]), np.array(["a"]))
    with pytest.raises(ValueError, match="no rows"):
        Labels().result()
    with pytest.raises(
        ValueError,
        match="labels of part 1 are text, those of part 0 are numbers; write all parts",
    ):
        collected(np.array([0, 1]), np.array(["a"]))


def test_an_encoded_folder_of_three_classes(tmp_path):
    pytest.importorskip("pyarrow")
    frame = make_frame().assign(word=np.where(np.arange(N) % 2, "x", "y"))
    encoded = encoded_folder(write(tmp_path / "d", frame), "label")
    source, classes, names = as_source(encoded, "label")
    assert names is None
    assert source.d == 4
    np.testing.assert_array_equal(source.y, expected(frame)[1])
    assert len(classes) == 3


def test_the_classifier_still_takes_two_classes_from_files(tmp_path):
    pytest.importorskip("pyarrow")
    frame = make_frame(2)
    frame["label"] = np.where(frame["a"] > 0, "wet", "dry")
    clf = GPClassifier(inference="ep", hyperparameters="fixed", n_inducing=10, random_state=0)
    found = clf.fit(write(tmp_path / "d", frame), "label")
    assert list(found.classes_) == ["dry", "wet"]
    proba = found.predict_proba(pd.DataFrame({"a": [-2.0, 2.0], "b": [0.0, 0.0]}))
    assert proba[0, 0] > 0.9
    assert proba[1, 1] > 0.9


# ---- what is a source -------------------------------------------------------------------------------------------


def test_ordinary_data_are_no_source(tmp_path):
    frame = make_frame()
    for X in (frame, frame[["a", "b"]].to_numpy(), [[1.0], [2.0]]):
        assert not is_source(X)
        with pytest.raises(ValueError, match="rows cannot be read from a"):
            as_source(X, frame["label"])


def test_what_is_a_source_is_declared(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert is_source(mapped)
    assert not is_source(mapped, mapped=False)
    for X in ("folder", tmp_path, ParquetFolder(tmp_path)):
        assert in_files(X)
        assert is_source(X)
    source = sources.PartsSource((), np.empty(0, dtype=np.intp), np.empty(0), 0)
    assert not in_files(source)  # of that package, but no folder
    assert not is_source(source)


def test_dask_collections_are_sources():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    frame = make_frame()
    for X in (
        da.ones((4, 2)),
        dd.from_pandas(frame, npartitions=2),
        dd.from_pandas(frame["a"], npartitions=2),
    ):
        assert is_dask(X)
        assert is_source(X)
    assert not is_dask(np.ones(3))
    assert not is_dask(frame)
    xarray = pytest.importorskip("xarray")
    assert not is_dask(xarray.DataArray(da.ones((4, 2))))  # an array of another library


@pytest.mark.slow
def test_arrays_are_fitted_without_any_library_of_data():
    """scikit-learn imports pandas itself where it is installed; this package must not need it, nor the others."""
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('pandas', 'pyarrow', 'dask', 'distributed')))  # as if not installed\n"
        "from gpclass import GPClassifier\n"
        "clf = GPClassifier(inference='laplace', hyperparameters='fixed').fit([[0.0], [1.0]], [0, 1])\n"
        "print(clf.predict([[0.0]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0]"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["parquet", "dask array", "dask frame"])
def test_the_local_prior_reads_rows_from_anywhere(kind, tmp_path):
    frame = make_frame()
    settings = {"inference": "laplace", "hyperparameters": "fixed", "class_weight": "balanced"}
    here, there = (GPClassifier(latent_prior="local", **settings) for _ in range(2))
    X = frame[["a", "b"]].to_numpy()
    here.fit(X, frame["label"].to_numpy(dtype=str))
    rows = collection(kind, frame, tmp_path)
    there.fit(*rows)
    assert list(there.classes_) == list(here.classes_)
    assert np.array_equal(there.predict_proba(X[:9]), here.predict_proba(X[:9]))
    with pytest.raises(ValueError, match="or with latent_prior='local'; read them into an array for the prior 'dense'"):
        GPClassifier(**settings).fit(*rows)
