"""The traces of a few seeds on every supported interpreter: `python -m tests.simulation.traces [--renew]`.

An interpreter that is not on this machine is stood in for by `traces.json`, which keeps what all of them gave for the
sources whose digest it names. After a change of the engine it is renewed where all of them are there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import typing_extensions

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).with_name("traces.json")
VERSIONS = ("3.11", "3.12", "3.13")
SEEDS = (1, 2, 5, 12, 18, 44)

_SOURCES = (
    "anarchon/engine",
    "anarchon/model",
    "anarchon/times",
    "anarchon/host",
    "anarchon/testing",
    "tests/simulation",
    "tests/support/history.py",
    "tests/support/recording.py",
)


def trace_here(seeds: tuple[int, ...] = SEEDS) -> dict[str, str]:
    """What this interpreter gives."""
    from tests.simulation.world import simulate  # only here: the sources may be looked at without it

    return {str(seed): simulate(seed).digest() for seed in seeds}


def trace_on(interpreter: str, hash_seed: str = "0") -> dict[str, str]:
    """What another interpreter gives, in a process of its own."""
    # The one dependency is pure Python and the same file on all of them.
    dependency = Path(typing_extensions.__file__).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "backends"), str(dependency)]),
        "PYTHONHASHSEED": hash_seed,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [interpreter, "-m", "tests.simulation.traces"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{interpreter}: {done.stderr}")
    traces: dict[str, str] = json.loads(done.stdout)
    return traces


def interpreter(version: str) -> str | None:
    """An interpreter of this version, wherever such things are kept."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    home = Path.home()
    places = [
        Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python")),
        Path("/opt/hostedtoolcache/Python"),
        Path("/opt/python"),
    ]
    found = [path for place in places for path in place.glob(f"*{version}.*/**/bin/python{version}")]
    on_path = shutil.which(f"python{version}")
    candidates = [str(path) for path in sorted(found, reverse=True)] + ([on_path] if on_path else [])
    return next((each for each in candidates if _is(each, version)), None)


def _is(path: str, version: str) -> bool:
    # A shim of a version manager exists for versions that are not chosen, and fails.
    command = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def sources() -> str:
    """A digest of all that a trace depends on."""
    digest = hashlib.sha256()
    for place in _SOURCES:
        for path in sorted((ROOT / place).rglob("*.py")) or [ROOT / place]:
            if not path.name.startswith("test_") and "conformance" not in path.parts:
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def stored() -> dict[str, str] | None:
    """What all of them gave for these very sources; None where the file is of others."""
    kept = json.loads(STORED.read_text(encoding="utf-8"))
    return kept["traces"] if kept["sources"] == sources() else None


def renew() -> int:
    """Ask all of them, and keep the answer where it is one."""
    traces: dict[str, dict[str, str]] = {}
    for version in VERSIONS:
        path = interpreter(version)
        if path is None:
            print(f"there is no Python {version} here", file=sys.stderr)
            return 1
        traces[version] = trace_on(path)
    if len({json.dumps(trace) for trace in traces.values()}) != 1:
        print(f"they differ: {json.dumps(traces, indent=2)}", file=sys.stderr)
        return 1
    kept = {"sources": sources(), "traces": traces[VERSIONS[0]]}
    STORED.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return 0


def main() -> int:
    """Print this interpreter's traces, or renew the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", action="store_true")
    if parser.parse_args().renew:
        return renew()
    print(json.dumps(trace_here()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
