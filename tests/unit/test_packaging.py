"""What is shipped: the wheel, what it needs, what it brings, and what the sources must not hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("anarchon", "anarchon_sqlite")


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing in its environment that would bring the checkout in."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def succeed(*command: str | Path, cwd: Path = ROOT) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip(python: str | Path, verb: str, *arguments: str | Path) -> None:
    succeed(python, "-m", "pip", "--disable-pip-version-check", "--no-input", verb, "--quiet", *arguments)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", target, ROOT)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def in_dist_info(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [each for each in archive.namelist() if each.endswith(f".dist-info/{name}")]
        return archive.read(member).decode()


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    return Parser().parsestr(in_dist_info(wheel, "METADATA"))


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of a new environment that holds the wheel, what it depends on, and no extra."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True, symlinks=True)
    python = home / "bin" / "python"
    pip(python, "install", "--constraint", ROOT / "constraints.txt", wheel)
    return python


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_nothing_else(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}

    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_sources(names: set[str]) -> None:
    sources = {
        path.relative_to(base).as_posix()
        for base, package in ((ROOT, "anarchon"), (ROOT / "backends", "anarchon_sqlite"))
        for path in (base / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name for name in names if ".dist-info/" not in name} == sources


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_says_that_it_is_typed(package: str, names: set[str]) -> None:
    assert f"{package}/py.typed" in names


@pytest.mark.slow
def test_the_wheel_carries_the_licence(wheel: Path, metadata: Message) -> None:
    assert metadata["License-Expression"] == "MIT"
    assert in_dist_info(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()


@pytest.mark.slow
def test_the_wheel_depends_on_two_packages_and_names_its_extras(metadata: Message) -> None:
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]

    assert {re.split(r"[<>=!~; \[]", line)[0] for line in needed} == {"typing-extensions", "tzdata"}
    assert {"sqlite", "cli", "all"} <= set(metadata.get_all("Provides-Extra", []))
    assert metadata["Requires-Python"] == ">=3.11"


@pytest.mark.slow
def test_the_wheel_names_its_command_and_its_backends(wheel: Path) -> None:
    entries = ConfigParser()
    entries.read_string(in_dist_info(wheel, "entry_points.txt"))

    assert dict(entries["console_scripts"]) == {"anarchon": "anarchon.cli:main"}
    assert dict(entries["anarchon.backends"]) == {
        "memory": "anarchon.testing:MemoryBackend",
        "sqlite": "anarchon_sqlite:SQLiteBackend",
    }


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("package", [*PACKAGES, "anarchon.testing"])
def test_a_package_imports_without_any_extra(package: str, fresh: Path, tmp_path: Path) -> None:
    where = succeed(fresh, "-W", "error", "-c", f"import {package} as it; print(it.__file__)", cwd=tmp_path)

    assert fresh.parents[1].resolve() in Path(where.strip()).resolve().parents


@pytest.mark.slow
@pytest.mark.processes
def test_the_entry_points_load_without_any_extra(fresh: Path, tmp_path: Path) -> None:
    program = (
        "from importlib.metadata import entry_points\n"
        "for entry in sorted(entry_points(group='anarchon.backends')): print(entry.load().__name__)"
    )

    assert succeed(fresh, "-c", program, cwd=tmp_path).split() == ["MemoryBackend", "SQLiteBackend"]


@pytest.mark.slow
@pytest.mark.processes
def test_importing_anarchon_loads_no_backend_and_no_test_code(fresh: Path, tmp_path: Path) -> None:
    program = "import sys, anarchon; print([m for m in sys.modules if m.startswith(('anarchon_', 'anarchon.testing'))])"

    assert succeed(fresh, "-c", program, cwd=tmp_path).strip() == "[]"


@pytest.mark.slow
@pytest.mark.processes
def test_the_command_without_its_extra_says_how_to_get_it(fresh: Path, tmp_path: Path) -> None:
    done = run(fresh.parent / "anarchon", "demo", cwd=tmp_path)

    assert done.returncode != 0
    assert 'pip install "anarchon[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


# What the tracked text must not hold, written so that this file does not hold it either.
FORBIDDEN = {
    "a directory of one machine": re.compile(r"(?<![\w.-])/" + r"work/"),
    "a directory beside the checkout": re.compile(r"\.\./" + r"shared"),
    "the host of a package registry": re.compile(r"python" + r"hosted|py" + r"pi\.org|registry\." + r"npmjs"),
}


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Name and text of each file under version control, or of each file at all where there is no git."""
    listed = run("git", "ls-files", "-z") if (ROOT / ".git").exists() else None
    if listed is not None and listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not any(part.startswith(".venv") for part in path.parts)]
    for path in paths:
        if path.is_file():
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_tracked_text_names_no_place_of_its_making(what: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]

    assert found == []


READS_THE_CLOCK = re.compile(r"\btime\.time\(|\bdatetime\.now\b|\basyncio\.sleep\b")


def may_read_the_clock(name: str) -> bool:
    return name == "anarchon/clock.py" or name.startswith(("anarchon/testing/", "anarchon/cli/demo"))


def test_only_the_clock_reads_the_time() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for package in ("anarchon", "backends")
        for path in sorted((ROOT / package).rglob("*.py"))
        if not may_read_the_clock(path.relative_to(ROOT).as_posix())
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if READS_THE_CLOCK.search(line)
    ]

    assert found == []


def test_every_dependency_is_pinned_by_version_alone() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()

    assert lines == sorted(lines)
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9.]*", line)] == []
