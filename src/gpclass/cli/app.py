"""The whole command line: the list of commands, and the handling of errors and warnings.

Exit codes: 0 success; 1 program error; 2 invalid arguments or data; 3 success, but a fit did not converge (the
output has been written). An invalid input prints one line on standard error, without a traceback;
``GPCLASS_DEBUG=1`` shows the traceback.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from gpclass._version import __version__
from gpclass.cli import tours
from gpclass.cli.compare import compare
from gpclass.cli.errors import FAILED, MISTAKE, OK, Mistake
from gpclass.cli.fit import fit
from gpclass.cli.maps import draw_map
from gpclass.cli.predict import predict
from gpclass.cli.show import note, say

DEBUG = "GPCLASS_DEBUG"

app = typer.Typer(
    name="gpclass",
    help="Gaussian process classification with probabilities that state their own error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 program error, 2 invalid arguments or data, 3 a fit did not converge.",
)
app.command()(tours.demo)
app.command()(fit)
app.command()(predict)
app.command()(compare)
app.command("map")(draw_map)
app.command()(tours.reproduce)
app.command()(tours.datasets)
app.command()(tours.methods)


def _version(asked: bool) -> None:
    if asked:
        say(f"gpclass {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with warnings.catch_warnings(), _ended_in_order():
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # uses two of the six arguments
        try:
            app(args=None if arguments is None else list(arguments), prog_name="gpclass")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else OK if end.code is None else FAILED
        except KeyboardInterrupt:
            note("gpclass: stopped")
            return 130
        except BrokenPipeError:  # the reader, such as head, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OK
        except (Mistake, ValueError, OSError, ImportError) as error:
            # The library raises ValueError for invalid input, with the remedy in the message.
            if os.environ.get(DEBUG):
                raise
            note(f"gpclass: {error}")
            return MISTAKE
    return OK


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """A request to end is an exception, so that no half-written file stays behind."""
    if threading.current_thread() is not threading.main_thread():  # where signals cannot be handled
        yield
        return
    asked = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {one: signal.signal(one, lambda number, _: sys.exit(128 + number)) for one in asked}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _show_warning(message: Any, category: Any, *_: Any) -> None:
    # Deprecations concern developers; numerical warnings concern whoever relies on the numbers.
    if not issubclass(category, (DeprecationWarning, FutureWarning)):
        note(f"warning: {message}")
