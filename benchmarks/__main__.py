"""Run the benchmarks: ``python -m benchmarks [name ...]``, and write them into the README."""

import argparse
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy: one thread each, on both sides
    os.environ.setdefault(name, "1")

from benchmarks import default_fit, foundation, geostat, multiclass, orthant, planner, readme  # noqa: E402

BENCHMARKS = {
    "laplace": foundation.laplace,
    "ep": foundation.ep,
    "default-fit": default_fit.main,
    **{f"orthant-{name}": section for name, section in orthant.SECTIONS.items()},
    "geostat": geostat.main,
    "planner": planner.main,
    "many-classes": multiclass.quality,
    "many-classes-speed": multiclass.speed,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; all by default")
    for name in parser.parse_args().names or BENCHMARKS:
        BENCHMARKS[name]()
    readme.main()


if __name__ == "__main__":
    main()
