"""The commands by name. Each stands in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from anarchon._version import __version__
from anarchon.cli.demo.command import demo
from anarchon.cli.history import history
from anarchon.cli.next_slots import next_slots
from anarchon.cli.run import run

app = typer.Typer(
    name="anarchon",
    no_args_is_help=True,
    add_completion=False,
    # A traceback that shows local values could show a password in a URL.
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    # A blank line makes a new line here.
    epilog="""Examples:

      anarchon demo

      anarchon run myapp.tasks:scheduler

      anarchon next "30 2 * * *" --tz Europe/Berlin -n 5

      anarchon history nightly --backend sqlite:///app.db""",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"anarchon {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Scheduled tasks on every instance of a service, each slot run by exactly one of them, without a leader."""


app.command("demo")(demo)
app.command("run")(run)
app.command("next")(next_slots)
app.command("history")(history)
