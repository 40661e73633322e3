"""The import contracts hold, and each of them notices the import that it is there to forbid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Contract, the file that gets a bad line (made when absent), and the line.
PLANTED = [
    ("layers", "anarchon/errors.py", "import anarchon.model"),
    ("layers", "anarchon/times/planted.py", "import anarchon.model"),
    ("layers", "anarchon/model/planted.py", "import anarchon.protocol"),
    ("layers", "anarchon/host/planted.py", "import anarchon.engine"),
    ("layers", "anarchon/engine/planted.py", "def late() -> None:\n    import anarchon.scheduler"),
    ("layers", "anarchon/testing/planted.py", "import anarchon.scheduler"),
    ("no-backend", "anarchon/engine/planted.py", "import anarchon_sqlite"),
    ("no-backend", "anarchon/__init__.py", "import anarchon_sqlite"),
    ("no-pytest", "anarchon/engine/planted.py", "import pytest"),
    ("no-pytest", "anarchon/testing/planted.py", "from pytest import fixture"),
    ("no-pytest", "backends/anarchon_sqlite/planted.py", "import pytest"),
    ("no-testing", "anarchon/engine/planted.py", "from anarchon import testing"),
    ("no-testing", "anarchon/planted.py", "import anarchon.testing"),
    ("no-testing", "backends/anarchon_sqlite/planted.py", "import anarchon.testing"),
    ("sqlite", "backends/anarchon_sqlite/planted.py", "import anarchon.engine"),
    ("sqlite", "backends/anarchon_sqlite/planted.py", "from anarchon import Scheduler"),
    ("sqlite", "backends/anarchon_sqlite/planted.py", "import anarchon.times"),
]


def copy_of_the_tree(target: Path) -> Path:
    for name in ("anarchon", "backends"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def lint(tree: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of import-linter, run on `tree` and on nothing that is installed."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())",
            "--no-cache",
            *arguments,
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'backends'}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_tree_keeps_every_contract() -> None:
    code, output = lint(ROOT)

    assert code == 0, output
    assert "0 broken" in output


@pytest.mark.parametrize(("contract", "file", "line"), PLANTED)
def test_a_contract_breaks_on_a_planted_import(contract: str, file: str, line: str, tmp_path: Path) -> None:
    tree = copy_of_the_tree(tmp_path)
    planted = tree / file
    planted.parent.mkdir(parents=True, exist_ok=True)
    with planted.open("a") as source:
        source.write(f"\n{line}\n")

    code, output = lint(tree, "--contract", contract)

    assert code == 1, output
    assert "1 broken" in output
