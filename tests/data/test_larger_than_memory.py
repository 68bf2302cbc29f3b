"""Data larger than memory: Parquet folders, memory maps, Dask collections, and work on Dask workers."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import signal
import threading
import time
import warnings
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass import GPClassifier, load_model
from gpclass.data import parquet, sources
from gpclass.data.columns import Encoding
from gpclass.data.encoded import encoded_folder
from gpclass.data.folders import predict_folder
from gpclass.data.parquet import ParquetFolder
from gpclass.estimators.tables import TableClassifier
from gpclass.hyper import CrossValidation, Maximize, PseudoMarginal, Stages
from gpclass.inference import EP
from gpclass.latent import local
from gpclass.latent.local import LocalBlocks
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.model.rows import ArraySource, Local, Rows
from gpclass.model.sums import FAN, added
from gpclass.registry import get_inference

KERNEL = C(2.0) * RBF(1.3)
N = 600


def make_frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 - 1 + 0.5 * rng.standard_normal(n) > 0, "rain", "dry")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": y})


def write(folder, frame, parts=4, **options):
    folder.mkdir(exist_ok=True)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        frame.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False, **options)
    return folder


@pytest.fixture
def frame():
    return make_frame()


@pytest.fixture
def folder(tmp_path, frame):
    return write(tmp_path / "data", frame)


def quietly(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def signs(frame):
    return np.where(frame["label"] == "rain", 1.0, -1.0)


def matrix(frame):
    return frame[["a", "b", "c"]].to_numpy()


def as_source(*given):
    """A source whose two classes are −1 and +1, as the classifier makes them."""
    source, classes, names = sources.as_source(*given)
    return replace(source, y=np.where(source.y == 1, 1.0, -1.0)), classes, names


def rebuilt(source):
    """X and y from the shards."""
    shards = source.shards()
    assert [s.first for s in shards] == list(np.cumsum([0, *(len(s) for s in shards)])[:-1])
    return np.vstack([s.rows() for s in shards]), np.concatenate([s.y for s in shards])


# ---- sources ----------------------------------------------------------------------------------------------------


def test_parquet_folder_gives_all_rows_in_order(folder, frame, monkeypatch):
    for shard_rows in (65_536, 200, 70):  # one shard, files joined, files cut
        monkeypatch.setattr(parquet, "SHARD_ROWS", shard_rows)
        source, classes, names = as_source(str(folder), "label")
        assert list(classes) == ["dry", "rain"]
        assert names == ["a", "b", "c"]
        X, y = rebuilt(source)
        np.testing.assert_array_equal(X, matrix(frame))
        np.testing.assert_array_equal(y, signs(frame))
        assert max(len(s) for s in source.shards()) <= shard_rows
        rows = np.array([0, 3, 149, 150, 420, 599])
        X_some, y_some, weights = source.take(rows)
        np.testing.assert_array_equal(X_some, matrix(frame)[rows])
        np.testing.assert_array_equal(y_some, signs(frame)[rows])
        assert weights is None


def test_parquet_row_groups_and_column_order_do_not_matter(tmp_path, frame):
    place = write(tmp_path / "d", frame, parts=2, row_group_size=77)
    other = frame.iloc[300:][["label", "c", "a", "b"]]
    other.to_parquet(place / "part-1.parquet", index=False)
    source, _, names = as_source(place, "label")
    assert names == ["a", "b", "c"]
    np.testing.assert_array_equal(rebuilt(source)[0], matrix(frame))


def test_weights_by_column_and_class(tmp_path, frame):
    frame["w"] = np.linspace(0.5, 2.0, N)
    place = write(tmp_path / "d", frame)
    source, _, names = as_source(place, "label", "w", {"rain": 2.0, "dry": 1.0})
    assert names == ["a", "b", "c"]
    expected = frame["w"].to_numpy() * np.where(signs(frame) > 0, 2.0, 1.0)
    np.testing.assert_allclose(np.concatenate([s.weights for s in source.shards()]), expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_map(tmp_path, frame, dtype, order, monkeypatch):
    monkeypatch.setattr(sources, "shard_size", lambda n: 250)
    values = np.rint(100 * matrix(frame)).astype(dtype)
    mapped = np.memmap(tmp_path / "x.bin", dtype, "w+", shape=values.shape, order=order)
    mapped[:] = values
    mapped.flush()
    source, classes, names = as_source(mapped, frame["label"].to_numpy())
    assert names is None
    assert list(classes) == ["dry", "rain"]
    assert isinstance(source.parts[0], sources.MappedRows)  # workers open the file: nothing travels
    np.testing.assert_array_equal(rebuilt(source)[0], values.astype(float))
    some = mapped[100:400]  # a slice keeps its parent's file name and offset: the file must not be read for it
    source, *_ = as_source(some, frame["label"].to_numpy()[100:400])
    np.testing.assert_array_equal(rebuilt(source)[0], values[100:400].astype(float))


def test_memory_map_saved_by_numpy(tmp_path, frame):
    np.save(tmp_path / "x.npy", matrix(frame))
    source, *_ = as_source(np.load(tmp_path / "x.npy", mmap_mode="r"), signs(frame))
    assert isinstance(source.parts[0], sources.MappedRows)
    np.testing.assert_array_equal(rebuilt(source)[0], matrix(frame))


def break_columns(frames):
    frames[2] = frames[2].rename(columns={"b": "B"})


def break_more(frames):
    frames[1] = frames[1].assign(extra=1.0)


def break_label_type(frames):
    frames[3] = frames[3].assign(label=(frames[3]["label"] == "rain").astype(int))


def break_empty(frames):
    frames[1] = frames[1].iloc[:0]


def break_words(frames):
    frames[2] = frames[2].assign(c="x")


def break_missing_label(frames):
    frames[2] = frames[2].assign(label=None)


@pytest.mark.parametrize(
    ("change", "file", "text"),
    [
        (break_columns, "part-2", r"lacks 'b' and has 'B'.*same columns"),
        (break_more, "part-1", r"has 'extra'.*--features.*features=\["),
        (
            break_label_type,
            "part-3",
            "are numbers, those of .* are text; write all parts with labels of one type",
        ),
        (break_empty, "part-1", "no rows: remove the file, or repartition"),
        (break_words, "part-2", "column 'c' holds .*string, not numbers; exclude it"),
        (break_missing_label, "part-2", "labels are missing"),
    ],
)
def test_parts_that_differ_are_refused_by_name(tmp_path, frame, change, file, text):
    frames = [frame.iloc[k * 150 : (k + 1) * 150] for k in range(4)]
    change(frames)
    for k, part in enumerate(frames):
        part.to_parquet(tmp_path / f"part-{k}.parquet", index=False)
    with pytest.raises(ValueError, match=f"(?s){file}.*{text}"):
        as_source(tmp_path, "label")


def test_other_mistakes_name_the_cure(tmp_path, folder, frame):
    with pytest.raises(ValueError, match="did you mean 'data'"):
        as_source(tmp_path / "dataa", "label")
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="no Parquet file"):
        as_source(tmp_path / "none", "label")
    with pytest.raises(ValueError, match=r"name of the column.*fit\(folder, 'label'\)"):
        as_source(folder, signs(frame))
    with pytest.raises(ValueError, match="no column 'lable'; did you mean 'label'"):
        as_source(folder, "lable")
    (folder / "part-9.parquet").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"part-9.*write it again"):
        as_source(folder, "label")
    write(tmp_path / "nan", frame.assign(b=np.where(frame.index == 7, np.nan, frame["b"])))
    source, *_ = as_source(tmp_path / "nan", "label")
    with pytest.raises(ValueError, match=r"part-0.*1 of 150 rows hold missing"):
        rebuilt(source)
    write(tmp_path / "one", frame.assign(label="dry"))
    with pytest.raises(ValueError, match="one class only"):
        as_source(tmp_path / "one", "label")
    (tmp_path / "keyed" / "year=2020").mkdir(parents=True)
    frame.to_parquet(tmp_path / "keyed" / "year=2020" / "x.parquet")
    with pytest.raises(ValueError, match="partition folder"):
        as_source(tmp_path / "keyed", "label")


# ---- words and scales ---------------------------------------------------------------------------------------------


def test_encoding_of_a_folder_is_that_of_its_rows(tmp_path, frame):
    frame["a"] += 1e6  # digits that a naive sum of squares would lose
    frame.insert(1, "soil", np.where(frame["c"] > 0, "clay", "sand"))
    place = write(tmp_path / "d", frame)
    encoded = encoded_folder(place, "label")
    direct = Encoding.learn(frame.drop(columns="label"))
    assert encoded.encoding.outputs == direct.outputs
    np.testing.assert_allclose(encoded.encoding.encode(frame), direct.encode(frame), rtol=1e-9, atol=1e-9)
    source, _, names = as_source(encoded, "label")
    assert names is None  # the matrix goes by places, as that of a frame in memory
    assert source.d == 5
    np.testing.assert_allclose(rebuilt(source)[0], direct.encode(frame), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="no column 'z'"):
        encoded_folder(ParquetFolder(place, exclude=["z"]), "label")
    left = encoded_folder(ParquetFolder(place, exclude=["soil"]), "label")
    assert left.encoding.outputs == ("a", "b", "c")


# ---- prediction into a folder ----------------------------------------------------------------------------------


@pytest.fixture
def fitted(frame):
    few = frame.iloc[:80]
    return GPClassifier(KERNEL, inference="laplace", hyperparameters="fixed").fit(few[["a", "b", "c"]], few["label"])


def test_predictions_of_a_folder(folder, frame, fitted, tmp_path):
    out = tmp_path / "out"
    found = predict_folder(fitted, folder, out, keep="label")
    assert found.rows == N
    assert sorted(os.listdir(out)) == [f"part-{k}.parquet" for k in range(4)]
    table = pd.concat([pd.read_parquet(out / f"part-{k}.parquet") for k in range(4)], ignore_index=True)
    np.testing.assert_allclose(table["p_rain"], fitted.predict_proba(frame[["a", "b", "c"]])[:, 1])
    assert list(table["class"]) == list(fitted.predict(frame[["a", "b", "c"]]))
    assert list(table["label"]) == list(frame["label"])
    assert (table["lower"] <= table["probability"]).all()


def test_a_second_run_goes_on_where_the_first_stopped(folder, fitted, tmp_path, monkeypatch):
    from gpclass.data import folders

    out, true = tmp_path / "out", folders.predict_file

    def fails(task, file, *rest, **more):
        if file.name == "part-2.parquet":
            raise RuntimeError("the power went")
        return true(task, file, *rest, **more)

    monkeypatch.setattr(folders, "predict_file", fails)
    with pytest.raises(RuntimeError, match="power"):
        predict_folder(fitted, folder, out)
    assert sorted(os.listdir(out)) == ["part-0.parquet", "part-1.parquet"]
    before = (out / "part-0.parquet").stat().st_mtime_ns
    monkeypatch.setattr(folders, "predict_file", true)
    found = predict_folder(fitted, folder, out)
    assert [os.path.basename(f) for f in found.kept] == ["part-0.parquet", "part-1.parquet"]
    assert found.rows == N
    assert (out / "part-0.parquet").stat().st_mtime_ns == before
    other = GPClassifier(C(1.0) * RBF(1.0), inference="laplace", hyperparameters="fixed")
    other.fit(make_frame(50)[["a", "b", "c"]], make_frame(50)["label"])
    with pytest.raises(ValueError, match="not made by this model"):
        predict_folder(other, folder, out)


@pytest.mark.parametrize("drop", [False, True])
def test_kept_columns_have_the_types_of_the_source(frame, fitted, tmp_path, monkeypatch, drop):
    """Integers that miss values in some batches only stay integers, words and dates what they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gpclass.data import folders

    monkeypatch.setattr(folders, "BATCH", 50)
    k, frame = np.arange(N), frame.copy()
    if drop:
        frame.loc[k % 7 == 3, "b"] = np.nan
    beside = {
        "id": pa.array([None if i in (10, 70) else 2**53 + 1 + i for i in k], pa.int64()),
        "flag": pa.array([None if i == 120 else bool(i % 2) for i in k]),
        "word": pa.array([None if i < 50 else f"w{i % 5}" for i in k]),
        "kind": pa.array([f"w{i // 60}" for i in k]).dictionary_encode(),
        "day": pa.array([None if i == 60 else int(i) for i in k], pa.date32()),
        "many": pa.array([None if i == 90 else [int(i)] for i in k], pa.list_(pa.int16())),
        "none": pa.nulls(N),
        "label": pa.array(frame["label"].to_list()),
    }
    table = pa.table({**{c: pa.array(frame[c].to_numpy()) for c in "abc"}, **beside})
    (tmp_path / "d").mkdir()
    pq.write_table(table, tmp_path / "d" / "x.parquet")
    done = predict_folder(fitted, tmp_path / "d", tmp_path / "out", keep=[*beside, "a"], drop_missing=drop)
    found = pq.read_table(tmp_path / "out" / "x.parquet")
    rows = frame["b"].notna().to_numpy()
    expected = table.filter(rows).select([*beside, "a"])
    assert done.rows == rows.sum()
    assert found.column_names[1:10] == expected.column_names
    for name in expected.column_names:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist()
        assert found.schema.field(name).type == expected.schema.field(name).type
    assert found.column("row").to_pylist() == list(np.flatnonzero(rows) + 1)


@pytest.mark.parametrize("name", ["row", "class", "probability", "mcse", "lower", "upper", "p_rain"])
def test_columns_to_keep_must_not_be_called_as_the_predictions_are(frame, fitted, tmp_path, name):
    place = write(tmp_path / "d", frame.assign(**{name: 1.0}))
    with pytest.raises(ValueError, match=f"keep contains '{name}', which .* rename it in the source"):
        predict_folder(fitted, place, tmp_path / "out", keep=["label", name])
    assert not (tmp_path / "out").exists()
    predict_folder(fitted, place, tmp_path / "out", keep=["label", "label"])


def test_columns_beside_are_looked_for_first_also_by_a_model_without_names(folder, frame, tmp_path):
    few = frame.iloc[:80]
    clf = GPClassifier(KERNEL, inference="laplace", hyperparameters="fixed").fit(matrix(few), few["label"])
    for beside in ({"keep": "lable"}, {"target": "lable"}):
        with pytest.raises(ValueError, match="no column 'lable'; did you mean 'label'"):
            predict_folder(clf, folder, tmp_path / "out", **beside)
    predict_folder(clf, folder, tmp_path / "out", keep="label", target="label")
    table = pd.read_parquet(tmp_path / "out" / "part-0.parquet")
    np.testing.assert_allclose(table["p_rain"], clf.predict_proba(matrix(frame)[:150])[:, 1])


def test_columns_that_pandas_wrote_as_an_index(frame, fitted, tmp_path):
    """They are columns like others: to be kept, or features of the model."""
    place = tmp_path / "d"
    place.mkdir()
    frame.assign(id=np.arange(N)).set_index(["id", "a"]).to_parquet(place / "x.parquet")
    predict_folder(fitted, place, tmp_path / "out", keep="id")
    found = pd.read_parquet(tmp_path / "out" / "x.parquet")
    assert found["id"].tolist() == list(range(N))
    np.testing.assert_allclose(found["p_rain"], fitted.predict_proba(frame[["a", "b", "c"]])[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["elliptical-slice", "gibbs", "laplace", "exact"])
def test_models_that_differ_in_labels_only_refuse_each_others_folder(folder, frame, tmp_path, inference):
    """Also where there is no evidence that could tell them apart; a model that was saved is itself."""
    few = frame.iloc[:40]
    other = few["label"].to_numpy(dtype=object).copy()
    other[[3, 4]] = np.where(other[[3, 4]] == "rain", "dry", "rain")
    clf = GPClassifier(KERNEL, inference=inference, hyperparameters="fixed", tol=0.05, random_state=0)
    models = [quietly(clone(clf).fit, few[["a", "b", "c"]], y) for y in (few["label"], other)]
    predict_folder(models[0], folder, tmp_path / "out")
    with pytest.raises(ValueError, match="not made by this model"):
        predict_folder(models[1], folder, tmp_path / "out")
    models[0].save(tmp_path / "m.gpclass")
    again = predict_folder(load_model(tmp_path / "m.gpclass"), folder, tmp_path / "out")
    assert (len(again.kept), len(again.written)) == (4, 0)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ep", "exact"])
def test_a_saved_model_with_inducing_points_goes_on_with_its_folder(folder, tmp_path, inference):
    clf = GPClassifier(KERNEL, inference=inference, hyperparameters="fixed", n_inducing=20, tol=0.05, random_state=0)
    quietly(clf.fit, folder, "label")
    predict_folder(clf, folder, tmp_path / "out")
    clf.save(tmp_path / "m.gpclass")
    again = predict_folder(load_model(tmp_path / "m.gpclass"), folder, tmp_path / "out")
    assert (len(again.kept), len(again.written)) == (4, 0)


def test_a_file_that_cannot_be_predicted_leaves_nothing(folder, frame, fitted, tmp_path):
    frame.iloc[:10].assign(b=np.nan).to_parquet(folder / "part-4.parquet", index=False)
    with pytest.raises(ValueError, match=r"part-4.*10 values are missing.*drop_missing=True"):
        predict_folder(fitted, folder, tmp_path / "out")
    assert "part-4.parquet" not in os.listdir(tmp_path / "out")
    assert not [name for name in os.listdir(tmp_path / "out") if name.startswith(".")]


def test_predictions_are_not_written_among_the_data(folder, frame, fitted, tmp_path):
    """There the next run would read them as data."""
    (tmp_path / "link").symlink_to(folder)
    for out in (folder, folder / "out", folder / ".." / "data" / "out", tmp_path / "link" / "out"):
        with pytest.raises(ValueError, match=r"inside the data folder .*: choose an output folder"):
            predict_folder(fitted, folder, out)
    assert sorted(os.listdir(folder)) == [f"part-{k}.parquet" for k in range(4)]
    one = folder / "part-0.parquet"
    with pytest.raises(ValueError, match="inside the data"):
        predict_folder(fitted, one, folder)
    for _ in range(2):  # what lies beside one file is not read
        assert predict_folder(fitted, one, folder / "out").rows == 150
    (folder / "out" / "part-0.parquet").unlink()
    for _ in range(2):  # the folder above takes the predictions, but not where they would come back below
        assert predict_folder(fitted, folder, tmp_path).rows == N
    write(folder / "data", frame.iloc[:50], 1)
    with pytest.raises(ValueError, match=r"data/part-0.parquet lies inside the data"):
        predict_folder(fitted, folder, tmp_path)


# ---- Dask -----------------------------------------------------------------------------------------------------------


class Clusters:
    """Two worker processes; made again where one that was killed does not come back."""

    def __init__(self):
        self.made = None

    def with_two_workers(self):
        import distributed

        for _ in range(3):
            self.made = self.made or self._start()
            with distributed.Client(self.made, set_as_default=False) as client:
                give_up = time.monotonic() + 60
                while time.monotonic() < give_up:
                    if len(client.run(os.getpid, on_error="ignore")) == 2:  # both answer: none is just dying
                        return self.made
                    time.sleep(0.2)
            self.close()
        pytest.fail("no cluster of two workers can be had on this machine")

    def close(self):
        if self.made is not None:
            self.made.close(timeout=10)
            self.made = None

    def _start(self):
        import dask
        import distributed

        method = {"distributed.worker.multiprocessing-method": "forkserver"}  # a worker imports nothing again
        dask.config.set(method)  # not only here: a nanny starts another worker for one that was killed
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed", "gpclass.data.dask", "pyarrow"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
            )


@pytest.fixture(scope="module")
def clusters():
    pytest.importorskip("distributed", reason="the Dask extra is not installed")
    made = Clusters()
    yield made
    made.close()


@pytest.fixture
def cluster(clusters):
    return clusters.with_two_workers()


@pytest.fixture
def client(cluster):
    import distributed

    with distributed.Client(cluster) as opened:
        yield opened


def problem_of(source, executor=None, m=40):
    rows = np.linspace(0, source.n - 1, m).astype(int)
    Z = source.take(rows)[0]
    return Problem(Rows.of(source, executor), KERNEL, Probit(), 2, LowRank(Z=Z))


def array_source(frame, shard_rows=150):
    return ArraySource(matrix(frame), signs(frame), None, shard_rows)


@pytest.mark.slow
def test_two_workers_give_the_answer_of_one_process(folder, frame, client, monkeypatch):
    monkeypatch.setattr(parquet, "SHARD_ROWS", 70)  # twelve shards: two levels of additions
    source, *_ = as_source(folder, "label")
    far = problem_of(source)  # the open client is used
    assert type(far.rows.executor).__name__ == "DaskExecutor"
    assert len(far.rows.held) == 12
    here = problem_of(array_source(frame), Local())
    near, away = (EP()(p, gradient=True) for p in (here, far))
    assert away.evidence.log_z == pytest.approx(near.evidence.log_z, abs=1e-8)
    np.testing.assert_allclose(away.evidence.gradient, near.evidence.gradient, atol=1e-8)
    np.testing.assert_allclose(away.gaussian.q.mean, near.gaussian.q.mean, atol=1e-8)
    sites = [
        np.hstack([s.values[:2] for s in p.rows.executor.fetch(post.start.held)])
        for p, post in ((here, near), (far, away))
    ]
    np.testing.assert_allclose(sites[1], sites[0], atol=1e-8)
    assert {len(found) for found in client.has_what().values()} != {0}


@pytest.fixture(scope="module")
def weather():
    """The frame with three classes, and a fit to it as an array."""
    frame = make_frame()
    three = np.array(["dry", "mist", "rain"])[np.digitize(frame["a"] + frame["b"] ** 2, [0.4, 1.4])]
    return frame.assign(label=three), fit_of_weather(matrix(frame), three)


def fit_of_weather(*given):
    """Kernel parameters and inducing inputs learned by EP."""
    strategy = Maximize(max_iter=4, stages=Stages(stop="evidence"))
    clf = GPClassifier(KERNEL, n_inducing=12, inference="ep", hyperparameters=strategy, random_state=0)
    return quietly(clf.fit, *given)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("place", ["parquet", "memmap", "dask", "workers"])
def test_many_classes_from_anywhere_are_those_of_an_array(weather, tmp_path, request, monkeypatch, place):
    """Rows in memory, in files and on other processes."""
    monkeypatch.setattr(parquet, "SHARD_ROWS", 150)
    frame, here = weather
    X, label = matrix(frame), frame["label"].to_numpy()
    if place == "memmap":
        mapped = np.memmap(tmp_path / "x.bin", np.float64, "w+", shape=X.shape)
        mapped[:] = X
        mapped.flush()
        rows = (mapped, label)
    elif place == "dask":
        da = pytest.importorskip("dask.array")
        rows = (da.from_array(X, chunks=(150, 3)), label)
    else:
        rows = (write(tmp_path / "d", frame), "label")
        if place == "workers":
            request.getfixturevalue("client")

    there = fit_of_weather(*rows)
    assert list(there.classes_) == ["dry", "mist", "rain"]
    assert there.likelihood_.name == "multinomial-probit"
    np.testing.assert_allclose(there.theta_, here.theta_, atol=1e-8)
    np.testing.assert_allclose(there.inducing_, here.inducing_, atol=1e-8)
    assert there.log_evidence_ == pytest.approx(here.log_evidence_, abs=1e-8)
    np.testing.assert_allclose(there.predict_proba(X[:50]), here.predict_proba(X[:50]), atol=1e-8)
    assert here.score(X, label) > 0.85


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_ascent_on_workers_is_that_of_one_process(tmp_path, client, monkeypatch):
    """Of many shards: their sums are rounded alike, of which single precision and the ascent would make more."""
    monkeypatch.setattr("gpclass.model.rows.FEWEST_ROWS", 150)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=3000) > 0).astype(int)
    mapped = np.memmap(tmp_path / "x.bin", np.float64, "w+", shape=X.shape)
    mapped[:] = X
    how = Maximize(stages=Stages(few_rows=200, some_rows=300))  # and a part of 1,200 rows
    make = partial(GPClassifier, inference="ep", n_inducing=15, hyperparameters=how, random_state=0)
    here, there = (make().fit(at, y) for at in (X, mapped))
    assert len(there._problem.rows.held) > FAN
    assert type(there._problem.rows.executor).__name__ == "DaskExecutor"
    assert there.log_evidence_ == pytest.approx(here.log_evidence_, abs=1e-8)
    np.testing.assert_allclose(there.predict_proba(X[:500]), here.predict_proba(X[:500]), atol=1e-8)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 100, 513])
def test_sums_are_added_in_one_order_everywhere(count):
    parts = [{"sum": value, "max_site": value} for value in np.random.default_rng(count).normal(size=count)]
    level = [part["sum"] for part in parts]
    while len(level) > 1:
        level = [reduce(float.__add__, level[k : k + FAN]) for k in range(0, len(level), FAN)]
    assert added(iter(parts)) == {"sum": level[0], "max_site": max(part["sum"] for part in parts)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_blocks_of_the_local_prior_run_on_workers(folder, frame, client, monkeypatch):
    monkeypatch.setattr(local, "shard_size", lambda n: 150)
    X, y = matrix(frame), frame["label"].to_numpy()
    for inference in ("ep", "laplace"):
        make = partial(GPClassifier, KERNEL, inference=inference, hyperparameters="fixed", latent_prior=LocalBlocks(20))
        here, there = make().fit(X, y), make().fit(folder, "label")
        assert type(there._problem.prior._held[0]).__name__ == "DaskExecutor"
        assert len(there._problem.prior.shards) > 4
        assert there.log_evidence_ == pytest.approx(here.log_evidence_, abs=1e-8)
        np.testing.assert_allclose(there.predict_proba(X[:50]), here.predict_proba(X[:50]), atol=1e-8)
        method = get_inference(inference)
        gradients = [method(clf._problem, gradient=True).evidence.gradient for clf in (here, there)]
        np.testing.assert_allclose(gradients[1], gradients[0], atol=1e-7)


def count_passes(shard, factor):
    """A pass whose outcome depends on all passes before."""
    old = np.zeros((1, len(shard))) if shard.values is None else shard.values
    new = factor * old + 1.0 + 0.1 * shard.rows()[:, 0]
    absent = np.array([0]) if shard.absent is None else shard.absent + 1
    moved = replace(shard, values=new, absent=absent)
    return moved, {"sum": new.sum(), "max_site": float(new.max()), "pid": [os.getpid()]}


def look(shard):
    return shard, {"sum": 0.0 if shard.values is None else shard.values.sum()}


def kill_one_worker(client):
    process = sorted(client.run(os.getpid).values())[0]
    os.kill(process, signal.SIGKILL)


def dies_once(shard, mark):
    """A pass that takes its worker down the first time."""
    if shard.first == 300 and not os.path.exists(mark):
        with open(mark, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return count_passes(shard, 0.9)


@pytest.mark.slow
def test_a_worker_that_dies_at_work(frame, client, tmp_path):
    from gpclass.data.dask import DaskExecutor

    mark, executor, sums = tmp_path / "mark", DaskExecutor(client), []
    held = executor.place(array_source(frame).shards())
    for work, argument in ((count_passes, 0.9), (dies_once, str(mark)), (count_passes, 0.9)):
        held, found = executor.map_reduce(work, held, argument)
        sums.append(found["sum"])
    assert mark.exists()
    serial, held = [], array_source(frame).shards()
    for _ in range(3):
        held, found = Local().map_reduce(count_passes, held, 0.9)
        serial.append(found["sum"])
    np.testing.assert_allclose(sums, serial, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("before", [3, 10])  # within the first chain, and where it is cut
def test_a_killed_worker_changes_nothing_but_time(frame, client, before):
    from gpclass.data.dask import CHAIN, DaskExecutor

    def passes(executor, killed_after=None):
        held, sums = executor.place(array_source(frame).shards()), []
        for k in range(CHAIN + 2):
            if k == killed_after:
                kill_one_worker(client)
            held, found = executor.map_reduce(count_passes, held, 0.9)
            sums.append((found["sum"], found["max_site"]))
        held, last = executor.map_reduce(look, held)
        shards = executor.fetch(held)
        absent = np.concatenate([s.absent for s in shards])
        return np.array(sums), last["sum"], np.hstack([s.values for s in shards]), absent

    executor = DaskExecutor()
    expected, found = passes(Local()), passes(executor, before)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)


@pytest.mark.slow
def test_all_workers_killed_at_once_are_replaced(frame, client):
    """Tasks that prefer an address which is gone go to the workers that come instead."""
    from gpclass.data.dask import DaskExecutor

    def passes(executor, kill=lambda: None):
        held, sums = executor.place(array_source(frame).shards()), []
        for k in range(3):
            held, found = executor.map_reduce(count_passes, held, 0.9)
            sums.append(found["sum"])
            if k == 1:
                kill()
        return sums

    def kill():
        for process in client.run(os.getpid).values():
            os.kill(process, signal.SIGKILL)

    found = []
    work = threading.Thread(target=lambda: found.extend(passes(DaskExecutor(client), kill)), daemon=True)
    work.start()
    work.join(120)  # new workers take seconds to start, more on a busy machine
    assert not work.is_alive()
    np.testing.assert_allclose(found, passes(Local()), rtol=1e-12)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_ep(folder, client, monkeypatch):
    from gpclass.data import dask as module

    monkeypatch.setattr(parquet, "SHARD_ROWS", 150)
    source, *_ = as_source(folder, "label")
    here = EP()(problem_of(source, Local()))
    calls, true = [], module.DaskExecutor.map_reduce

    def kills(self, work, held, *arguments):
        calls.append(work)
        if len(calls) == 4:
            kill_one_worker(client)
        return true(self, work, held, *arguments)

    monkeypatch.setattr(module.DaskExecutor, "map_reduce", kills)
    found = EP()(problem_of(source, module.DaskExecutor(client)))
    assert len(calls) > 4
    assert found.evidence.log_z == pytest.approx(here.evidence.log_z, abs=1e-8)
    np.testing.assert_allclose(found.gaussian.q.mean, here.gaussian.q.mean, atol=1e-8)


@pytest.mark.slow
def test_passes_that_change_nothing_do_not_lengthen_the_chain(frame, client):
    from gpclass.data.dask import CHAIN, DaskExecutor

    executor = DaskExecutor(client)
    held = executor.place(array_source(frame).shards())
    for _ in range(2):
        same, _ = executor.map_reduce(look, held)
        assert [h.state for h in same] == [h.state for h in held]
    lengths = []
    for _ in range(CHAIN):
        held, _ = executor.map_reduce(count_passes, held, 0.5)
        lengths.append(held[0].passes)
    assert max(lengths) == CHAIN - 1  # cut at the next
    assert lengths[-1] == 0


def fails_on(shard, first):
    if shard.first == first:
        raise ValueError(f"rows from {first} are bad")
    return shard, {"one": 1}


@pytest.mark.slow
def test_an_error_of_the_work_is_the_users_to_see(frame, client):
    from gpclass.data.dask import DaskExecutor

    executor = DaskExecutor(client)
    held = executor.place(array_source(frame).shards())
    with pytest.raises(ValueError, match="rows from 150 are bad"):
        executor.map_reduce(partial(fails_on), held, 150)
    assert executor.map_reduce(partial(fails_on), held, -1)[1] == {"one": 4}


@pytest.mark.slow
def test_a_client_that_has_gone(frame, cluster):
    import distributed

    from gpclass.data.dask import DaskExecutor
    from gpclass.data.dask_client import ClientGoneError, environment_client

    client = distributed.Client(cluster, set_as_default=False)
    executor = DaskExecutor(client)
    held = executor.place(array_source(frame).shards())
    client.close()
    with pytest.raises(ClientGoneError, match="fit again"):
        executor.map_reduce(look, held)
    with pytest.raises(ClientGoneError, match="fit again"):
        executor.place(array_source(frame).shards())
    assert environment_client() is None
    with pytest.raises(ClientGoneError, match="start one first"):
        DaskExecutor()
    assert sources.environment_executor() is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "frame", "frame and series"])
def test_dask_collections_are_shards(frame, client, kind):
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    if kind == "array":
        X, y = da.from_array(matrix(frame), chunks=(150, 2)), da.from_array(signs(frame), chunks=100)
    else:
        whole = dd.from_pandas(frame, npartitions=4, sort=False)
        X, y = (whole, "label") if kind == "frame" else (whole[["a", "b", "c"]], whole["label"])
    source, classes, names = as_source(X, y)
    assert names == (None if kind == "array" else ["a", "b", "c"])
    assert list(classes) == ([-1.0, 1.0] if kind == "array" else ["dry", "rain"])
    found_X, found_y = rebuilt(source)
    np.testing.assert_array_equal(found_X, matrix(frame))
    np.testing.assert_array_equal(found_y, signs(frame))
    some = np.array([2, 3, 160, 599])
    np.testing.assert_array_equal(source.take(some)[0], matrix(frame)[some])
    away = EP()(problem_of(source))
    near = EP()(problem_of(array_source(frame), Local()))
    assert away.evidence.log_z == pytest.approx(near.evidence.log_z, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "frame", "labels"])
@pytest.mark.parametrize("again", [False, True], ids=["no client", "another client"])
def test_a_collection_persisted_on_a_client_that_has_gone(frame, cluster, kind, again):
    import distributed

    from gpclass.data.dask_client import ClientGoneError

    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    with distributed.Client(cluster):
        X, y = da.from_array(matrix(frame), chunks=(150, 3)), signs(frame)
        if kind == "array":
            X = X.persist() + 1.0
        elif kind == "frame":
            X, y = dd.from_pandas(frame, npartitions=4, sort=False).persist(), "label"
        else:
            y = da.from_array(y, chunks=150).persist()
        assert as_source(X, y)[0].n == N
    opened = distributed.Client(cluster) if again else contextlib.nullcontext()
    with opened, pytest.raises(ClientGoneError, match=r"persisted .* closed.*create the collection again"):
        as_source(X, y)


@pytest.mark.slow
def test_dask_mistakes(frame):
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    whole = dd.from_pandas(frame, npartitions=4, sort=False)
    counted = dd.from_pandas(frame.assign(k=np.arange(N)), npartitions=4, sort=False)
    with pytest.raises(ValueError, match="no column 'lable'"):
        as_source(whole, "lable")
    with pytest.raises(ValueError, match=r"column 'label' holds .*, not numbers"):
        as_source(whole, da.from_array(signs(frame)))
    with pytest.raises(ValueError, match="partition 1 of the data has no rows: repartition"):
        as_source(counted[(counted["k"] < 150) | (counted["k"] >= 300)], "label")
    with pytest.raises(ValueError, match="one label per row"):
        as_source(da.from_array(matrix(frame)), signs(frame)[:-1])
    clf = GPClassifier(KERNEL, n_inducing=5, inference="ep", likelihood="probit")
    with pytest.raises(ValueError, match=r"y has 3 classes .* takes two"):
        clf.fit(da.from_array(matrix(frame)), np.arange(N) % 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"n_restarts": 2},
        {"hyperparameters": CrossValidation(n_points=3, folds=2)},
        {
            "hyperparameters": PseudoMarginal(chains=2, warmup=5, discard=2, draws=10),
            "inference": "importance",
        },
    ],
    ids=["restarts", "folds", "chains"],
)
def test_joblib_on_dask_gives_the_same(frame, client, settings):
    import joblib

    few = frame.iloc[:40]
    X, y = matrix(few), few["label"].to_numpy()

    def fit(**more):
        clf = GPClassifier(1.0 * RBF(1.0), random_state=0, **{"inference": "laplace", **settings}, **more)
        return quietly(clf.fit, X, y)

    here = fit()
    with joblib.parallel_config(backend="dask"):
        away = fit(n_jobs=2)
    away, here = (quietly(clf.predict_proba, X) for clf in (away, here))
    np.testing.assert_allclose(away, here, rtol=1e-9)


def test_table_classifier_of_a_folder_needs_its_target(folder):
    with pytest.raises(ValueError, match="name of the column"):
        TableClassifier(GPClassifier(inference="laplace")).fit(folder, None)


# ---- the estimator and the command line ----------------------------------------------------------------------------


def sparse_classifier(**settings):
    return GPClassifier(KERNEL, inference="ep", hyperparameters="fixed", n_inducing=30, random_state=0, **settings)


@pytest.mark.slow
def test_the_estimator_fits_each_kind_of_data_alike(folder, frame, tmp_path):
    X, y = matrix(frame), frame["label"].to_numpy()
    expected = quietly(sparse_classifier().fit, X, y)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for given, labels in ((str(folder), "label"), (folder, "label"), (mapped, y)):
        found = quietly(sparse_classifier().fit, given, labels)
        assert list(found.classes_) == ["dry", "rain"]
        assert found.log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-8)
        new = frame[["a", "b", "c"]] if hasattr(found, "feature_names_in_") else X
        np.testing.assert_allclose(found.predict_proba(new), expected.predict_proba(X), atol=1e-8)


@pytest.mark.slow
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(folder, frame):
    clf = quietly(sparse_classifier().fit, folder, "label")
    before = clf.predict_proba(frame[["a", "b", "c"]])
    frame.iloc[:20].assign(b=np.nan).to_parquet(folder / "part-7.parquet", index=False)
    with pytest.raises(ValueError, match="part-7"):
        quietly(clf.fit, folder, "label")
    np.testing.assert_array_equal(clf.predict_proba(frame[["a", "b", "c"]]), before)
    with pytest.raises(ValueError, match="n_inducing"):
        GPClassifier(inference="ep").fit(folder, "label")


@pytest.mark.slow
def test_the_estimator_on_dask_workers(folder, frame, client):
    found = quietly(sparse_classifier().fit, folder, "label")
    expected = quietly(sparse_classifier().fit, matrix(frame), frame["label"].to_numpy())
    assert found.log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-8)
    np.testing.assert_allclose(
        found.predict_proba(frame[["a", "b", "c"]]), expected.predict_proba(matrix(frame)), atol=1e-8
    )
    for copied in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):  # the shards stay behind
        np.testing.assert_array_equal(
            copied.predict_proba(frame[["a", "b", "c"]]), found.predict_proba(frame[["a", "b", "c"]])
        )


@pytest.mark.slow
def test_a_folder_on_the_command_line(tmp_path, frame, capsys):
    from gpclass.cli.app import run

    frame.insert(1, "soil", np.where(frame["c"] > 0, "clay", "sand"))
    data, model, out = write(tmp_path / "d", frame), tmp_path / "m.gpclass", tmp_path / "out"
    words = [
        "fit",
        str(data),
        "--target",
        "label",
        "--method",
        "ep",
        "--hyperparameters",
        "fixed",
        "--out",
        str(model),
    ]
    assert run(words) == 2
    assert "--inducing 300" in capsys.readouterr().err
    assert run([*words, "--inducing", "30"]) == 0
    assert run(["predict", str(model), str(data)]) == 2
    assert "--out FOLDER" in capsys.readouterr().err
    assert run(["predict", str(model), str(data), "--out", str(out)]) == 0
    assert "600 predictions in 4 files" in capsys.readouterr().out
    table = pd.concat([pd.read_parquet(file) for file in sorted(out.iterdir())], ignore_index=True)
    assert np.mean(table["class"] == frame["label"]) > 0.8
    assert run(["predict", str(model), str(data), "--out", str(out)]) == 0
    assert "4 of them already existed" in capsys.readouterr().out


# ---- what first users of folders met --------------------------------------------------------------------------


WORDS = ("--target", "label", "--method", "ep", "--hyperparameters", "fixed", "--inducing", "30")


def command(capsys, *words):
    """Exit code, standard output and standard error of one command."""
    from gpclass.cli.app import run

    code = run([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def model(folder, tmp_path, capsys):
    """A file of a model that was fitted to the folder."""
    code, _, err = command(capsys, "fit", folder, *WORDS, "--out", tmp_path / "m.gpclass")
    assert code == 0, err
    return tmp_path / "m.gpclass"


@pytest.mark.slow
def test_prediction_of_a_folder_shows_how_far_it_is(folder, fitted, model, tmp_path, capsys, monkeypatch):
    from gpclass.data import folders

    monkeypatch.setattr(folders, "BATCH", 50)
    predict_folder(fitted, folder, tmp_path / "a")
    assert capsys.readouterr().err == ""
    predict_folder(fitted, folder, tmp_path / "b", verbose=2)
    assert f"{N}/{N}" in capsys.readouterr().err
    predict_folder(fitted, folder, tmp_path / "c", verbose=2, n_jobs=2)
    assert f"{N}/{N}" in capsys.readouterr().err
    monkeypatch.setattr("gpclass.progress.DELAY", 0.0)
    for quiet, shown in (((), True), (("--quiet",), False)):
        monkeypatch.setattr("gpclass.cli.options.sys.stderr.isatty", lambda: True, raising=False)
        code, _, err = command(capsys, "predict", model, folder, "-o", tmp_path / f"d{shown}", *quiet)
        assert code == 0
        assert ("predict" in err) is shown


@pytest.mark.slow
def test_a_model_of_a_folder_predicts_a_table_without_warnings(model, frame, tmp_path, capsys):
    frame.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = command(capsys, "predict", model, tmp_path / "new.csv", "-o", tmp_path / "p.csv")
    assert (code, err) == (0, "")


@pytest.mark.slow
def test_a_folder_is_scored_as_its_table_is(folder, model, frame, tmp_path, capsys):
    frame.to_csv(tmp_path / "new.csv", index=False)
    code, out, _ = command(
        capsys, "predict", model, tmp_path / "new.csv", "-t", "label", "--json", "-o", tmp_path / "p.csv"
    )
    assert code == 0
    expected = json.loads(out)["scores"]
    del expected["auc"]  # ranks all rows together, which a folder read in parts does not
    words = ("predict", model, folder, "--target", "label", "--out", tmp_path / "out")
    for _ in range(2):  # the second time from files that are kept
        code, out, _ = command(capsys, *words, "--json")
        assert code == 0
        assert json.loads(out)["scores"] == pytest.approx(expected, abs=1e-9)
    assert "accuracy 0." in command(capsys, *words)[2]
    table = pd.read_parquet(tmp_path / "out" / "part-1.parquet")
    assert table["row"].tolist() == list(range(1, 151))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": None}, "part-3.*150 rows have no true label"),
        ({"label": "snow"}, "part-3.*hold snow, unknown to the model, which has dry, rain"),
    ],
)
def test_labels_that_cannot_be_scored_are_refused_first(folder, frame, fitted, tmp_path, change, message):
    frame.iloc[450:].assign(**change).to_parquet(folder / "part-3.parquet", index=False)
    with pytest.raises(ValueError, match=message):
        predict_folder(fitted, folder, tmp_path / "out", target="label")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="no column 'lable'; did you mean 'label'"):
        predict_folder(fitted, folder, tmp_path / "out", target="lable")


@pytest.mark.slow
@pytest.mark.parametrize("label", [None, "snow"])
def test_labels_of_dropped_rows_are_not_looked_at(frame, fitted, tmp_path, monkeypatch, label):
    from gpclass.data import folders

    monkeypatch.setattr(folders, "BATCH", 50)
    frame = frame.copy()  # the model was fitted to rows of the fixture's
    frame.loc[[70, 320], "b"] = np.nan
    expected = predict_folder(fitted, write(tmp_path / "a", frame), tmp_path / "x", target="label", drop_missing=True)
    frame.loc[[70, 320], "label"] = label
    place = write(tmp_path / "b", frame)
    found = predict_folder(fitted, place, tmp_path / "y", target="label", drop_missing=True)
    assert found.dropped == 2
    assert found.scores == expected.scores
    frame.loc[71, "label"] = label  # this one is to be scored
    place = write(tmp_path / "c", frame)
    with pytest.raises(ValueError, match=r"part-0.*(1 rows have no true label|hold snow)"):
        predict_folder(fitted, place, tmp_path / "z", target="label", drop_missing=True)
    assert not (tmp_path / "z").exists()


def with_holes(frame):
    """Missing features in three rows, a missing label in a fourth, and a part without a whole row."""
    frame = frame.assign(soil=np.where(frame["c"] > 0, "clay", "sand"))
    frame.loc[[5, 320], "b"] = np.nan
    frame.loc[321, "soil"] = None
    frame.loc[7, "label"] = None
    frame.loc[150:299, "a"] = np.nan
    return frame


def test_missing_values_of_a_folder_are_dropped_on_request(frame, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(parquet, "SHARD_ROWS", 70)
    holes, out = with_holes(frame), tmp_path / "m.gpclass"
    place = write(tmp_path / "holes", holes)
    code, _, err = command(capsys, "fit", place, *WORDS, "--out", out)
    assert code == 2
    assert "(--drop-missing, or drop_missing=True)" in err
    code, text, err = command(capsys, "fit", place, *WORDS, "--out", out, "--drop-missing", "--json")
    assert code == 0, err
    assert "154 rows with missing values dropped, 446 kept" in err
    assert {key: json.loads(text)[key] for key in ("rows", "dropped")} == {"rows": 446, "dropped": 154}
    whole = holes.dropna().reset_index(drop=True)
    source, *_ = as_source(encoded_folder(ParquetFolder(place, drop_missing=True), "label"), "label")
    X, y = rebuilt(source)
    features = whole.drop(columns="label")
    np.testing.assert_allclose(X, Encoding.learn(features).encode(features), atol=1e-12)
    np.testing.assert_array_equal(y, signs(whole))
    rows = np.array([0, 6, 150, 445])
    np.testing.assert_array_equal(source.take(rows)[0], X[rows])


def test_missing_values_of_new_rows_are_dropped_on_request(folder, frame, model, tmp_path, capsys):
    frame.loc[[5, 320], "b"] = np.nan
    place = write(tmp_path / "holes", frame)
    words = ("predict", model, place, "--out", tmp_path / "out", "--target", "label")
    code, _, err = command(capsys, *words)
    assert code == 2
    assert "(--drop-missing, or drop_missing=True)" in err
    code, out, err = command(capsys, *words, "--drop-missing")
    assert code == 0, err
    assert "2 rows with missing values dropped, 598 kept" in err
    assert "accuracy" in err
    assert "598 predictions in 4 files" in out
    assert 6 not in set(pd.read_parquet(tmp_path / "out" / "part-0.parquet")["row"])
    frame.iloc[:10].assign(b=np.nan).to_parquet(place / "part-4.parquet", index=False)
    code, out, err = command(capsys, *words[:4], tmp_path / "more", "--drop-missing")
    assert code == 0, err
    assert "12 rows with missing values dropped, 598 kept" in err
    assert "598 predictions in 5 files" in out


def test_files_without_rows_to_predict_become_files_without_rows(frame, fitted, tmp_path):
    import pyarrow.parquet as pq

    frame = frame.assign(id=np.arange(N))
    place = write(tmp_path / "d", frame)
    whole = predict_folder(fitted, place, tmp_path / "whole", target="label")
    frame.iloc[:0].to_parquet(place / "part-0a.parquet", index=False)
    words = {"keep": ["id"], "target": "label"}
    found = predict_folder(fitted, place, tmp_path / "a", **words)
    assert (found.rows, found.dropped, len(found.written)) == (N, 0, 5)
    assert found.scores == pytest.approx(whole.scores, abs=1e-12)
    assert len(predict_folder(fitted, place, tmp_path / "a", **words).kept) == 5
    frame.iloc[:9].assign(b=None).to_parquet(place / "part-0b.parquet", index=False)  # Arrow's type null
    found = predict_folder(fitted, place, tmp_path / "b", **words, drop_missing=True)
    assert (found.rows, found.dropped, len(found.written)) == (N, 9, 6)
    assert found.scores == pytest.approx(whole.scores, abs=1e-12)
    schemas = [pq.read_schema(file).remove_metadata() for file in sorted((tmp_path / "b").iterdir())]
    assert all(schema == schemas[0] for schema in schemas)
    assert pq.read_metadata(tmp_path / "b" / "part-0b.parquet").num_rows == 0
    alone = predict_folder(fitted, place / "part-0a.parquet", tmp_path / "c", **words)
    assert (alone.rows, alone.scores) == (0, {})


@pytest.mark.parametrize("encode", [False, True])
def test_a_fit_skips_files_that_dropping_empties(frame, tmp_path, encode):
    place = write(tmp_path / "d", frame)
    frame.iloc[:9].assign(b=None).to_parquet(place / "part-0b.parquet", index=False)
    frame.iloc[:9].assign(label=None).to_parquet(place / "part-0c.parquet", index=False)
    folder = ParquetFolder(place, drop_missing=True)
    source, *_ = as_source(encoded_folder(folder, "label") if encode else folder, "label")
    X, y = rebuilt(source)
    features = frame.drop(columns="label")
    np.testing.assert_allclose(X, Encoding.learn(features).encode(features) if encode else matrix(frame))
    np.testing.assert_array_equal(y, signs(frame))
    for name in ("b", "c"):
        (place / f"part-0{name}.parquet").unlink()
    frame.iloc[:0].to_parquet(place / "part-0a.parquet", index=False)
    with pytest.raises(ValueError, match=r"part-0a.parquet has no rows: remove the file"):
        as_source(encoded_folder(place, "label") if encode else place, "label")


def test_plain_numbers_and_labels_of_a_folder_name_the_cure(frame, tmp_path):
    frame.loc[5, "b"] = np.nan
    source, *_ = as_source(write(tmp_path / "b", frame), "label")
    with pytest.raises(ValueError, match=r"1 of 150 rows hold missing.*drop_missing=True"):
        rebuilt(source)
    frame.loc[7, "label"] = None
    with pytest.raises(ValueError, match=r"1 of 150 labels are missing.*drop_missing=True"):
        as_source(write(tmp_path / "c", frame), "label")
    source, *_ = as_source(ParquetFolder(tmp_path / "c", drop_missing=True), "label")
    np.testing.assert_array_equal(rebuilt(source)[0], matrix(frame.dropna()))


def test_advice_about_columns_serves_both_kinds_of_users(folder, frame, model, tmp_path, capsys):
    frame.iloc[:50].rename(columns={"b": "B"}).to_parquet(folder / "part-2.parquet", index=False)
    code, _, err = command(capsys, "fit", folder, *WORDS, "--out", tmp_path / "other.gpclass")
    assert code == 2
    assert "list those to use (--features A,B, or ParquetFolder(path, features=['A', 'B']))" in err
    code, _, err = command(capsys, "predict", model, folder, "--out", tmp_path / "out")
    assert code == 2
    assert "lacks 'b'; write all files with these columns" in err
    assert "ParquetFolder" not in err  # the model has chosen its columns


# ---- what pandas writes along ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:probabilities under .* differ")
@pytest.mark.parametrize("name", [None, "id"])
def test_the_index_of_a_frame_is_no_feature(frame, tmp_path, name):
    shuffled = frame.sample(frac=1.0, random_state=0).rename_axis(name)  # pandas writes such an index as a column
    plain, indexed = tmp_path / "plain", tmp_path / "indexed"
    for place, rows in ((plain, shuffled.reset_index(drop=True)), (indexed, shuffled)):
        place.mkdir()
        for k, part in enumerate(np.array_split(np.arange(len(rows)), 2)):
            rows.iloc[part].to_parquet(place / f"part{k}.parquet", index=place is indexed)
    settings = {"inference": "ep", "hyperparameters": "fixed", "n_inducing": 20, "random_state": 0}
    models = [GPClassifier(KERNEL, **settings).fit(place, "label") for place in (plain, indexed)]
    assert models[1].feature_names_in_.tolist() == models[0].feature_names_in_.tolist()
    assert models[1].log_evidence_ == models[0].log_evidence_
    tables = [TableClassifier(GPClassifier(KERNEL, **settings)).fit(place, "label") for place in (plain, indexed)]
    columns = frame.drop(columns="label")
    np.testing.assert_array_equal(tables[1].predict_proba(columns), tables[0].predict_proba(columns))
    out = predict_folder(tables[1], indexed, tmp_path / "out")
    assert len(out.written) == 2


@pytest.mark.slow
def test_a_dask_frame_is_predicted_with_its_names(frame):
    dd = pytest.importorskip("dask.dataframe")
    columns = frame.drop(columns="label")
    whole = dd.from_pandas(columns, npartitions=3, sort=False)
    settings = {"inference": "ep", "hyperparameters": "fixed", "n_inducing": 20, "random_state": 0}
    clf = GPClassifier(KERNEL, **settings).fit(columns, frame["label"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(clf.predict_proba(whole), clf.predict_proba(columns))
