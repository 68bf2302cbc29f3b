"""F Table I: how often proposals are accepted, by data set, covariance and estimator of the evidence.

One proposal for all, tuned on Laplace's evidence. The yardstick is the chain with EP's deterministic evidence: the
acceptance "as if the likelihood were known exactly".
"""

from __future__ import annotations

from papers.common import Section, Setting, Table, Verdict, tell
from papers.filippone2014.shared import ESTIMATORS, acceptance, chains, data_set, published, tune

FULL = {  # chains, discarded, kept, rows at most
    "glass": (5, 500, 1500, None),
    "thyroid": (5, 500, 1500, None),
    "breast": (2, 50, 400, None),
    "pima": (2, 50, 400, None),
    "banknote": (2, 50, 400, 400),
}
QUICK = {"glass": (2, 20, 120, None), "thyroid": (2, 20, 120, None)}


def run(setting: Setting) -> Section:
    """All rows of the table that the size asks for."""
    sizes = setting.choose(QUICK, FULL)
    tuning = setting.choose(300, 2000)
    paper, rows, verdicts = published(), [], []
    for covariance in ("isotropic", "ard"):
        for name, (n_chains, discard, draws, most) in sizes.items():
            tuned = tune(data_set(name, covariance, most), tuning, setting.seed)
            found = {}
            for label, inference in ESTIMATORS.items():
                outcome = chains(tuned, inference, n_chains, discard, draws, setting.seed + 1)
                percent, error, spread = acceptance(outcome)
                found[label] = percent, error
                theirs = _published(paper, covariance, label, name)
                rows.append((covariance, name, tuned.problem.n, label, percent, error, spread, *theirs))
                tell(covariance, name, label, percent, error)
            verdicts.append(_verdict(covariance, name, found))
    columns = (
        "covariance",
        "data",
        "n",
        "estimator",
        "accepted %",
        "se",
        "sd over chains",
        "published",
        "its sd",
    )
    note = "Rows without a published figure are ours: EP's evidence is deterministic and only the yardstick."
    return Section(
        "table1", "Table I: acceptance", (Table("table1", columns, tuple(rows)),), tuple(verdicts), (note,)
    )


def _published(paper, covariance: str, label: str, name: str):
    kind, _, size = label.partition(", ")
    if kind not in ("IS", "AIS"):
        return None, None
    key = {"covariance": covariance, "n_imp": float(size), "estimator": kind}
    return paper.get(name, **key), paper.get(f"{name}_sd", **key)


def _verdict(covariance: str, name: str, found: dict) -> Verdict:
    (ep, ep_error), (exact, exact_error) = found["EP's evidence"], found["exact, 64"]
    error = (ep_error**2 + exact_error**2) ** 0.5
    return Verdict(
        f"{name}, {covariance}: exact with 64 draws accepts as if the evidence were known",
        f"at least {ep:.1f} - 5 - 2 x {error:.1f} %",
        f"{exact:.1f} %",
        exact >= ep - 5.0 - 2.0 * error,
    )
