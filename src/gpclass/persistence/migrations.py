"""How files of earlier versions are read: one function per retired name, from a state to a current object.

The first edition had separate classes for two classes, many classes and inducing inputs, and placeholders for factors
and draws that are recomputed on reading. They are converted to current objects here, so that predictions are the same
to the last bit on the machine that wrote the file.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpclass._typing import Array
from gpclass.hyper import Fixed, Map, Maximize, Stages
from gpclass.hyper.mixture import ThetaMixture
from gpclass.inference.exact import drawn_again, latents_drawn_again
from gpclass.inference.noise import NoiseFactor, noise_factor
from gpclass.inference.posteriors import GaussianPosterior, ModePosterior, NoisyDraws, WhiteDraws
from gpclass.latent.coupled import CoupledFactor
from gpclass.latent.dense import dense_prior
from gpclass.latent.dense_gaussian import DenseGaussian
from gpclass.latent.factors import OneFactor
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Probit
from gpclass.likelihoods.local import RowSites
from gpclass.likelihoods.nested import PointSites
from gpclass.model.problem import Problem
from gpclass.model.rows import Rows
from gpclass.numerics.linalg import SiteFactor, factor
from gpclass.numerics.threads import few_threads
from gpclass.posterior import Posterior

State = dict[str, Any]

# ---- settings -------------------------------------------------------------------------------------------------


def strategy_fixed_inducing(state: State) -> Fixed:
    """The inference to compare with is no longer a setting."""
    return Fixed()


def strategy_maximize_inducing(state: State) -> Maximize:
    """The stages' settings have a separate class."""
    own = {key: state[key] for key in ("max_iter", "tol", "checkpoint")}
    names = ("stop", "window", "gain", "held_out", "move_inducing", "few_rows", "some_rows")
    stages = Stages(**{key: state[key] for key in names})
    return (Map if state["prior"] else Maximize)(**own, stages=stages)


# ---- problems -------------------------------------------------------------------------------------------------


def problem_two(state: State) -> Problem:
    """Two classes, dense."""
    return Problem.of(state["X"], state["y"], state["kernel"], state["likelihood"], state["weights"])


def problem_many(state: State) -> Problem:
    """Many classes, dense."""
    return Problem.of(**state)


def problem_inducing(state: State) -> Problem:
    """Two classes, inducing inputs."""
    form = LowRank(state["Z"], state["start"]["m"], state["start"]["how"], state["keep"])
    return Problem(state["data"], state["kernel"], state["likelihood"], 2, form)


rows_inducing = Rows.from_state  # the numbers of rows, not the rows
start_inducing = dict  # how inducing inputs were placed

# ---- posteriors -----------------------------------------------------------------------------------------------


def _dense_gaussian(problem: Problem, found: Any, D: Array, b: Array, alpha: Array, mean: Array) -> DenseGaussian:
    return DenseGaussian(dense_prior(problem), RowSites(b=b, D=D), 1.0, found, (alpha, mean))


def _two(cls: type[GaussianPosterior], state: State) -> GaussianPosterior:
    t, h, alpha, mean = (state[key][None] for key in ("t", "h", "alpha", "mean"))
    found = OneFactor.__new__(OneFactor)
    found.site = state["factor"]
    gaussian = _dense_gaussian(state["problem"], found, t, h, alpha, mean)
    return cls(state["problem"], gaussian, state["evidence"], state["report"])


posterior_gaussian = partial(_two, GaussianPosterior)  # two classes, dense
posterior_mode = partial(_two, ModePosterior)  # the kriged mode


def posterior_gaussian_many(state: State) -> GaussianPosterior:
    """Many classes, dense."""
    found, alpha, mean = state["factor"], state["alpha"], state["mean"]
    b = alpha + RowSites(alpha, found.D).times(mean)
    gaussian = _dense_gaussian(state["problem"], found, found.D, b, alpha, mean)
    return GaussianPosterior(state["problem"], gaussian, state["evidence"], state["report"])


def _bare_inducing(kernel: Any, Z: Array) -> Problem:
    """A problem of which only the prior is known."""
    rows = Rows.from_state({"n": 1, "d": Z.shape[1], "count": 1.0})
    return Problem(rows, kernel, Probit(), 2, LowRank(Z))


def posterior_gaussian_inducing(state: State) -> GaussianPosterior:
    """Inducing inputs."""
    problem = _bare_inducing(state["kernel"], state["Z"])
    gaussian = problem.prior.from_kept({"mean": state["mean"], "L": state["L"]})
    return GaussianPosterior(problem, gaussian, state["evidence"], state["report"])


def posterior_draws_inducing(state: State) -> WhiteDraws:
    """Draws at the inducing inputs."""
    problem = _bare_inducing(state["kernel"], state["Z"])
    names = ("weights", "group", "evidence", "report")
    return WhiteDraws(problem, state["U"], **{key: state[key] for key in names})


def posterior_samples(state: State) -> WhiteDraws:
    """Two classes, dense; one root."""
    return posterior_samples_many({**state, "L": [state["L"]]})


def posterior_samples_many(state: State) -> WhiteDraws:
    """Many classes, dense; a root per kernel."""
    roots = state.pop("L")
    own = dense_prior(state["problem"]).roots
    same = all(np.array_equal(a, b) for a, b in zip(roots, own, strict=True))
    return WhiteDraws(**state, roots=None if same else roots)


def posterior_particles(state: State) -> NoisyDraws:
    """Two classes, dense; EP's sites were stored, and are not needed."""
    kept = {name: state[name] for name in NoisyDraws.stored}
    return NoisyDraws(**{**kept, "A": state["A"][None]}, factor=NoiseFactor(one=state["factor"]))


def posterior_particles_many(state: State) -> NoisyDraws:
    """Many classes, dense; so were EP's sites."""
    return NoisyDraws(**{name: state[name] for name in NoisyDraws.stored}, factor=noise_factor(state["problem"]))


def posterior_theta_mixture(state: State) -> ThetaMixture:
    """What the vectors stand for was named by a word."""
    gaussian = {"sites": GaussianPosterior, "coupled": GaussianPosterior}
    kinds: dict[str, type[Posterior]] = {"noisy": NoisyDraws, "white": WhiteDraws, **gaussian}
    return ThetaMixture(of=kinds[state.pop("kind")], **state)


def sites_many(state: State) -> PointSites:
    """EP's sites of many classes."""
    return PointSites(**state)


# ---- factors and draws that are recomputed --------------------------------------------------------------------


def factor_sites(state: State) -> SiteFactor:
    """A factor that was stored whole."""
    made = SiteFactor.__new__(SiteFactor)
    vars(made).update(state)
    return made


def again_site_factor(state: State) -> SiteFactor:
    """The square root of a square is exact in binary arithmetic."""
    return SiteFactor(dense_prior(state["problem"]).K, state["root"] ** 2)


def again_coupled_factor(state: State) -> CoupledFactor:
    """Sites that couple the classes."""
    return CoupledFactor(dense_prior(state["problem"]).covariances, state["D"])


def again_draws(state: State) -> Array:
    """The draws of the exact engine, (n, M), with as many threads as the fit had."""
    problem = state["problem"]
    with few_threads(problem.n):
        found = drawn_again(problem, NoiseFactor(one=state["factor"]), state["recipe"], state["weights"])
        return np.asarray(np.asarray(found)[0])


def again_latents(state: State) -> Array:
    """Draws of the latent values under the logit link."""
    with few_threads(state["problem"].n):
        return latents_drawn_again(**state)


def again_root(state: State) -> Array:
    """The root of the prior covariance."""
    with few_threads(state["problem"].n):
        return factor(dense_prior(state["problem"]).K)[0]


def again_utilities(state: State) -> Array:
    """Draws of the utilities of many classes, (C, n, M)."""
    problem, recipe = state["problem"], state["recipe"]
    with few_threads(problem.n):
        return np.asarray(drawn_again(problem, noise_factor(problem), recipe, recipe.weights))


def again_inverses(state: State) -> Array:
    """The inverses (K_c + I)⁻¹."""
    with few_threads(state["problem"].n):
        coupled = noise_factor(state["problem"]).coupled
    assert coupled is not None
    return np.asarray(coupled.E)
