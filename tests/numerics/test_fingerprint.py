"""Fingerprints tell apart whatever differs, and are the same for what is the same."""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, Matern, PairwiseKernel, WhiteKernel
from sklearn.gaussian_process.kernels import ConstantKernel as C

from gpclass.hyper import PseudoMarginal
from gpclass.kernels import On
from gpclass.likelihoods import Logit, Probit
from gpclass.numerics.fingerprint import fingerprint
from gpclass.priors import LogNormal


@dataclass(frozen=True)
class Settings:
    tol: float
    name: str = "x"
    calls: list = field(default_factory=list, compare=False)  # no part of what it is


@dataclass(frozen=True)
class Others:
    tol: float
    name: str = "x"


class Plain:
    def __init__(self, a):
        self.a = a
        self.me = self


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(str):
    pass


def shifted(by):
    return lambda x: x + by


DIFFERENT = [
    (RBF(1.00001), RBF(1.00002)),
    (C(2.0) * RBF(1.00001), C(2.0) * RBF(1.00002)),
    (RBF(1.0, (1e-5, 1e5)), RBF(1.0, (1e-5, 1.00001e5))),
    (RBF(1.0), RBF(1.0, "fixed")),
    (RBF([1.0, 2.0]), RBF([2.0, 1.0])),
    (RBF(1.0), Matern(1.0)),
    (C(1.0) + RBF(1.0), C(1.0) * RBF(1.0)),
    (On(RBF(1.0), [0]), On(RBF(1.0), [1])),
    (On(RBF(1.00001), [0]), On(RBF(1.00002), [0])),
    (CompoundKernel([RBF(1.0), RBF(1.00001)]), CompoundKernel([RBF(1.00001), RBF(1.0)])),
    (WhiteKernel(1e-6, "fixed"), WhiteKernel(1.00001e-6, "fixed")),
    (PairwiseKernel(metric="rbf"), PairwiseKernel(metric="laplacian")),
    (PairwiseKernel(metric=np.dot), PairwiseKernel(metric=np.inner)),
    (shifted(1), shifted(2)),
    (lambda x: np.sin(x), lambda x: np.cos(x)),
    (partial(max, 1), partial(max, 2)),
    (0.1 + 0.2, 0.3),
    (1.0, 1.0 + 2**-52),
    (1, 2),
    (2**64, 2**64 + 1),
    (1, True),
    (0, False),
    (1, "1"),
    (b"1", "1"),
    (None, "None"),
    (Path("a"), "a"),
    (["ab", "c"], ["a", "bc"]),
    ([1, [2]], [[1, 2]]),
    ((1, 2), [1, 2]),
    ({"a": 1}, {"a": 2}),
    ({1, 2}, {1, 3}),
    (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-15])),
    (np.array([1.0, 2.0]), np.array([[1.0, 2.0]])),
    (np.array([0, 0]), np.array([0.0, 0.0])),
    (np.arange(4).reshape(2, 2), np.arange(4).reshape(2, 2).T),
    (np.array(["a", "b"]), np.array(["a", "c"])),
    (np.array(["a", None], dtype=object), np.array(["a", "b"], dtype=object)),
    (np.array([1.0, np.nan]), np.array([1.0, np.inf])),
    (Settings(1e-3), Settings(1.00001e-3)),
    (Settings(1.0), Others(1.0)),
    (Plain(1.0), Plain(1.00001)),
    (Slotted(1.0), Slotted(1.00001)),
    (Level.LOW, Level.HIGH),
    (Level.LOW, 1),
    (Word("a"), Word("b")),
    (Plain, Slotted),
    (Plain(1).__init__, Plain(2).__init__),
    (len, max),
    (np.zeros(1, "i4,f8"), np.zeros(1, "i4,f4")),
    (LogNormal(0.0, 1.0), LogNormal(0.0, 1.00001)),
    (Probit(), Logit()),
    (PseudoMarginal(draws=10), PseudoMarginal(draws=11)),
    (np.random.default_rng(0), np.random.default_rng(1)),
]


@pytest.mark.parametrize("k", range(len(DIFFERENT)))
def test_different_things_differ(k):
    one, other = DIFFERENT[k]
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint([one]) != fingerprint([other])
    assert fingerprint("x", one) != fingerprint("x", other)
    assert fingerprint(one) == fingerprint(one)


SAME = [
    (C(2.0) * RBF([1.0, 2.0]), C(2.0) * RBF([1.0, 2.0])),
    (RBF(1), RBF(1.0)),
    (RBF(1.0), RBF(np.float64(1.0))),
    (np.float64(0.1), 0.1),
    (np.int32(3), 3),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (float("nan"), float("nan")),
    (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))),
    (np.arange(6)[::2], np.array([0, 2, 4])),
    ({3, 1, 2}, {2, 3, 1}),
    (Settings(1.0, calls=[1]), Settings(1.0)),
    (Plain(1.0), Plain(1.0)),
    (Slotted(1.0), Slotted(1.0)),
    (shifted(1), shifted(1)),
    (np.random.default_rng(0), np.random.default_rng(0)),
]


@pytest.mark.parametrize("k", range(len(SAME)))
def test_the_same_is_the_same(k):
    one, other = SAME[k]
    assert fingerprint(one) == fingerprint(other)


def test_things_are_not_run_together():
    assert fingerprint("a", "b") != fingerprint("ab") != fingerprint("b", "a")
    assert fingerprint() != fingerprint(None)


def test_a_memory_map_is_what_it_holds(tmp_path):
    mapped = np.memmap(tmp_path / "x", float, "w+", shape=(3,))
    mapped[:] = [1.0, 2.0, 3.0]
    assert fingerprint(mapped) == fingerprint(np.array([1.0, 2.0, 3.0]))


def test_a_replaced_field_is_seen_also_where_repr_hides_it():
    @dataclass(frozen=True)
    class Hidden:
        a: int = field(default=0, repr=False)

    assert fingerprint(Hidden()) != fingerprint(replace(Hidden(), a=1))


def test_fingerprints_do_not_change_from_run_to_run():
    """Files of earlier runs carry them: a change here needs a new version of the checkpoints."""
    assert fingerprint(np.arange(3.0), C(2.0) * RBF(1.5), "a", 1e-3) == "a2f6c169e07338fa97487c6924cf48f8"
