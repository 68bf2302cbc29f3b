"""The command line of a paper's folder, and of all: run experiments, print and store them, write their pages.

Each section is printed, its tables are written as CSV and its figures as PNG into ``results/<paper>/`` (not part of
the repository), and the whole is stored (:mod:`papers.resume`), so that the same run later prints it at once. With
``--write`` the summary is put into ``docs/papers/<paper>.md``, and its numbers, the command and its CPU time into
``docs/papers/results``. A data set that cannot be had is one line, and the run
goes on with the other experiments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpclass.datasets import DatasetUnavailable
from papers import overview
from papers.common import DOCS, RESULTS, Experiment, Section, Setting, show_figures, tell, write_page
from papers.resume import Kept, Progress, code_of, publish, remember, span, store, stored
from papers.store import Limit, NoTime, Spent


@dataclass(frozen=True)
class Paper:
    """A paper: the name of its folder, the head of its page, its experiments."""

    name: str
    title: str
    reference: str
    experiments: Mapping[str, Experiment]


def main(
    paper: Paper, argv: Sequence[str] | None = None, *, results: Path = RESULTS, docs: Path = DOCS
) -> list[Section]:
    """The command line of one paper."""
    parser = parser_for(f"python -m papers.{paper.name}", paper.title)
    parser.add_argument("experiments", nargs="*", help=f"{', '.join(paper.experiments)}, or all (the default)")
    given = parser.parse_args(argv)
    names = [name for name in given.experiments if name != "all"] or list(paper.experiments)
    for name in names:
        if name not in paper.experiments:
            parser.error(f"no experiment {name!r}; there are {', '.join(paper.experiments)}, and all")
    return run([(paper, name) for name in names], given, results, docs)


def parser_for(program: str, title: str) -> argparse.ArgumentParser:
    """The options that all have in common."""
    parser = argparse.ArgumentParser(prog=program, description=title)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="the paper's own sizes and repeats; may take hours")
    size.add_argument("--quick", action="store_true", help="small sizes: all papers in about ten minutes")
    parser.add_argument("--repeats", type=int, help="this many repeats instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="measure again what is stored from an earlier run")
    parser.add_argument(
        "--minutes", type=float, help="measure nothing new after so many; the same command goes on from there"
    )
    parser.add_argument("--write", action="store_true", help="put the summaries into docs/papers")
    return parser


def run(
    chosen: Sequence[tuple[Paper, str]], given: argparse.Namespace, results: Path = RESULTS, docs: Path = DOCS
) -> list[Section]:
    """Run the experiments one after another."""
    setting = Setting(given.full, given.repeats, given.seed, given.quick)
    Limit.set(given.minutes, given.again)
    progress = Progress([(paper.name, name) for paper, name in chosen], setting.size)
    done, lacking = [], []
    for paper, name in chosen:
        progress.announce()
        try:
            kept, seconds = one(paper, name, setting, given.again, results)
        except (DatasetUnavailable, NoTime) as error:
            tell(f"left out: {error}")
            lacking.append(f"{paper.name} {name} left out: {error}")
            progress.finished(None)
            continue
        print(kept.section.text())
        print(*(f"wrote {path}" for path in kept.written), sep="\n")
        print(f"({name}: {kept.seconds:.0f} s of CPU{'' if seconds is not None else ', stored'})\n", flush=True)
        if given.write:
            options = [f"--{setting.size}"] if setting.size != "usual" else []
            options += [] if given.repeats is None else [f"--repeats {given.repeats}"]
            options += [f"--seed {given.seed}"] if given.seed else []
            command = " ".join(["python -m", f"papers.{paper.name}", name, *options])
            order = list(paper.experiments)
            made = f"`{command}`, {span(kept.seconds)} of CPU"
            write_page(docs / f"{paper.name}.md", paper.title, paper.reference, order, kept.section, made)
            publish(docs / "results" / f"{paper.name}_{name}.json", command, kept)
            show_figures(docs, paper.name, kept.section, kept.written)
            (docs / "overview.md").write_text(overview.page(docs), encoding="utf-8")
            if given.repeats is None and not Limit.reached:  # the time of a whole experiment
                remember(setting.size, paper.name, name, kept.seconds)
        progress.finished(seconds)
        done.append(kept.section)
    missed = [f"{v}" for section in done for v in section.verdicts if not v.met]
    print(f"{sum(len(s.verdicts) for s in done)} verdicts, {len(missed)} missed", *missed, *lacking, sep="\n")
    return done


def one(paper: Paper, name: str, setting: Setting, again: bool, results: Path) -> tuple[Kept, float | None]:
    """The result of one experiment, and the CPU seconds spent on it now; None if it was stored."""
    key = {**asdict(setting), "code": code_of(paper.name)}
    path = results / paper.name / "sections" / f"{setting.size}-{name}.json"
    kept = None if again else stored(path, key)
    if kept is not None:
        return kept, None
    Spent.stored.clear()
    begin = time.process_time()
    section = paper.experiments[name](setting)
    written = section.save(results / paper.name)
    now = time.process_time() - begin
    kept = Kept(section, tuple(written), now + Spent.earlier())
    if not Limit.reached:  # else parts are missing
        store(path, key, kept)
    return kept, now
