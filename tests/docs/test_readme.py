"""The README and the worked example of CONTRIBUTING run as printed."""

import re
import warnings
from pathlib import Path

import pytest
from benchmarks import readme

from gpclass.registry import INFERENCES, STRATEGIES, cells, inferences_for, methods

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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pairs_are_those_that_run(strategy):
    """Those of the matrix, whose every cell is run or refused in tests/registry/test_conformance.py."""
    chosen = (strategy, "two", "dense")
    running = [c.inference for c in cells() if c.runs and (c.strategy, c.classes, c.form) == chosen]
    assert sorted(inferences_for(strategy)) == sorted(running)
