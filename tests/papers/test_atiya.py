"""The experiments of Atiya et al. (2020) at tiny sizes, and what all papers' folders share."""

import importlib.util
from functools import partial

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from papers import common, truths
from papers.atiya2020 import (
    __main__,
    counting,
    figures,
    order,
    points,
    predicted_error,
    shared,
    table1,
    table4,
    tables23,
    times,
    tuning,
)
from papers.atiya2020.later import Later
from papers.common import Section, Setting, Table, Verdict
from papers.crabs import crabs_split
from papers.store import Limit, NoTime, cell

from gpclass.inference.elliptical_slice import EllipticalSlice
from gpclass.inference.hmc import LatentHMC
from gpclass.likelihoods import Probit
from gpclass.model.problem import Problem
from gpclass.orthant.bootstrap import bootstrap_run
from gpclass.orthant.box import standard_form

ONCE = Setting(repeats=2)


# ------------------------------------------------------------------------------------------- papers.common


def test_published_tables_say_where_they_come_from(tmp_path):
    table = shared.published(1)
    assert "Atiya" in table.source
    assert "Table 1" in table.source
    assert table.row(samples=3_000_000)["n500"] == 0.043
    assert table.get("n50", samples=12345) is None
    with pytest.raises(KeyError, match="0 rows"):
        table.row(samples=12345)
    (tmp_path / "bare.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="source"):
        common.read_published(tmp_path / "bare.csv")


def test_numbers_are_shown_with_three_figures():
    shown = [common.show(v) for v in (None, 10_000, 0.0123456, 3.2e-5, 12345.6, "exact", np.float64(2.0))]
    assert shown == ["–", "10,000", "0.0123", "3.2e-05", "12,346", "exact", "2"]


def section(name, value=1.0, met=True):
    table = Table(f"{name}_file", ("a", "b"), ((1, value),), "caption")
    return Section(name, f"Title {name}", (table,), (Verdict("claim", "more", "less", met),))


def test_a_section_is_printed_saved_and_replaced_on_its_page(tmp_path):
    first = section("one")
    assert "[met] claim" in first.text()
    assert "[MISSED] claim" in section("one", met=False).text()
    assert not section("one", met=False).met
    assert first.save(tmp_path)[0].read_text().splitlines() == ["a,b", "1,1.0"]
    page, order_ = tmp_path / "page.md", ["one", "two"]
    common.write_page(page, "T", "R", order_, section("two"), "run two")
    common.write_page(page, "T", "R", order_, section("one", 2.5), "run one")
    common.write_page(page, "T", "R", order_, section("one", 3.5), "run one")
    text = page.read_text()
    assert text.index("Title one") < text.index("Title two")
    assert "3.5" in text
    assert "2.5" not in text
    assert text.count("Title one") == 1


def test_an_unknown_experiment_is_refused(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["table9"])
    assert "table1" in capsys.readouterr().err


# --------------------------------------------------------------------------------------------- the tables


@pytest.mark.slow
def test_guided_beats_the_best_of_table_1():
    best = shared.published(1).row(samples=table1.BEST)["n50"]
    errors, _ = table1.measure(50, "guided", 10_000, 4, seed=0)
    assert errors.mean() < best / table1.WANTED[50]
    # a negative control: with a handful of particles the same comparison fails
    few, _ = table1.measure(50, "guided", 4, 4, seed=0)
    assert few.mean() > best / table1.WANTED[50]


@pytest.mark.slow
def test_the_hard_count_is_of_the_size_of_table_1():
    theirs = shared.published(1).row(samples=10_000)["n50"]
    errors, _ = table1.measure(50, "hard", 10_000, 12, seed=0)
    assert 0.5 < errors.mean() / theirs < 2
    few, _ = table1.measure(50, "hard", 500, 10, seed=0)
    assert few.mean() / theirs > 2  # a negative control


def test_table_1_judges_what_it_should():
    (good,) = table1._judge(50, "guided", 10_000, 1e-5, 1e-6, None, 0.012)
    (bad,) = table1._judge(50, "guided", 10_000, 1e-3, 1e-6, None, 0.012)
    assert good.met
    assert not bad.met
    assert not table1._judge(200, "hard", 100_000, 0.1, 0.005, 0.039, 0.015)[0].met
    assert table1._judge(200, "hard", 100_000, 0.1, 0.02, 0.039, 0.015)[0].met  # within two standard errors
    assert table1._judge(500, "soft", 10_000, 0.1, 0.01, 0.107, 0.043) == []
    (wide,) = table1._judge(500, "hard", 10_000, 0.06, 0.007, 0.107, 0.043, 0.032)
    assert wide.met
    assert "0.56 of it, -1.4 standard errors" in wide.measured
    assert not table1._judge(500, "hard", 10_000, 0.2, 0.02, 0.107, 0.043, 0.032)[0].met


def test_table_1_says_where_ours_is_much_better():
    rows = [(n, "hard", table1.BEST, 50, error, 0.001, None, 1.0) for n, error in ((50, 0.014), (500, 0.0042))]
    (said,) = table1.better(rows)
    assert "10 times smaller at n = 500 (0.0042 % against 0.043 %" in said
    assert "n = 50 " not in said
    assert table1.better(rows[:1]) == ()


def test_table_1_runs(monkeypatch):
    monkeypatch.setattr(table1, "plan", lambda n, setting: [("hard", 10_000, 2), ("guided", 10_000, 2)])
    found = table1.run(ONCE, dimensions=(50,))
    assert len(found.tables[0].rows) == 2
    assert len(found.verdicts) == 2
    assert "3,000,000" in found.notes[0]


def test_rows_that_are_not_complete_are_named(monkeypatch):
    monkeypatch.setattr(table1, "plan", lambda n, setting: [("hard", 500, 2), ("hard", 2000, 2), ("guided", 100, 2)])
    monkeypatch.setattr(table1, "naive", lambda *given: (0, 1.0))
    table1.measure(50, "hard", 500, 2, seed=0)
    table1.measure(50, "hard", 2000, 1, seed=0)  # one problem of two
    Limit.set(-1.0)
    try:
        found = table1.run(ONCE, dimensions=(50,))
        with pytest.raises(NoTime):
            table1.run(ONCE, dimensions=(200,))
    finally:
        Limit.set(None)
    assert [row[1:3] for row in found.tables[0].rows] == [("hard", 500)]
    assert (
        "Not measured yet with all problems, and so not shown: n = 50 hard 2,000, n = 50 guided 100." in found.notes[1]
    )
    assert "not counting 1 without" in found.notes[1]
    assert len(table1.run(ONCE, dimensions=(50,)).notes) == 1  # complete


def test_rows_of_tables_2_and_3_that_are_not_complete_are_named(monkeypatch):
    monkeypatch.setattr(tables23, "plan", lambda number, setting: [("gpc-mc", 500, 2), (tables23.HARD, 500, 2)])
    tables23.measure("gpc-mc", 1, 500, 2, seed=0)
    Limit.set(-1.0)
    try:
        found = tables23.table2(ONCE, problems=(1,))
    finally:
        Limit.set(None)
    assert [row[1] for row in found.tables[0].rows] == ["gpc-mc"]
    assert "P1 gpc-mc-hard, counted 500" in found.notes[-1]


def test_later_rows_take_time_in_proportion_to_their_draws():
    later = Later("runs")
    later.took("P1", "hard", 1000, 9.0)
    later.took("P1", "hard", 10_000, 36.0)
    assert later.note() == ()
    later.add("P1", "hard", 100_000, 20)
    assert "about 2.0 hours" in later.note()[0]


def test_vectors_that_are_drawn_no_further_are_as_many_as_whole_ones():
    d = np.full(4, 0.5)
    inside = [table1.any_inside(d, 3, np.random.default_rng([7, k])) for k in range(4000)]
    p = 1 - (1 - np.exp(truths.product_correlation_log_probability(d))) ** 3
    assert abs(np.mean(inside) - p) < 3 * np.sqrt(p * (1 - p) / 4000)


def test_new_rows_by_the_tree_are_those_of_the_posterior():
    """The mean at new rows from the tree of histories against (K + I)⁻¹ z for every point."""
    case = shared.Linear.draw(1, 0)
    data = Problem.of(case.x[:, None], case.y, shared.linear_kernel(), Probit())
    box, x_new = data.prior.box(), case.x_new[:, None]
    run = bootstrap_run(box, 300, np.random.default_rng(0), soft=False, precision=np.float64)
    W, sd = counting.new_rows(data, box, x_new)
    v = box.restore(np.linalg.cholesky(box.S) @ run.histories.product(np.eye(box.n)))
    assert v.min() > 0
    K = np.outer(case.x, case.x) + np.eye(len(case.x))
    a = np.linalg.solve(K, case.y[:, None] * v)
    np.testing.assert_allclose(run.histories.product(W), np.outer(case.x_new, case.x) @ a, atol=1e-9)
    rest = case.x_new**2 - np.einsum(
        "ij,ji->i", np.outer(case.x_new, case.x), np.linalg.solve(K, np.outer(case.x, case.x_new))
    )
    np.testing.assert_allclose(sd, np.sqrt(1 + rest), atol=1e-9)


def test_counts_agree_with_the_closed_form():
    case = shared.Linear.draw(1, 0)
    found = [counting.count_run(case, 4000, seed) for seed in range(40)]
    p = np.array([one.probability for one in found])
    error = p.std(axis=0) / np.sqrt(len(p))
    assert error.max() < 0.004
    assert np.sqrt(np.mean(((p.mean(axis=0) - case.probability) / error) ** 2)) < 1.8  # points share their draws
    evidence = np.exp([one.log_evidence - case.log_evidence for one in found])
    assert abs(evidence.mean() - 1) < 3 * evidence.std() / np.sqrt(len(evidence))


@pytest.mark.slow
@pytest.mark.parametrize("table", [tables23.table2, tables23.table3])
def test_exact_beats_tables_2_and_3(table, monkeypatch):
    monkeypatch.setattr(tables23, "PARTICLES", (10_000,))
    monkeypatch.setattr(tables23, "EXACT", (8000,))
    found = table(Setting(repeats=2), problems=(1,))
    assert [row[1] for row in found.tables[0].rows] == ["gpc-mc", tables23.HARD, "exact"]
    assert found.verdicts[0].met
    theirs, _, ours = (row[4] for row in found.tables[0].rows)
    assert ours < theirs / 5  # more draws, yet the particle algorithm is far behind


def test_many_particles_are_several_runs_averaged_in_p(monkeypatch):
    problem = shared.Linear.draw(1, 0)
    monkeypatch.setattr(shared, "RUN", 500)
    found = shared.particles(problem, 2000, 1)
    assert shared.mae(problem, found) < 0.05
    assert shared.mape(problem, found) < 2.0


# ------------------------------------------------------------------------------------ figures and samplers


@pytest.mark.slow
def test_the_command_line_prints_saves_and_writes_the_page(tmp_path, monkeypatch, capsys):
    sizes = {"exact": (figures.exact, (100, 400)), "gpc-mc": (figures.gpc_mc, (500, 1000))}
    monkeypatch.setattr(figures, "methods", lambda setting: sizes)
    monkeypatch.setattr(figures, "NUMBER", 1)
    (found,) = __main__.main(["figures", "--repeats", "2", "--write"], results=tmp_path, docs=tmp_path / "docs")
    assert [row[0] for row in found.tables[0].rows] == ["exact", "exact", "gpc-mc", "gpc-mc"]
    for file in ("figures.csv", "figure1.png", "figure2.png"):
        assert (tmp_path / "atiya2020" / file).stat().st_size > 50
    assert "python -m papers.atiya2020 figures" in (tmp_path / "docs" / "atiya2020.md").read_text()
    assert "CPU time at equal error" in capsys.readouterr().out


def test_time_at_equal_error_is_what_the_root_law_says():
    def point(method, error, seconds):
        return figures.Point(method, 1, 1, error, error, seconds, seconds)

    made = [point("gpc-mc", 0.1, 1.0), point("gpc-mc", 0.01, 100.0), point("exact", 0.01, 1.0)]
    assert figures.speed_ratio(made, "evidence") == pytest.approx((100.0, 100.0))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sampler"), [("elliptical-slice", EllipticalSlice()), ("hmc", LatentHMC())])
def test_samplers_join_the_figures(name, sampler, monkeypatch):
    monkeypatch.setattr(figures, "get_inference", lambda spec: sampler)
    monkeypatch.setitem(truths.LINEAR_PROBLEMS, 9, truths.LinearProblem(40, 10, (0.0, 1.0), (0.5, 0.5)))
    problem = shared.Linear.draw(9, 0)
    probabilities, evidence = figures.chains(name, 4, problem, 100, 0)
    assert shared.mae(problem, probabilities) < 0.05
    assert shared.mape(problem, evidence) < 10
    assert np.isnan(shared.mape(problem, probabilities))


# -------------------------------------------------------------------------------- the other experiments


@pytest.mark.slow
def test_predicted_error_is_right_where_steps_are_independent():
    n, M, repeats = 20, 500, 300
    case = predicted_error.Case("independent", standard_form(np.eye(n)), n * np.log(0.5))
    found = predicted_error.measure(case, M, repeats, np.full(n, np.log(0.5)), seed=0)
    assert found["predicted sd"] == pytest.approx(np.sqrt(n / M))
    assert found["predicted bias"] == pytest.approx(-n / (2 * M))
    assert abs(found["variance ratio"] - 1) < 4 * np.sqrt(2 / repeats)
    assert abs(found["measured bias"] - found["predicted bias"]) < 4 * found["its s.e."]


@pytest.mark.slow
def test_predicted_error_understates_dependent_steps():
    case = predicted_error.linear(1, 0)
    steps = predicted_error.bootstrap_run(case.box, 10_000, np.random.default_rng(0), soft=True).log_steps
    found = predicted_error.measure(case, 1000, 400, steps, seed=0)  # the ratio is about 1.7
    assert found["variance ratio"] > 1 + 4 * np.sqrt(2 / 400)


def test_orders_hold_every_point_once():
    y = np.array([1.0, -1, -1, 1, 1, -1])
    rng = np.random.default_rng(0)
    placed = {name: y[order.permutation(name, y, rng)] for name in order.ORDERS}
    assert list(placed["sorted"]) == [-1, -1, -1, 1, 1, 1]
    assert list(placed["in turn"]) == [-1, 1, -1, 1, -1, 1]
    assert sorted(placed["shuffled"]) == sorted(y)


@pytest.mark.slow
def test_sorted_classes_are_worse(monkeypatch):
    monkeypatch.setattr(order, "DRAWS", {"bootstrap-hard": 2000, "guided": 200})
    found = order.run(Setting(repeats=3), problems=(2,))
    assert found.met
    hard, guided = (row[4:7] for row in found.tables[0].rows)
    assert max(guided) < min(hard)


@pytest.mark.slow
def test_tuning_loses_little_with_exact_and_less_with_more_draws(monkeypatch):
    monkeypatch.setattr(tuning, "ALPHAS", (0.5, 3.0))
    monkeypatch.setattr(tuning, "BETAS", (1.0, 5.0))
    found = tuning.run(Setting(repeats=1), n=40, few={"gpc-mc": (300,), "exact": (1000,)})
    assert found.met
    error = {(row[0], row[1]): row[2] for row in found.tables[1].rows}
    assert error["gpc-mc", 3000] < error["gpc-mc", 300]
    assert error["exact", 1000] < error["gpc-mc", 3000]


@pytest.mark.slow
def test_the_lattice_cuts_the_error_of_the_probabilities():
    found = points.run(Setting(repeats=4), problems=(1,), M=2000)
    assert found.met
    assert len(found.tables[0].rows) == len(points.CHOICES)


# ------------------------------------------------------------------------------- the page on what exact means


def load_page_script():
    spec = importlib.util.spec_from_file_location("exact_figures", common.ROOT / "docs" / "exact_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_of_the_page_on_exact_has_a_place_and_was_written():
    script = load_page_script()
    text = script.PAGE.read_text(encoding="utf-8")
    for name in script.BLOCKS:
        assert script.update(text, name, "NEW").count("NEW") == 1
        assert f"<!-- {name}: begin -->\n<!-- {name}: end -->" not in text, f"run python -m docs.exact_figures {name}"
    with pytest.raises(ValueError, match="no marks"):
        script.update(text, "nonsense", "NEW")


@pytest.mark.slow
def test_stated_errors_of_the_page_are_near_the_true_ones():
    rows = load_page_script().calibration(repeats=20, M=100).splitlines()[2:]
    for row in rows:
        rms = float(row.split("|")[4])
        assert 0.6 < rms < 1.6  # twenty repeats know it to 16 %, 25 randomisations of four points to as much again


# -------------------------------------------------------------------------------------------------- table 4


@pytest.mark.slow
def test_table4_puts_five_methods_beside_the_published(tmp_path, monkeypatch):
    """One small problem, two parameter sets: methods agree, evidences too, cells are kept."""
    monkeypatch.setattr(table4, "SETS", table4.SETS[:2])
    monkeypatch.setattr(table4, "QUICK", table4.Lengths(2000, 500, 2, 50, 100, 2, 60, 20, 300))
    monkeypatch.setattr(table4, "cell", partial(cell, results=tmp_path))
    rows = {row[2]: row for row in table4.run(Setting(repeats=1)).tables[0].rows}
    assert set(rows) == {"exact", "gpc-mc", "elliptical-slice", "hmc", "control-variables"}
    assert rows["gpc-mc"][5] == 0.1177
    assert rows["exact"][5] is None
    for name, row in rows.items():
        assert row[6] < 0.05, name  # of the median
        assert row[8] is None or row[8] < 5, name  # per cent of the log evidence
    assert len(list((tmp_path / "atiya2020" / "cells").iterdir())) == 2


def test_problems_of_table4_that_a_full_run_has_not_reached_are_shorter_and_say_so(monkeypatch):
    """The first in full, the second shorter, the others not at all."""
    one = {key: [0.1, 0.001, 0.5, 1.0] for key in ("exact", "hmc")}

    def measured(setting, number, alpha, beta):
        if (number, setting.full) not in ((1, True), (3, False)):
            raise NoTime("later")
        return one

    monkeypatch.setattr(table4, "measured", measured)
    found = table4.run(Setting(full=True, repeats=3))
    assert {row[0]: row[3] for row in found.tables[0].rows} == {1: 50_000, 3: 1800}
    assert "shown with fewer iterations: 3." in found.notes[1]
    assert "not shown: 4." in found.notes[2]
    monkeypatch.setattr(table4, "BY_SIZE", (4,))
    with pytest.raises(NoTime):
        table4.run(Setting(full=True))


def test_points_of_the_figures_that_a_full_run_has_not_reached_are_named(monkeypatch):
    def measure(method, run, draws, repeats, seed, skip):
        if (method, draws) == ("hmc", 1000):
            raise NoTime("later")
        return figures.Point(method, draws, repeats, 1e-3, 1e-2, 0.1 * draws, 0.1 * draws)

    monkeypatch.setattr(figures, "measure", measure)
    found = figures.run(Setting(full=True))
    assert ("hmc", 1000) not in {row[:2] for row in found.tables[0].rows}
    assert ("hmc", 250) in {row[:2] for row in found.tables[0].rows}
    (note,) = [note for note in found.notes if "hmc 1,000" in note]
    assert "0.6 hours" in note  # ten runs of 2 x 100 s


@pytest.mark.parametrize(("number", "n"), [(1, 50), (5, 50)])
def test_simulated_tasks_know_the_posterior(number, n):
    one = table4.task(number)
    assert one.X.shape[0] == n
    assert set(one.y) == {-1.0, 1.0}
    assert np.all((one.posterior > 0) & (one.posterior < 1))


def test_crabs_are_split_evenly_and_the_same_way_always():
    colour, sex = np.repeat([0, 0, 1, 1], 50), np.repeat([1, 0, 1, 0], 50)
    for each in (20, 25):
        train = crabs_split(colour, sex, each)
        assert [train[50 * k : 50 * k + 50].sum() for k in range(4)] == [each] * 4
        np.testing.assert_array_equal(train, crabs_split(colour, sex, each))
    with pytest.raises(ValueError, match="not 30"):
        crabs_split(colour, sex, 30)


def test_times_are_relative_to_the_first_two_sets(monkeypatch):
    slow = {0.5: 8.0}

    def measured(setting, number, alpha, beta):
        of = {"gpc-mc": 2.0 * number, "control-variables": number * slow.get(alpha, 1.0)}
        return {name: [None, 0.0, None, seconds] for name, seconds in of.items()}

    monkeypatch.setattr(times, "measured", measured)
    section = times.run(Setting(repeats=3))
    rows = {(method, alpha, beta): ratio for method, alpha, beta, _, ratio, *_ in section.tables[0].rows}
    assert rows["control-variables", 0.5, 3.0] == pytest.approx(8.0)
    assert [r for (method, *_), r in rows.items() if method == "gpc-mc"] == pytest.approx([1.0] * 6)
