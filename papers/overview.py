"""``python -m papers.overview``: every numbered table and figure of the papers, ours beside theirs, on one page.

What a table shows and how large it is in the paper is stated here; our verdicts and the command that made them are read
from the papers' own pages, so that this page says what those say. Run it after any of them is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from papers import hours
from papers.claims import CLAIMS
from papers.common import DOCS
from papers.pages import MissingRowsError, Tables, number, sections, spread, tables
from papers.verdicts import RULE

HEAD = f"""# Every table and figure

Every numbered table and figure of the five papers, with the paper's size, the size of our run, and the verdicts of our
own page: what was claimed, what we asked for, what we measured. `python -m papers.overview` makes this page from the
others. Ours: the command, and the sizes in its tables; whether they are the paper's, or smaller and why. The hours that
the paper's size takes come from the times in our tables, in proportion to draws and iterations.

Below each paper's items are its claims, as far as numbers can decide them: what it says, what we measured, and where
our numbers do not bear it out, why. In brackets is where a ratio is within a standard error.

{RULE}
"""


@dataclass(frozen=True)
class Item:
    """One numbered table or figure."""

    paper: str  # its folder
    item: str
    shows: str
    theirs: str  # size in the paper; one of NO_SIZE if there is none
    experiment: str  # "" if there is none
    picked: str = ""  # part of a verdict's text, if the section judges several items
    remark: str = ""  # what has to be said beyond the verdicts
    sized: tuple[str, ...] = ()  # columns of our tables that say how large the run was
    usual: bool = False  # whether the usual size is the paper's already, or larger
    every: Mapping[str, float | str] = field(default_factory=dict)  # column to the least number, or text, of all rows
    some: Mapping[str, float] = field(default_factory=dict)  # column to its least number, in a row at least
    hours: Callable[[Tables], float] | None = None  # of one processor, for the paper's size


NO_SIZE = ("not given", "not done", "a diagram")
ITEMS = (
    Item(
        "atiya2020",
        "Table 1",
        "orthant integral, MAPE of log P",
        "50 problems of n = 50, 200, 500, to 3,000,000 samples",
        "table1",
        sized=("problems", "draws"),
        every={"problems": 50},
        some={"draws": 3_000_000},
        hours=hours.table1,
    ),
    Item(
        "atiya2020",
        "Table 2",
        "MAE of probabilities, linear kernel",
        "20 runs, to 3,000,000 samples",
        "table2",
        sized=("runs", "draws"),
        every={"runs": 20},
        some={"draws": 3_000_000},
        hours=hours.tables23,
    ),
    Item(
        "atiya2020",
        "Table 3",
        "MAPE of the log evidence",
        "20 runs, to 3,000,000 samples",
        "table3",
        sized=("runs", "draws"),
        every={"runs": 20},
        some={"draws": 3_000_000},
        hours=hours.tables23,
    ),
    Item(
        "atiya2020",
        "Table 4",
        "nine problems, six kernels, four methods",
        "50,000 iterations of control variables",
        "table4",
        sized=("n", "control iterations"),
        every={"control iterations": 50_000},
        hours=hours.table4,
    ),
    Item(
        *("atiya2020", "Table 4, text", "evidence of the samplers", "not given", "annealing"),
        sized=("temperatures",),
        remark="ours was the reverse of theirs: short ladders for elliptical slices, a tuned step for HMC",
    ),
    Item(
        *("atiya2020", "Table 4, times", "seconds by parameter set", "50,000 iterations of control variables", "times"),
        sized=("problems",),
        remark="from the seconds of Table 4's cells",
    ),
    Item(
        *("atiya2020", "Figure 1", "error of probabilities by CPU time", "ten runs a point", "figures"),
        picked="probabilities",
        sized=("runs", "draws"),
        every={"runs": 10},
        hours=hours.figures,
    ),
    Item(
        *("atiya2020", "Figure 2", "error of the evidence by CPU time", "ten runs a point", "figures"),
        picked="evidence",
        sized=("runs", "draws"),
        every={"runs": 10},
        hours=hours.figures,
    ),
    Item(
        *("cho2015", "Table 1", "means and covariances of four classes", "160 and 400 points", "synthetic"),
        usual=True,
        remark="`gpclass.datasets.cho_four_gaussians` has these",
    ),
    Item("cho2015", "Table 2", "confusion matrix of iris", "90 and 60 flowers", "iris", usual=True),
    Item(
        *("cho2015", "Figure 1", "training points, test points, regions", "160 and 400 points", "synthetic"), usual=True
    ),
    Item(
        *("cho2015", "Figure 2", "iris from different viewpoints", "150 flowers", "iris"),
        usual=True,
        remark="drawn on the page",
    ),
    Item("cho2015", "Equations 18–22", "variational EM", "until it converges", "em", usual=True),
    Item("filippone2014", "Figure 1", "annealing in two dimensions", "three draws", "figure1", usual=True),
    Item("filippone2014", "Figure 2", "spread of the evidence estimate", "50 θ, 50 repeats, n to 1000", "figure2"),
    Item(
        *("filippone2014", "Table I", "acceptance rates", "5 chains of 1500 after 500, five data sets", "table1"),
        sized=("n", "chains x draws"),
        every={"chains x draws": "5 x 1500"},
        some={"n": hours.BANKNOTE},
        hours=hours.acceptance,
    ),
    Item(
        *("filippone2014", "§VI, outlook", "temperatures optimised", "not done", "ladders"),
        remark='`Annealed(ladder="balanced")`',
    ),
    Item(
        *("roeder2011", "Figure 1", "graph of the doubly stochastic model", "a diagram", "figures"),
        picked="Figure 1",
        remark="drawn on the page; the model is `gpclass.datasets.roeder_field`",
    ),
    Item(
        *("roeder2011", "Figure 2", "the normal on ]0, 1[", "two panels", "figures"),
        usual=True,
        picked="Figure 2",
        remark="drawn on the page; the paper does not name its parameters",
    ),
    Item("roeder2011", "Figure 3", "logistic and stretched probit", "c0 = 1", "figures", "Figure 3", usual=True),
    Item(
        *("roeder2011", "Figure 4", "two orthants of one training point", "two correlations", "figures", "Figure 4"),
        usual=True,
    ),
    Item(
        *("roeder2011", "Figure 5", "map of the stations and the variance", "8 pixels, 970 forecasts", "figures"),
        usual=True,
        picked="Figure 5",
        remark="drawn on the page, on 970 maps of a simulated sea: the forecasts are not public",
    ),
    Item(
        *("roeder2011", "Figure 6", "contours of four methods", "114 samples, two features", "figures"),
        usual=True,
        picked="Figure 6",
        remark="drawn on the page, on a simulated field with the paper's parameters",
    ),
    Item(
        *("roeder2011", "Table 1", "accuracy and time of four methods", "114 samples, 8 pixels, five folds", "table1"),
        usual=True,
    ),
    Item(
        *("roeder2011", "Table 1, repeated", "the same on many fields of the model", "one data set", "repeats"),
        usual=True,
        sized=("sets",),
        remark="ours alone: differences with a standard error",
    ),
    Item(
        *("roeder2011", "Table 1, storms", "the same on storms of a simulated sea", "one data set", "storms"),
        usual=True,
        sized=("sets",),
        remark="with ν = 10, l = 0.4, s = 0.17, s0 = 0, the paper's for its first experiment",
    ),
    Item(
        *("williams1998", "Table of crabs", "errors of 120", "80 and 120 crabs, one split", "crabs"),
        remark="the paper judges by errors alone; log loss is ours",
    ),
    Item(
        *("williams1998", "Table of crabs, repeated", "the same on many splits", "one split", "splits"),
        usual=True,
        remark="ours alone: differences with a standard error",
    ),
    Item(
        *("williams1998", "Table of Pima", "errors of 332", "200 and 332 rows", "pima"),
        remark="the digits of our scan are illegible: the literature's, recalled",
    ),
    Item(
        "williams1998",
        "Table of glass",
        "error of six kinds",
        "214 fragments, ten folds",
        "glass",
        sized=("divisions",),
        hours=hours.glass,
    ),
    Item(
        *("williams1998", "Neal's method", "the comparator of all tables", "not given", "neal"),
        sized=("length",),
        remark="Gibbs scans, Hamiltonian dynamics given these, relevances with a common mean",
    ),
    Item(
        *("williams1998", "Figure of log w", "relevances on Pima", "one chain", "relevance"),
        remark="drawn on the page; the scan has no numbers to compare",
    ),
)


def row(item: Item, found: dict[str, str]) -> str:
    """One line of the table."""
    text = found.get(item.experiment)
    if text is None:
        said = item.remark or "not run yet"
        return _bar(item.item, item.shows, item.theirs, "–", f"{'none' if not item.experiment else 'open'}: {said}")
    command = re.findall(r"Generated by `([^`]+)`", text)[-1]
    verdicts = re.findall(r"^- \*\*(met|missed)\*\*: (.+)$", text, flags=re.MULTILINE)
    kept = [f"**{state}**: {line}" for state, line in verdicts if item.picked in line]
    said = "<br>".join([*kept, *([item.remark] if item.remark else [])]) or "shown, no bar"
    large = as_large(item, command, text)
    size = "ours alone" if item.theirs in NO_SIZE else "at least the paper's" if large else "smaller"
    sizes = "; ".join(found for found in (spread(text, column) for column in item.sized) if found)
    took = re.findall(r"`, (\S+ \w+) of CPU\.", text)
    link = f"{size}: [`{command.removeprefix('python -m papers.')}`]({item.paper}.md)"
    ours = [link + (f", {took[-1]} of CPU" if took else ""), *([sizes] if sizes else [])]
    ours += [_reason(item, tables(text))] if size == "smaller" else []
    return _bar(item.item, item.shows, item.theirs, "<br>".join(one for one in ours if one), said)


def as_large(item: Item, command: str, text: str) -> bool:
    """Whether every row has the paper's size, as far as the page shows it, and none is left for another run."""
    if "--quick" in command or "Not measured yet" in text or not (item.usual or "--full" in command):
        return False
    rows = [row for table in tables(text) for row in table]
    all_are = all(_reaches(row[column], least) for column, least in item.every.items() for row in rows if column in row)
    some_are = all(
        any(_reaches(row[column], least) for row in rows if column in row) for column, least in item.some.items()
    )
    return all_are and some_are


def _reaches(cell: str, least: float | str) -> bool:
    return cell == least if isinstance(least, str) else number(cell) >= least


def _reason(item: Item, found: Tables) -> str:
    """Why the run is smaller, where the times of its rows say it."""
    try:
        spent = item.hours(found) if item.hours else 0.0
    except MissingRowsError:
        spent = 0.0
    return f"the paper's size takes about {spent:,.{0 if spent >= 10 else 1}f} hours of one processor" if spent else ""


def _bar(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(docs: Path = DOCS) -> str:
    """The whole page."""
    parts = [HEAD]
    for paper in dict.fromkeys(item.paper for item in ITEMS):
        found = sections(docs / f"{paper}.md")
        lines = [_bar("item", "what it shows", "paper's size", "ours", "verdicts"), _bar(*["---"] * 5)]
        lines += [row(item, found) for item in ITEMS if item.paper == paper]
        parts.append(f"## {paper}\n\n" + "\n".join(lines) + "\n")
        lines = [_bar("where", "the paper says", "we measured", "verdict"), _bar(*["---"] * 4)]
        lines += [_bar(c.where, c.says, *c.judge(found)) for c in CLAIMS if c.paper == paper]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (DOCS / "overview.md").write_text(page(), encoding="utf-8")
    print(f"wrote {DOCS / 'overview.md'}")
