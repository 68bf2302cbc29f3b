"""Names in saved models: old files are read and say the same, and every class that a file may hold has one name."""

import importlib
import inspect
import json
import math
import pkgutil
import zipfile
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import gpclass
from gpclass import GPClassifier, load_model, registry
from gpclass.inference import posteriors
from gpclass.likelihoods import LIKELIHOODS
from gpclass.model.problem import Problem
from gpclass.numerics.linalg import SiteFactor
from gpclass.numerics.rounded import Rounded
from gpclass.persistence import ModelFileError, NotSavableError, migrations, names, save_model
from gpclass.persistence.container import MANIFEST
from gpclass.persistence.values import FOREIGN, Decoder, Encoder
from gpclass.priors import Flat, Gamma, LogNormal, PriorSet
from tests.golden.record import FOLDER, fingerprint, outputs, read_expected
from tests.persistence.test_saved_models import rewrite

EXPECTED = read_expected()
# Classes that a file can hold and that no golden model does: see test_what_no_golden_file_holds.
RARE = {"prior/set", "draws/rounded"}


def golden(name):
    return FOLDER / f"{name}.gpclass"


def written_names(path):
    """The names of the classes in a file."""
    with zipfile.ZipFile(path) as archive:
        return {row["class"] for row in json.loads(archive.read(MANIFEST))["objects"]}


def assert_as_recorded(values, record):
    assert values.keys() == record["values"].keys()
    same = record["fingerprint"] == fingerprint()
    for key, expected in record["values"].items():
        # The record has every bit of what was computed. The same libraries on the same kind of processor give it
        # again; others add up in another order, and factors and draws that are made again on reading then differ by
        # rounding, times the condition of the covariance.
        exact = same or np.asarray(expected).dtype.kind != "f"  # labels
        if exact and key == "predict":
            assert np.array_equal(values[key], expected), key
        elif exact:
            assert np.array_equal(values[key], expected, equal_nan=True), key
        else:
            np.testing.assert_allclose(values[key], expected, rtol=1e-9, atol=1e-12, err_msg=key)


# ---- golden files --------------------------------------------------------------------------------------


def test_every_golden_file_has_a_record():
    assert {path.stem for path in FOLDER.glob("*.gpclass")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_golden_files_say_what_they_said(name):
    assert_as_recorded(outputs(golden(name), EXPECTED[name]["points"]), EXPECTED[name])


@pytest.fixture(scope="module")
def saved_again(tmp_path_factory):
    """All golden models, written by the code of today."""
    folder, large = tmp_path_factory.mktemp("again"), posteriors.LARGE
    try:
        for name in EXPECTED:
            posteriors.LARGE = 0 if name.startswith("recipe") else large
            save_model(load_model(golden(name)), folder / golden(name).name)
    finally:
        posteriors.LARGE = large
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_golden_models_written_again_say_the_same(name, saved_again):
    path = saved_again / golden(name).name
    assert_as_recorded(outputs(path, EXPECTED[name]["points"]), EXPECTED[name])


def test_files_hold_stable_names_alone(saved_again):
    found = set()
    for path in saved_again.iterdir():
        found |= written_names(path)
        with zipfile.ZipFile(path) as archive:
            assert b'"gpclass.' not in archive.read(MANIFEST)
    assert found == (names.written() - RARE) | set(FOREIGN)  # a new name needs a golden file


def test_what_no_golden_file_holds():
    priors = PriorSet(("a", "b"), (Flat(), LogNormal()))
    draws = Rounded(np.array([1.0, 2.0]), np.arange(12, dtype=np.float32).reshape(3, 4))
    encoder = Encoder()
    spelled = encoder.encode([priors, draws], "value")
    assert {row["class"] for row in encoder.objects} >= RARE
    decoder = Decoder(encoder.arrays)
    for row in encoder.objects:
        decoder.add(row)
    again, draws_again = decoder.decode(spelled)
    assert again == priors
    assert draws_again.off.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(draws_again), np.asarray(draws))


def test_a_factor_that_an_old_file_kept_whole_is_read():
    """No golden file holds one: the first edition could write them."""
    K = np.array([[2.0, 0.5], [0.5, 1.0]])
    factor = SiteFactor(K, np.array([1.0, 3.0]))
    again = names.migration("factor/sites")(dict(vars(factor)))
    np.testing.assert_array_equal(again.solve(K), factor.solve(K))


# ---- the tables ----------------------------------------------------------------------------------------


def package_classes():
    """Every class of the package that can be imported here."""
    for module in pkgutil.walk_packages(gpclass.__path__, "gpclass."):
        if module.name.endswith("__main__"):
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:  # of an optional library
            continue
        yield from (c for c in vars(found).values() if inspect.isclass(c) and c.__module__ == module.name)


CLASSES = list(package_classes())


def unnamed(classes):
    return sorted(f"{c.__module__}.{c.__qualname__}" for c in classes if names.name_of(c) is None)


def test_names_and_classes_are_one_to_one():
    assert len(set(names.PATHS.values())) == len(names.PATHS)
    assert not set(names.PATHS) & set(names.registered())
    assert not names.written() & set(names.MIGRATIONS)
    assert not names.written() & set(FOREIGN)
    for name in names.written():
        assert names.name_of(names.class_of(name)) == name  # the class's own module, no re-export


def test_legacy_names_all_resolve():
    assert len(names.LEGACY) == 94  # of the first edition, for good
    assert len(set(names.LEGACY.values())) == len(names.LEGACY)
    for name in names.LEGACY:
        assert names.stable(name) in {*names.written(), *names.MIGRATIONS}


def test_each_format_has_names_of_its_own():
    versions = set()
    for name in EXPECTED:
        with zipfile.ZipFile(golden(name)) as archive:
            version = json.loads(archive.read(MANIFEST))["version"]
        known = names.LEGACY if version == 1 else {*names.written(), *names.MIGRATIONS}
        assert written_names(golden(name)) <= {*known, *FOREIGN}
        versions.add(version)
    assert 1 in versions


def test_every_new_name_is_written_by_a_new_file():
    """A file of today, not only an old one that is written again, holds each kind of posterior, problem and form."""
    kinds = {name for name in names.written() if name.startswith(("posterior/", "form/", "problem", "rows"))}
    found = set()
    for name in EXPECTED:
        if "frame" in name:
            found |= written_names(golden(name))
    assert kinds | {"strategy/stages"} <= found
    assert found <= {*names.written(), *FOREIGN}  # nothing that is retired


def test_every_retired_name_has_a_function():
    functions = [function for function in names.MIGRATIONS.values() if function not in names.written()]
    assert len(set(functions)) == len(functions)
    for name in names.MIGRATIONS:
        assert callable(names.migration(name)), name
    read = {names.stable(name) for file in EXPECTED for name in written_names(golden(file)) - set(FOREIGN)}
    assert set(names.MIGRATIONS) - read == {"factor/sites"}  # every other one is read from a golden file


def test_every_posterior_has_a_name():
    posteriors = [
        c
        for c in CLASSES
        if is_dataclass(c) and {"latent", "draw"} <= set(dir(c)) and "report" in c.__dataclass_fields__
    ]
    assert len(posteriors) >= 5
    assert unnamed(posteriors) == []


def test_names_of_registered_classes_are_those_that_files_hold():
    """Renaming a row of the registry would orphan files: an old name then needs a migration."""
    held = {name for file in EXPECTED for name in written_names(golden(file))}
    kinds = ("inference/", "strategy/", "likelihood/", "form/")
    assert {name for name in held if name.startswith(kinds)} - set(names.MIGRATIONS) <= names.written()
    assert {names.stable(name) for name in held - set(FOREIGN)} >= set(names.registered())


def test_a_posterior_without_a_name_is_noticed(monkeypatch):
    monkeypatch.delitem(names.PATHS, "posterior/sites")
    with pytest.raises(AssertionError):
        test_every_posterior_has_a_name()


def test_every_estimator_and_stand_in_has_a_name():
    assert unnamed(c for c in CLASSES if issubclass(c, BaseEstimator) or hasattr(c, "from_state")) == []


def test_every_setting_has_a_name():
    assert unnamed({type(row.default) for row in registry.methods()}) == []
    assert unnamed(registry.FORMS.values()) == []
    assert {f"likelihood/{link}" for link in LIKELIHOODS} <= names.written()


def mentioned(hint):
    """The classes that a type mentions."""
    inner = get_args(hint)
    return {c for part in inner for c in mentioned(part)} if inner else {hint} & set(CLASSES)


def test_what_named_classes_are_made_of_has_a_name():
    held = set()
    for name in names.written():
        cls = names.class_of(name)
        if is_dataclass(cls) and not hasattr(cls, "from_state"):
            hints = get_type_hints(cls, localns={"Any": Any, "Problem": Problem})
            held |= {c for f in fields(cls) if f.init for c in mentioned(hints[f.name])}
    concrete = [c for c in held if is_dataclass(c) and not inspect.isabstract(c)]
    assert len(concrete) > 5
    assert unnamed(concrete) == []


# ---- refusals and migrations ---------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path):
    """A golden file to change."""
    path = tmp_path / "copy.gpclass"
    path.write_bytes(golden("map").read_bytes())
    return path


@pytest.mark.parametrize(
    "name",
    [
        "gpclass.problem.DensePrior",  # a dataclass of the package that no file holds
        "gpclass.classifier:GPClassifier",
        "gpclass.GPClassifier",
        "sklearn.svm.SVC",
        "builtins.dict",
        "posterior/unheard-of",
        "",
        ["GPClassifier"],
    ],
)
def test_unlisted_names_are_refused(name, copy):
    with pytest.raises(ModelFileError):
        load_model(rewrite(copy, lambda m: m["objects"][0].update({"class": name})))


def test_a_class_without_a_name_is_not_written(tmp_path, monkeypatch):
    model = load_model(golden("map"))
    monkeypatch.delitem(names.PATHS, "prior/gamma")
    with pytest.raises(NotSavableError, match=r"GPClassifier\.priors.*Gamma"):
        save_model(model, tmp_path / "m.gpclass")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("edition", ["legacy", "stable"])
def test_a_class_that_was_merged_into_another_is_read_by_its_migration(edition, saved_again, monkeypatch):
    """As if Gamma had gone, and files that hold one were to give the log-normal prior nearest to it."""
    path = golden("map") if edition == "legacy" else saved_again / golden("map").name
    before = load_model(path)
    assert before.priors["*length_scale*"] == Gamma(2.0, 1.0)
    monkeypatch.delitem(names.PATHS, "prior/gamma")
    monkeypatch.setitem(names.MIGRATIONS, "prior/gamma", "prior_gamma")
    monkeypatch.setattr(
        migrations,
        "prior_gamma",
        lambda state: LogNormal(math.log(state["shape"] / state["rate"]), state["shape"] ** -0.5),
        raising=False,
    )
    model = load_model(path)
    assert isinstance(model, GPClassifier)
    assert model.priors["*length_scale*"] == LogNormal(math.log(2.0), 2.0**-0.5)
    assert model.priors["*"] == before.priors["*"]
