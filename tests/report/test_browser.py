"""The report in headless Chromium: it opens, says nothing on the console, sorts its tables, shows its figures.

One start of the browser looks at one page in frames as wide as a phone, a tablet and a desk. ``make test-browser``
runs this; without a Chromium the tests are skipped.
"""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from gpclass.compare import compare
from gpclass.report import render_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine; the page needs one")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
]
DARK = "--blink-settings=preferredColorScheme=0"
WIDTHS = (360, 800, 1200)

# Runs inside each frame, once the page and its own script are there.
PROBE = """<script>
{
  const found = {width: window.innerWidth}, table = document.querySelector("table.sortable");
  const heads = table.tHead.rows[0].cells;
  const order = () => [...table.tBodies[0].rows].map((row) => row.cells[0].firstChild.textContent.trim());
  found.start = order();
  heads[2].querySelector("button").click();
  found.up = [order(), heads[2].getAttribute("aria-sort")];
  heads[2].querySelector("button").click();
  found.down = [order(), heads[2].getAttribute("aria-sort")];
  found.pictures = [...document.querySelectorAll(".picture svg")].map((svg) => {
    const box = svg.getBoundingClientRect();
    const room = svg.parentElement.getBoundingClientRect().width;  // a wide one scrolls within its own box
    return [room, box.height, getComputedStyle(svg).visibility, svg.textContent.trim().length];
  });
  found.overflow = document.documentElement.scrollWidth - window.innerWidth;
  found.paper = getComputedStyle(document.body).backgroundColor;
  found.ink = getComputedStyle(document.body).color;
  parent.document.body.insertAdjacentHTML("beforeend", `<pre class="probe">${JSON.stringify(found)}</pre>`);
}
</script></body>"""


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("no luck")


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.where(X[:, 0] + rng.normal(size=90) > 0, "yes", "no")
    return compare(X, y, {"lr": LogisticRegression(), "nb": GaussianNB(), "broken": Broken()}, cv=3, reference="lr")


def look(page, folder, *flags):
    """What the probe found in each frame, and the lines of the console."""
    inner = json.dumps(page.replace("</body>", PROBE)).replace("</", "<\\/")
    frames = "".join(f'<iframe width="{w}" height="700"></iframe>' for w in WIDTHS)
    path = folder / "frames.html"
    path.write_text(
        f"<!DOCTYPE html><meta charset=utf-8><body>{frames}<script>const page = {inner};"
        "for (const f of document.querySelectorAll('iframe')) f.srcdoc = page;</script></body>",
        encoding="utf-8",
    )
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", "--window-size=1300,900"]
    run = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = [json.loads(text) for text in re.findall(r'<pre class="probe">(\{"width.*?)</pre>', run.stdout, re.S)]
    return sorted(found, key=lambda one: one["width"]), [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.slow
def test_the_page_opens_sorts_and_shows_its_figures(comparison, tmp_path):
    frames, console = look(render_report(comparison), tmp_path)
    assert console == []
    assert [one["width"] for one in frames] == list(WIDTHS)
    by_loss = sorted(["lr", "nb"], key=lambda name: comparison.results[name].scores.log_loss)
    for one in frames:
        assert one["start"] == ["lr", "nb", "broken"]
        assert one["up"] == [[*by_loss, "broken"], "ascending"]
        assert one["down"] == [[*by_loss[::-1], "broken"], "descending"]  # what failed stays last
        assert len(one["pictures"]) == 5
        for room, height, visibility, letters in one["pictures"]:
            assert 200 < room <= one["width"]
            assert height > 80
            assert visibility == "visible"
            assert letters > 20  # its axes have words
        assert one["overflow"] <= 0  # nothing sticks out: wide tables scroll within themselves


@pytest.mark.slow
def test_dark_pages_are_dark(comparison, tmp_path):
    light = look(render_report(comparison), tmp_path)[0][0]
    dark = look(render_report(comparison), tmp_path, DARK)[0][0]

    def brightness(colour):
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    assert brightness(light["paper"]) > 240 > 60 > brightness(light["ink"])
    assert brightness(dark["paper"]) < 60 < 200 < brightness(dark["ink"])


@pytest.mark.slow
def test_an_error_in_the_script_would_be_seen(comparison, tmp_path):
    broken = render_report(comparison).replace("</main>", "</main><script>nothing.here();</script>")
    frames, console = look(broken, tmp_path)
    assert len(frames) == len(WIDTHS)
    assert any("nothing is not defined" in line for line in console)
