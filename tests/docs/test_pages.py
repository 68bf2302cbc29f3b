"""The documentation says what is true: its examples run, and every method has its page."""

import ast
import doctest
import importlib
import pkgutil
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpclass
from gpclass.datasets.catalogue import KNOWN
from gpclass.registry import FORMS, STRATEGIES, cells, methods

ROOT = Path(__file__).resolve().parents[2]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts and "auto_examples" not in p.parts)
BLOCK = re.compile(r"^```\{doctest\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_EXAMPLES = [page for page in PAGES if BLOCK.search(page.read_text())]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules():
    """Every importable module of the package with an example in a docstring."""
    found = []
    for info in pkgutil.walk_packages(gpclass.__path__, "gpclass."):
        if info.name.endswith("__main__"):
            continue
        source = importlib.util.find_spec(info.name).origin
        if source and ">>> " in Path(source).read_text():
            found.append(info.name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore")
def test_examples_of_a_page(page):
    text = "\n".join(block for block in BLOCK.findall(page.read_text()))
    test = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    assert test.examples
    found = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert found.failed == 0


@pytest.mark.parametrize("name", modules())
def test_examples_of_a_docstring(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert found.failed == 0


@pytest.mark.parametrize("name", [row.name for row in methods()])
def test_every_method_has_its_mathematics(name):
    pages = "".join(page.read_text() for page in (DOCS / "methods").glob("*.md"))
    assert f"`{name}`" in pages or f'"{name}"' in pages, f"write about {name} in docs/methods"


def test_every_method_has_a_reference():
    """What is not our own idea is cited."""
    for row in methods("inference"):
        assert row.reference


def test_the_gallery_is_large_enough_and_well_formed():
    examples = sorted(EXAMPLES.glob("plot_*.py"))
    assert len(examples) >= 10
    for path in examples:
        tree = ast.parse(path.read_text())
        head = (ast.get_docstring(tree) or "").strip().splitlines()
        assert set(head[1]) == {"="}, f"{path.name} needs a title with a line of = below"
        assert len(head[1]) == len(head[0])
        assert len(head) > 2, f"{path.name} needs a sentence"


def test_there_are_pages_that_name_others_and_show_figures():
    """Otherwise the two tests below would find nothing and pass."""
    text = "".join(page.read_text() for page in PAGES)
    assert "{doc}`" in text
    assert re.search(r"!\[[^\]]*\]\(", text) or re.search(r"\{(?:image|figure)\} ", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_that_are_named_exist(page):
    for target in re.findall(r"\{doc\}`([^`]+)`", page.read_text()):
        place = DOCS / target.lstrip("/") if target.startswith("/") else page.parent / target
        made = target.startswith("auto_examples")
        assert made or place.with_suffix(".md").exists() or place.with_suffix(".rst").exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_that_are_shown_exist(page):
    text = page.read_text()
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text) + re.findall(r"\{(?:image|figure)\} (\S+)", text)
    for target in shown:
        assert (page.parent / target).is_file(), f"{target}: run the script that draws it, and commit the figure"


# ---- tables of the registry ----------------------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch):
    """The directives that write tables; what they write is asked for, not how it is laid out."""
    if importlib.util.find_spec("docutils") is None:
        for name in ("docutils", "docutils.nodes", "docutils.parsers", "docutils.parsers.rst"):
            monkeypatch.setitem(sys.modules, name, SimpleNamespace(nodes=None, Directive=object))
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    return importlib.import_module("registry_tables")


@pytest.mark.slow
def test_the_tables_of_the_matrix_hold_every_cell_that_runs(tables):
    running = [cell for cell in cells() if cell.runs]
    found = set()
    for form in FORMS:
        for classes in ("two", "many"):
            head, rows = tables.matrix_rows(classes, form)
            assert all(len(row) == len(head) for row in rows)
            for name, likelihood, _, *marks in rows:
                for strategy, mark in zip(STRATEGIES, marks, strict=True):
                    if mark == "yes":
                        found.add((name.strip("`"), strategy, classes, form, likelihood))
    assert found == {(c.inference, c.strategy, c.classes, c.form, c.likelihood) for c in running}
    _, reasons = tables.reason_rows()
    assert sum(int(number) for _, number in reasons) + len(running) == len(list(cells()))
    with pytest.raises(ValueError, match="none of"):
        tables.matrix_rows("two", "sparse")


@pytest.mark.slow
def test_pages_ask_for_tables_that_there_are(tables):
    asked = [words.split() for page in PAGES for words in re.findall(r"\{matrix-table\} (.*)", page.read_text())]
    assert len(asked) >= 6
    for words in asked:
        assert tables.matrix_rows(*words)[1]
    index = (DOCS / "methods" / "index.md").read_text()
    assert re.search(r"^matrix$", index, re.MULTILINE)


def test_no_page_keeps_a_table_of_pairs_of_its_own():
    text = (DOCS / "methods" / "multiclass.md").read_text()
    assert "{matrix-table} many dense" in text
    assert not re.search(r"^\| `\w[\w-]*`.*\| (softmax|multinomial probit) \|", text, re.MULTILINE)


def test_every_interface_is_listed_from_its_class(tables):
    """The page lists no member by hand, and leaves none out."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    paths = re.findall(r"{members-table} (\S+)", page)
    assert len(paths) >= 8
    for path in paths:
        module, name = path.rsplit(".", 1)
        cls = getattr(importlib.import_module(module), name)
        rows = {label.strip("`").split("(")[0]: meaning for label, meaning, _ in tables.member_rows(path)}
        public = {key for key in (*vars(cls), *cls.__annotations__) if not key.startswith("_")}
        assert set(rows) == public
        assert all(rows.values()), path


def test_the_table_of_data_sets_is_the_catalogue(tables):
    head, rows = tables.dataset_rows()
    assert [row[0].strip("`") for row in rows] == list(KNOWN)
    for row, known in zip(rows, KNOWN.values(), strict=True):
        found = dict(zip(head, row, strict=True))
        assert (found["origin"], found["licence"]) == (known.origin, known.licence)
        assert (int(found["n"].replace(",", "")), int(found["d"])) == (known.n, known.d)
        assert known.checksum.startswith(found["checksum"].strip("`"))
        assert len(found["checksum"]) > 10
    assert any("{datasets-table}" in page.read_text() for page in PAGES)
