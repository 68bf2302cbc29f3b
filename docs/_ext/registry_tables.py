"""Tables generated from the registry, so that no page keeps its own list.

``{methods-table} inference`` and ``{methods-table} hyperparameters`` list the methods; ``{pairs-table}`` shows
which inference goes with which strategy.
"""

from docutils import nodes
from docutils.parsers.rst import Directive

from gpclass.registry import INFERENCES, STRATEGIES, methods
from gpclass.registry.partners import goes_with, inferences_for


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
                "2" if getattr(r, "many", None) is None else "2 or more",
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


def setup(app):
    app.add_directive("methods-table", MethodsTable)
    app.add_directive("pairs-table", PairsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
