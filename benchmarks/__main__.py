"""Run the benchmarks: ``python -m benchmarks [laplace ep default-fit orthant covariance] [--write]``.

``--write`` puts the recorded figures into the README, between its markers.
"""

import argparse
import json
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy: one thread each, on both sides
    os.environ.setdefault(name, "1")

from benchmarks import default_fit, foundation  # noqa: E402
from benchmarks.common import HERE, RESULTS  # noqa: E402

BENCHMARKS = {"laplace": foundation.laplace, "ep": foundation.ep, "default-fit": default_fit.main}
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def readme_table():
    """The recorded rows as Markdown."""
    lines = []
    for title, result in json.loads(RESULTS.read_text()).items():
        lines += [f"**{title}** ({result['cpu']}, one thread each)", "", "| figure | measured | |", "|---|---:|---|"]
        lines += [f"| {label} | {value} | {wanted} |" for label, value, wanted in result["rows"]] + [""]
    return "\n".join(lines)


def write_readme():
    """Replace what stands between the README's markers."""
    path = HERE.parent / "README.md"
    text = path.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    path.write_text(f"{head}{BEGIN}\n{readme_table()}\n{END}{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="all by default")
    parser.add_argument("--write", action="store_true", help="put the recorded figures into the README")
    arguments = parser.parse_args()
    for name in arguments.names or BENCHMARKS:
        BENCHMARKS[name]()
    if arguments.write:
        write_readme()


if __name__ == "__main__":
    main()
