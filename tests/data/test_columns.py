"""Columns become numbers in one way, which is learned once: constants, gaps, names, and what only looks like names."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier, load_model, predict_uncertainty
from gpclass.data.columns import Encoding
from gpclass.estimators.tables import TableClassifier

QUICK = {"inference": "laplace", "hyperparameters": "fixed"}


@pytest.mark.parametrize("value", [0.1, -1e6 / 3, 1.7e18, 0.0])
def test_a_constant_column_has_no_scale(value):
    frame = pd.DataFrame({"same": np.full(37, value), "x": np.arange(37.0)})
    near = frame.assign(same=value + 1e-5 * max(1.0, abs(value)) * 1e-3)
    encoding = Encoding.learn(frame)
    assert encoding.columns[0].scale == 1.0
    np.testing.assert_allclose(encoding.encode(frame)[:, 0], 0, atol=1e-9 * max(1.0, abs(value)))
    assert np.all(np.isfinite(encoding.encode(near)))


def test_a_constant_column_leaves_predictions_alone():
    x = np.linspace(-2, 2, 40)
    frame, y = pd.DataFrame({"x": x, "same": 0.1}), (x > 0).astype(int)
    model = TableClassifier(GPClassifier(RBF(1.0), **QUICK)).fit(frame, y)
    p = model.predict_proba(frame)
    np.testing.assert_allclose(model.predict_proba(frame.assign(same=0.10001)), p, atol=1e-6)
    assert p.max() > 0.8


def test_rounding_is_no_spread():
    encoding = Encoding.learn(pd.DataFrame({"x": [0.1 + 0.2, 0.3] * 10}))
    assert encoding.columns[0].scale == 1.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([f"{k},5" for k in range(5)], r"looks like numbers .*\('0,5', '1,5', '2,5', ...\)"),
        ([f"{k} kg" for k in range(30)], r"looks like numbers .*'0 kg', '1 kg', '2 kg'"),
        (["5%", "10%"], "looks like numbers"),
        (["$5", "$10"], "looks like numbers"),
        (["10 mm", "20 mm", "30 mm"], "looks like numbers"),
        ([f"$ {k}.50" for k in range(5)], "looks like numbers"),
        ([f"{k}" for k in range(60)], "looks like numbers"),
        ([*(f"{k}.5" for k in range(60)), "far"], r"1 of its 61 values are words \('far'\)"),
        ([f"2020-01-{k:02}" for k in range(1, 9)], r"holds dates or times \('2020-01-01', '2020-01-02', '2020-01-03'"),
        ([f"{k}.3.2020" for k in range(1, 9)], "holds dates"),
        ([f"{k} Mar 2020" for k in range(1, 9)], "holds dates"),
        ([f"12:{k}" for k in range(10, 19)], "holds dates or times"),
        ([f"site {k}" for k in range(60)], "an identifier"),
    ],
)
def test_what_only_looks_like_names_is_refused(words, message):
    frame = pd.DataFrame({"column": words})
    with pytest.raises(ValueError, match=message):
        Encoding.learn(frame)
    if len(words) <= 50:
        as_names = frame.astype("category")
        assert len(Encoding.learn(as_names).outputs) == len(words)
        assert len(Encoding.learn(frame, categories={"column": words}).outputs) == len(words)


@pytest.mark.parametrize("words", [["1", "2", "3", "A"], ["1A", "2B", "3C"], ["1st", "2nd"], ["A1", "A2"]])
def test_codes_are_names(words):
    assert len(Encoding.learn(pd.DataFrame({"zone": words * 5})).outputs) == len(words)


def test_given_categories_need_not_occur():
    frame = pd.DataFrame({"zone": [1, 3, 1]})
    encoding = Encoding.learn(frame, categories={"zone": [1, 2, 3]})
    assert encoding.outputs == ("zone=1", "zone=2", "zone=3")
    np.testing.assert_array_equal(encoding.encode(pd.DataFrame({"zone": [2]})), [[0, 1, 0]])
    with pytest.raises(ValueError, match="'3', not among its given categories"):
        Encoding.learn(frame, categories={"zone": [1, 2]})
    with pytest.raises(ValueError, match="no feature column"):
        Encoding.learn(frame, categories={"zne": [1, 2]})


@pytest.fixture
def holes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=30), "word": np.where(np.arange(30) % 3, "a", "b")})
    y = (frame["x"] > 0).astype(int).to_numpy()
    frame.loc[[0, 5], "x"] = np.nan
    frame.loc[[5, 7], "word"] = None
    return frame, y


def test_missing_values_become_the_median_or_the_most_common(holes, tmp_path):
    frame, y = holes
    clf = TableClassifier(GPClassifier(RBF(1.0), **QUICK), impute="median")
    model = clf.fit(frame, y)
    filled = frame.fillna({"x": frame["x"].median(), "word": "a"})
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(filled))
    x = frame["x"].dropna()
    np.testing.assert_allclose(model.encode(filled)[:, 0], (filled["x"] - x.mean()) / x.std(ddof=0))
    read = load_model(model.save(tmp_path / "m.gpclass"))
    np.testing.assert_array_equal(read.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(ValueError, match=r"4 values are missing in 3 of 30 rows .*impute='median'"):
        TableClassifier(GPClassifier(RBF(1.0), **QUICK)).fit(frame, y)
    with pytest.raises(ValueError, match="impute must be"):
        TableClassifier(impute="mean").fit(frame, y)
    with pytest.raises(ValueError, match="'x' holds no value"):
        clf.fit(frame.assign(x=np.nan), y)


def test_folders_are_filled_in_the_same_way(holes, tmp_path):
    pytest.importorskip("pyarrow")
    from gpclass.data.folders import predict_folder
    from gpclass.data.parquet import ParquetFolder

    frame, y = holes
    whole = frame.assign(label=y)
    for k in range(3):
        whole.iloc[10 * k : 10 * k + 10].to_parquet(tmp_path / f"{k}.parquet", index=False)
    settings = {"n_inducing": 28, "inducing": "random", "random_state": 0, **QUICK}
    clf = TableClassifier(GPClassifier(RBF(1.0), **settings), impute="median")
    model = clf.fit(ParquetFolder(tmp_path, drop_missing=True), "label")
    assert model.fit_report_.n_points == 30
    assert model.encoding_.columns[0].median == frame["x"].median()
    done = predict_folder(model, tmp_path, tmp_path.parent / f"{tmp_path.name}-out", drop_missing=True, target="label")
    assert (done.rows, done.dropped) == (30, 0)
    assert set(done.scores) == {"accuracy", "log_loss", "brier"}


# ---- through pipelines -----------------------------------------------------------------------------------------------


def test_uncertainty_through_a_pipeline(holes):
    frame, y = holes
    frame = frame.fillna({"x": 0.0, "word": "a"})
    X = frame[["x"]].to_numpy()
    gp = GPClassifier(RBF(1.0), **QUICK)
    pipeline = make_pipeline(StandardScaler(), gp).fit(X, y)
    want = pipeline[-1].predict_uncertainty(pipeline[:-1].transform(X), level=0.8)
    np.testing.assert_array_equal(predict_uncertainty(pipeline, X, level=0.8).upper, want.upper)
    np.testing.assert_array_equal(predict_uncertainty(pipeline[-1], X).proba, pipeline[-1].predict_proba(X))
    table = TableClassifier(gp).fit(frame, y)
    np.testing.assert_array_equal(predict_uncertainty(table, frame).lower, table.predict_uncertainty(frame).lower)
    whole = make_pipeline("passthrough", TableClassifier(gp)).fit(frame, y)  # a table within a pipeline
    np.testing.assert_array_equal(predict_uncertainty(whole, frame).proba, whole.predict_proba(frame))
    with pytest.raises(TypeError, match="LogisticRegression has no predict_uncertainty"):
        predict_uncertainty(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), X)
    with pytest.raises(NotFittedError):
        predict_uncertainty(make_pipeline(StandardScaler(), gp), X)


def test_weights_of_a_table(holes):
    frame, y = holes
    frame = frame.fillna({"x": 0.0, "word": "a"})
    twice = np.where(y == 1, 2, 1)
    clf = TableClassifier(GPClassifier(RBF(1.0), **QUICK), standardize=False)
    weighted = clf.fit(frame, y, sample_weight=twice).predict_proba(frame)
    copies = np.repeat(np.arange(30), twice)
    np.testing.assert_allclose(weighted, clf.fit(frame.iloc[copies], y[copies]).predict_proba(frame), atol=1e-6)


def test_coordinates_are_scaled_together():
    """Each with its own scale, a map 10 km wide and 1 km high is a square, and distance has no direction in common."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"east": 10_000 * rng.random(50), "north": 1000 * rng.random(50), "ph": rng.normal(7, 1, 50)})
    apart, together = Encoding.learn(frame), Encoding.learn(frame, spatial=["east", "north"])
    scale = {column.name: column.scale for column in together.columns}
    assert scale["east"] == scale["north"]
    assert scale["east"] ** 2 == pytest.approx(frame[["east", "north"]].var(ddof=0).mean())
    assert scale["ph"] == apart.columns[2].scale
    np.testing.assert_allclose(together.encode(frame)[:, 0] * scale["east"], frame["east"] - frame["east"].mean())
    raw = Encoding.learn(frame, standardize=False, spatial=["east", "north"])
    assert [column.scale for column in raw.columns] == [1.0] * 3
    with pytest.raises(ValueError, match="did you mean 'north'"):
        Encoding.learn(frame, spatial=["east", "nort"])


def test_a_table_classifier_saves_the_common_scale(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"east": 10_000 * rng.random(30), "north": 1000 * rng.random(30)})
    y = np.where(frame["east"] > 5000, "a", "b")
    inner = GPClassifier(inference="laplace", hyperparameters="fixed")
    model = TableClassifier(inner, spatial=["east", "north"]).fit(frame, y)
    again = load_model(model.save(tmp_path / "m.gpclass"))
    assert again.spatial == ["east", "north"]
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
