"""The tables of docs/scale.md are those of the stored results."""

import json
from importlib import import_module

import pytest

scale = pytest.importorskip("benchmarks.scale")
PARTS = ["scale", "scale_real", "scale_tables", "scale_covtype", "scale_digits"]


def rows(page):
    """Lines of all tables; the machine's name is not among them."""
    return [line for line in page.read_text().splitlines() if line.startswith("|")]


@pytest.mark.parametrize("name", PARTS)
def test_the_page_has_what_is_stored(name, monkeypatch, tmp_path):
    part, page = import_module(f"benchmarks.{name}"), tmp_path / "scale.md"
    page.write_text(scale.PAGE.read_text())
    monkeypatch.setattr(scale, "figure", lambda kept: None)
    for module in {scale, part}:
        if hasattr(module, "PAGE"):
            monkeypatch.setattr(module, "PAGE", page)
    written, kept = rows(page), json.loads(part.KEPT.read_text())
    part.write_page(kept)
    assert rows(page) == written
    part.write_page({key: {**row, "log_loss": row.get("log_loss", 0.0) + 1.0} for key, row in kept.items()})
    assert rows(page) != written
