"""Nothing below imports what is above: the import graph of the package, as the source files state it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpclass

ROOT = Path(gpclass.__file__).parent
LAYERS = (
    {"_html", "_typing", "_settings", "_version", "names", "progress"},
    {"numerics", "propagation"},
    {"model", "latent", "likelihoods", "covariance", "kernels", "priors", "posterior"},
    {"predict", "orthant"},
    {"inference"},
    {"hyper", "folds"},
    {"registry"},
    {"data"},
    {"estimators", "geostat"},
    {"compare", "decisions", "metrics", "datasets", "plots", "persistence"},
    {"report"},
    {"cli", "__main__", "__init__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# Imports inside functions that go up on purpose, each with the reason.
LAZY = {
    ("latent", "orthant"): "a dense prior hands its orthant to the engine in the engine's own form",
    ("estimators", "persistence"): "save() is a method of estimators",
    ("estimators", "decisions"): "decide() is a method of estimators",
    ("data", "metrics"): "scores of predicted tables",
    ("geostat", "plots"): "maps draw themselves",
    ("geostat", "metrics"): "kriging scores its search",
}


def part(module):
    return module.split(".")[1] if "." in module else "__init__"


def imports(path):
    """Pairs of an imported module of this package and whether it is imported when the file is."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        found = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "gpclass":
            found = [f"gpclass.{a.name}" for a in node.names] if node.module == "gpclass" else [node.module]
        elif isinstance(node, ast.Import):
            found = [a.name for a in node.names if a.name.startswith("gpclass.")]
        for module in found:
            yield module, id(node) in top


FILES = sorted(ROOT.rglob("*.py"))


def test_every_part_has_a_layer():
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    assert parts == set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_below_imports_what_is_above(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for module, at_import in imports(path):
        other = part(module)
        if other not in RANK or RANK[other] <= RANK[own]:
            continue
        assert not at_import, f"{own} imports {module}, which is above it"
        assert (own, other) in LAZY, f"{own} imports {module}, which is above it"


def test_the_rule_can_fail(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from gpclass.estimators.classifier import GPClassifier\n")
    assert [part(m) for m, _ in imports(wrong)] == ["estimators"]
    assert RANK["estimators"] > RANK["latent"]


def test_what_is_imported_without_plotting():
    """The package without its plots; these, scores and data sets without Matplotlib."""
    code = (
        "import sys, gpclass\n"
        "print(sorted(m for m in sys.modules if m.startswith(('matplotlib', 'gpclass.plots'))))\n"
        "import gpclass.plots, gpclass.metrics, gpclass.datasets\n"
        "gpclass.datasets.roeder_field(20)\n"
        "print('matplotlib' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["[]", "False"]
