"""The README and the worked example of CONTRIBUTING run as printed."""

import contextlib
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import readme
from sklearn.datasets import make_moons
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from gpclass import GPClassifier
from gpclass.registry import INFERENCES, STRATEGIES, inferences_for, methods

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.S)


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(README))
def test_readme_runs_as_printed(block, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(block, "README", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_ten_line_example_has_ten_lines():
    example = [line for line in blocks(README)[0].splitlines() if line.strip()]
    assert len(example) == 10


def test_readme_lists_every_method():
    table = README.split("<!-- methods: begin -->")[1].split("<!-- methods: end -->")[0]
    for row in methods():
        assert f"`{row.name}`" in table, row.name


def test_tables_are_what_the_scripts_wrote(tmp_path):
    """No figure is typed by hand."""
    for path, parts in (
        (readme.README, {"methods": readme.methods_table(), "benchmarks": readme.headlines()}),
        (readme.PAGE, {"benchmarks": readme.benchmarks_table()}),
    ):
        again = tmp_path / path.name
        again.write_text(path.read_text())
        readme.write(again, **parts)
        assert again.read_text() == path.read_text()


def test_readme_says_which_inference_goes_with_which_strategy():
    table = README.split("hyperparameters=`), and the inferences")[1].split("By paper")[0]
    lines = {line.split("|")[1].strip(): line.split("|")[3] for line in table.splitlines() if "| `" in line}
    for name in STRATEGIES:
        named = re.findall(r"`([^`]+)`", lines[f"`{name}`"]) or list(INFERENCES)
        assert named == inferences_for(name), name


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "cv"])  # cv: 105 fits each
def test_pairs_are_those_that_run(strategy):
    short = STRATEGIES[strategy].brief
    if strategy == "pseudo-marginal":
        short = replace(short, approximate=False)
    X, y = make_moons(14, noise=0.3, random_state=0)
    able = []
    for name in INFERENCES:
        clf = GPClassifier(1.0 * RBF(1.0), inference=name, hyperparameters=short, random_state=0, tol=0.05)
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore")
            clf.fit(X, y)
            able.append(name)
    assert able == inferences_for(strategy)


def test_worked_example_of_contributing():
    (block,) = blocks((ROOT / "CONTRIBUTING.md").read_text())
    space = {"__name__": "least_squares"}
    exec(compile(block, "CONTRIBUTING", "exec"), space)
    X, y = make_moons(40, noise=0.2, random_state=0)
    kernel = 1.0 * RBF(0.7)
    clf = GPClassifier(kernel, inference=space["LeastSquares"](noise=0.2), hyperparameters="fixed").fit(X, y)
    peer = GaussianProcessRegressor(kernel, alpha=0.2, optimizer=None).fit(X, 2.0 * y - 1.0)
    assert clf.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-8)
    mean, sd = peer.predict(X, return_std=True)
    spread = clf.predict_uncertainty(X)
    np.testing.assert_allclose(spread.latent_mean[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(spread.latent_sd[:, 0], sd, atol=1e-6)
