"""`anarchon run`: one instance of a scheduler that some module has made, in the foreground."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, cast

import typer

from anarchon.cli.output import refusals, refuse
from anarchon.scheduler import Scheduler


class LogLevel(StrEnum):
    """How much is logged."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:SCHEDULER",
            show_default=False,
            help="Where the Scheduler object is, such as myapp.tasks:scheduler.",
        ),
    ],
    app_dir: Annotated[Path, typer.Option("--app-dir", metavar="DIR", help="Look for the module here first.")] = Path(),
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="How much to log.")] = LogLevel.info,
) -> None:
    """Run a scheduler until SIGINT or SIGTERM, then stop it gracefully.

    The log goes to stderr. A second signal ends the grace that handlers have.

    Example: anarchon run myapp.tasks:scheduler
    """
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        refuse(
            f"{target!r} does not say where the scheduler is; write module:name, such as myapp.tasks:scheduler, for "
            "what you would import as: from myapp.tasks import scheduler"
        )
    if not all(part.isidentifier() for part in module_name.split(".")) or module_name.endswith(".py"):
        refuse(
            f"{module_name!r} is not the name of a module; write it as you would import it: without .py, with dots for "
            "slashes, and with --app-dir for the directory it is in"
        )
    if not app_dir.is_dir():
        refuse(f"--app-dir {str(app_dir)!r} is not a directory")
    # Before the import, so that a module which sets up logging of its own has the last word.
    logging.basicConfig(
        level=log_level.value.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr
    )
    logging.captureWarnings(True)
    sys.path.insert(0, str(app_dir.resolve()))
    scheduler = _scheduler_in(_imported(module_name, app_dir), module_name, path)
    with refusals():
        scheduler.run()


def _imported(name: str, app_dir: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only where it is this module that is missing, not one that it imports.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            _show(error)
            refuse(f"importing {name!r} failed: {error}; install what it needs")
        refuse(
            f"there is no module {name!r}: no {error.name!r} in {app_dir.resolve()} or among what is installed; run "
            "this command where the module is, or name that directory with --app-dir"
        )
    except (ImportError, SyntaxError, ValueError) as error:
        _show(error)
        refuse(f"importing {name!r} failed: {type(error).__name__}: {error}")
    except Exception as error:
        _show(error)
        refuse(f"importing {name!r} failed: it raised {type(error).__name__}, see above")


def _show(error: BaseException) -> None:
    """The traceback of a module that does not import: its author has to see where."""
    # Without the frames of this command and of the import machinery, which say nothing about the module.
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    if frames or isinstance(error, SyntaxError):
        sys.stderr.write("Traceback (most recent call last):\n")
        sys.stderr.writelines(traceback.format_list(frames))
        sys.stderr.writelines(traceback.format_exception_only(error))


def _scheduler_in(module: ModuleType, module_name: str, path: str) -> Scheduler:
    found: Any = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            refuse(f"module {module_name!r} has no {path!r}; {_offer(module, module_name)}")
    if not isinstance(found, Scheduler):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        refuse(f"{module_name}:{path} is {kind}, not a Scheduler object; {_offer(module, module_name)}")
    return cast(Scheduler, found)


def _offer(module: ModuleType, module_name: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Scheduler)]
    if not names:
        return "make one at the top level of the module, as in: scheduler = Scheduler(backend)"
    return f"there is {' and '.join(f'{module_name}:{name}' for name in names)}"
