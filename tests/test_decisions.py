"""Decisions against sums written out by hand, and their error against resampled probabilities."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from gpclass import GPClassifier
from gpclass.decisions import decide

CLASSES = ["ill", "well"]


def test_least_expected_cost_written_out():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], size=50)
    cost = rng.uniform(0, 10, size=(3, 4))
    found = decide(proba, cost, ["a", "b", "c"])
    for i in range(50):
        each = [sum(proba[i, c] * cost[c, a] for c in range(3)) for a in range(4)]
        assert found.action[i] == int(np.argmin(each))
        assert found.expected_cost[i] == pytest.approx(min(each))
        assert found.margin[i] == pytest.approx(sorted(each)[1] - min(each))
    assert found.actions == (0, 1, 2, 3)


def test_equal_costs_choose_the_more_probable_class():
    proba = np.array([[0.7, 0.3], [0.2, 0.8]])
    found = decide(proba, 1 - np.eye(2), CLASSES)
    assert found.action.tolist() == ["ill", "well"]
    np.testing.assert_allclose(found.expected_cost, [0.3, 0.2])


def test_reject_is_chows_rule():
    p = np.linspace(0, 1, 101)
    found = decide(np.column_stack([p, 1 - p]), 1 - np.eye(2), CLASSES, reject=0.2)
    rejected = np.maximum(p, 1 - p) < 1 - 0.2 - 1e-12
    np.testing.assert_array_equal(found.action == "reject", rejected)


def test_mappings_say_the_same_as_arrays():
    proba = np.array([[0.9, 0.1], [0.02, 0.98]])
    by_name = {"treat": {"well": 5, "ill": 1}, "wait": {"ill": 50, "well": 0}}
    by_order = {"treat": [1, 5], "wait": [50, 0]}
    array = np.array([[1, 50], [5, 0]])
    found = [
        decide(proba, by_name, CLASSES),
        decide(proba, by_order, CLASSES),
        decide(proba, array, CLASSES, actions=["treat", "wait"]),
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.action, found[0].action)
        np.testing.assert_allclose(other.costs, found[0].costs)
    assert found[0].action.tolist() == ["treat", "wait"]


def test_error_of_the_margin_for_two_classes_is_that_of_the_difference():
    cost = np.array([[0.0, 7.0], [3.0, 1.0]])
    p, mcse = 0.4, 0.01
    found = decide([[p, 1 - p]], cost, CLASSES, mcse=[[mcse, mcse]])
    rng = np.random.default_rng(1)
    noisy = p + mcse * rng.standard_normal(100_000)
    gap = noisy * (cost[0, 1] - cost[0, 0]) + (1 - noisy) * (cost[1, 1] - cost[1, 0])
    assert found.margin_error[0] == pytest.approx(gap.std(), rel=0.02)
    assert abs(found.margin[0]) == pytest.approx(abs(gap.mean()), rel=0.02)


def test_error_is_a_bound_for_more_classes():
    rng = np.random.default_rng(2)
    cost = rng.uniform(0, 5, size=(4, 3))
    draws = rng.dirichlet([30, 20, 10, 40], size=20_000)
    p, mcse = draws.mean(axis=0), draws.std(axis=0)
    found = decide([p], cost, list("abcd"), mcse=[mcse])
    a = found.index[0]
    b = np.argsort(found.costs[0])[1]
    assert (draws @ (cost[:, b] - cost[:, a])).std() <= found.margin_error[0]


def test_what_could_turn():
    proba = np.array([[0.51, 0.49], [0.51, 0.49], [0.9, 0.1], [0.51, 0.49]])
    mcse = np.array([[0.01, 0.01], [0.001, 0.001], [0.01, 0.01], [np.nan, np.nan]])
    found = decide(proba, 1 - np.eye(2), CLASSES, mcse=mcse)
    assert found.could_turn.tolist() == [True, False, False, False]
    assert np.isnan(found.margin_error[3])
    assert "could change 1" in str(found)
    # a third action that is not the next best may be the one that wins
    cost = np.array([[0.0, 0.05, 9.0], [1.0, 1.0, 0.0]])
    sure = decide([[0.9, 0.1]], cost[:, :2], CLASSES, mcse=[[0.03, 0.03]])
    turned = decide([[0.9, 0.1]], cost, CLASSES, mcse=[[0.3, 0.3]])
    assert not sure.could_turn[0]
    assert turned.could_turn[0]


@pytest.mark.parametrize(
    ("cost", "settings", "message"),
    [
        (np.zeros((3, 2)), {}, "one row per class"),
        ([[0, 1], [np.nan, 0]], {}, "finite"),
        ({"treat": {"ill": 1}}, {}, "lacks"),
        ({"treat": {"ill": 1, "well": 1, "dead": 2}}, {}, "not classes"),
        ({"treat": [1]}, {}, "2 classes"),
        ([[0, 1], [1, 0]], {"actions": ["one"]}, "names"),
        ({"reject": [1, 2]}, {"reject": 1.0}, "same name"),
        ({}, {}, "one action"),
    ],
)
def test_bad_costs_are_refused(cost, settings, message):
    with pytest.raises(ValueError, match=message):
        decide([[0.5, 0.5]], cost, CLASSES, **settings)


@pytest.mark.parametrize("name", ["ep", "laplace"])
def test_the_estimator_decides(name):
    X, y = make_moons(60, noise=0.25, random_state=0)
    labels = np.array(["reef", "sand"])[y]
    clf = GPClassifier(inference=name, hyperparameters="fixed", random_state=0).fit(X, labels)
    cost = {"anchor": {"reef": 100.0, "sand": 0.0}, "go on": {"reef": 1.0, "sand": 1.0}}
    found = clf.decide(X, cost)
    proba = clf.predict_proba(X)
    np.testing.assert_array_equal(found.action == "anchor", 100 * proba[:, 0] < 1)
    assert not found.could_turn.any()
    assert set(clf.decide(X, 1 - np.eye(2), reject=0.1).action) == {"reef", "sand", "reject"}


def test_messages_name_classes_as_they_were_written():
    """A label prints as 'ill', not as np.str_('ill')."""
    with pytest.raises(ValueError, match=r"each of \['ill', 'well'\]; it lacks \['well'\]"):
        decide(np.array([[0.5, 0.5]]), {"treat": {"ill": 1}}, np.array(CLASSES))
