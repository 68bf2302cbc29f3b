"""``gpclass`` on the command line. Needs the extra ``cli``."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the command ``gpclass``."""
    try:
        from gpclass.cli.app import run
    except ImportError as error:
        if error.name not in ("typer", "click", "pandas", "rich"):
            raise
        sys.exit(f"gpclass: the command line needs {error.name}: pip install 'gpclass[cli]'")
    sys.exit(run())


__all__ = ["main"]
