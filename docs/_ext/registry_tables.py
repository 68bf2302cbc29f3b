"""Tables generated from the registry, so that no page keeps its own list.

``{methods-table} inference`` and ``{methods-table} hyperparameters`` list the methods; ``{pairs-table}`` shows
which inference goes with which strategy; ``{matrix-table} two dense`` which pairs run for a number of classes and a
form of the prior, with their likelihood; ``{reasons-table}`` why the others do not.
"""

from docutils import nodes
from docutils.parsers.rst import Directive

from gpclass.registry import FORMS, INFERENCES, STRATEGIES, cells, goes_with, inferences_for, methods
from gpclass.registry.matrix import CLASSES, likelihoods_for


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
                "2 or more"
                if any(likelihoods_for(r.default, form, True) for form in FORMS.values())
                else "2",
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


def reason_rows():
    """Head and rows of the reasons why cells do not run, each with how many there are."""
    count = {}
    for cell in cells():
        if cell.reason:
            count[cell.reason] = count.get(cell.reason, 0) + 1
    return ("reason", "cells"), [(reason, str(number)) for reason, number in count.items()]


class MatrixTable(Directive):
    """What runs for a number of classes and a form of the prior."""

    required_arguments = 2

    def run(self):
        return [table(*matrix_rows(*self.arguments))]


class ReasonsTable(Directive):
    """Why the other cells do not run."""

    def run(self):
        return [table(*reason_rows())]


def setup(app):
    app.add_directive("methods-table", MethodsTable)
    app.add_directive("pairs-table", PairsTable)
    app.add_directive("matrix-table", MatrixTable)
    app.add_directive("reasons-table", ReasonsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
