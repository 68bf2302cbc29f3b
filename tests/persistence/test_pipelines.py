"""Pipelines of any transformers of scikit-learn in files, without pickle."""

import copy
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, QuantileTransformer

from gpclass import GPClassifier, load_model
from gpclass.persistence import NotSavableError, save_model
from gpclass.persistence.foreign import unpacked

pytest.importorskip("skops", reason="skops, of the optional extra [skops], is not installed")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.where(X[:, 0] > 0, "a", "b")


def classifier():
    return GPClassifier(inference="laplace", hyperparameters="fixed")


def shout(values):
    return values


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [
        (SimpleImputer(), PolynomialFeatures(2), QuantileTransformer(n_quantiles=10), PCA(2)),
        (FunctionTransformer(np.cbrt),),
    ],
    ids=["numbers", "a function of numpy"],
)
def test_a_pipeline_predicts_the_same_after_reading(tmp_path, steps):
    model = make_pipeline(*steps, classifier()).fit(X, Y)
    path = save_model(model, tmp_path / "m.gpclass")
    np.testing.assert_array_equal(load_model(path).predict_proba(X), model.predict_proba(X))
    with zipfile.ZipFile(path) as archive:
        assert not any(b"cpickle" in archive.read(name).lower() for name in archive.namelist())


def test_the_same_pipeline_gives_the_same_bytes(tmp_path, monkeypatch):
    """Also in another process, where its parts lie elsewhere in memory, and on another day."""
    steps = (SimpleImputer(), QuantileTransformer(n_quantiles=10), PCA(2))
    model = make_pipeline(*steps, classifier()).fit(X, Y)
    one = save_model(model, tmp_path / "one.gpclass").read_bytes()
    later = time.struct_time((2031, 5, 4, 3, 2, 1, 0, 0, 0))
    monkeypatch.setattr(zipfile.time, "localtime", lambda *_: later)
    elsewhere = copy.deepcopy(model), load_model(tmp_path / "one.gpclass")
    for k, again in enumerate(elsewhere):
        assert save_model(again, tmp_path / f"{k}.gpclass").read_bytes() == one


def test_columns_of_a_frame(tmp_path):
    frame = pd.DataFrame({"soil": np.where(X[:, 1] > 0, "sand", "clay"), "depth": X[:, 2]})
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["soil"]), (PCA(1), ["depth"]))
    model = make_pipeline(encode, classifier()).fit(frame, Y)
    again = load_model(save_model(model, tmp_path / "m.gpclass"))
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))


def test_a_function_of_ones_own_is_refused_by_name(tmp_path):
    model = make_pipeline(FunctionTransformer(shout), classifier()).fit(X, Y)
    with pytest.raises(NotSavableError, match="shout, which a file must not create"):
        save_model(model, tmp_path / "m.gpclass")
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_hold_more_are_not_read():
    import skops.io

    data = np.frombuffer(skops.io.dumps(FunctionTransformer(shout)), dtype=np.uint8)
    with pytest.raises(ValueError, match="must not create"):
        unpacked(data)


def test_without_skops_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    model = make_pipeline(PCA(2), classifier()).fit(X, Y)
    with pytest.raises(NotSavableError, match=r"gpclass\[skops\]"):
        save_model(model, tmp_path / "m.gpclass")
