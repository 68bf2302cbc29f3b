"""Simulation-based calibration of every sampler, of latent values and of kernel parameters; written to docs/sbc.md.

``python -m benchmarks.sbc [--simulations 500] [--minutes M] [--jobs 1] [--only TEXT ...]``. A simulation draws θ (for
strategies that sample it) and latent values from the prior and labels from the likelihood, runs a method on the labels,
and ranks the true values among L draws of the posterior: ranks are uniform if the method samples the posterior.
Ranked are f at a new point, log p(y | f), which depends on the labels and would show a method that returns the prior,
log p(y_1 | f_1), and every θ.

Latent samplers run chains side by side and L draws are taken at random by their weights, from at least 10 L effective
ones; chains over θ are thinned to L draws, at least as many as are effective. A run with fewer is replaced by one of
twice the length, as long as that is needed. Counts of ranks are kept in sbc.json block by block, so that an interrupted
run goes on where it stopped.
Reference: Talts et al. (2018), Validating Bayesian inference algorithms with simulation-based calibration; Modrák et
al. (2023) for quantities that depend on the data.
"""

import argparse
import json
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest import mock
from zlib import crc32

import numpy as np
from joblib import Parallel, delayed
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.common import HERE
from gpclass.hyper import HMC, Alternate, PseudoMarginal, full_bayes, moves
from gpclass.hyper.base import Run
from gpclass.inference import EllipticalSlice, Exact, Importance, mcmc
from gpclass.inference.around import target_around
from gpclass.inference.elliptical_step import elliptical_step
from gpclass.inference.exact_latent import around_ep
from gpclass.inference.importance import weighted_posterior
from gpclass.inference.mcmc import run_latent_chains
from gpclass.inference.particles import Particles
from gpclass.latent.base import per_latent
from gpclass.latent.dense import Dense
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import get_likelihood
from gpclass.model.problem import Problem
from gpclass.priors import LogNormal
from gpclass.registry import FORMS, cells
from gpclass.registry.rows import INFERENCES, STRATEGIES, likelihoods_for

KEPT = HERE / "sbc.json"
L, L_THETA = 19, 9  # draws among which a value is ranked, of latent values at fixed θ and of chains over θ
SPARE = 10  # effective draws over draws taken at random
N, INDUCING, REACH = 8, 4, 3.0  # rows, and inducing inputs, within ±REACH
PRIOR = LogNormal(0.0, 0.7)  # of the length scale
LENGTHS = {"gibbs": 0.5, "control-variables": 2.5}  # if not 1: one mixes on rough functions, the other on smooth ones
BLOCK = 50  # simulations between two savings
LONGER = 5  # doublings of a run with too few effective draws


# ---- spoiled methods, which must fail -------------------------------------------------------------------------------


class HalfTheLikelihood(EllipticalSlice):
    """Elliptical slices that use the square root of the likelihood."""

    def infer(self, problem, rng, start, gradient):
        target = target_around(problem, "prior")

        def step(state, rng, _):
            return elliptical_step(target, state, rng, power=0.5)

        return run_latent_chains(self, target, step, rng, start, transition=elliptical_step)


class ThePrior(Importance):
    """Draws of the prior without weights: f alone has uniform ranks, its likelihood has not."""

    def infer(self, problem, rng, start, gradient):
        target = target_around(problem, "prior")
        state = Particles.draw(target, self.n_samples, rng)
        return weighted_posterior(self.name, target, state.xi, np.zeros(self.n_samples), False)


class DrawsOfU(Exact):
    """Exact with draws of the inducing values from EP's Gaussian, as for many rows."""

    def infer(self, problem, rng, start, gradient):
        return around_ep(self, problem, rng, start, gradient)


# ---- cases ----------------------------------------------------------------------------------------------------------

CHAINS = {"chains": 40, "warmup": 15, "draws": 10}
SHORT = {
    "exact": {"n_samples": 500},
    "dsgq": {"n_samples": 500},
    "gpc-mc": {"n_samples": 4000, "runs": 4},
    "gpc-mc-hard": {"n_samples": 4000, "runs": 4},
    "importance": {"n_samples": 1000},
    "annealed": {"n_samples": 400},
    "elliptical-slice": {**CHAINS, "thin": 1},
    "hmc": CHAINS,
    "gibbs": {**CHAINS, "draws": 20},
    "control-variables": {**CHAINS, "draws": 20, "controls": 3},
}  # settings of inferences at fixed θ
WITH_THETA = {
    "gpc-mc-hard": {"n_samples": 300, "runs": 1},
    "importance": {"n_samples": 30, "around": "laplace"},
    "annealed": {"n_samples": 10, "temperatures": 3, "around": "laplace"},
    "elliptical-slice": {"around": "prior"},
    "hmc": {"around": "prior"},
}  # settings of inferences under chains over θ
CHAIN_OF_THETA = {"chains": 1, "draws": L_THETA, "keep": L_THETA}
STEPS = {
    "pseudo-marginal": (PseudoMarginal(warmup=20, discard=5, acceptance=0.4, start="prior", **CHAIN_OF_THETA), 5),
    "alternate": (Alternate(warmup=20, scans=2, vectors=1, **CHAIN_OF_THETA), 5),
    "hmc": (HMC(warmup=5, leapfrog=2, step_size=0.8, **CHAIN_OF_THETA), 2),
}  # strategies, and iterations per draw
SPOILED = {
    "half the likelihood": (HalfTheLikelihood, SHORT["elliptical-slice"]),
    "the prior": (ThePrior, {"n_samples": 200}),
    "another prior of θ": (Importance, WITH_THETA["importance"]),
}


@dataclass(frozen=True)
class Case:
    """One method on one kind of problem."""

    inference: str
    strategy: str
    classes: str
    form: str
    likelihood: str
    kind: str = "exact"  # "approximate", or "spoiled"

    @property
    def key(self):
        return " / ".join((self.inference, self.strategy, self.classes, self.form, self.likelihood))

    def method(self):
        """The inference with short settings."""
        if self.inference in SPOILED:
            made, table = SPOILED[self.inference]
            return made(**table)
        if self.inference == "exact (draws of u)":
            return DrawsOfU(n_samples=1000)
        table = SHORT if self.strategy == "fixed" else WITH_THETA
        return replace(INFERENCES[self.inference].default, **table.get(self.inference, {}))


def cases():
    """Every exact inference with all its likelihoods, every exact strategy over them, HMC over EP, spoiled ones."""
    found = []
    for form, many in ((form, many) for form in FORMS for many in (False, True)):
        classes = "many" if many else "two"
        exact = [name for name, row in INFERENCES.items() if row.exact]
        able = {name: likelihoods_for(INFERENCES[name].default, FORMS[form], many) for name in exact}
        if form == "inducing":
            able["exact (draws of u)"] = able["exact"]
        found += [Case(name, "fixed", classes, form, link) for name, links in able.items() for link in links]
    for c in cells():
        row = INFERENCES[c.inference]
        if c.runs and c.strategy in STEPS and STRATEGIES[c.strategy].exact and row.exact:
            found.append(Case(c.inference, c.strategy, c.classes, c.form, c.likelihood))
        elif c.runs and c.strategy == "hmc" and c.inference == "ep":
            found.append(Case(c.inference, c.strategy, c.classes, c.form, c.likelihood, "approximate"))
    found += [Case(name, "fixed", "two", "dense", "probit", "spoiled") for name in list(SPOILED)[:2]]
    found.append(Case("another prior of θ", "pseudo-marginal", "two", "dense", "probit", "spoiled"))
    return sorted(found, key=lambda c: (c.strategy != "fixed", c.form != "dense", c.classes != "two"))


# ---- one simulation -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Simulated:
    """Labels from a model, and the values behind them."""

    problem: Problem  # at the θ that a method starts from
    theta: np.ndarray  # the true one
    new: np.ndarray  # (1, d), a new point
    f_new: float  # first latent value there
    log_p: float  # log p(y | f), or log p(y | u) with inducing inputs
    log_p_first: float  # of the first row


def simulated(case, rng):
    """θ and latent values from the prior, labels from the likelihood."""
    method, many, dense = case.method(), case.classes == "many", case.form == "dense"
    likelihood = method.own_likelihood or get_likelihood(case.likelihood)
    X = REACH * (2.0 * (np.arange(N) + rng.uniform(0.3, 0.7, N))[:, None] / N - 1.0)  # none close to another
    new = rng.uniform(-REACH, REACH, (1, 1))
    form = Dense() if dense else LowRank(Z=np.linspace(-0.8 * REACH, 0.8 * REACH, INDUCING)[:, None])
    kernel = ConstantKernel(6.0, "fixed") * RBF(LENGTHS.get(case.inference, 1.0))
    nothing = likelihood.encode(np.arange(N) % (3 if many else 2))
    base = Problem.of(X, nothing, kernel, likelihood, None, 3 if many else 2, form)
    theta = base.theta
    if case.strategy != "fixed":
        theta = PRIOR.draw(rng, 1)
    at, width = base.at(theta), base.n_latents
    eta = rng.standard_normal((width, at.prior.white_dimension() // width))
    f, f_new = (_latents(at.prior.features(points), eta, rng) for points in (X, new))
    y = likelihood.draw_labels(f, rng)
    each = likelihood.log(y, f)
    log_p = each.sum() if dense else _log_p_of_u(at.on(X, y), eta.ravel()[None])[0]
    return Simulated(base.on(X, y), theta, new, float(f_new[0, 0]), float(log_p), float(each[0]))


def _latents(features, eta, rng):
    """Latent values (L, m) given white coordinates (L, k)."""
    width = len(eta)
    each = zip(eta, per_latent(features.V, width), per_latent(features.rest, width), strict=True)
    return np.stack([e @ V + np.sqrt(np.maximum(r, 0.0)) * rng.standard_normal(len(r)) for e, V, r in each])


def _log_p_of_u(problem, eta):
    """The log p(y | u) of white coordinates (M, k), for inducing inputs."""
    target = target_around(problem, "prior")
    return target.log_ratio(target.latents(eta))


def latent_ranks(case, rng):
    """Ranks of a method at fixed θ, and how often it was run again."""
    data, method = simulated(case, rng), case.method()
    problem, again = data.problem, 0
    while True:
        posterior = method(problem, rng.spawn(1)[0])
        if posterior.report.ess >= SPARE * L or again == LONGER:
            break
        again += 1
        length = "draws" if hasattr(method, "draws") else "n_samples"
        method = replace(method, **{length: 2 * getattr(method, length)})
    if case.form == "dense":
        f = posterior.draw(np.vstack([problem.X, data.new]), L, rng)  # (L, n + 1, latent values)
        each = problem.likelihood.log(problem.y, np.swapaxes(f[:, :-1], 1, 2))
        drawn = {"f at a new point": f[:, -1, 0], "log p": each.sum(axis=1), "log p of a row": each[:, 0]}
    else:
        log_p = _log_p_of_u(problem, posterior.eta[posterior.chosen(L, rng)])
        drawn = {"f at a new point": posterior.draw(data.new, L, rng)[:, 0, 0], "log p": log_p}
    return _ranks(data, drawn), again


def theta_ranks(case, rng):
    """Ranks of a strategy that samples θ, and how often it was run again."""
    data = simulated(case, rng)
    strategy, thin = STEPS[case.strategy]
    prior, again = replace(PRIOR, mean=PRIOR.mean + 0.4) if case.kind == "spoiled" else PRIOR, 0
    while True:
        fit = replace(strategy, draws=thin * L_THETA)(data.problem, case.method(), Run(rng.spawn(1)[0], prior))
        if fit.posterior.report.ess >= L_THETA or again == LONGER:
            break
        again, thin = again + 1, 2 * thin
    mixture = fit.posterior
    assert len(mixture.theta) == L_THETA
    drawn = {name: mixture.theta[:, k] for k, name in enumerate(data.problem.names)}
    if case.kind != "approximate":  # its latent values given θ are a Gaussian
        one = [replace(mixture, **{k: getattr(mixture, k)[i : i + 1] for k in ("theta", "vectors", "chain")})
               for i in range(L_THETA)]  # fmt: skip
        drawn["f at a new point"] = np.array([m.draw(data.new, 1, rng)[0, 0, 0] for m in one])
        if case.form == "dense":
            each = fit.trace.groups["log_likelihood"]["y"][0]  # with the draws that are kept
            assert len(each) == L_THETA
            drawn |= {"log p": each.sum(axis=1), "log p of a row": each[:, 0]}
    return _ranks(data, drawn), again


def _ranks(data, drawn):
    true = {"f at a new point": data.f_new, "log p": data.log_p, "log p of a row": data.log_p_first}
    true |= dict(zip(data.problem.names, data.theta, strict=True))
    return {name: int(np.sum(values < true[name])) for name, values in drawn.items()}


@contextmanager
def quick():
    """Without what a fit computes for its report alone."""
    with (
        mock.patch.object(full_bayes, "leave_one_out", return_value=None),
        mock.patch.object(full_bayes, "REPEATS", 2),
        mock.patch.object(moves, "EXPLORED", 50),
        mock.patch.object(mcmc, "LOOKED_AT", 3),
        config_context(skip_parameter_validation=True),
        warnings.catch_warnings(action="ignore"),
    ):
        yield


def block(case, first, count):
    """Counts of the ranks of some simulations, by quantity; each has a random state of its own."""
    begin, counts, longer = time.process_time(), {}, 0
    simulate, ranks_of = (latent_ranks, L) if case.strategy == "fixed" else (theta_ranks, L_THETA)
    with quick():
        for i in range(first, first + count):
            ranks, again = simulate(case, np.random.default_rng([crc32(case.key.encode()), i]))
            longer += again > 0
            for name, rank in ranks.items():
                counts.setdefault(name, np.zeros(ranks_of + 1, dtype=int))[rank] += 1
    return {
        "simulations": count,
        "longer": longer,
        "seconds": time.process_time() - begin,
        "counts": {name: found.tolist() for name, found in counts.items()},
    }


def added(old, new):
    """Two blocks as one."""
    if not old:
        return new
    sums = {k: old[k] + new[k] for k in ("simulations", "longer", "seconds")}
    both = {name: np.add(found, new["counts"][name]).tolist() for name, found in old["counts"].items()}
    return {**sums, "counts": both}


def stored():
    """Counts of all cases so far."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no further block after this time")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose name contains one of these")
    settings = parser.parse_args()
    end = time.monotonic() + 60 * settings.minutes
    chosen = [c for c in cases() if any(text in c.key for text in settings.only)]

    def work(case):
        """All blocks of a case that are left, one after another."""
        while (done := stored().get(case.key, {}).get("simulations", 0)) < settings.simulations:
            if time.monotonic() > end:
                return
            new = block(case, done, min(BLOCK, settings.simulations - done))
            kept = stored()  # another process may have added cases
            kept[case.key] = added(kept.get(case.key), new)
            KEPT.write_text(json.dumps(kept, ensure_ascii=False).replace("}}, ", "}},\n") + "\n")
            print(case.key, kept[case.key]["simulations"], f"{kept[case.key]['seconds']:.1f} s", flush=True)

    Parallel(settings.jobs, require="sharedmem")(delayed(work)(c) for c in chosen)

    from benchmarks.sbc_page import write

    write(stored())


if __name__ == "__main__":
    main()
