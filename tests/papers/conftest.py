"""No test reads the results of a run of this checkout, or writes to them."""

import pytest


@pytest.fixture(autouse=True)
def own_results(tmp_path_factory, monkeypatch):
    monkeypatch.setattr("papers.store.RESULTS", tmp_path_factory.mktemp("results"))
    monkeypatch.setattr("papers.store.PAPERS", tmp_path_factory.mktemp("papers"))
