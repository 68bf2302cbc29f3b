"""The names of classes in model files, and where each class is in the current code.

A file names ``posterior/gaussian``, not the module of the class, so that code can move without making files
unreadable. Three tables and the registry hold everything; no other name in a file becomes a class.

``PATHS``
    Stable name to ``module:Class``. When a class moves, its path changes here and its name does not. A name is never
    reused for something else.
the registry
    Inferences, strategies, likelihoods and forms of the prior, each under its registered name: ``inference/laplace``.
    So whatever is registered can be saved. The writer writes these names and those of ``PATHS`` alone.
``LEGACY``
    Names in files of the first edition, which were the paths of modules, to stable names. It is complete, and nothing
    is ever added to it.
``MIGRATIONS``
    Stable names that are no longer written, to a function of :mod:`gpclass.persistence.migrations` from the state in a
    file to a present object, or to the name of a class with the same fields. The name of a class that was merged into
    another, or for which ``Class(**state)`` would fail or mislead, moves here from ``PATHS``, where the present class
    gets another. A field that was added with a default needs no migration.

A stable name is the name of an estimator, or a kind, with a word if there are several of the kind:
``posterior/sites``, ``inference/laplace``.

Cost: a class is imported when a file names it. Fails when: a name is in none of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from gpclass.likelihoods import LIKELIHOODS
from gpclass.registry import FORMS, INFERENCES, STRATEGIES

PATHS: dict[str, str] = {
    # Estimators
    "GPClassifier": "gpclass.estimators.classifier:GPClassifier",
    "TableClassifier": "gpclass.estimators.tables:TableClassifier",
    "IndicatorKriging": "gpclass.geostat.kriging:IndicatorKriging",
    "CutoffKriging": "gpclass.geostat.cutoffs:CutoffKriging",
    "Anisotropy": "gpclass.geostat.coordinates:Anisotropy",
    "ChordalCoordinates": "gpclass.geostat.coordinates:ChordalCoordinates",
    "WithKernelOf": "gpclass.compare.presets:WithKernelOf",
    "strategy/stages": "gpclass.hyper.staged.settings:Stages",
    # Priors of parameters
    "prior/gamma": "gpclass.priors:Gamma",
    "prior/log-normal": "gpclass.priors:LogNormal",
    "prior/half-normal": "gpclass.priors:HalfNormal",
    "prior/flat": "gpclass.priors:Flat",
    "prior/inverse-gamma": "gpclass.priors:InverseGamma",
    "prior/half-student-t": "gpclass.priors:HalfStudentT",
    "prior/shared-gamma": "gpclass.priors:SharedGamma",
    "prior/scipy": "gpclass.priors:FromScipy",
    "prior/set": "gpclass.priors:PriorSet",
    # Problems
    "problem": "gpclass.model.problem:Problem",
    "rows": "gpclass.model.rows:Rows",
    # Posteriors and what belongs to them
    "posterior/sites": "gpclass.inference.posteriors:GaussianPosterior",
    "posterior/kriged-mode": "gpclass.inference.posteriors:ModePosterior",
    "posterior/local": "gpclass.inference.local_exact:LocalPosterior",
    "posterior/white-draws": "gpclass.inference.posteriors:WhiteDraws",
    "posterior/noisy-draws": "gpclass.inference.posteriors:NoisyDraws",
    "posterior/mixture": "gpclass.hyper.mixture:ThetaMixture",
    "evidence": "gpclass.posterior:Evidence",
    "sites/two": "gpclass.propagation.sites:Sites",
    "covariance": "gpclass.covariance.compiled:Covariance",
    # Reports and traces
    "report/inference": "gpclass.posterior:Report",
    "report/fit": "gpclass.hyper.base:FitReport",
    "trace/chains": "gpclass.hyper.trace:Trace",
    "trace/em": "gpclass.hyper.em:EMTrace",
    "trace/cv": "gpclass.hyper.cross_validation:Search",
    # Recipes from which draws are remade on reading
    "draws/rounded": "gpclass.numerics.rounded:Rounded",
    "recipe/seed": "gpclass.inference.redraw:Seed",
    "recipe/draws": "gpclass.inference.redraw:Recipe",
    "recipe/latents": "gpclass.inference.redraw:LatentRecipe",
    # Kriging
    "kriging/sites": "gpclass.geostat.indicators:Sites",
    "kriging/system": "gpclass.geostat.systems:KrigingSystem",
    "variogram/model": "gpclass.geostat.model:VariogramModel",
    "variogram/search": "gpclass.geostat.estimation:VariogramSearch",
    "variogram/fit": "gpclass.geostat.fitting:VariogramFit",
    "variogram/empirical": "gpclass.geostat.variogram:EmpiricalVariogram",
    # Columns of tables
    "table/encoding": "gpclass.data.columns:Encoding",
    "table/numbers": "gpclass.data.columns:NumberColumn",
    "table/categories": "gpclass.data.columns:CategoryColumn",
}

MIGRATIONS: dict[str, str] = {
    "inference/exact-multinomial-probit": "inference/exact",
    "inference/ep-multinomial-probit": "inference/ep",
    "inference/laplace-softmax": "inference/laplace",
    "inference/importance-softmax": "inference/importance",
    "inference/annealed-softmax": "inference/annealed",
    "inference/elliptical-slice-softmax": "inference/elliptical-slice",
    "inference/hmc-softmax": "inference/hmc",
    "inference/exact-inducing": "inference/exact",
    "inference/ep-inducing": "inference/ep",
    "inference/laplace-inducing": "inference/laplace",
    "inference/variational-inducing": "inference/variational",
    "strategy/fixed-inducing": "strategy_fixed_inducing",
    "strategy/maximize-inducing": "strategy_maximize_inducing",
    "problem/two": "problem_two",
    "problem/many": "problem_many",
    "problem/inducing": "problem_inducing",
    "rows/inducing": "rows_inducing",
    "start/inducing": "start_inducing",
    "posterior/gaussian": "posterior_gaussian",
    "posterior/mode": "posterior_mode",
    "posterior/samples": "posterior_samples",
    "posterior/particles": "posterior_particles",
    "posterior/gaussian-many": "posterior_gaussian_many",
    "posterior/samples-many": "posterior_samples_many",
    "posterior/particles-many": "posterior_particles_many",
    "posterior/gaussian-inducing": "posterior_gaussian_inducing",
    "posterior/draws-inducing": "posterior_draws_inducing",
    "posterior/theta-mixture": "posterior_theta_mixture",
    "sites/many": "sites_many",
    "factor/sites": "factor_sites",
    "again/site-factor": "again_site_factor",
    "again/coupled-factor": "again_coupled_factor",
    "again/draws": "again_draws",
    "again/latents": "again_latents",
    "again/root": "again_root",
    "again/utilities": "again_utilities",
    "again/inverses": "again_inverses",
}

LEGACY: Mapping[str, str] = {
    "gpclass.classifier.GPClassifier": "GPClassifier",
    "gpclass.tables.TableClassifier": "TableClassifier",
    "gpclass.geostat.kriging.IndicatorKriging": "IndicatorKriging",
    "gpclass.geostat.cutoffs.CutoffKriging": "CutoffKriging",
    "gpclass.geostat.coordinates.Anisotropy": "Anisotropy",
    "gpclass.geostat.coordinates.ChordalCoordinates": "ChordalCoordinates",
    "gpclass.compare.presets.WithKernelOf": "WithKernelOf",
    "gpclass.inference.exact.Exact": "inference/exact",
    "gpclass.inference.ep.EP": "inference/ep",
    "gpclass.inference.gpc_mc.GPCMC": "inference/gpc-mc",
    "gpclass.inference.laplace.Laplace": "inference/laplace",
    "gpclass.inference.variational.Variational": "inference/variational",
    "gpclass.inference.amp.AMP": "inference/amp",
    "gpclass.inference.dsgq.DSGQ": "inference/dsgq",
    "gpclass.inference.importance.Importance": "inference/importance",
    "gpclass.inference.annealed.Annealed": "inference/annealed",
    "gpclass.inference.elliptical_slice.EllipticalSlice": "inference/elliptical-slice",
    "gpclass.inference.hmc.LatentHMC": "inference/hmc",
    "gpclass.inference.gibbs.Gibbs": "inference/gibbs",
    "gpclass.inference.control_variables.ControlVariables": "inference/control-variables",
    "gpclass.multiclass.exact.MultinomialExact": "inference/exact-multinomial-probit",
    "gpclass.multiclass.ep.MultinomialEP": "inference/ep-multinomial-probit",
    "gpclass.multiclass.softmax_laplace.SoftmaxLaplace": "inference/laplace-softmax",
    "gpclass.multiclass.importance.SoftmaxImportance": "inference/importance-softmax",
    "gpclass.multiclass.samplers.SoftmaxAnnealed": "inference/annealed-softmax",
    "gpclass.multiclass.samplers.SoftmaxEllipticalSlice": "inference/elliptical-slice-softmax",
    "gpclass.multiclass.samplers.SoftmaxHMC": "inference/hmc-softmax",
    "gpclass.sparse.exact.SparseExact": "inference/exact-inducing",
    "gpclass.sparse.fixed_point.SparseEP": "inference/ep-inducing",
    "gpclass.sparse.laplace.SparseLaplace": "inference/laplace-inducing",
    "gpclass.sparse.fixed_point.SparseVariational": "inference/variational-inducing",
    "gpclass.hyper.fixed.Fixed": "strategy/fixed",
    "gpclass.hyper.maximize.Maximize": "strategy/maximize",
    "gpclass.hyper.map.Map": "strategy/map",
    "gpclass.hyper.em.EM": "strategy/em",
    "gpclass.hyper.cross_validation.CrossValidation": "strategy/cv",
    "gpclass.hyper.hmc.HMC": "strategy/hmc",
    "gpclass.hyper.pseudo_marginal.PseudoMarginal": "strategy/pseudo-marginal",
    "gpclass.hyper.alternate.Alternate": "strategy/alternate",
    "gpclass.sparse.maximize.SparseFixed": "strategy/fixed-inducing",
    "gpclass.sparse.maximize.SparseMaximize": "strategy/maximize-inducing",
    "gpclass.likelihoods.Probit": "likelihood/probit",
    "gpclass.likelihoods.Logit": "likelihood/logit",
    "gpclass.multiclass.likelihoods.Softmax": "likelihood/softmax",
    "gpclass.multiclass.likelihoods.MultinomialProbit": "likelihood/multinomial-probit",
    "gpclass.priors.Gamma": "prior/gamma",
    "gpclass.priors.LogNormal": "prior/log-normal",
    "gpclass.priors.HalfNormal": "prior/half-normal",
    "gpclass.priors.Flat": "prior/flat",
    "gpclass.priors.PriorSet": "prior/set",
    "gpclass.problem.Problem": "problem/two",
    "gpclass.multiclass.problem.MultiProblem": "problem/many",
    "gpclass.sparse.problem.SparseProblem": "problem/inducing",
    "gpclass.sparse.problem.Data": "rows/inducing",
    "gpclass.sparse.problem.Start": "start/inducing",
    "gpclass.inference.gaussian.GaussianPosterior": "posterior/gaussian",
    "gpclass.inference.amp.ModePosterior": "posterior/mode",
    "gpclass.inference.samples.SamplePosterior": "posterior/samples",
    "gpclass.inference.particles.ParticlePosterior": "posterior/particles",
    "gpclass.multiclass.gaussian.MultiGaussianPosterior": "posterior/gaussian-many",
    "gpclass.multiclass.samples.MultiSamplePosterior": "posterior/samples-many",
    "gpclass.multiclass.particles.MultiParticlePosterior": "posterior/particles-many",
    "gpclass.sparse.gaussian.SparseGaussian": "posterior/gaussian-inducing",
    "gpclass.sparse.exact.SparseDraws": "posterior/draws-inducing",
    "gpclass.hyper.mixture.ThetaMixture": "posterior/theta-mixture",
    "gpclass.posterior.Evidence": "evidence",
    "gpclass.sites.Sites": "sites/two",
    "gpclass.multiclass.ep.PointSites": "sites/many",
    "gpclass.linalg.SiteFactor": "factor/sites",
    "gpclass.covariance.compiled.Covariance": "covariance",
    "gpclass.posterior.Report": "report/inference",
    "gpclass.hyper.base.FitReport": "report/fit",
    "gpclass.hyper.trace.Trace": "trace/chains",
    "gpclass.hyper.em.EMTrace": "trace/em",
    "gpclass.hyper.cross_validation.Search": "trace/cv",
    "gpclass.persistence.again.SitesOf": "again/site-factor",
    "gpclass.persistence.again.CoupledSitesOf": "again/coupled-factor",
    "gpclass.persistence.again.DrawsOf": "again/draws",
    "gpclass.persistence.again.LatentsOf": "again/latents",
    "gpclass.persistence.again.RootOf": "again/root",
    "gpclass.persistence.again.UtilitiesOf": "again/utilities",
    "gpclass.persistence.again.InversesOf": "again/inverses",
    "gpclass.inference.redraw.Seed": "recipe/seed",
    "gpclass.inference.redraw.Recipe": "recipe/draws",
    "gpclass.inference.redraw.LatentRecipe": "recipe/latents",
    "gpclass.geostat.indicators.Sites": "kriging/sites",
    "gpclass.geostat.systems.KrigingSystem": "kriging/system",
    "gpclass.geostat.model.VariogramModel": "variogram/model",
    "gpclass.geostat.estimation.VariogramSearch": "variogram/search",
    "gpclass.geostat.fitting.VariogramFit": "variogram/fit",
    "gpclass.geostat.variogram.EmpiricalVariogram": "variogram/empirical",
    "gpclass.tables.Encoding": "table/encoding",
    "gpclass.tables.NumberColumn": "table/numbers",
    "gpclass.tables.CategoryColumn": "table/categories",
}


def registered() -> dict[str, type]:
    """The classes of the registry by their stable names, each once: under its first name there."""
    tables: dict[str, Mapping[str, type]] = {
        "inference": {name: type(row.default) for name, row in INFERENCES.items()},
        "strategy": {name: type(row.default) for name, row in STRATEGIES.items()},
        "likelihood": LIKELIHOODS,
        "form": FORMS,
    }
    found: dict[type, str] = {}
    for kind, table in tables.items():
        for name, cls in table.items():
            found.setdefault(cls, f"{kind}/{name}")
    return {name: cls for cls, name in found.items()}


def written() -> set[str]:
    """Every name that a new file may hold."""
    return {*PATHS, *registered()}


def name_of(cls: type) -> str | None:
    """The stable name of a class; None if it has none, and then it cannot be in a file."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    here = (name for name, known in PATHS.items() if known == path)
    return next(here, None) or next((name for name, own in registered().items() if own is cls), None)


def stable(name: str) -> str:
    """The stable name for a name in a file, stable or legacy; any other is an error."""
    found = LEGACY.get(name, name)
    if found not in MIGRATIONS and found not in written():
        raise ValueError(f"{name!r} is not a class of a saved model")
    return found


def migration(name: str) -> Callable[[dict[str, Any]], Any]:
    """The function that reads what a file holds under a retired name; a present name takes the same fields."""
    if MIGRATIONS[name] in written():
        cls = class_of(MIGRATIONS[name])
        return lambda state: cls(**state)
    migrations: Any = import_module("gpclass.persistence.migrations")
    return getattr(migrations, MIGRATIONS[name])  # type: ignore[no-any-return]


def class_of(name: str) -> Any:
    """The class of a stable name, its module imported if needed."""
    if name not in PATHS:
        return registered()[name]
    module, _, bare = PATHS[name].partition(":")
    return getattr(import_module(module), bare)
