"""Tables generated from the code, so that no page keeps its own list.

``{methods-table} inference`` and ``{methods-table} hyperparameters`` list the methods; ``{pairs-table}`` shows
which inference goes with which strategy, and ``{matrix-table} many inducing`` the same for a number of classes and a
form of the prior, with the likelihood. ``{counts-table}`` counts what runs, ``{offers-table}`` and ``{needs-table}``
show what this is computed from, ``{members-table} gpclass.posterior.Posterior`` the members that an interface declares,
``{reasons-table}`` why the others do not run, ``{layers-table}`` lists the layers that
``tests/test_layers.py`` enforces, ``{datasets-table}`` the data sets of the catalogue.
"""

import ast
import importlib
import inspect
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

from gpclass.datasets.catalogue import KNOWN, SHORT
from gpclass.datasets.load import sources
from gpclass.likelihoods import LIKELIHOODS
from gpclass.likelihoods.base import OPTIONAL
from gpclass.registry import FORMS, INFERENCES, STRATEGIES, cells, counts, goes_with, inferences_for, methods
from gpclass.registry.matrix import CLASSES

LAYERS_FILE = Path(__file__).resolve().parents[2] / "tests" / "test_layers.py"
FIRST_EDITION = {  # inferences that ran, before combinations were computed; it is history, so it is kept here
    ("two", "dense"): 14,
    ("many", "dense"): 7,
    ("two", "inducing"): 4,
    ("many", "inducing"): 0,
}


def table(head, rows):
    """A docutils table of text cells."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    for part, lines in ((nodes.thead(), [head]), (nodes.tbody(), rows)):
        for line in lines:
            row = nodes.row()
            for cell in line:
                entry = nodes.entry()
                text = nodes.literal("", cell[1:-1]) if cell.startswith("`") else nodes.Text(cell)
                entry += nodes.paragraph("", "", text)
                row += entry
            part += row
        group += part
    found = nodes.table(classes=["registry"])
    found += group
    return found


class MethodsTable(Directive):
    """The methods of one axis."""

    required_arguments = 1

    def run(self):
        axis = self.arguments[0]
        rows = methods(axis)
        if axis == "hyperparameters":
            head = ("name", "what it is", "goes with", "cost", "reference")
            found = [(f"`{r.name}`", r.summary, goes_with(r.name), r.cost, r.reference or "–") for r in rows]
            return [table(head, found)]
        head = ("name", "what it is", "exact?", "cost", "links", "classes", "evidence", "climbs", "reference")
        cells = [
            (
                f"`{r.name}`",
                r.summary,
                "yes" if r.exact else "no",
                r.cost,
                ", ".join(r.likelihoods),
                "2 or more" if any(LIKELIHOODS[name].many for name in r.likelihoods) else "2",
                r.evidence or "none",
                "yes" if r.gradient else "no",
                r.reference,
            )
            for r in rows
        ]
        return [table(head, cells)]


class PairsTable(Directive):
    """Which inference goes with which strategy."""

    def run(self):
        rows = []
        for name in INFERENCES:
            cells = [f"`{name}`"]
            for strategy in STRATEGIES:
                cells.append("yes" if name in inferences_for(strategy) else "–")
            rows.append(cells)
        return [table(("", *(f"`{name}`" for name in STRATEGIES)), rows)]


def matrix_rows(classes, form):
    """Head and rows of one part of the matrix: an inference, its likelihood and evidence, and what runs with it."""
    here = [cell for cell in cells() if cell.classes == classes and cell.form == form]
    if not here:
        raise ValueError(f"{classes!r} is none of {CLASSES}, or {form!r} none of {list(FORMS)}")
    rows = []
    for name, row in INFERENCES.items():
        own = {cell.strategy: cell for cell in here if cell.inference == name}
        used = next((cell.likelihood for cell in own.values() if cell.runs), None)
        if used is not None:
            runs = ["yes" if own[strategy].runs else "–" for strategy in STRATEGIES]
            rows.append((f"`{name}`", used, row.evidence or "none", *runs))
    return ("inference", "likelihood", "evidence", *(f"`{name}`" for name in STRATEGIES)), rows


class MatrixTable(Directive):
    """Which inference goes with which strategy, for a number of classes and a form of the prior."""

    required_arguments = 2

    def run(self):
        return [table(*matrix_rows(*self.arguments))]


def reason_rows():
    """Head and rows of the reasons why cells do not run, each with how many there are."""
    count = {}
    for cell in cells():
        if cell.reason:
            count[cell.reason] = count.get(cell.reason, 0) + 1
    return ("reason", "cells"), [(reason, str(number)) for reason, number in count.items()]


class ReasonsTable(Directive):
    """Why the other combinations do not run."""

    def run(self):
        return [table(*reason_rows())]


class CountsTable(Directive):
    """How many inferences and combinations run, beside the first edition."""

    def run(self):
        head = (
            "classes",
            "prior",
            "inferences in the first edition",
            "inferences now",
            "with a strategy, now",
        )
        rows = [
            (classes, form, str(FIRST_EDITION.get((classes, form), "–")), str(inferences), str(running))
            for (classes, form), (inferences, running) in counts().items()
        ]
        return [table(head, rows)]


class OffersTable(Directive):
    """What each likelihood, or each form of the prior, offers."""

    required_arguments = 1

    def run(self):
        if self.arguments[0] == "priors":
            offered = {name: form.offers for name, form in FORMS.items()}
            columns = sorted(frozenset().union(*offered.values()))
        else:
            offered = {name: cls.offers() for name, cls in LIKELIHOODS.items()}
            columns = ["log", *OPTIONAL]
        rows = [(f"`{name}`", *("yes" if c in own else "–" for c in columns)) for name, own in offered.items()]
        return [table(("", *(f"`{name}`" for name in columns)), rows)]


class NeedsTable(Directive):
    """What each inference needs, and what it gives to strategies; or what each strategy needs."""

    required_arguments = 1

    def run(self):
        if self.arguments[0] == "hyperparameters":
            rows = [
                (f"`{r.name}`", r.default.needs, ", ".join(sorted(r.default.prior_needs)) or "–", goes_with(r.name))
                for r in STRATEGIES.values()
            ]
            return [table(("", "needs of an inference", "needs of the prior", "so it goes with"), rows)]
        rows = []
        for r in INFERENCES.values():
            one = r.default
            ways = [(" + ".join(sorted(w.likelihood)), " + ".join(sorted(w.prior))) for w in one.ways]
            gives = [name for name in ("gradient", "gaussian", "steps") if getattr(one, name)]
            rows.append(
                (
                    f"`{r.name}`",
                    "; or ".join(f"{likelihood} of the likelihood, {prior} of the prior" for likelihood, prior in ways),
                    ", ".join([f"evidence ({one.evidence_kind})", *gives] if one.evidence_kind else gives) or "–",
                )
            )
        return [table(("", "needs", "gives to strategies"), rows)]


def member_rows(path):
    """Name, what it is, and whether it must be implemented, of every public member that a class declares itself."""
    module, name = path.rsplit(".", 1)
    source = inspect.getsource(getattr(importlib.import_module(module), name))
    rows, lines = [], source.splitlines()
    for node in ast.parse(source).body[0].body:
        if isinstance(node, ast.AnnAssign):
            comment = lines[node.lineno - 1].partition("  # ")[2] or lines[node.lineno - 2].partition("    # ")[2]
            rows.append((f"`{node.target.id}`", comment, "yes" if node.value is None else ""))
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            marks = {ast.unparse(mark) for mark in node.decorator_list}
            arguments = ", ".join(one.arg for one in node.args.args if one.arg not in ("self", "cls"))
            label = node.name if "property" in marks else f"{node.name}({arguments})"
            meaning = " ".join(ast.get_docstring(node).split("\n\n")[0].split())
            rows.append((f"`{label}`", meaning, "yes" if "abstractmethod" in marks else ""))
    return rows


class MembersTable(Directive):
    """The members of an interface, from its class."""

    required_arguments = 1

    def run(self):
        return [table(("member", "meaning", "required"), member_rows(self.arguments[0]))]


class LayersTable(Directive):
    """The layers, lowest first, as the test states them."""

    def run(self):
        tree = ast.parse(LAYERS_FILE.read_text())
        (value,) = [
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS"
        ]
        rows = [(str(k), ", ".join(sorted(layer))) for k, layer in enumerate(ast.literal_eval(value), 1)]
        return [table(("layer", "parts of gpclass"), rows)]


def dataset_rows():
    """Head and rows of the data sets of the catalogue."""
    head = ("name", "origin", "n", "d", "classes", "licence", "from", "checksum")
    rows = [
        (
            f"`{name}`",
            known.origin,
            f"{known.n:,}",
            str(known.d),
            str(known.classes),
            known.licence,
            ", ".join(sources(name)) or "a folder",
            f"`{known.checksum[:SHORT]}`",
        )
        for name, known in KNOWN.items()
    ]
    return head, rows


class DatasetsTable(Directive):
    """The data sets of the catalogue."""

    def run(self):
        return [table(*dataset_rows())]


def setup(app):
    app.add_directive("datasets-table", DatasetsTable)
    app.add_directive("matrix-table", MatrixTable)
    app.add_directive("counts-table", CountsTable)
    app.add_directive("offers-table", OffersTable)
    app.add_directive("needs-table", NeedsTable)
    app.add_directive("layers-table", LayersTable)
    app.add_directive("members-table", MembersTable)
    app.add_directive("methods-table", MethodsTable)
    app.add_directive("pairs-table", PairsTable)
    app.add_directive("reasons-table", ReasonsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
