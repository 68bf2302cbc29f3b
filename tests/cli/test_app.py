"""The command line as a user meets it: results, files, exit codes, messages."""

import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons

from gpclass import GPClassifier, load_model
from gpclass.cli.app import run
from gpclass.cli.build import InferenceName, KernelName, StrategyName, make_classifier, make_kernel
from gpclass.data.columns import Encoding
from gpclass.data.predicted import check_truth
from gpclass.datasets.catalogue import KNOWN, SHORT
from gpclass.estimators.tables import TableClassifier
from gpclass.persistence import save_model
from gpclass.registry import FORMS, INFERENCES, STRATEGIES, cells, counts, methods


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table of numbers, words and labels, and one of new rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPCLASS_DATA", raising=False)
    X, y = make_moons(70, noise=0.25, random_state=0)
    frame = pd.DataFrame(
        {
            "east": 100 + 50 * X[:, 0],
            "north": X[:, 1],
            "soil": np.where(X[:, 0] > 0.5, "clay", "sand"),
            "kind": np.array(["reef", "open"])[y],
        }
    )
    frame.to_csv("data.csv", index=False)
    frame.iloc[:9].drop(columns="kind").to_csv("new.csv", index=False)
    return tmp_path


def gpclass(capsys, *words):
    """Exit code, standard output and standard error of one command."""
    code = run([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def fit(capsys, *words):
    code, out, err = gpclass(capsys, "fit", "data.csv", "--target", "kind", "--method", "laplace", *words)
    assert code == 0, err
    return out


def test_neighbours_alone_or_beside_inducing_points(folder, capsys):
    fit(capsys, "--neighbors", 6)
    alone = load_model("model.gpclass").fit_report_.details
    fit(capsys, "--force", "--neighbors", "auto", "--inducing", 5)
    both = load_model("model.gpclass").fit_report_.details
    assert (alone["n_neighbors"], alone["n_inducing"], both["n_neighbors"], both["n_inducing"]) == (6, 0, 40, 5)
    for words, said in (
        (("--neighbors", "-3"), "--neighbors must be a whole number of at least 0, or auto, not '-3'"),
        (("--neighbors", 6, "--method", "exact"), "set inference to one of 'ep', "),
    ):
        code, _, err = gpclass(capsys, "fit", "data.csv", "--target", "kind", "--force", *words)
        assert code != 0
        assert said in err


@pytest.mark.parametrize("name", FORMS)
def test_every_prior_can_be_chosen_by_its_name(folder, capsys, name):
    fit(capsys, "--latent-prior", name, "--hyperparameters", "fixed")
    model = load_model("model.gpclass")
    assert model.classifier_._problem.form.name == name
    code, out, err = gpclass(
        capsys, "fit", "data.csv", "-t", "kind", "-m", "laplace", "--latent-prior", name, "--plan", "--json"
    )
    assert code == 0, err
    assert json.loads(out)[0]["fits"]


def test_a_prior_that_does_not_go_with_other_options(folder, capsys):
    for words, said in (
        (("--latent-prior", "local", "--inducing", 5), "--latent-prior local and --inducing both choose the prior"),
        (("--latent-prior", "local", "--neighbors", 5), "--latent-prior local and --neighbors both choose the prior"),
        (("--latent-prior", "nearby"), "'dense', 'inducing', 'neighbours', 'local'"),
        (("--latent-prior", "local", "--method", "exact"), "set inference to one of 'ep', "),
    ):
        code, _, err = gpclass(capsys, "fit", "data.csv", "--target", "kind", *words)
        assert code == 2
        assert said in " ".join(err.replace("│", " ").split())


# ---- fit and predict -----------------------------------------------------------------------------------


def test_fit_then_predict(folder, capsys):
    out = fit(capsys, "--out", "m.gpclass")
    assert "log evidence" in out
    assert "gpclass predict m.gpclass" in out
    code, out, _ = gpclass(capsys, "predict", "m.gpclass", "new.csv", "--out", "p.csv")
    assert code == 0
    found = pd.read_csv("p.csv")
    assert list(found.columns) == [
        "row",
        "class",
        "probability",
        "mcse",
        "lower",
        "upper",
        "p_open",
        "p_reef",
    ]
    assert found["row"].tolist() == list(range(1, 10))
    model = load_model("m.gpclass")
    new = pd.read_csv("new.csv")
    np.testing.assert_allclose(found[["p_open", "p_reef"]], model.predict_proba(new))
    assert found["class"].tolist() == model.predict(new).tolist()
    assert found["mcse"].isna().all()  # a deterministic approximation
    assert ((found["lower"] < found["probability"]) & (found["probability"] < found["upper"])).all()


def test_a_sampler_reports_its_error(folder, capsys):
    code, _, err = gpclass(capsys, "fit", "data.csv", "-t", "kind", "-m", "exact", "--tol", "0.01", "-o", "m.gpclass")
    assert code == 0, err
    code, out, _ = gpclass(capsys, "predict", "m.gpclass", "new.csv", "--json")
    assert code == 0
    rows = json.loads(out)["predictions"]
    assert all(0 < row["mcse"] < 0.05 for row in rows)


def test_the_mapping_is_saved(folder, capsys):
    fit(capsys)
    model = load_model("model.gpclass")
    assert model.encoding_.outputs == ("east", "north", "soil=clay", "soil=sand")
    frame = pd.read_csv("data.csv")
    matrix = model.encode(frame)
    np.testing.assert_allclose(matrix[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(matrix[:, :2].std(axis=0), 1)
    np.testing.assert_array_equal(matrix[:, 2], frame["soil"] == "clay")
    one = model.encode(frame.iloc[[3]][["soil", "north", "east"]])  # one row, columns in another order
    np.testing.assert_allclose(one[0], matrix[3])


@pytest.mark.slow
def test_parquet_in_and_out(folder, capsys):
    pd.read_csv("data.csv").to_parquet("data.parquet")
    pd.read_csv("new.csv").to_parquet("new.parquet")
    fit(capsys, "--out", "csv.gpclass")
    words = ("fit", "data.parquet", "-t", "kind", "-m", "laplace", "-o", "parquet.gpclass")
    assert gpclass(capsys, *words)[0] == 0
    for model, new, out in (("csv", "new.csv", "a.csv"), ("parquet", "new.parquet", "b.parquet")):
        assert gpclass(capsys, "predict", f"{model}.gpclass", new, "-o", out)[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), pd.read_parquet("b.parquet"), check_dtype=False, rtol=1e-12)


def test_scores_where_the_truth_is_known(folder, capsys):
    fit(capsys)
    code, _, err = gpclass(capsys, "predict", "model.gpclass", "data.csv", "-t", "kind", "-o", "p.csv")
    assert code == 0
    assert "accuracy 0.9" in err
    assert "log_loss" in err


@pytest.mark.parametrize(
    ("truth", "classes"),
    [
        ([0.0, 1.0, 1.0], [0, 1]),
        ([0, 1, 1], [0.0, 1.0]),
        (np.array([0.0, 1, True], dtype=object), [0, 1]),
        (["0", "1", "1"], [0, 1]),
        ([0, 1, 1], ["0", "1"]),
        (np.array([False, True, True]), [False, True]),
        (["False", "True", "True"], [False, True]),
        ([2**53, 2**53 + 1, 2**53 + 1], [2**53, 2**53 + 1]),
        (pd.Series(["a", "b", "b"], dtype="category"), ["a", "b"]),
    ],
)
def test_true_labels_are_compared_as_numbers_where_both_are(truth, classes):
    assert check_truth(truth, np.array(classes)).tolist() == [0, 1, 1]


@pytest.mark.parametrize(("truth", "strange"), [([0.0, 2.0], "2.0"), ([0.5, 1], "0.5"), (["x", "1"], "x")])
def test_numbers_that_are_no_class_are_refused(truth, strange):
    with pytest.raises(ValueError, match=f"hold {strange}, unknown to the model, which has 0, 1"):
        check_truth(truth, np.array([0, 1]))


def test_labels_with_a_hole_are_scored_as_numbers(folder, capsys):
    """A column of 0 and 1 with an empty cell is read as 0.0 and 1.0."""
    frame = pd.read_csv("data.csv")
    frame["kind"] = (frame["kind"] == "reef").astype(int)
    frame.to_csv("data.csv", index=False)
    fit(capsys)
    words = (
        "predict",
        "model.gpclass",
        "holes.csv",
        "-t",
        "kind",
        "--drop-missing",
        "--json",
        "-o",
        "p.csv",
        "--force",
    )
    found = []
    for hole in ({"north": None}, {"north": None, "kind": None}):
        frame.loc[3, list(hole)] = np.nan
        frame.to_csv("holes.csv", index=False)
        code, out, err = gpclass(capsys, *words)
        assert code == 0, err
        found.append(json.loads(out)["scores"])
    assert found[0] == found[1]
    assert found[0]["accuracy"] > 0.9


def test_prediction_on_standard_output_can_be_piped(folder, capsys):
    fit(capsys)
    code, out, err = gpclass(capsys, "predict", "model.gpclass", "new.csv")
    assert code == 0
    assert err == ""
    assert len(out.splitlines()) == 10


def test_json_of_fit(folder, capsys):
    found = json.loads(fit(capsys, "--json"))
    assert found["rows"] == 70
    assert found["classes"] == ["open", "reef"]
    assert found["converged"] is True
    assert found["report"]["method"] == "laplace"


def test_the_estimator_s_word_for_the_method_works_too(folder, capsys):
    code, out, err = gpclass(capsys, "fit", "data.csv", "--target", "kind", "--inference", "laplace", "--json")
    assert code == 0, err
    assert json.loads(out)["report"]["method"] == "laplace"


@pytest.mark.slow
def test_plan_fits_nothing(folder, capsys):
    out = fit(capsys, "--plan")
    assert "laplace with maximize on 70 rows" in out
    assert not (folder / "model.gpclass").exists()
    plans = json.loads(fit(capsys, "--plan", "--json"))
    assert plans[0]["seconds"] > 0


@pytest.mark.parametrize("kernel", list(KernelName))
def test_kernels_by_name(kernel):
    X, y = make_moons(40, noise=0.2, random_state=0)
    clf = GPClassifier(make_kernel(kernel, 2), inference="laplace", hyperparameters="fixed").fit(X, y)
    assert clf.score(X, y) > 0.7


def test_a_method_that_cannot_climb_takes_eps_kernel():
    name = next(row.name for row in methods("inference") if not row.gradient)
    found = make_classifier(name, "maximize")
    assert found.guide.inference == "ep"
    assert found.classifier.inference == name


def test_choices_are_the_registrys():
    assert [item.value for item in InferenceName] == list(INFERENCES)
    assert [item.value for item in StrategyName] == list(STRATEGIES)


# ---- missing values ------------------------------------------------------------------------------------


def with_holes():
    frame = pd.read_csv("data.csv")
    frame.loc[[1, 4], "north"] = np.nan
    frame.loc[[4, 7], "soil"] = None
    frame.to_csv("data.csv", index=False)


def test_missing_values_are_counted(folder, capsys):
    with_holes()
    code, _, err = gpclass(capsys, "fit", "data.csv", "-t", "kind", "-m", "laplace")
    assert code == 2
    assert "4 values are missing in 3 of 70 rows (north 2, soil 2)" in err
    assert "--drop-missing" in err


def test_missing_values_are_dropped_on_request(folder, capsys):
    with_holes()
    assert json.loads(fit(capsys, "--drop-missing", "--json"))["dropped"] == 3
    code, _, err = gpclass(capsys, "predict", "model.gpclass", "data.csv", "--drop-missing", "-o", "p.csv")
    assert code == 0
    assert "3 rows" in err
    assert set(range(1, 71)) - set(pd.read_csv("p.csv")["row"]) == {2, 5, 8}


# ---- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "dat.csv", "-t", "kind"], "did you mean 'data.csv'"),
        (["fit", "data.csv", "-t", "kid"], "did you mean 'kind'"),
        (["fit", "data.csv"], "--target"),
        (["fit", "data.csv", "-t", "east"], "measurements, not classes"),
        (["fit", "data.csv", "-t", "kind", "-m", "eep"], "'laplace'"),
        (["fit", "data.csv", "-t", "kind", "--exclude", "east,north,soil"], "no feature columns"),
        (["fit", "data.csv", "-t", "kind", "--features", "west"], "no column 'west'"),
        (["fit", "data.csv", "-t", "kind", "-m", "laplace", "--tol", "-1"], "tol must be"),
        (["predict", "none.gpclass", "new.csv"], "create one with gpclass fit"),
        (["predict", "data.csv", "new.csv"], "not a saved model"),
        (["compare", "data.csv", "-t", "kind", "-m", "laplce"], "did you mean 'laplace'"),
        (["compare", "data.csv", "-t", "kind", "-m", "laplace", "--groups", "soi"], "did you mean 'soil'"),
        (["datasets", "irs"], "did you mean 'iris'"),
        (["methods", "inferences"], "unknown axis"),
        (["reproduce", "atiyah2020"], "papers"),
        (["nothing"], "nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_with_two_and_no_traceback(folder, capsys, words, message):
    code, out, err = gpclass(capsys, *words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert out == ""


def test_mistakes_in_new_rows(folder, capsys):
    fit(capsys)
    new = pd.read_csv("new.csv")
    new.drop(columns="north").assign(nord=1.0).to_csv("lacking.csv", index=False)
    new.assign(soil="peat").to_csv("strange.csv", index=False)
    new.assign(east="far").to_csv("words.csv", index=False)
    for name, message in (
        ("lacking", "lack the columns 'north'; did you mean 'nord'?"),
        ("strange", "has not seen: 'peat'"),
        ("words", "held numbers"),
    ):
        code, _, err = gpclass(capsys, "predict", "model.gpclass", f"{name}.csv")
        assert code == 2
        assert message in err
    code, _, err = gpclass(capsys, "predict", "model.gpclass", "data.csv", "-t", "soil")
    assert code == 2
    assert "unknown to the model" in err


def test_identifiers_dates_and_empty_files_are_refused(folder, capsys):
    frame = pd.read_csv("data.csv")
    frame.assign(name=[f"site {k}" for k in range(len(frame))]).to_csv("id.csv", index=False)
    frame.assign(day=pd.Timestamp("2020-01-01")).to_parquet("date.parquet")
    (folder / "empty.csv").write_text("")
    (folder / "head.csv").write_text("a,kind\n")
    for name, message in (
        ("id.csv", "--exclude name"),
        ("date.parquet", "holds dates"),
        ("empty.csv", "cannot be read as a table"),
        ("head.csv", "no rows"),
    ):
        code, _, err = gpclass(capsys, "fit", name, "-t", "kind", "-m", "laplace")
        assert code == 2
        assert message in err


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_seen(folder, capsys, separator):
    pd.read_csv("data.csv").to_csv("data.csv", index=False, sep=separator)
    assert json.loads(fit(capsys, "--json"))["columns"] == ["east", "north", "soil"]


@pytest.mark.slow
def test_tables_with_mistakes_in_them(folder, capsys):
    frame = pd.read_csv("data.csv")
    frame.assign(east=[*frame["east"][:-1].astype(str), "far"]).to_csv("word.csv", index=False)
    frame.assign(east=[*frame["east"][:-1], np.inf]).to_csv("infinite.csv", index=False)
    frame.set_axis(["east", "east", "soil", "kind"], axis=1).to_csv("twice.csv", index=False)
    frame.assign(kind="reef").to_csv("one.csv", index=False)
    frame.assign(kind=["rare", *frame["kind"][1:]]).to_csv("rare.csv", index=False)
    (folder / "data.ods").write_bytes(b"PK")
    (folder / "bytes.csv").write_bytes(bytes(range(255, 127, -1)))
    for words, message in (
        (["fit", "word.csv"], "column 'east' holds numbers, but 1 of its 70 values are words ('far')"),
        (["fit", "infinite.csv"], "infinite values, 1 of 70"),
        (["fit", "twice.csv"], "duplicate column names: east"),
        (["fit", "one.csv"], "a classifier needs two classes"),
        (["fit", "data.ods"], "export it as CSV"),
        (["fit", "bytes.csv"], "not text in UTF-8"),
        (["fit", "data.csv", "--jobs", "0"], "must not be 0"),
        (["compare", "rare.csv"], "'rare' has 1 of the 70 rows, too few for --folds 5"),
    ):
        code, _, err = gpclass(capsys, *words, "-t", "kind", "-m", "laplace")
        assert code == 2
        assert message in " ".join(err.replace("│", " ").split())
    fit(capsys)
    code, _, err = gpclass(capsys, "predict", "model.gpclass", "new.csv", "-o", "p.xlsx")
    assert code == 2
    assert "can be written as .csv" in err


def test_codes_with_letters_among_them_are_categories():
    codes = ["1", "2", "3", "A"] * 10
    assert Encoding.learn(pd.DataFrame({"zone": codes})).outputs == ("zone=1", "zone=2", "zone=3", "zone=A")


@pytest.mark.slow
def test_completion_is_offered(folder, capsys, monkeypatch):
    # the shell by its name, not by what runs the tests, which may be plain sh
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "_GPCLASS_COMPLETE=complete_bash" in gpclass(capsys, "--show-completion", "bash")[1]
    for name, value in (("_GPCLASS_COMPLETE", "complete_bash"), ("COMP_WORDS", "gpclass comp"), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    assert gpclass(capsys)[1].split() == ["compare"]


def test_a_model_from_python_is_not_a_table_model(folder, capsys):
    X, y = make_moons(30, noise=0.2, random_state=0)
    save_model(GPClassifier(inference="laplace", hyperparameters="fixed").fit(X, y), "python.gpclass")
    code, _, err = gpclass(capsys, "predict", "python.gpclass", "new.csv")
    assert code == 2
    assert "gpclass.load_model" in err


def test_a_program_error_is_not_called_a_mistake(folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("gpclass.cli.fit.read_labelled", broken)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        run(["fit", "data.csv", "-t", "kind"])


@pytest.mark.filterwarnings("default:the fit did not converge")
def test_no_convergence_has_its_own_code(folder, capsys, monkeypatch):
    from gpclass.inference import Laplace
    from gpclass.registry import INFERENCES as rows

    monkeypatch.setattr(
        Laplace,
        "__init__",
        lambda self: object.__setattr__(self, "max_iter", 1) or object.__setattr__(self, "tol", 0.0),
    )
    assert rows["laplace"].factory is Laplace
    code, _, err = gpclass(capsys, "fit", "data.csv", "-t", "kind", "-m", "laplace", "--hyperparameters", "fixed")
    assert code == 3
    assert "did not converge" in err
    assert (folder / "model.gpclass").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_lengths_of_chains_and_a_checkpoint_from_the_command_line(folder, capsys):
    """Settings of the strategy; one that has no such setting says which ones do."""
    words = ("fit", "data.csv", "-t", "kind", "-m", "laplace", "--hyperparameters", "hmc", "--force")
    gpclass(capsys, *words, "--chains", "2", "--draws", "4", "--checkpoint", "chains.npz")
    model = load_model(folder / "model.gpclass")
    assert model.fit_report_.n_samples == 8
    assert (folder / "chains.npz").exists()
    code, _, err = gpclass(capsys, *words[:-2], "fixed", "--force", "--draws", "4")
    assert code != 0
    assert "takes no --draws; these do: hmc, pseudo-marginal, alternate" in " ".join(err.split())


# ---- compare, map --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compare_writes_a_report(folder, capsys, coarse_maps):
    code, out, err = gpclass(
        capsys, "compare", "data.csv", "-t", "kind", "-m", "ep,laplace", "--folds", "3", "-o", "out/r.html"
    )
    assert code == 0, err
    assert "Use " in out
    page = (folder / "out" / "r.html").read_text()
    assert "data.csv: which method to trust" in page
    code, out, _ = gpclass(
        capsys,
        "compare",
        "data.csv",
        "-t",
        "kind",
        "-m",
        "laplace",
        "--folds",
        "2",
        "--groups",
        "soil",
        "--json",
    )
    assert code == 0
    found = json.loads(out)
    assert [row["method"] for row in found["methods"]] == ["laplace"]
    assert found["recommended"] == "laplace"


def test_named_methods_are_never_left_out(folder, capsys, monkeypatch):
    asked = []

    def stop(*_, max_seconds, **__):
        asked.append(max_seconds)
        raise ValueError("enough")

    monkeypatch.setattr(sys.modules["gpclass.compare"], "compare", stop)
    for words in ((), ("-m", "all"), ("-m", "ep,laplace"), ("-m", "ep", "--max-seconds", "5")):
        assert gpclass(capsys, "compare", "data.csv", "-t", "kind", *words)[0] == 2
    assert asked == [60.0, 60.0, None, 5.0]


@pytest.mark.filterwarnings("default:overflow encountered in exp")
def test_numerical_warnings_are_shown(folder, capsys, monkeypatch):
    def trouble(*_, **__):
        warnings.warn("overflow encountered in exp", RuntimeWarning, stacklevel=2)
        warnings.warn("this will change", FutureWarning, stacklevel=2)
        raise ValueError("enough")

    monkeypatch.setattr("gpclass.cli.fit.read_labelled", trouble)
    code, _, err = gpclass(capsys, "fit", "data.csv", "-t", "kind")
    assert code == 2
    assert "warning: overflow encountered in exp" in err
    assert "will change" not in err


def test_compare_takes_what_handles_the_classes():
    from gpclass.cli.compare import USUAL, _able

    assert set(USUAL) <= set(INFERENCES)
    assert _able(list(INFERENCES), 2) == list(INFERENCES)
    many = _able(list(USUAL), 3)
    assert "laplace" in many
    assert "variational" in many
    assert "control-variables" not in _able(list(INFERENCES), 3)


@pytest.mark.slow
def test_map_as_picture_and_as_grid(folder, capsys):
    fit(capsys)
    code, _, err = gpclass(
        capsys,
        "map",
        "model.gpclass",
        "data.csv",
        "-t",
        "kind",
        "-o",
        "map.png",
        "--resolution",
        "20",
        "--panel",
        "interval",
    )
    assert code == 0, err
    assert (folder / "map.png").read_bytes().startswith(b"\x89PNG")
    assert gpclass(capsys, "map", "model.gpclass", "data.csv", "-o", "map.csv", "--resolution", "7")[0] == 0
    grid = pd.read_csv("map.csv")
    assert len(grid) == 49
    model = load_model("model.gpclass")
    soil = pd.read_csv("data.csv")["soil"].mode()[0]
    np.testing.assert_allclose(
        grid[["p_open", "p_reef"]], model.predict_proba(grid[["east", "north"]].assign(soil=soil)), atol=1e-9
    )
    for words, message in (
        (["--x", "soil", "--y", "north"], "not a numeric column"),
        (["--x", "north", "--y", "north"], "two different"),
        (["--x", "north"], "--x and --y"),
        (["--panel", "both"], "--panel"),
    ):
        code, _, err = gpclass(capsys, "map", "model.gpclass", "data.csv", *words)
        assert code == 2
        assert message in err


# ---- the rest ------------------------------------------------------------------------------------------


def test_methods_lists_the_registry(folder, capsys):
    code, out, _ = gpclass(capsys, "methods")
    assert code == 0
    assert all(row.name in out and row.summary in out for row in methods())
    assert "pseudo-marginal  exact, gpc-mc-hard, dsgq, importance, annealed" in out
    code, out, _ = gpclass(capsys, "methods", "inference", "--json")
    assert [row["name"] for row in json.loads(out)] == list(INFERENCES)


def plain_data(value):
    """All strings of a JSON value, to look for what is no data."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in plain_data(item)]
    if isinstance(value, list):
        return [text for item in value for text in plain_data(item)]
    assert value is None or isinstance(value, str | int | float | bool)
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("words", [(), ("inference",), ("hyperparameters",), ("--matrix",)])
def test_methods_as_json_are_data(folder, capsys, words):
    code, out, _ = gpclass(capsys, "methods", *words, "--json")
    assert code == 0
    texts = plain_data(json.loads(out))
    assert texts
    for text in texts:
        assert not re.search(r"<|object at|gpclass\.|\w+\(.*=|\bclass\b '", text), text
    names = {type(row.default).__name__ for row in methods()} - {"EP", "AMP", "DSGQ", "HMC", "EM", "Map"}
    assert not names & set(texts)


@pytest.mark.slow
def test_the_matrix_is_computed_from_the_registry(folder, capsys):
    code, out, _ = gpclass(capsys, "methods", "--matrix", "--json")
    assert code == 0
    found = json.loads(out)
    assert len(found) == len(FORMS) * 2 * len(INFERENCES) * len(STRATEGIES)
    assert found == [asdict(one) for one in cells()]
    for row in found:
        assert set(row) == {"inference", "strategy", "classes", "form", "likelihood", "reason"}
        assert (row["likelihood"] is None) == bool(row["reason"])
    code, out, _ = gpclass(capsys, "methods", "--matrix")
    assert code == 0
    for (classes, form), (inferences, running) in counts().items():
        assert f"{classes} classes, {form} prior: {inferences} inferences, {running} cells" in out
    for reason in {row["reason"] for row in found if row["reason"]}:
        assert reason in " ".join(out.split())
    assert "object at" not in out


def test_datasets_lists_and_writes(folder, capsys, monkeypatch):
    code, out, _ = gpclass(capsys, "datasets")
    assert code == 0
    assert "iris" in out
    assert "GPCLASS_DATA" in out
    listed = {line.split()[0]: line for line in out.splitlines() if line}
    for name, known in KNOWN.items():
        assert known.licence in listed[name]
        assert listed[name].endswith(known.checksum[:SHORT])
    rows = json.loads(gpclass(capsys, "datasets", "--json")[1])
    assert {row["name"]: row["checksum"] for row in rows} == {name: known.checksum for name, known in KNOWN.items()}
    code, out, _ = gpclass(capsys, "datasets", "iris", "--out", "iris.csv", "--rows", "30")
    assert code == 0
    assert "setosa" in out
    assert len(pd.read_csv("iris.csv")) == 30
    monkeypatch.setenv("GPCLASS_DATA", str(folder))  # iris.csv has 30 rows now
    code, _, err = gpclass(capsys, "datasets", "iris")
    assert code == 2
    assert "--unchecked" in err
    assert gpclass(capsys, "datasets", "iris", "--unchecked")[0] == 0
    (folder / "own.csv").write_text("a,label\n1,0\n")
    assert [line.split()[:2] for line in gpclass(capsys, "datasets")[1].splitlines() if line.startswith("own ")]
    monkeypatch.setenv("GPCLASS_DATA", str(folder / "none"))
    assert gpclass(capsys, "datasets")[0] == 2


@pytest.mark.slow
def test_demo(folder, capsys, coarse_maps):
    code, out, err = gpclass(capsys, "demo", "--n", "40", "-m", "ep,laplace", "-o", "d")
    assert code == 0, err
    assert (folder / "d" / "report.html").exists()
    assert "Use " in out


def test_reproduce_runs_a_paper_in_a_checkout(folder, capsys, monkeypatch):
    from gpclass.cli import tours

    paper = folder / "papers" / "someone1999"
    paper.mkdir(parents=True)
    (folder / "src" / "gpclass").mkdir(parents=True)
    (folder / "papers" / "__init__.py").write_text("")
    (paper / "__init__.py").write_text('"""Someone (1999): a method."""\n')
    (paper / "__main__.py").write_text("import sys; print('ran', sys.argv[1:]); sys.exit(len(sys.argv) - 1)\n")
    code, out, _ = gpclass(capsys, "reproduce")
    assert (code, out) == (0, "someone1999  Someone (1999): a method.\n")
    assert gpclass(capsys, "reproduce", "someone1999", "table1", "--full")[0] == 2
    assert gpclass(capsys, "reproduce", "someone1999")[0] == 0
    (folder / "papers" / "__main__.py").write_text("import sys; sys.exit(sys.argv[1:] != ['--quick'])\n")
    assert gpclass(capsys, "reproduce", "all", "--quick")[0] == 0
    assert gpclass(capsys, "reproduce", "all", "--quick", "--full")[0] == 2
    code, _, err = gpclass(capsys, "reproduce", "somebody1999")
    assert code == 2
    assert "did you mean 'someone1999'" in err
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    (folder / "papers").rename(folder / "gone")
    monkeypatch.setattr(tours, "__file__", str(folder / "a" / "b" / "c" / "tours.py"))
    code, _, err = gpclass(capsys, "reproduce", "someone1999")
    assert code == 2
    assert "clone the repository" in err


@pytest.mark.slow
def test_the_command_itself(folder, capsys):
    assert gpclass(capsys, "--version")[1].startswith("gpclass ")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "gpclass", "fit", "absent.tsv", "-t", "kind"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr == "gpclass: file absent.tsv not found\n"


def test_without_typer_the_extra_is_named(monkeypatch):
    from gpclass import cli

    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "gpclass.cli.app")
    with pytest.raises(SystemExit, match=r"pip install 'gpclass\[cli\]'"):
        cli.main()


# ---- tables --------------------------------------------------------------------------------------------


def test_constant_and_boolean_columns():
    frame = pd.DataFrame({"same": [2.0] * 6, "flag": [True, False] * 3, "x": [0, 1, 2, 3, 4, 5]})
    encoding = Encoding.learn(frame)
    matrix = encoding.encode(frame)
    assert encoding.outputs == ("same", "flag=False", "flag=True", "x")
    np.testing.assert_array_equal(matrix[:, 0], 0.0)  # centred, and nothing to divide by
    np.testing.assert_array_equal(matrix[:, 2], frame["flag"])


def test_table_classifier_is_an_estimator():
    X, y = make_moons(40, noise=0.2, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    clf = TableClassifier(GPClassifier(inference="laplace", hyperparameters="fixed"))
    assert clf.fit(frame, y).score(frame, y) > 0.7
    assert set(clf.decide(frame, 1 - np.eye(2)).action) == {0, 1}
    assert clf.kernel_ == clf.classifier_.kernel_
    with pytest.raises(AttributeError, match="no attribute"):
        _ = TableClassifier().kernel_
