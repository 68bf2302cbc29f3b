"""What a release is made of: bounds of dependencies, version switch, changelog page, paper."""

import json
import re
import tomllib
from pathlib import Path

import gpclass
from gpclass.registry import methods

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAPER = (DOCS / "paper.md").read_text()


def test_the_classifiers_begin_with_the_python_that_is_required():
    marks = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if ":: Python :: 3." in c]
    assert marks == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={marks[0]}"


def test_every_dependency_has_one_lower_bound():
    """``make dist-test`` installs exactly these: a package named twice with two bounds would hide the lower one."""
    extras = [r for group in PROJECT["optional-dependencies"].values() for r in group]
    bounds = {}
    for text in [*PROJECT["dependencies"], *extras]:
        if not text.startswith("gpclass["):
            name, bound = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:;.*)?", text).groups()
            assert bounds.setdefault(name, bound) == bound, name


def test_the_version_switch_has_this_version():
    rows = json.loads((DOCS / "_static" / "switcher.json").read_text())
    match = "dev" if "dev" in gpclass.__version__ else gpclass.__version__
    assert match in [row["version"] for row in rows]
    assert all(row["url"].endswith("/") for row in rows)
    assert "changelog" in (DOCS / "index.md").read_text()


def test_the_paper_has_its_sections_figures_and_references():
    heads = re.findall(r"^# (.+)$", PAPER, re.MULTILINE)
    assert {"Summary", "Statement of need", "State of the field", "References"} <= set(heads)
    cited = set(re.findall(r"@(\w+)", PAPER))
    known = set(re.findall(r"^@\w+\{(\w+),", (DOCS / "paper.bib").read_text(), re.MULTILINE))
    assert cited == known
    figures = re.findall(r"!\[[^\]]*?\\label\{([\w:]+)\}\]\(([^)]+)\)", PAPER)
    assert figures
    for label, path in figures:
        assert (DOCS / path).is_file()
        assert f"\\autoref{{{label}}}" in PAPER


def test_the_paper_counts_the_methods_that_there_are():
    words = {13: "Thirteen", 8: "eight"}
    assert f"{words[len(methods('inference')) - 1]} further inferences" in PAPER
    assert f"{words[len(methods('hyperparameters'))]}\nstrategies" in PAPER
