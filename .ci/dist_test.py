"""Build the wheel and the sdist, install both in clean environments and use what was installed.

``make dist-test`` runs it. Environments: the lowest versions that pyproject.toml allows (oldest Python), the newest
versions without extras (every Python that is here), the newest versions with all extras from the sdist. For a Python of
the classifiers that is not here, it only checks that wheels of all dependencies exist.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
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
    if "all" in sys.argv:
        from gpclass.report.demo import run_demo
        run_demo(folder, n=40, methods=["ep", "laplace"])
        table = Path(folder) / "rows.csv"
        np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,label", comments="", fmt="%.6g")
        command = [Path(sys.executable).with_name("gpclass"), "fit", table, "--target", "label", "--out", path]
        subprocess.run([*map(str, command), "--force", "--inference", "laplace"], check=True, capture_output=True)
print("   ", *(f"{m.__name__} {m.__version__}" for m in (np, scipy, sklearn)))
"""


def run(*command: str | os.PathLike[str]) -> str:
    """The output of a command, without this session's paths; what it said if it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(
        [*map(str, command)], cwd=tempfile.gettempdir(), env=environment, text=True, capture_output=True
    )
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
    here = [
        v
        for v in marks
        if subprocess.run([UV, "python", "find", "--no-python-downloads", v], capture_output=True).returncode == 0
    ]
    compiled = (
        UV,
        "pip",
        "compile",
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--extra",
        "all",
        ROOT / "pyproject.toml",
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder, ROOT)
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        lowest = folder / "lowest.txt"
        run(*compiled, "--python-version", marks[0], "--resolution", "lowest-direct", "--output-file", lowest)
        try_out("lowest", marks[0], folder, wheel, "[all]", lowest)
        try_out("newest", here[-1], folder, sdist, "[all]")
        for version in here:
            try_out(f"newest-{version}", version, folder, wheel)
        for version in [v for v in marks if v not in here]:
            run(*compiled, "--python-version", version, "--only-binary", ":all:", "--output-file", folder / "only.txt")
            print(f"Python {version} is not here: wheels of all dependencies exist, nothing was run")


if __name__ == "__main__":
    main()
