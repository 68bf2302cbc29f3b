"""Build the wheel and the sdist, install both in clean environments and use what was installed.

``make dist-test`` runs it. Environments: the lowest versions that pyproject.toml allows (oldest Python), where tests of
the parts that lean most on other packages run too; the newest versions without extras (every Python that is here,
pyenv's among them); the newest versions with all extras from the sdist. For a Python of the classifiers that is not
here, it only checks that wheels of all dependencies exist.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
TESTS = (  # half a minute
    "cli/test_app.py",
    "cli/test_maps.py",
    "cli/test_messy_tables.py",
    "estimators/test_classifier.py",
    "geostat/test_simulation.py",
    "likelihoods/test_averages.py",
    "persistence/test_pipelines.py",
    "plots",
    "report/test_html.py",
)
SMOKE = """
import importlib.metadata, subprocess, sys, tempfile
from pathlib import Path
import numpy as np, scipy, sklearn
from sklearn.datasets import make_moons
import gpclass
assert "site-packages" in gpclass.__file__, gpclass.__file__
assert gpclass.__version__ == importlib.metadata.version("gpclass")
X, y = make_moons(60, noise=0.3, random_state=0)
with tempfile.TemporaryDirectory() as folder:
    for inference in ("exact", "laplace"):
        clf = gpclass.GPClassifier(inference=inference, random_state=0).fit(X, y)
        p, path = clf.predict_proba(X[:5]), Path(folder) / "model.gpc"
        clf.save(path)
        assert np.allclose(gpclass.load_model(path).predict_proba(X[:5]), p)
    if any(sys.argv[1:]):  # extras
        from gpclass.report.demo import run_demo
        run_demo(folder, n=40, methods=["ep", "laplace"])
        table = Path(folder) / "rows.csv"
        np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,label", comments="", fmt="%.6g")
        command = [Path(sys.executable).with_name("gpclass"), "fit", table, "--target", "label", "--out", path]
        subprocess.run([*map(str, command), "--force", "--inference", "laplace"], check=True, capture_output=True)
print("   ", *(f"{m.__name__} {m.__version__}" for m in (np, scipy, sklearn)))
"""


def surroundings() -> dict[str, str]:
    """Environment variables without this process's paths, and with all versions that pyenv has."""
    found = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    found |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    if shutil.which("pyenv"):
        versions = subprocess.run(["pyenv", "versions", "--bare"], text=True, capture_output=True).stdout
        found["PYENV_VERSION"] = ":".join(versions.split())
    return found


def attempt(*command: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    """A command in those surroundings."""
    words = [*map(str, command)]
    return subprocess.run(words, cwd=tempfile.gettempdir(), env=surroundings(), text=True, capture_output=True)


def run(*command: str | os.PathLike[str]) -> str:
    """The output of a command; what it said if it fails."""
    done = attempt(*command)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:6]))} ...\n{done.stdout}{done.stderr}")
    return done.stdout


def try_out(
    name: str, python: str, folder: Path, distribution: Path, extra: str = "", constraints: Path | None = None
) -> None:
    """Install a distribution in an environment of its own and run the smoke test there."""
    home = folder / name
    run(UV, "venv", "--quiet", "--python", python, home)
    bound = [] if constraints is None else ["--constraints", constraints]
    wanted = f"gpclass{extra} @ {distribution.as_uri()}"
    run(UV, "pip", "install", "--quiet", "--python", home / "bin" / "python", *bound, wanted)
    print(f"{name}: {distribution.name}{extra}, Python {python}")
    print(run(home / "bin" / "python", "-W", "ignore", "-c", SMOKE, extra.strip("[]")).splitlines()[-1], flush=True)


def main() -> None:
    """Build, install and use."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    marks = [c.rpartition(" ")[2] for c in project["classifiers"] if ":: Python :: 3." in c]
    here = [v for v in marks if attempt(UV, "python", "find", v).returncode == 0]
    compiled = (UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", ROOT / "pyproject.toml", "--extra")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder, ROOT)
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        lowest = folder / "lowest.txt"
        run(*compiled, "test", "--python-version", marks[0], "--resolution", "lowest-direct", "--output-file", lowest)
        try_out("lowest", marks[0], folder, wheel, "[test]", lowest)
        # Packages that they bring in are the newest, and warn of what is out of date in the lowest.
        mild = ("-m", "not slow", "-W", "ignore::DeprecationWarning", "-p", "no:cacheprovider")
        said = run(folder / "lowest/bin/python", "-m", "pytest", *mild, *(ROOT / "tests" / name for name in TESTS))
        print("   ", said.splitlines()[-1], flush=True)
        try_out("newest", here[-1], folder, sdist, "[all]")
        for version in here:
            try_out(f"newest-{version}", version, folder, wheel)
        for version in [v for v in marks if v not in here]:
            only = ("--only-binary", ":all:", "--output-file", folder / "only.txt")
            run(*compiled, "all", "--python-version", version, *only)
            print(f"Python {version} is not here: wheels of all dependencies exist, nothing was run")


if __name__ == "__main__":
    main()
