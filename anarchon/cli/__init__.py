"""The command `anarchon`. Its libraries come by the extra `cli`; the rest of the package never needs them."""

from __future__ import annotations

import contextlib
import io
import sys
from importlib import import_module
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say which extra brings it when its libraries are missing."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        sys.exit(
            f'anarchon: the command line needs {" and ".join(missing)}; install it with: pip install "anarchon[cli]"'
        )
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a task's name gets a stand-in for it, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError, ValueError):
                stream.reconfigure(errors="replace")
    # Loaded by name and late: without the extra this module must still import.
    import_module("anarchon.cli.app").app()
