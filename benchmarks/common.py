"""Shared by all benchmarks: timing, memory in a separate process, the processor, options of resumable runs."""

import argparse
import json
import math
import multiprocessing
import platform
import re
import resource
import time
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def timed(function, *arguments):
    """Seconds of a call, and its result."""
    begin = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - begin, result


def _measure(function, arguments, pipe):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    result = function(*arguments)
    seconds = time.perf_counter() - begin
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    pipe.send((seconds, growth, result))
    pipe.close()


def in_own_process(function, *arguments):
    """Seconds, growth of the peak memory (MiB) and result of a call in a fresh process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(function, arguments, there))
    process.start()
    result = here.recv()
    process.join()
    return result


def cpu():
    """The kind of processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        return re.search(r"model name\s*:\s*(.+)", text).group(1).strip()
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def record(name, rows):
    """Store a benchmark's rows, from which the README's table is generated."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[name] = {"cpu": cpu(), "rows": rows}
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def between(page, mark, text):
    """Replace what stands between the two marks of a page."""
    before, _, rest = page.read_text().partition(mark)
    page.write_text(f"{before}{mark}\n\n{text.strip()}\n\n{mark}{rest.partition(mark)[2]}")


def resumable(description, sets, part):
    """Options of a run that is kept part by part: the data sets to run, and ``end``, when no further part starts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data", nargs="*", help=f"of {', '.join(sets)}; all by default")
    parser.add_argument("--minutes", type=float, default=math.inf, help=f"start no further {part} after this time")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    asked = parser.parse_args()
    asked.end = -math.inf if asked.page else time.monotonic() + 60 * asked.minutes
    asked.data = asked.data or list(sets)
    return asked


def show(title, rows):
    """Print rows (label, value, target) as a table."""
    print(f"\n{title}")
    width = max(len(label) for label, *_ in rows)
    for label, value, wanted in rows:
        print(f"  {label:<{width}}  {value:>14}  {wanted}")
