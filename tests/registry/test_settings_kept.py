"""No setting is dropped silently: each one, changed alone, changes the fit or is refused. Derived from the classes."""

from collections import ChainMap
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass import GPClassifier
from gpclass._settings import SHARE
from gpclass.hyper import Fixed, Map, Maximize, full_bayes
from gpclass.hyper.base import Run
from gpclass.hyper.staged.settings import Stages
from gpclass.hyper.trace import Trace
from gpclass.inference import EP, EllipticalSlice, Exact, Importance, Laplace, LatentHMC
from gpclass.latent.low_rank import LowRank
from gpclass.likelihoods import Probit, get_likelihood
from gpclass.model.problem import Problem
from gpclass.registry import FORMS, INFERENCES, cell, check_combination, methods

KERNEL = ConstantKernel(0.4, (0.1, 50.0)) * RBF(2.0, (0.2, 4.0))  # far from the best
RNG = np.random.default_rng(7)
X = RNG.normal(size=(12, 2))
Y = (X[:, 0] + 0.6 * RNG.normal(size=12) > 0).astype(int)
N = 12
# Settings that act together with others: what goes with them here.
WITH = {
    "first": {"n_samples": None},
    "tol": {"n_samples": None},
    "max_samples": {"n_samples": None, "tol": 1e-4, "first": 50},
    "leapfrog": {"move": "hmc"},
    "step_size": {"move": "hmc"},
    "coordinates": {"block_size": 0.6},
    "rounds": {"n_points": 2},
    "acceptance": {"warmup": 4, "controls": 2, "proposal": "walk"},
    "pointwise": {"draws": 12, "keep": 2},
    "vectors": {"draws": 4},
    "polish_steps": {"gradient_tol": 50.0},
    "keep": {"draws": 12},
    "guide": {"start": "mode"},
    "screen": {"draws": 20, "start": "mode"},
}
# Inferences with which a setting of a strategy acts, if not the first that the strategy takes, in brief.
INFERENCE = {
    "polish_steps": Exact(n_samples=800),
    "particles": Exact(),
    "screen": Importance(20),
    "approximate": EP(),
    "latent_step": LatentHMC(),
}
PLAIN = {}  # fits that many fields are compared with
NEUTRAL = {("EP", "block")}  # how the same sites are found, in one kind of sweep: time alone
# Other values of settings whose type does not say what they may be.
VALUES = {
    "grid": ({"length_scale": [0.5, 2.0]},),
    "ranges": ({"length_scale": (0.5, 0.7)},),
    "coordinates": ((0,),),
    "block_size": (0.6,),
    "c0_bounds": ((0.5, 0.6),),
    "k0_bounds": ((0.2, 0.3),),
    "stages": (Stages(move_inducing=False),),
    "ladder": ("balanced", (0.0, 0.5, 1.0)),
    "around": ("prior", "laplace", Laplace(), EP(max_sweeps=1)),
}


def others(cls, field, value):
    """Values of a field other than the given one, by its type and limits."""
    if field.name in VALUES:
        return VALUES[field.name]
    limit = ChainMap(*(vars(c).get("limits", {}) for c in cls.__mro__)).get(field.name)
    kind = str(field.type).split(" | ")[0]
    if isinstance(limit, tuple):
        return [name for name in limit if name != value]
    if kind == "bool":
        return [flag for flag in (True, False) if flag is not value]
    if limit == SHARE:
        return (0.05, 0.95)
    if kind == "int":
        least = 1 if limit is None else limit
        return [k for k in (least, 2 * (value or 0) + 3, 9) if k != value]
    assert kind == "float", field
    return ((value or 1.0) * 1e-3, (value or 1.0) * 20.0, 0.9)


def told(posterior):
    """What a posterior says, to the last bit."""
    found, evidence = posterior.latent(X[:5]), posterior.evidence
    figures = (found.means, found.covariances, found.weights, found.group)
    report = replace(posterior.report, seconds=0.0)
    return [a.tobytes() for a in figures], None if evidence is None else (evidence.log_z, evidence.error), str(report)


def outcome(work):
    try:
        return work()
    except ValueError as refused:
        return f"refused: {refused}"


def problem_for(inference, form, link):
    likelihood = inference.own_likelihood or get_likelihood(link)
    how = LowRank(m=4) if form is LowRank else form.example(X)
    return Problem.of(X, likelihood.encode(Y), KERNEL, likelihood, form=how).placed(np.random.default_rng(1))


def companions(settings, name):
    """The settings with those that a field acts together with."""
    own = {field.name for field in fields(settings)} - {name}
    return replace(settings, **{k: v for k, v in WITH.get(name, {}).items() if k in own})


def inferred(inference, form, name):
    problem = problem_for(inference, form, "logit" if name == "jitter" else "probit")
    return problem.theta.tobytes(), told(inference(problem, np.random.default_rng(0)))


def searched(strategy, form, name):
    first = next(row for row in INFERENCES.values() if strategy.takes(row.default))
    inference = INFERENCE.get(name, first.brief)
    problem = problem_for(inference, form, "probit")
    check_combination(inference, strategy, problem.likelihood, form)
    fit = strategy(problem, inference, Run(np.random.default_rng(0)))
    written = name == "checkpoint" and strategy.checkpoint is not None and strategy.checkpoint.exists()
    groups = fit.trace.groups if isinstance(fit.trace, Trace) else {}
    traced = {(group, key): np.shape(value) for group, held in groups.items() for key, value in held.items()}
    return fit.problem.theta.tobytes(), told(fit.posterior), str(fit.figures), fit.warnings, written, traced


def cases():
    """Each field of each class, where the class runs; what a class inherits from another is tested there."""
    rows = {type(row.default): row for row in reversed(methods())}
    for cls, row in rows.items():
        above = {field.name for parent in cls.__mro__[1:] if parent in rows for field in fields(parent)}
        fixed = cls in {type(one.default) for one in INFERENCES.values()}
        for field, form in product(fields(cls), FORMS.values()):
            pair = (row.default, Fixed()) if fixed else (INFERENCES["ep"].default, row.default)
            runs = cell(*pair, form, "two").runs if fixed else True
            if field.name == "pointwise" and not form.predicts_from_rows:
                continue  # such a prior has no latent values of the rows to record
            if issubclass(cls, full_bayes.FullBayes) and form is FORMS["neighbours"]:
                continue  # chains ask it for the same as inducing inputs; test_conformance.py runs them all
            if runs and field.name not in above and (cls.__name__, field.name) not in NEUTRAL:
                marks = () if fixed else pytest.mark.slow
                name = f"{cls.__name__}-{field.name}-{form.name}"
                yield pytest.param(inferred if fixed else searched, row.brief, field, form, id=name, marks=marks)


@pytest.mark.slow
@pytest.mark.usefixtures("brief_chains")
@pytest.mark.filterwarnings("ignore")  # brief chains and climbs
@pytest.mark.parametrize(("run", "brief", "field", "form"), list(cases()))
def test_each_setting_changes_the_fit_or_is_refused(run, brief, field, form, tmp_path, monkeypatch):
    monkeypatch.setitem(VALUES, "checkpoint", (tmp_path / "fit.npz",))
    base = companions(brief, field.name)
    key = (run.__name__, repr(base), form.name, repr(INFERENCE.get(field.name)), field.name == "jitter")
    if key not in PLAIN:
        PLAIN[key] = outcome(lambda: run(base, form, field.name))
    plain = PLAIN[key]
    values = others(type(base), field, getattr(base, field.name))
    changed = (
        outcome(lambda value=value: run(replace(base, **{field.name: value}), form, field.name)) for value in values
    )
    assert isinstance(plain, str) or any(found != plain for found in changed), values


def test_a_setting_that_is_dropped_would_be_noticed(monkeypatch, tmp_path):
    run, brief, field, form = next(case.values for case in cases() if case.id == "Laplace-max_iter-dense")
    same = Laplace()
    monkeypatch.setattr(Laplace, "__call__", lambda self, *given: super(Laplace, same).__call__(*given))
    with pytest.raises(AssertionError):
        test_each_setting_changes_the_fit_or_is_refused(run, brief, field, form, tmp_path, monkeypatch)


# ---- settings of the stages, and others that act on more rows or through the estimator -------------------------


@pytest.mark.parametrize("strategy", [Maximize, Map])
@pytest.mark.parametrize("setting", [{"checkpoint": "fit.npz"}, {"stages": Stages(window=9)}])
def test_what_applies_with_inducing_inputs_alone_is_refused_without(strategy, setting):
    clf = GPClassifier(KERNEL, inference="ep", hyperparameters=strategy(**setting))
    with pytest.raises(ValueError, match="inducing inputs"):
        clf.fit(X, Y)


@pytest.fixture(scope="module")
def many_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 2))
    noisy = np.sin(2 * rows[:, 0]) + rows[:, 1] + 0.7 * rng.normal(size=700)
    return rows, (noisy > 0).astype(int)


def staged(many_rows, stages):
    rows, y = many_rows
    problem = Problem.of(rows, np.where(y > 0, 1.0, -1.0), KERNEL, Probit(), form=LowRank(m=5))
    fit = Maximize(stages=stages, max_iter=16)(problem, EP(), Run(np.random.default_rng(0)))
    return told(fit.posterior), str(fit.figures)


STAGES = {  # what each setting needs to act on 700 rows
    "stop": {},
    "window": {"gain": 0.05},
    "gain": {"window": 1, "gain": 1e-5},  # half a percent of the log loss at most
    "held_out": {"gain": 0.05},
    "move_inducing": {},
    "few_rows": {},
    "some_rows": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("field", fields(Stages), ids=lambda field: field.name)
def test_each_setting_of_the_stages_changes_the_ascent(field, many_rows):
    base = Stages(**{"held_out": 65, "few_rows": 2000, "some_rows": 6000, **STAGES[field.name]})
    plain = staged(many_rows, base)
    values = [*others(Stages, field, getattr(base, field.name)), *([60] if field.type == "int" else [])]
    assert any(staged(many_rows, replace(base, **{field.name: value})) != plain for value in values), values


@pytest.mark.filterwarnings("ignore::UserWarning")  # brief chains
def test_a_gradient_that_there_is_not_is_refused():
    clf = GPClassifier(KERNEL, inference=EllipticalSlice(evidence=True).brief(), hyperparameters="fixed")
    clf.fit(X, Y)
    assert np.isfinite(clf.log_marginal_likelihood(clf.theta_))
    with pytest.raises(ValueError, match="has no gradient"):
        clf.log_marginal_likelihood(clf.theta_, eval_gradient=True)


def test_the_gradient_of_importance_sampling_is_given():
    clf = GPClassifier(KERNEL, inference=Importance(200), hyperparameters="fixed", random_state=0).fit(X, Y)
    value, slope = clf.log_marginal_likelihood(clf.theta_, eval_gradient=True)
    assert np.isfinite(value)
    assert slope.shape == clf.theta_.shape
