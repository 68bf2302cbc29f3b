"""Write the README's tables and the benchmarks' page: methods from the registry, numbers from recorded results.

``python -m benchmarks.readme`` after a change of either.
"""

import argparse
import json

from benchmarks.common import HERE, RESULTS
from gpclass.registry import goes_with, methods

README = HERE.parent / "README.md"
PAGE = HERE.parent / "docs" / "benchmarks.md"
HEADLINES = {  # prefix of a title: prefix of a row, and its name in the README
    "Laplace + ARD maximise": {
        "times faster": "Laplace, eight length scales, n = 1000: times faster than scikit-learn",
    },
    "EP at fixed parameters": {"plane: times faster": "EP, n = 500: times faster than GPy"},
    "Default fit": {
        "isotropic, d = 2: time": "exact (the default), n = 1000: time as a multiple of scikit-learn's Laplace",
        "ARD, d = 8: time": "the same with eight length scales",
    },
    "Hard problems": {"filippone, n = 1000: standard": "exact log p(y), n = 1000, 1000 draws: standard error"},
    "Variance × time": {"rbf-3-2": "log p(y), n = 200: variance × time, times better than the paper's particles"},
    "Orthant integrals": {"n = 500": "orthant integral, n = 500: error below the paper's best, times"},
    "Geostatistics": {
        "d = 2, DSGQ, Monte Carlo error 0.001: CPU": "DSGQ, five folds of n = 114: CPU seconds (paper: 481), accuracy",
    },
    "many classes, speed": {"exact": "exact, three classes, n = 150"},
    **{
        f"Inducing points, m = 300: {name}": {
            "log loss above": f"300 inducing inputs, {name}, n = {n}: log loss above GPyTorch's SVGP (ep, exact)",
            "time as a multiple of SVGP's: exact": f"{name}: time as a multiple of SVGP's (exact)",
        }
        for name, n in (("magic", "15,216"), ("htru2", "14,319"), ("electricity", "36,250"))
    },
    "Maps with neighbours": {
        "n = 50,000: log loss": "a simulated map of 50,000 rows, `n_neighbors=15`, ep: log loss, GPBoost's (VIF)",
        "time": "the same: time as a multiple of GPBoost's",
        "n = 1,000,000": "a simulated map of 10⁶ rows, the same: time of one core, peak memory",
    },
    "The local prior": {"n = 500,000": 'covtype, 5·10⁵ rows, `latent_prior="local"`: log loss, LightGBM\'s'},
}
PAPERS = {
    "Atiya": "Atiya, Abdel-Gawad & Fayed (2020), exact by orthant integrals",
    "Williams": "Williams & Barber (1998), Laplace, HMC and penalised likelihood over the kernel parameters",
    "Filippone": "Filippone (2014), annealing and pseudo-marginal MCMC",
    "Cho": "Cho, Kim & Park (2015), many classes by variational EM with Laplace",
    "Röder": "Röder, Tolosana-Delgado & Hamprecht (2011), kriging, AMP, DSGQ",
}
WANTED = {  # the methods of each paper; names missing from the registry are listed as such
    "Atiya": ("exact", "gpc-mc", "gpc-mc-hard", "elliptical-slice", "hmc", "control-variables"),
    "Williams": ("laplace", "map", "hmc", "alternate", "gibbs"),
    "Filippone": ("ep", "importance", "annealed", "pseudo-marginal"),
    "Cho": ("em",),
    "Röder": ("amp", "dsgq", "cv"),
}


def methods_table():
    """Every method by name, and the papers' methods that are missing."""
    rows = methods()
    lines = ["Inference, at fixed kernel parameters (`inference=`):", ""]
    lines += ["| name | what it is | cost | reference |", "|---|---|---|---|"]
    lines += [f"| `{r.name}` | {r.summary} | {r.cost} | {r.reference} |" for r in methods("inference")]
    lines += [
        "",
        "Strategies for the kernel parameters (`hyperparameters=`), and the inferences that each goes with:",
        "",
    ]
    lines += ["| name | what it is | goes with | cost | reference |", "|---|---|---|---|---|"]
    lines += [
        f"| `{r.name}` | {r.summary} | {goes_with(r.name, '`')} | {r.cost} | {r.reference} |"
        for r in methods("hyperparameters")
    ]
    lines += ["", "By paper:", ""]
    here = {row.name for row in rows}
    for key, title in PAPERS.items():
        have = ", ".join(f"`{name}`" for name in WANTED[key] if name in here)
        lack = ", ".join(f"`{name}`" for name in WANTED[key] if name not in here)
        if key == "Röder":
            have = ", ".join(filter(None, ["`IndicatorKriging` (classical and simplicial)", have]))
        lines.append(f"- {title}: {have or 'nothing'}" + (f"; missing: {lack}" if lack else ""))
    return "\n".join(lines)


def benchmarks_table():
    """The recorded results as Markdown."""
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


def headlines():
    """The main results."""
    results = json.loads(RESULTS.read_text())
    lines = ["| figure | measured |", "|---|---:|"]
    for title, wanted in HEADLINES.items():
        rows = next(result["rows"] for name, result in results.items() if name.startswith(title))
        for row, text in wanted.items():
            lines.append(f"| {text} | {next(value for label, value, _ in rows if label.startswith(row))} |")
    kinds = sorted({result["cpu"] for result in results.values()})
    return "\n".join([*lines, "", f"({', '.join(kinds)}; one thread each.)"])


def write(path, **parts):
    """Replace the text between the markers of a file."""
    text = path.read_text()
    for name, table in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    path.write_text(text)


def main():
    """Write both files."""
    write(README, methods=methods_table(), benchmarks=headlines())
    write(PAGE, benchmarks=benchmarks_table())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
