"""Saved models: the same answers after a round trip, and a clear refusal of everything else."""

import hashlib
import io
import json
import os
import tracemalloc
import warnings
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier, load_model
from gpclass.geostat import IndicatorKriging, VariogramModel, VariogramSearch
from gpclass.hyper import Map
from gpclass.inference import Exact, Laplace
from gpclass.inference.posteriors import LARGE
from gpclass.inference.redraw import Seed
from gpclass.kernels import on
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Logit, Probit
from gpclass.persistence import ModelFileError, NotSavableError, save_model
from gpclass.persistence.container import DIGEST, MANIFEST
from gpclass.persistence.values import Decoder, Encoder
from gpclass.priors import Gamma, LogNormal
from gpclass.registry import INFERENCES, STRATEGIES
from gpclass.registry.matrix import likelihoods_for
from tests.short import short

MANY = [name for name, row in INFERENCES.items() if likelihoods_for(row.default, Dense, True)]
X, Y = make_moons(50, noise=0.25, random_state=0)
NEW = X[:17] + 0.03
KERNEL = 2.0 * RBF(0.8)


def fixed(name="ep", **settings):
    given = {"kernel": KERNEL, "inference": name, "hyperparameters": "fixed", "random_state": 0}
    return GPClassifier(**(given | settings))


def round_trip(model, tmp_path):
    return load_model(save_model(model, tmp_path / "model.gpclass"))


def assert_same_predictions(a, b, points=NEW):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(a.predict_log_proba(points), b.predict_log_proba(points))
        np.testing.assert_array_equal(a.predict(points), b.predict(points))
        one, two = a.predict_uncertainty(points), b.predict_uncertainty(points)
    for name in ("proba", "mcse", "lower", "upper", "latent_mean", "latent_sd"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


# ---- round trips ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", INFERENCES)
@pytest.mark.filterwarnings("ignore")
def test_every_inference_comes_back_identical(name, tmp_path):
    likelihood = INFERENCES[name].likelihoods[0]
    clf = fixed(name, likelihood=likelihood).fit(X, Y)
    back = round_trip(clf, tmp_path)
    assert type(back) is GPClassifier
    assert_same_predictions(clf, back)
    assert back.log_evidence_ == clf.log_evidence_
    assert back.kernel_ == clf.kernel_
    assert str(back.fit_report_) == str(clf.fit_report_)
    np.testing.assert_array_equal(clf.sample_latent(NEW, 3, random_state=1), back.sample_latent(NEW, 3, random_state=1))
    back.fit(X, Y)  # still an estimator
    assert_same_predictions(clf, back)


@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
@pytest.mark.filterwarnings("ignore")
def test_more_than_two_classes_come_back_identical(name, tmp_path):
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + X[:, 1], [0.3, 1.0])]
    for kernel in (KERNEL, [KERNEL, 1.0 * RBF(0.5), 1.0 * Matern(1.0)]):
        clf = fixed(short(name), kernel=kernel).fit(X, labels)
        back = round_trip(clf, tmp_path)
        assert_same_predictions(clf, back)
        assert back.log_evidence_ == clf.log_evidence_


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.filterwarnings("ignore")
def test_every_strategy_comes_back_identical(name, tmp_path):
    strategy = STRATEGIES[name].brief
    clf = GPClassifier(KERNEL, inference="laplace", hyperparameters=strategy, random_state=0).fit(X, Y)
    back = round_trip(clf, tmp_path)
    assert_same_predictions(clf, back)
    assert back.hyperparameters == clf.hyperparameters


@pytest.mark.slow
@pytest.mark.parametrize("labels", [Y, np.digitize(X[:, 0] + X[:, 1], [0.3, 1.0])], ids=["two", "many"])
@pytest.mark.filterwarnings("ignore")
def test_inducing_inputs_come_back_identical_and_keep_no_rows(labels, tmp_path):
    many = labels.max() > 1
    able = [name for name, row in INFERENCES.items() if likelihoods_for(row.default, LowRank, many)]
    assert {"exact", "ep", "laplace", "variational", "importance", "hmc"} <= set(able)
    for name in able:
        clf = fixed(short(name), n_inducing=8).fit(X, labels)
        back = round_trip(clf, tmp_path)
        assert_same_predictions(clf, back)
        assert back.log_evidence_ == clf.log_evidence_
        with pytest.raises(ValueError, match="stores no rows"):
            back._problem.rows.take(np.arange(3))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["benign", "malignant"]),
        np.array(["gut", "böse ☂"], dtype=object),
        np.array([False, True]),
        np.array([3, 8]),
        np.array([1.0, 2.0]),
        np.array([3, 8], dtype=np.int8),
    ],
    ids=str,
)
def test_classes_of_any_type(labels, tmp_path):
    clf = fixed("laplace").fit(X, labels[Y])
    back = round_trip(clf, tmp_path)
    assert back.classes_.dtype == clf.classes_.dtype
    np.testing.assert_array_equal(back.classes_, clf.classes_)
    np.testing.assert_array_equal(back.predict(NEW), clf.predict(NEW))


KERNELS = [
    ConstantKernel(2.0, "fixed") * RBF([0.7, 1.3], (1e-3, 1e3)) + ConstantKernel(0.5),
    Matern(0.9, nu=1.5) + sk.WhiteKernel(0.1),
    Matern(0.9, nu=np.inf),
    1.5 * sk.RationalQuadratic(0.8, 1.2) ** 2,
    sk.DotProduct(0.4) + sk.ExpSineSquared(1.1, 3.0) * RBF(2.0),
    on(RBF(0.8), 0) + on(Matern([1.1]), [1]),
    sk.PairwiseKernel(gamma=0.7, metric="rbf"),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_come_back(kernel, tmp_path):
    clf = fixed("laplace", kernel=kernel).fit(X, Y)
    back = round_trip(clf, tmp_path)
    assert back.kernel == kernel
    np.testing.assert_array_equal(back.kernel_.bounds, clf.kernel_.bounds)
    assert_same_predictions(clf, back)


def test_settings_come_back(tmp_path):
    clf = GPClassifier(
        KERNEL,
        likelihood=Probit(scale=2.0, scale_bounds=(0.1, 30.0)),
        inference=Laplace(max_iter=70, tol=1e-13),
        hyperparameters=Map(max_iter=3),
        priors={"*length_scale*": Gamma(2.0, 1.0), "*": LogNormal(0.0, 2.0)},
        class_weight={0: 1.0, 1: 2.5},
        random_state=np.random.default_rng(4),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, Y, sample_weight=np.linspace(0.5, 2, len(Y)))
    back = round_trip(clf, tmp_path)
    for name in ("likelihood", "inference", "hyperparameters", "priors", "class_weight", "tol"):
        assert getattr(back, name) == getattr(clf, name)
    assert back.likelihood_ == clf.likelihood_
    assert back.likelihood_.scale != 2.0  # learned
    assert back.random_state.standard_normal() == clf.random_state.standard_normal()
    assert_same_predictions(clf, back)


def test_feature_names_come_back(tmp_path):
    frame = pd.DataFrame(X, columns=["east", "north"])
    clf = fixed("laplace", likelihood=Logit(scale=1.5)).fit(frame, Y)
    back = round_trip(clf, tmp_path)
    assert list(back.feature_names_in_) == ["east", "north"]
    np.testing.assert_array_equal(back.predict_proba(frame), clf.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        back.predict(frame.rename(columns={"east": "west"}))


@pytest.mark.parametrize("transform", ["classical", "simplicial"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_indicator_kriging(transform, classes, tmp_path):
    labels = np.digitize(X[:, 0] + X[:, 1], [0.3, 1.0][: classes - 1])
    for settings in (
        {},
        {"neighbours": 8, "ordinary": True},
        {"variogram": VariogramModel(1.0, 0.5, 1.5, 0.1)},
    ):
        model = IndicatorKriging(transform, **settings).fit(X, labels)
        back = round_trip(model, tmp_path)
        np.testing.assert_array_equal(back.predict_proba(NEW), model.predict_proba(NEW))
        np.testing.assert_array_equal(back.predict_variance(NEW), model.predict_variance(NEW))
        assert back.get_params()["transform"] == transform
        assert str(back.fit_report_) == str(model.fit_report_)
    search = IndicatorKriging(transform, variogram=VariogramSearch(lags=8)).fit(X, labels)
    assert round_trip(search, tmp_path).variogram == search.variogram


def test_a_pipeline_with_a_scaler(tmp_path):
    model = make_pipeline(StandardScaler(), fixed("laplace")).fit(X * [1.0, 50.0], Y)
    back = round_trip(model, tmp_path)
    np.testing.assert_array_equal(back.predict_proba(NEW * [1.0, 50.0]), model.predict_proba(NEW * [1.0, 50.0]))


# ---- the file ------------------------------------------------------------------------------------------


def test_the_same_model_gives_the_same_bytes(tmp_path):
    clf = fixed().fit(X, Y)
    one = save_model(clf, tmp_path / "one.gpclass").read_bytes()
    assert save_model(clf, tmp_path / "two.gpclass").read_bytes() == one
    again = load_model(tmp_path / "one.gpclass")
    assert save_model(again, tmp_path / "three.gpclass").read_bytes() == one


def test_a_factor_is_not_stored(tmp_path):
    n = 300
    points, labels = make_moons(n, noise=0.25, random_state=0)
    path = fixed("laplace").fit(points, labels).save(tmp_path / "m.gpclass")
    assert path.stat().st_size < 8 * n * n / 10


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = fixed("laplace").fit(X, Y).save(tmp_path / "m.gpclass")
    before = path.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        fixed("ep").fit(X, Y).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.gpclass"]


def test_no_pickle_in_the_file(tmp_path):
    path = fixed("laplace").fit(X, np.array(["a", "b"], dtype=object)[Y]).save(tmp_path / "m.gpclass")
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            assert name in (MANIFEST, DIGEST) or name.endswith(".npy")
            if name.endswith(".npy"):
                with archive.open(name) as member:
                    np.load(member, allow_pickle=False)


# ---- what cannot be saved ------------------------------------------------------------------------------


class Wavy(RBF):
    """A kernel of one's own."""


@dataclass(frozen=True)
class Mine(Laplace):
    """An inference of one's own."""


def test_unknown_kernels_are_refused_by_name(tmp_path):
    clf = fixed("laplace", kernel=1.0 * Wavy(1.0)).fit(X, Y)
    with pytest.raises(NotSavableError, match="Wavy"):
        clf.save(tmp_path / "m.gpclass")
    assert not (tmp_path / "m.gpclass").exists()


def test_foreign_settings_are_refused_by_place(tmp_path):
    with pytest.raises(NotSavableError, match=r"GPClassifier\.inference.*Mine"):
        fixed(Mine()).fit(X, Y).save(tmp_path / "m.gpclass")
    pairwise = sk.PairwiseKernel(metric=lambda a, b, gamma: float(np.exp(-np.sum((a - b) ** 2))))
    with pytest.raises(NotSavableError, match="metric"):
        fixed("laplace", kernel=pairwise).fit(X, Y).save(tmp_path / "m.gpclass")


def test_unfitted_models_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        fixed().save(tmp_path / "m.gpclass")


# ---- what cannot be loaded -----------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    clf = fixed("laplace").fit(X, np.array(["no", "yes"])[Y])
    return clf, clf.save(tmp_path / "m.gpclass")


def rewrite(path, change):
    """The file with its manifest changed and both checksums put right, as someone clever would."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members[MANIFEST])
    manifest = change(manifest) or manifest
    members[MANIFEST] = json.dumps(manifest).encode()
    members[DIGEST] = hashlib.sha256(members[MANIFEST]).hexdigest().encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_newer_versions_are_refused(saved):
    _, path = saved
    with pytest.raises(ModelFileError, match=r"version 99.*upgrade"):
        load_model(rewrite(path, lambda m: m.update(version=99)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="other"), "not a saved model"),
        (lambda m: m.update(version="one"), "unknown format version"),
        (lambda m: m["arrays"].popitem() and None, "not those"),
        (lambda m: m["objects"][-1].update({"class": "os.system"}), "not a class"),
        (lambda m: m["objects"][-1].update({"class": "gpclass.persistence.container.os"}), "not a class"),
        (lambda m: m["objects"][-1].update({"class": "gpclass.persistence.load_model"}), "not a class"),
        (lambda m: m["objects"][-1]["state"].update({"__class__": 1}), "not an attribute"),
        (lambda m: m.update(model={"$": "ref", "v": 10_000}), "before it is defined"),
        (lambda m: m.update(model={"$": "ref", "v": 0}), "not a model"),
        (lambda m: m.update(model={"$": "eval", "v": "1"}), "not a kind of value"),
        (lambda m: [m], "damaged|not a saved model"),
    ],
)
def test_rewritten_files_are_refused(saved, change, message):
    _, path = saved
    with pytest.raises(ModelFileError, match=message):
        load_model(rewrite(path, change))


def test_changed_members_are_refused(saved):
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, data in members.items():
        damaged = members | {name: data[:-1] + bytes([data[-1] ^ 1])}
        with zipfile.ZipFile(path, "w") as archive:
            for key, value in damaged.items():
                archive.writestr(key, value)
        with pytest.raises(ModelFileError):
            load_model(path)
    for damaged in (members | {"extra.txt": b""}, {k: v for k, v in members.items() if k != DIGEST}):
        with zipfile.ZipFile(path, "w") as archive:
            for key, value in damaged.items():
                archive.writestr(key, value)
        with pytest.raises(ModelFileError):
            load_model(path)


@pytest.mark.slow
def test_compressed_members_are_refused_before_they_are_read(saved):
    """300 MB of zeros in a file of 300 kB, with all checksums right."""
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith(".npy"))
    members[name] += bytes(300_000_000)
    manifest = json.loads(members[MANIFEST])
    manifest["arrays"][name] = hashlib.sha256(members[name]).hexdigest()
    members[MANIFEST] = json.dumps(manifest).encode()
    members[DIGEST] = hashlib.sha256(members[MANIFEST]).hexdigest().encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, data in members.items():
            archive.writestr(key, data)
    assert path.stat().st_size < 1e6
    del members
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e7


@pytest.mark.parametrize("forge", [lambda a: a * np.nan, lambda a: a.T.copy(), lambda a: a.astype(np.float32)])
def test_arrays_that_are_not_those_named_are_refused(saved, forge):
    """An array's name is the hash of its type, shape and values: checksums put right do not hide another array."""
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members[MANIFEST])
    arrays = {name: np.load(io.BytesIO(members[name])) for name in manifest["arrays"]}
    name = next(name for name, a in arrays.items() if a.ndim == 2 and a.dtype == float)
    buffer = io.BytesIO()
    np.save(buffer, forge(arrays[name]))
    members[name] = buffer.getvalue()
    manifest["arrays"][name] = hashlib.sha256(members[name]).hexdigest()
    with zipfile.ZipFile(path, "w") as archive:
        for key, data in members.items():
            archive.writestr(key, data)
    with pytest.raises(ModelFileError, match="not the array"):
        load_model(rewrite(path, lambda m: m.update(arrays=manifest["arrays"])))


def test_other_files_are_refused(tmp_path):
    for name, data in (("empty", b""), ("text", b"label,x\n1,2\n"), ("pickle", b"\x80\x04K\x01.")):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match="not a saved model"):
            load_model(path)
    with pytest.raises(ModelFileError, match="folder"):
        load_model(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "absent.gpclass")


def damage(data, kind, rng):
    """One damaged copy of a file's bytes."""
    data = bytearray(data)
    if kind == 0:  # truncated
        return bytes(data[: rng.integers(len(data))])
    if kind == 1:  # bits flipped
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            data[place] ^= 1 << rng.integers(8)
        return bytes(data)
    if kind == 2:  # a stretch overwritten
        start, length = rng.integers(len(data)), rng.integers(1, 200)
        data[start : start + length] = rng.bytes(len(data[start : start + length]))
        return bytes(data)
    start = data.find(b'{\n "format"')  # JSON fuzzed, its checksum left as it is
    place = start + rng.integers(20_000 if len(data) > 30_000 else len(data) // 2)
    data[place] = rng.choice(list(b'{}[]",:0123456789-enulltrue'))
    return bytes(data)


@pytest.mark.slow
def test_two_hundred_damaged_files_are_refused_or_identical(saved, tmp_path):
    clf, path = saved
    original, expected = path.read_bytes(), clf.predict_log_proba(NEW)
    rng = np.random.default_rng(20261115)
    refused = 0
    for k in range(200):
        damaged = tmp_path / "damaged.gpclass"
        damaged.write_bytes(damage(original, k % 4, rng))
        try:
            back = load_model(damaged)
        except ModelFileError:
            refused += 1
            continue
        np.testing.assert_array_equal(back.predict_log_proba(NEW), expected)
    assert refused > 150


def leaves(tree, path=()):
    """Every place in a JSON tree."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


@pytest.mark.slow
def test_fuzzed_json_with_right_checksums_never_crashes(saved, tmp_path):
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read(MANIFEST))
    places = [p for p in leaves(manifest) if p]
    rng = np.random.default_rng(7)
    values = [
        None,
        True,
        -1,
        10**400,
        1e308,
        "x",
        "__class__",
        [],
        {},
        [[]],
        {"$": "tuple", "v": 3},
        {"$": 1},
    ]
    outcomes = set()
    for _ in range(200):
        place, value = places[rng.integers(len(places))], values[rng.integers(len(values))]

        def change(m, place=place, value=value):
            for key in place[:-1]:
                m = m[key]
            m[place[-1]] = value

        copy = tmp_path / "copy.gpclass"
        copy.write_bytes(path.read_bytes())
        rewrite(copy, change)
        try:
            load_model(copy)
            outcomes.add("loaded")
        except ModelFileError:
            outcomes.add("refused")
    assert outcomes == {"loaded", "refused"}


def test_deep_nesting_is_refused(saved):
    _, path = saved

    def deep(m):
        tree = []
        for _ in range(900):
            tree = [tree]
        m["model"] = tree

    with pytest.raises(ModelFileError):
        load_model(rewrite(path, deep))


# ---- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        (1, (2.5, "x"), [None, True]),
        {"a": 1, 2: "b", (1, 2): [3]},
        float("inf"),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.float64(0.1),
        np.str_("x"),
        np.zeros((0, 3)),
    ],
    ids=str,
)
def test_values_come_back(value):
    encoder = Encoder()
    spelled = json.loads(json.dumps(encoder.encode(value, "value"), allow_nan=False))
    back = Decoder(encoder.arrays).decode(spelled)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        assert back.flags.f_contiguous == value.flags.f_contiguous
        np.testing.assert_array_equal(back, value)
    else:
        assert back == value


def test_one_array_is_stored_once():
    encoder = Encoder()
    encoder.encode([np.arange(5.0), {"again": np.arange(5.0)}, np.arange(5)], "value")
    assert len(encoder.arrays) == 2


# ---- draws made again ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_draws():
    """A fit with more draws than a file keeps, a defended plan among them."""
    points, labels = make_moons(60, noise=0.1, random_state=0)
    kernel = 100.0**2 * RBF(1.0)
    return fixed(Exact(n_samples=LARGE // 60 + 100), kernel=kernel).fit(points, labels)


@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_large_draws_are_made_again_to_the_last_bit(many_draws, tmp_path):
    path = many_draws.save(tmp_path / "m.gpclass")
    assert path.stat().st_size < 8 * LARGE / 10
    back = load_model(path)
    assert back.fit_report_.details["wider_proposal_added"]
    np.testing.assert_array_equal(back.predict_log_proba(NEW), many_draws.predict_log_proba(NEW))
    np.testing.assert_array_equal(
        back.sample_latent(NEW, 5, random_state=0), many_draws.sample_latent(NEW, 5, random_state=0)
    )
    again = save_model(back, tmp_path / "again.gpclass")  # what was read can be written
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_large_draws_under_the_logit_link_are_made_again(tmp_path):
    clf = fixed(Exact(n_samples=LARGE // 50 + 100), likelihood="logit").fit(X, Y)
    path = clf.save(tmp_path / "m.gpclass")
    assert path.stat().st_size < 8 * LARGE / 10
    assert_same_predictions(clf, load_model(path))
    back = load_model(path)
    np.testing.assert_array_equal(back.sample_latent(NEW, 5, random_state=0), clf.sample_latent(NEW, 5, random_state=0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Monte Carlo")
def test_large_draws_of_many_classes_are_made_again(tmp_path):
    labels = np.digitize(X[:, 0] + X[:, 1], [0.3, 1.0])
    for kernel in (KERNEL, [KERNEL, 1.0 * RBF(0.5), 1.0 * Matern(1.0)]):
        clf = fixed(Exact(n_samples=LARGE // 150 + 100), kernel=kernel).fit(X, labels)
        path = clf.save(tmp_path / "m.gpclass")
        assert path.stat().st_size < 8 * LARGE / 10
        assert_same_predictions(clf, load_model(path))


def test_damaged_files_of_draws_to_be_made_again(many_draws, tmp_path):
    path = many_draws.save(tmp_path / "m.gpclass")
    original, rng = path.read_bytes(), np.random.default_rng(5)
    refused = 0
    for k in range(60):
        path.write_bytes(damage(original, k % 4, rng))
        try:
            back = load_model(path)
        except ModelFileError:
            refused += 1
            continue
        np.testing.assert_array_equal(back.posterior_.A, many_draws.posterior_.A)
    assert refused > 50


def test_draws_that_come_out_otherwise_are_refused(many_draws, tmp_path):
    path = many_draws.save(tmp_path / "m.gpclass")

    def another_seed(manifest):
        (seed,) = (row for row in manifest["objects"] if row["class"] == "recipe/seed")
        seed["state"]["spawned"] += 1

    with pytest.raises(ModelFileError, match="draws cannot be reproduced"):
        load_model(rewrite(path, another_seed))


def test_seeds_give_the_same_children_and_only_seeded_generators_have_one():
    rng = np.random.default_rng([3, 1]).spawn(2)[1]
    rng.spawn(4)
    seed = Seed.of(rng)
    assert seed.rng().spawn(1)[0].random() == rng.spawn(1)[0].random()
    assert Seed.of(rng).rng().spawn(1)[0].random() != seed.rng().spawn(1)[0].random()

    class Unseeded:
        bit_generator = object()

    assert Seed.of(Unseeded()) is None
