"""Settings of inferences and strategies are validated alike, by their types: derived from the classes."""

from dataclasses import MISSING, dataclass, fields

import pytest

from gpclass._settings import Settings
from gpclass.hyper import HMC, Alternate, CrossValidation, Maximize
from gpclass.hyper.staged.settings import Stages
from gpclass.inference import AMP, DSGQ, EP, GPCMC, Laplace, LatentHMC
from gpclass.registry import methods

CLASSES = sorted({type(row.default) for row in methods()} | {Stages}, key=lambda cls: cls.__qualname__)
WRONG = {  # what no field of a type takes
    "int": (2.5, True, -1, float("nan"), "3", [3]),
    "float": (True, float("nan"), float("inf"), -1.0, 0.0, "0.1", [0.1]),
    "bool": (1, "yes", 0.5),
    "str": ("nonsense", 1, True),
}


def cases():
    for cls in CLASSES:
        for field in fields(cls):
            kinds = set(str(field.type).split(" | "))
            own = kinds & set(WRONG)
            if len(own) != 1 or kinds - {"None"} != own:  # a mapping, a path, another settings object
                continue
            for value in (*WRONG[own.pop()], *(() if "None" in kinds else (None,))):
                yield pytest.param(cls, field.name, value, id=f"{cls.__qualname__}-{field.name}-{value!r}")


CASES = list(cases())


@pytest.mark.parametrize(("cls", "name", "value"), CASES)
def test_a_value_that_makes_no_sense_is_refused(cls, name, value):
    with pytest.raises(ValueError, match=rf"{cls.__name__}: {name} must be .*got"):
        cls(**{name: value})


def test_every_settings_class_has_cases():
    assert {case.values[0].__qualname__ for case in CASES} == {cls.__qualname__ for cls in CLASSES if fields(cls)}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__qualname__)
def test_the_defaults_are_valid(cls):
    assert cls() == cls(**{f.name: f.default for f in fields(cls) if f.default is not MISSING})


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: HMC(acceptance=5), "between 0 and 1"),
        (lambda: HMC(leapfrog=2.5), "whole number"),
        (lambda: Alternate(acceptance=-1), "between 0 and 1"),
        (lambda: Alternate(step_size=-1), "positive"),
        (lambda: Alternate(latent_step=float("nan")), "positive"),
        (lambda: Maximize(polish_steps=-3), "at least 0"),
        (lambda: CrossValidation(folds=2.5), "at least 2"),
        (lambda: CrossValidation(folds=1), "at least 2"),
        (lambda: CrossValidation(span=1.0), "span"),
        (lambda: CrossValidation(block_size=-1.0), "block_size"),
        (lambda: CrossValidation(block_size="car"), "block_size"),
        (lambda: GPCMC(order="nonsense"), "'random'"),
        (lambda: AMP(c0_bounds=(5, 1)), "low <= high"),
        (lambda: DSGQ(k0_bounds=(5, 1)), "low <= high"),
        (lambda: DSGQ(k0=-1.0), "positive"),
        (lambda: EP(tol=True), "positive"),
        (lambda: Laplace(tol=float("inf")), "positive"),
        (lambda: LatentHMC(chains=1), "at least 2"),
        (lambda: LatentHMC(draws=3), "at least 4"),
    ],
)
def test_values_that_were_once_accepted(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_a_new_class_is_validated_without_a_line_of_its_own():
    @dataclass(frozen=True)
    class Mine(Settings):
        noise: float = 0.1

    assert Mine(noise=1).noise == 1
    with pytest.raises(ValueError, match="Mine: noise must be a positive number, got -3"):
        Mine(noise=-3)
