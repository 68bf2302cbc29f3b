"""The paper's experiments run, and its table is read as printed."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from papers.common import Setting
from papers.filippone2014 import figure2, shared, speed, table1
from papers.filippone2014.__main__ import main
from papers.store import Limit, NoTime, cell
from sklearn.gaussian_process.kernels import RBF

from gpclass.inference import EP, Annealed, Exact, Importance
from tests.conftest import make_problem


def test_published_table():
    found = shared.published()
    assert "Table I" in found.source
    assert len(found.rows) == 8
    assert found.get("glass", covariance="isotropic", n_imp=10.0, estimator="AIS") == 11.4
    assert table1._published(found, "ard", "IS, 1", "thyroid") == (0.4, 0.3)
    assert table1._published(found, "ard", "exact, 64", "thyroid") == (None, None)


@pytest.mark.slow
def test_annealing_in_two_dimensions(tmp_path):
    """Both labels +1 of two nearly independent points: the evidence is near a quarter."""
    (section,) = main(["figure1"], results=tmp_path, docs=tmp_path)
    for _, log_z, error, share, *_ in section.tables[0].rows:
        assert abs(log_z - np.log(0.25)) < 4 * error + 0.02
        assert 0 < share <= 1
    assert (tmp_path / "filippone2014" / "figure1.png").exists()


@pytest.mark.slow
def test_chains_with_a_tuned_proposal():
    """Exact draws accept about as often as EP's evidence, one importance draw less often."""
    tuned = shared.tune(make_problem(25, kernel=shared.filippone(5.0, 1.0)), 60, seed=0)
    assert 0.05 < tuned.acceptance < 0.7
    found = {}
    for label in ("EP's evidence", "IS, 1"):
        outcome = shared.chains(tuned, shared.ESTIMATORS[label], 2, 0, 60, seed=1)
        found[label], error, _ = shared.acceptance(outcome.stack("accepted"))
        assert error >= 0
        assert shared.effective_size(outcome.stack("theta")) > 0
    assert found["IS, 1"] < found["EP's evidence"]


@pytest.fixture(scope="module")
def tuned():
    return shared.tune(make_problem(15, kernel=shared.filippone(5.0, 1.0)), 30, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_a_proposal_is_scaled_until_the_known_evidence_accepts_a_quarter(factor, tuned):
    wrong = replace(tuned, mode=replace(tuned.mode, covariance=factor * tuned.mode.covariance))
    found = shared.settled(wrong, 60, seed=1)
    assert 0.2 <= found.acceptance <= 0.3
    ratio = found.mode.covariance / wrong.mode.covariance
    assert (ratio.max() < 1.0) == (factor > 1.0)


def test_verdict_allows_five_points_and_two_errors():
    found = {"EP's evidence": {"percent": 30.0, "error": 1.0}, "exact, 64": {"percent": 23.0, "error": 1.0}}
    assert table1._verdict("ard", "glass", found).met
    found["exact, 64"]["percent"] = 21.0
    assert not table1._verdict("ard", "glass", found).met


def test_a_cell_is_measured_once(tmp_path):
    """Kept under its settings: the same ones are answered from disk, others are measured anew."""
    calls = []

    def measure():
        calls.append(1)
        return {"x": np.array([1.0, 2.0]), "none": None}

    for settings in ({"draws": 3, "rows": None}, {"draws": 3, "rows": None}, {"draws": 4, "rows": None}):
        found = cell("paper", "a", settings, measure, tmp_path)
        assert found == {"x": [1.0, 2.0], "none": None}
    assert len(calls) == 2


def test_no_cell_is_begun_after_the_limit(tmp_path):
    """What is stored is answered, the rest waits for another run; and the rows that are complete are shown."""
    cell("paper", "a", {}, lambda: {"x": 1.0}, tmp_path)
    try:
        Limit.set(-1.0)
        assert cell("paper", "a", {}, lambda: {"x": 2.0}, tmp_path) == {"x": 1.0}
        assert not Limit.reached
        with pytest.raises(NoTime, match="goes on from there"):
            cell("paper", "b", {}, lambda: {"x": 2.0}, tmp_path)
        assert Limit.reached
    finally:
        Limit.set(None)
    assert cell("paper", "b", {}, lambda: {"x": 2.0}, tmp_path) == {"x": 2.0}


@pytest.fixture
def table_of(monkeypatch):
    """Table 1 at full size, of every set, from made-up measurements."""
    monkeypatch.setattr(table1, "missing", lambda name: "")
    monkeypatch.setattr(table1, "left_out", lambda names: ())
    monkeypatch.setattr(table1, "tuned_proposal", lambda *asked: SimpleNamespace(acceptance=0.25))
    monkeypatch.setattr(table1, "data_set", lambda name, covariance: SimpleNamespace(n=200 if name == "pima" else 100))

    def run(measured):
        monkeypatch.setattr(table1, "measured", measured)
        return table1.run(Setting(full=True))

    return run


MADE_UP = {"n": 100, "percent": 25.0, "error": 1.0, "spread": 1.0, "sd": 0.1, "effective": 9.0, "seconds": 0.36}


def test_table_one_shows_the_rows_that_are_complete(table_of):
    def measured(setting, covariance, name, label):
        if (name, covariance) != ("glass", "isotropic"):
            raise NoTime("not yet")
        return MADE_UP

    section = table_of(measured)
    assert len(section.tables[0].rows) == len(shared.ESTIMATORS)
    assert "Not measured yet, and so not shown: glass ard, thyroid isotropic" in section.notes[-1]
    with pytest.raises(NoTime):
        table_of(lambda *asked: measured(*asked[:2], "none", ""))


def test_rows_of_a_full_run_that_are_not_reached_are_shorter_and_say_so(table_of):
    def measured(setting, covariance, name, label):
        if setting.full and name != "glass":
            raise NoTime("not yet")
        return MADE_UP

    section = table_of(measured)
    length = {row[1]: row[4] for row in section.tables[0].rows}
    assert length["glass"] == "5 x 1500"
    assert set(length.values()) == {"5 x 1500", "2 x 120", "2 x 400"}
    assert len(section.tables[0].rows) == 2 * len(shared.FILES) * len(shared.ESTIMATORS)
    hours = 2 * len(shared.ESTIMATORS) * (3 + 8)  # two covariances, an hour each, but eight of twice the rows
    assert f"about {hours} hours" in section.notes[1]


def test_full_is_the_papers_size():
    full = Setting(full=True)
    assert set(table1.FULL) == set(shared.FILES)
    for size in table1.FULL.values():
        assert (size.chains, size.discard, size.draws, size.rows) == (5, 500, 1500, None)
    assert table1.tuning_length(full) == 2000


def test_proposals_settle_at_the_wanted_acceptance(monkeypatch):
    """With a chain whose acceptance falls as its steps grow, from far too long and far too short steps."""

    class Outcome:
        def __init__(self, rate):
            self.rate = rate

        def stack(self, name):
            return np.array([self.rate])

    def chains(tuned, *_):
        return Outcome(float(np.exp(-np.sqrt(tuned.mode.covariance[0, 0]))))

    monkeypatch.setattr(shared, "chains", chains)
    for size in (0.05, 8.0):
        mode = shared.Mode(np.zeros(1), np.array([[size]]), 0)
        found = shared.settled(shared.Tuned(None, mode, 0.5), 10, 0)
        assert 0.2 <= found.acceptance <= 0.3
        assert found.acceptance == chains(found).rate


def test_the_deterministic_evidence_is_accurate_and_the_same_wherever_the_chain_was():
    problem = make_problem(40, kernel=20.0 * RBF(1.0))
    mode = shared.Mode(problem.theta, np.eye(2), 0)
    density = shared.estimator(shared.Tuned(problem, mode, 0.25), shared.ESTIMATORS["EP's evidence"])
    for step in ([0.8, -0.5], [-0.8, 0.5], [1.0, 1.0]):
        theta = problem.theta + step
        sure = EP(tol=1e-8)(problem.at(theta)).evidence.log_z
        assert density.log_evidence(theta) == pytest.approx(sure, abs=0.005)


@pytest.mark.parametrize("estimator", list(shared.ESTIMATORS))
def test_every_estimator_has_an_evidence(estimator):
    posterior = shared.ESTIMATORS[estimator](make_problem(12), np.random.default_rng(0))
    assert np.isfinite(posterior.evidence.log_z)


@pytest.fixture(scope="module")
def known():
    """A problem and its log evidence."""
    problem = make_problem(30, kernel=4.0 * RBF(1.0))
    return problem, Exact(n_samples=20_000)(problem, np.random.default_rng(1)).evidence.log_z


@pytest.mark.slow
@pytest.mark.parametrize("label", [name for name in figure2.METHODS if name != "AIS (prior)"])
def test_estimates_of_figure_2_are_unbiased_and_as_spread_as_one_by_one(label, known):
    problem, log_z = known
    log_w = figure2.METHODS[label](problem, 400, np.random.default_rng(0))
    assert log_w.shape == (400, figure2.PARTICLES)
    estimates = np.exp(log_w - log_z).mean(axis=1)
    assert abs(estimates.mean() - 1) < 4 * estimates.std() / 20
    one_by_one = {
        "IS (Laplace)": Importance(4, around="laplace"),
        "IS (EP)": Importance(4),
        "AIS (Laplace)": Annealed(4, around="laplace"),
        "guided": Exact().for_chains(4),
    }[label]
    slow = [one_by_one(problem, np.random.default_rng([7, k])).evidence.log_z for k in range(200)]
    # Between quartiles: one rare draw of a large weight may double a standard deviation.
    ours, theirs = (float(np.ptp(np.quantile(x, [0.25, 0.75]))) for x in (np.log(estimates), slow))
    assert ours == pytest.approx(theirs, rel=0.25)


def test_speed_asks_for_no_set_that_it_does_not_use(monkeypatch):
    asked = []
    one = {"percent": 25.0, "effective": 9.0, "seconds": 0.1}
    monkeypatch.setattr(speed, "left_out", lambda names: asked.extend(names) or ())
    monkeypatch.setattr(table1, "missing", lambda name: "")
    monkeypatch.setattr(speed, "measured", lambda *_: one)
    monkeypatch.setattr(speed, "screen", lambda *_: one)
    assert len(speed.run(Setting(quick=True)).tables[0].rows) == 4
    assert asked == [shared.FILES["glass"]]
