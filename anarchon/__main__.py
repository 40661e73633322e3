"""`python -m anarchon`: the same as the command `anarchon`."""

from __future__ import annotations

from anarchon.cli import main

if __name__ == "__main__":
    main()
