"""The report: complete, self-contained, honest about failures; the demonstration runs."""

import re
from html.parser import HTMLParser

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from gpclass.compare import compare
from gpclass.compare.advice import what_went_wrong
from gpclass.registry import methods as registry_methods
from gpclass.report import demo, figures, render_report, write_report
from gpclass.report.html import _words

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Checks that tags close, and collects ids, addresses, tables and text alternatives."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.addresses, self.pictures = [], [], [], []
        self.tables, self.text = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.addresses += [v for k, v in attrs if k in ("src", "href", "xlink:href", "srcset") and v]
        if found.get("role") == "img":
            self.pictures.append(found.get("aria-label"))
        if tag == "tr":
            self.tables.append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "button", "small") and data.strip():
            self.tables[-1].append(data.strip())
        self.text.append(data)


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("no <b>luck</b> & no fit")


def data(d=2, n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    names = [f"f<{k}>" for k in range(d)]
    return pd.DataFrame(X, columns=names), np.where(X[:, 0] + rng.normal(size=n) > 0, "yes", "no")


@pytest.fixture(scope="module")
def comparison():
    X, y = data()
    chosen = {"lr": LogisticRegression(), "nb": GaussianNB(), "broken": Broken()}
    return compare(X, y, chosen, cv=3, reference="lr")


@pytest.fixture(scope="module")
def text(comparison):
    return render_report(comparison, title="A & B", description="Two <methods>")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(page, text):
    assert page.addresses
    for address in page.addresses:
        assert address.startswith(("#", "data:")), address
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert not re.search(r"\b(fetch|XMLHttpRequest|import)\s*\(", text)


@pytest.mark.slow
def test_ids_are_unique_and_links_lead_somewhere(page):
    assert len(page.ids) == len(set(page.ids))
    inner = {a[1:] for a in page.addresses if a.startswith("#")}
    assert inner <= set(page.ids)


def test_every_figure_has_words_and_every_section_is_there(page):
    # decision map, a difference, two reliability diagrams, distances
    assert len(page.pictures) == 5
    assert all(len(alt) > 30 for alt in page.pictures)
    wanted = {"short", "methods", "map", "reliability", "wrong", "parameters", "convergence", "data"}
    assert wanted <= set(page.ids)


def test_user_text_is_escaped(page, text):
    assert "A &amp; B" in text
    assert "Two &lt;methods&gt;" in text
    assert "<b>luck</b>" not in text
    assert "f<0>" in "".join(page.text)


def test_figures_of_the_table_are_those_of_the_comparison(page, comparison):
    row = next(r for r in page.tables if r and r[0] == "nb" and len(r) > 5)
    s = comparison.results["nb"].scores
    assert f"{s.accuracy:.3f}" in row
    assert f"{s.log_loss:.3f}" in row
    failed = next(r for r in page.tables if r and r[0] == "broken")
    assert failed[1] == "failed"


@pytest.mark.slow
def test_text_takes_the_page_colour(text):
    assert "currentColor" in text
    assert "#010203" not in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.slow
def test_the_users_style_is_neither_used_nor_changed(comparison, text):
    figures = plt.get_fignums()
    with plt.style.context("dark_background"):
        before = dict(plt.rcParams)
        assert render_report(comparison, title="A & B", description="Two <methods>") == text
        assert dict(plt.rcParams) == before
    assert plt.get_fignums() == figures


@pytest.mark.slow
def test_more_than_two_features_get_partial_dependence():
    X, y = data(d=4)
    page = Page(render_report(compare(X, y, {"lr": LogisticRegression()}, cv=3)))
    assert sum("against f<" in alt for alt in page.pictures) == 4


@pytest.mark.slow
def test_columns_of_words_and_polars_frames():
    polars = pytest.importorskip("polars")
    X, y = data(d=2)
    X.columns = ["east", "north"]
    X["soil"] = np.where(X["north"] > 0, "sand", "clay")
    encode = make_column_transformer((OneHotEncoder(), ["soil"]), remainder="passthrough")
    chosen = {"lr": make_pipeline(encode, LogisticRegression())}
    pages = [Page(render_report(compare(t, y, chosen, cv=3))) for t in (X, polars.from_pandas(X))]
    for page in pages:
        assert sum("against" in alt for alt in page.pictures) == 3  # the words as bars
        assert ["soil", "not numeric", *["–"] * 4] in page.tables
    assert pages[0].tables[1][1:8] == pages[1].tables[1][1:8]  # the same scores (the last is seconds)


@pytest.mark.slow
def test_three_classes():
    X, _ = data()
    y = np.digitize(X.iloc[:, 0], [-0.5, 0.5])
    page = Page(render_report(compare(X, y, {"lr": LogisticRegression(), "nb": GaussianNB()}, cv=3, reference="lr")))
    assert len(page.pictures) == 4  # map, two reliability diagrams, distances


def test_all_failed_still_makes_a_page():
    X, y = data()
    text = render_report(compare(X, y, {"broken": Broken()}, cv=3))
    assert "No method could be fitted" in text
    assert Page(text).pictures == []


@pytest.mark.slow
def test_file_is_written_whole_or_not_at_all(tmp_path, comparison, monkeypatch):
    path = write_report(comparison, tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8").lstrip().startswith("<!DOCTYPE html>")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    monkeypatch.setattr("gpclass.report.html.render_report", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(comparison, path, title="again")
    assert "again" not in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_demo_writes_the_report_and_prints_a_table(tmp_path, capsys, coarse_maps):
    assert demo.main(["--out", str(tmp_path), "--n", "60", "--methods", "ep", "laplace"]) == 0
    printed = capsys.readouterr().out
    assert "log loss" in printed
    assert re.search(r"laplace .*probabilities are off by", printed)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert any("credible interval" in alt for alt in page.pictures)
    assert any("Reliability diagram of laplace" in alt for alt in page.pictures)


def test_demo_names_a_wrong_method(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        demo.main(["--out", str(tmp_path), "--methods", "laplcae"])
    assert stop.value.code == 2
    assert "did you mean 'laplace'" in capsys.readouterr().err


@pytest.mark.slow
def test_slow_methods_are_left_out_not_failed(tmp_path, coarse_maps):
    names = [row.name for row in registry_methods("inference")][:2]
    c, _ = demo.run_demo(tmp_path, n=40, methods=names, max_seconds=0.0)
    assert c.results[c.reference].state != "left out"
    other = next(name for name in names if name != c.reference)
    assert c.results[other].state == "left out"
    assert "max_seconds" in what_went_wrong(c.results[other], c.reference)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3], ids=["map", "dependence"])
def test_dollar_signs_in_names_are_text(d):
    """Two of them are mathematics to matplotlib, which cannot parse these."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, d)), columns=["cost_$ of_$", "price $^ {", "rest"][:d])
    y = np.where(X.iloc[:, 0] + rng.normal(size=60) > 0, "over $_ and $", "under$^$")
    methods = {"a_$ or_$": LogisticRegression(), "b": GaussianNB()}
    page = render_report(compare(X, y, methods, cv=2, reference="a_$ or_$"))
    assert "cost_$ of_$" in re.sub(r"<(title|desc|figcaption).*?</\1>", "", page)
    assert "\\$" not in page


@pytest.mark.slow
def test_the_page_explains_its_words_and_says_which_rows_were_seen():
    X, y = data(d=2, n=60)
    c = compare(X, y, ["ep", "laplace"], cv=2, reference="ep")
    words = dict(_words(c))
    assert {"Out of fold", "In sample", "Log loss, Brier", "ep", "laplace"} <= set(words)
    assert words["laplace"].startswith("Laplace's approximation")
    assert what_went_wrong(c.results["laplace"], "ep").startswith("In sample")


def test_the_columns_that_matter_are_drawn(monkeypatch):
    """The last of twelve columns decides; it was not among the first nine."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 12)), columns=[f"c{k}" for k in range(12)])
    y = np.where(X["c11"] > 0, "a", "b")
    monkeypatch.setattr(figures, "MAX_FEATURES", 2)
    monkeypatch.setattr(figures, "draw", lambda name, size, paint, alt, caption, adapt: caption)
    drawn = figures.dependence_figures(compare(X, y, {"lr": LogisticRegression()}, cv=2))
    assert len(drawn) == 2
    assert drawn[0].startswith("c11")
