"""Local exactness beside dense exactness and EP on 3,000 rows: ``python -m benchmarks.local [case ...]``.

Cases are fields of :mod:`benchmarks.scale` (``RANGE VARIANCE``) with their true kernel, and magic with the kernel that
EP learns under 300 inducing inputs. The truth at some new points is the mean of several independent dense exact runs,
whose own Monte Carlo error is estimated too. For every method: the mean and the largest difference from it, the mean
stated errors, and how many of the differences are within one and two total errors: the root of the sum of squares of
Monte Carlo error, truncation error and that of the truth. The page leaves these shares out where the last exceeds the
stated two, since they then judge the truth. Kernel parameters are fixed and all start from one EP; CPU seconds, of one
thread, are those after it, with the prediction. Results are stored in ``local.json`` after every run, and a stored one
is not repeated; ``--page`` writes the table of docs/scale.md.
"""

import argparse
import json
import os
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy
    os.environ[name] = "1"

import numpy as np  # noqa: E402
from scipy.special import ndtr, ndtri  # noqa: E402
from sklearn.gaussian_process.kernels import ConstantKernel, Matern  # noqa: E402

from benchmarks.common import HERE, cpu  # noqa: E402
from benchmarks.scale import PAGE, VARIANCE, field  # noqa: E402
from gpclass import GPClassifier  # noqa: E402
from gpclass.inference import EP, Exact, LocalExact  # noqa: E402
from gpclass.likelihoods import Probit  # noqa: E402
from gpclass.model.problem import Problem  # noqa: E402
from gpclass.predict import in_blocks, predict_proba  # noqa: E402

KEPT = HERE / "local.json"
BEGIN, END = "<!-- local: begin -->", "<!-- local: end -->"
ROWS, POINTS, RUNS, DRAWS = 3000, 300, 3, 10_000
FEW = 100  # points of magic, whose groups are small
CASES = ("0.08 4", "magic", "0.08 30", "0.3 4")
LOCAL = "local-exact, 500 rows"
METHODS = {
    "ep": EP(),
    LOCAL: LocalExact(rows=500),
    "local-exact, 250 rows": LocalExact(rows=250),
    "local-exact, 1000 rows": LocalExact(rows=1000),
}


def simulated(case):
    """Rows, labels, new points and kernel of a field."""
    reach, variance = map(float, case.split())
    data, rng = field(ROWS, reach), np.random.default_rng(1)
    X, new = data["X"], data["X_test"][:POINTS]
    y = data["y"]
    if variance != VARIANCE:  # the same field, louder; its labels anew
        louder = np.sqrt(variance / VARIANCE) * ndtri(np.clip(data["p"], 1e-15, 1.0 - 1e-15))
        y = (rng.uniform(size=ROWS) < ndtr(louder)).astype(int)
    return X, y, new, ConstantKernel(variance) * Matern(reach, nu=1.5)


def magic(case):
    """3,000 rows of magic, with a learned kernel."""
    from benchmarks.sparse import ard, load_split

    X, y, new, _ = load_split(case)
    clf = GPClassifier(ard(X.shape[1]), inference="ep", n_inducing=300, random_state=0).fit(X[:ROWS], y[:ROWS])
    return X[:ROWS], y[:ROWS], new[:FEW], clf.kernel_


def probabilities(problem, new, inference, start, seed=0):
    """Probabilities with their stated errors, and CPU seconds."""
    begin = time.process_time()
    posterior = inference(problem, np.random.default_rng(seed), start=start)
    found = in_blocks(new, posterior, lambda latent: predict_proba(latent, problem.likelihood))
    truncation = np.zeros(len(new)) if found.truncation is None else found.truncation
    return found.proba[:, 1], np.nan_to_num(found.mcse[:, 1]), truncation, time.process_time() - begin


def stored():
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def store(key, value):
    KEPT.write_text(json.dumps({**stored(), key: value}, indent=1) + "\n")
    shown = {name: part for name, part in value.items() if not isinstance(part, list)}
    print(key, shown, flush=True)


def run(case, names):
    """Some methods of a case."""
    wanted = [f"{case} dense {k}" for k in range(RUNS)] + [f"{case} {name}" for name in names]
    if all(key in stored() for key in wanted):
        return
    X, y, new, kernel = magic(case) if case == "magic" else simulated(case)
    problem = Problem.of(X, 2.0 * y - 1.0, kernel, Probit())
    start = EP()(problem).start
    for k in range(RUNS):
        key = f"{case} dense {k}"
        if key not in stored():
            p, mcse, _, seconds = probabilities(problem, new, Exact(n_samples=DRAWS), start, seed=k)
            store(key, {"seconds": seconds, "p": p.round(7).tolist(), "mcse": mcse.round(8).tolist()})
    dense = [stored()[f"{case} dense {k}"] for k in range(RUNS)]
    truth = np.mean([one["p"] for one in dense], axis=0)
    error = np.sqrt(np.sum([np.square(one["mcse"]) for one in dense], axis=0)) / RUNS
    for name in names:
        if f"{case} {name}" in stored():
            continue
        p, mcse, truncation, seconds = probabilities(problem, new, METHODS[name], start, seed=RUNS)
        off, total = np.abs(p - truth), np.sqrt(mcse**2 + truncation**2 + error**2)
        figures = {
            "mean": off.mean(), "largest": off.max(), "mcse": mcse.mean(), "truncation": truncation.mean(),
            "within": [float(np.mean(off <= c * total)) for c in (1.0, 2.0)],
            "seconds": seconds, "truth_mcse": error.mean(),
        }  # fmt: skip
        store(f"{case} {name}", {key: v if isinstance(v, list) else float(v) for key, v in figures.items()})


def table(kept):
    """Rows of the page."""
    head = "| case | method | mean difference | largest | mcse | truncation | within 1, 2 total errors | CPU s |"
    lines = [head, "|---|---|" + 6 * "---:|"]
    for case in CASES:
        runs = [kept[f"{case} dense {k}"] for k in range(RUNS) if f"{case} dense {k}" in kept]
        label = case if case == "magic" else "range {}, variance {}".format(*case.split())
        if len(runs) == RUNS:
            pairs = np.array([one["p"] for one in runs])
            alone = np.abs(pairs - pairs.mean(axis=0)).mean() * np.sqrt(RUNS / (RUNS - 1))
            mcse, seconds = (np.mean([np.mean(one[key]) for one in runs]) for key in ("mcse", "seconds"))
            lines.append(f"| {label} | exact, one run | {alone:.5f} | | {mcse:.5f} | | | {seconds:.0f} |")
        for name in METHODS:
            row = kept.get(f"{case} {name}")
            if row is None:
                continue
            stated = ["", "", ""]
            if name != "ep":
                own = row["truth_mcse"] > np.hypot(row["mcse"], row["truncation"])  # they would judge the truth
                within = "–" if own else "{:.3f}, {:.3f}".format(*row["within"])
                stated = [f"{row['mcse']:.5f}", f"{row['truncation']:.5f}", within]
            cells = [f"{row['mean']:.5f}", f"{row['largest']:.4f}", *stated, f"{row['seconds']:.0f}"]
            lines.append(f"| {label} | {name} | {' | '.join(cells)} |")
    return lines


def times(kept):
    """A sentence on the cases in which dense exactness takes less time."""
    pairs = [
        (np.mean([kept[f"{case} dense {k}"]["seconds"] for k in range(RUNS)]), kept[f"{case} {LOCAL}"]["seconds"])
        for case in CASES
        if f"{case} {LOCAL}" in kept
    ]
    less = [f"{dense:.0f} s against {local:.0f} s" for dense, local in pairs if dense < local]
    text = f"Up to some thousand rows `exact` takes less time: here in {len(less)} of {len(pairs)} cases, one run "
    return f"{text}{', '.join(less)} of {LOCAL}, at the errors of column mcse. " if less else ""


def write_page(kept):
    """The table of docs/scale.md."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    errors = [row["truth_mcse"] for row in kept.values() if "truth_mcse" in row]
    note = (
        f"{ROWS:,} rows, {POINTS} new points ({FEW} of magic). Differences are from the mean of {RUNS} dense exact "
        f"runs of {DRAWS:,} draws, whose own standard error is {min(errors):.5f} to {max(errors):.5f} on average. "
        "A total error is √(mcse² + truncation² + e²) with this error e of the reference; – where e is on average "
        f"larger than the stated √(mcse² + truncation²). {times(kept)}One thread, {cpu()}."
    )
    PAGE.write_text("\n".join([f"{head}{BEGIN}", *table(kept), "", note, f"{END}{tail}"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    for case in () if given.page else given.cases:
        run(case, given.methods)
    write_page(stored())


if __name__ == "__main__":
    main()
