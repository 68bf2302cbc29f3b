"""Write the README's tables: methods from the registry, figures from the recorded benchmarks.

``python -m benchmarks.readme`` after a change of either.
"""

import json

from benchmarks.common import HERE, RESULTS
from gpclass.registry import methods

README = HERE.parent / "README.md"
PAPERS = {
    "Atiya": "Atiya, Abdel-Gawad & Fayed (2020), exact by orthant integrals",
    "Williams": "Williams & Barber (1998), Laplace, HMC and penalised likelihood over the kernel parameters",
    "Filippone": "Filippone (2014), annealing and pseudo-marginal MCMC",
    "Cho": "Cho, Kim & Park (2015), many classes by variational EM with Laplace",
    "Röder": "Röder, Tolosana-Delgado & Hamprecht (2011), kriging, AMP, DSGQ",
}
WANTED = {  # what each paper needs; a name that the registry lacks is listed as not there yet
    "Atiya": ("exact", "gpc-mc", "gpc-mc-hard", "elliptical-slice", "hmc", "control-variables"),
    "Williams": ("laplace", "map", "hmc", "alternate", "gibbs"),
    "Filippone": ("ep", "importance", "annealed", "pseudo-marginal"),
    "Cho": ("em",),
    "Röder": ("amp", "dsgq", "cv"),
}


def methods_table():
    """Every method by name, and what the papers have that is not there yet."""
    rows = methods()
    lines = ["| name | axis | what it is | cost | reference |", "|---|---|---|---|---|"]
    lines += [f"| `{r.name}` | {r.axis} | {r.summary} | {r.cost} | {r.reference} |" for r in rows]
    lines += ["", "By paper:", ""]
    here = {row.name for row in rows}
    for key, title in PAPERS.items():
        have = ", ".join(f"`{name}`" for name in WANTED[key] if name in here)
        lack = ", ".join(f"`{name}`" for name in WANTED[key] if name not in here)
        if key == "Röder":
            have = ", ".join(filter(None, ["`IndicatorKriging` (classical and simplicial)", have]))
        lines.append(f"- {title}: {have or 'nothing'}" + (f"; not there yet: {lack}" if lack else ""))
    return "\n".join(lines)


def benchmarks_table():
    """The recorded figures as Markdown."""
    lines = []
    for title, result in json.loads(RESULTS.read_text()).items():
        lines += [
            f"**{title}** ({result['cpu']}{'' if 'thread' in title else ', one thread each'})",
            "",
            "| figure | measured | |",
            "|---|---:|---|",
        ]
        lines += [f"| {label} | {value} | {wanted} |" for label, value, wanted in result["rows"]] + [""]
    return "\n".join(lines)


def main():
    """Replace what stands between the README's markers."""
    text = README.read_text()
    for name, table in (("methods", methods_table()), ("benchmarks", benchmarks_table())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    README.write_text(text)


if __name__ == "__main__":
    main()
