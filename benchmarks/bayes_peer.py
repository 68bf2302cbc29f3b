"""The posterior of θ and the predictions of pseudo-marginal chains beside NumPyro's NUTS on iris.

``python -m benchmarks.bayes_peer --peer PYTHON`` runs the same model on both sides, multinomial probit with one
kernel for all three classes and log-normal priors, NumPyro by the interpreter ``PYTHON`` of an environment that has it
(:mod:`benchmarks.bayes_numpyro`), keeps the figures in bayes_peer.json and writes a table of ``docs/bayes.md``.
``--page`` writes the page alone.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import scale

from benchmarks.common import HERE, between, cpu
from gpclass import GPClassifier
from gpclass.hyper import PseudoMarginal
from gpclass.inference.diagnostics import array_stats
from gpclass.priors import LogNormal

KEPT = HERE / "bayes_peer.json"
PAGE = HERE.parent / "docs" / "bayes.md"
MARK = "<!-- numpyro -->"
NAMES = ("k1__constant_value", "k2__length_scale")
PRIORS = {NAMES[0]: LogNormal(1.0, 1.0), NAMES[1]: LogNormal(0.5, 0.7)}
THIRD = 3  # rows of iris for one that is used, to keep NUTS short
NEW, DRAWS = 40, 400  # new points, and our draws per chain


def data():
    """Standardised rows, every third, labels, and new points halfway between two, most of them of different classes."""
    X, y = load_iris(return_X_y=True)
    X, y, rng = scale(X)[::THIRD], y[::THIRD], np.random.default_rng(0)
    a, b = rng.integers(len(X), size=(2, NEW))
    return X, y, 0.5 * (X[a] + X[b])


def ours(X, y, new):
    """Chains of the default proposal, and class probabilities with their Monte Carlo errors."""
    begin = time.process_time()
    strategy = PseudoMarginal(draws=DRAWS, keep=4 * DRAWS, vectors=1)
    clf = GPClassifier(1.0 * RBF(1.0), hyperparameters=strategy, priors=PRIORS, random_state=0, tol=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, y)
        seconds = time.process_time() - begin
        found = clf.predict_uncertainty(new)
    theta = np.log(np.stack([clf._trace.groups["posterior"][name] for name in NAMES]))
    assert clf.likelihood_.name == "multinomial-probit"
    return {**summary(theta, seconds), "proba": found.proba.tolist(), "proba_mcse": found.mcse.tolist()}


def numpyro(X, y, new, python):
    """The same of NUTS."""
    priors = {"means": [p.mean for p in PRIORS.values()], "sds": [p.sd for p in PRIORS.values()]}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, X=X, y=y, new=new, **priors)
        flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
        bare = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        command = [python, str(HERE / "bayes_numpyro.py"), str(source), str(target)]
        subprocess.run(command, check=True, env={**bare, **flags, "JAX_PLATFORMS": "cpu"})
        found = dict(np.load(target))
    error = np.asarray(array_stats().mcse(np.moveaxis(found["proba"], (0, 1), (-2, -1))))
    return {
        **summary(np.moveaxis(found["theta"], -1, 0), float(found["seconds"])),
        "proba": found["proba"].mean(axis=(0, 1)).tolist(),
        "proba_mcse": error.tolist(),
        "steps": float(found["steps"]),
        "diverging": int(found["diverging"]),
        "version": str(found["version"]),
    }


def summary(theta, seconds):
    """Moments of log θ (p, chains, draws) with their Monte Carlo errors."""
    stats = array_stats()
    return {
        "chains": theta.shape[1],
        "draws": theta.shape[2],
        "mean": theta.mean(axis=(1, 2)).tolist(),
        "mean_mcse": np.asarray(stats.mcse(theta)).tolist(),
        "sd": theta.std(axis=(1, 2)).tolist(),
        "sd_mcse": np.asarray(stats.mcse(theta, method="sd")).tolist(),
        "effective": float(np.min(stats.ess(theta))),
        "rhat": float(np.max(stats.rhat(theta))),
        "seconds": seconds,
        "cpu": cpu(),
    }


def table(kept):
    """Moments side by side, and the differences of all over their Monte Carlo errors."""
    here, there = kept["ours"], kept["numpyro"]
    lines = ["| | gpclass | NumPyro | difference over its error |", "|---|---|---|---|"]
    for k, name in enumerate(("log variance", "log length scale")):
        for what in ("mean", "sd"):
            (a, e), (b, f) = ((side[what][k], side[f"{what}_mcse"][k]) for side in (here, there))
            z = (a - b) / np.hypot(e, f)
            lines.append(f"| {name}, {what} | {a:.3f} ± {e:.3f} | {b:.3f} ± {f:.3f} | {z:+.1f} |")
    p, e, q, f = (np.array(side[what]) for side in (here, there) for what in ("proba", "proba_mcse"))
    z = (p - q) / np.hypot(e, f)
    lines.append(f"| class probabilities, {len(p)} new points | | | rms {np.sqrt(np.mean(z**2)):.2f}, "
                 f"largest {np.abs(z).max():.1f} |")  # fmt: skip
    for name, what in (("effective draws of the slowest parameter", "effective"), ("processor seconds", "seconds")):
        lines.append(f"| {name} | {here[what]:.0f} | {there[what]:.0f} | |")
    rates = [side["effective"] / side["seconds"] for side in (here, there)]
    lines.append(f"| effective draws per second | {rates[0]:.3g} | {rates[1]:.3g} | ratio {rates[0] / rates[1]:.1f} |")
    lines.append(f"| R-hat | {here['rhat']:.3f} | {there['rhat']:.3f} | |")
    most = np.abs(p - q).max()
    said = f"Probabilities differ by {most:.3f} at most. NumPyro {there['version']}: {there['chains']} chains of "
    said += f"{there['draws']} draws, {there['steps']:.0f} leapfrog steps each, {there['diverging']} divergent."
    return "\n".join(lines) + f"\n\n{said}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="Python interpreter with NumPyro")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    asked = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if not asked.page:
        given = data()
        if "ours" not in kept:
            kept["ours"] = ours(*given)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        if asked.peer is not None and "numpyro" not in kept:
            kept["numpyro"] = numpyro(*given, asked.peer)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    text = table(kept)
    between(PAGE, MARK, text)
    print(text)


if __name__ == "__main__":
    main()
