"""Every block of README and docs/ does what its page says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main

from anarchon.cli.app import app
from tests.docs.pages import ROOT, Block, Page, page, pages
from tests.docs.running import Runner

MOST_NOT_RUN = 4
BLOCKS = [block for each in pages() for block in each.blocks]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("each", [each for each in pages() if each.blocks], ids=lambda each: each.name)
def test_every_block_of_a_page_does_what_it_says(each: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Runner(each, tmp_path)

    runner.run()

    # The four processes of the README; no other page prints such lines.
    slots = re.findall(r"^slot ([\d:]+) in process \d+$", runner.printed_by.get("workers.py", ""), re.MULTILINE)
    assert len(set(slots)) == len(slots)
    assert len(slots) >= 2 or each.name != "README.md"


def test_the_web_application_of_the_readme_starts_the_scheduler_and_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in page("README.md").blocks if "lifespan" in block.text]
    shown: dict[str, Any] = {}
    exec(compile(block.text, block.where, "exec", dont_inherit=True), shown)

    async def serve() -> str:
        async with shown["lifespan"](None):
            return str(shown["scheduler"].status().state)

    assert asyncio.run(serve()) == "running"
    assert shown["scheduler"].status().state == "stopped"


def test_the_blocks_that_do_not_run_are_few_and_say_why() -> None:
    not_run = [block for block in BLOCKS if block.marker == "not run"]

    assert len(not_run) <= MOST_NOT_RUN, [block.where for block in not_run]
    assert [block.where for block in not_run if len(block.argument.split()) < 4] == []


def test_a_block_is_of_a_kind_that_is_checked() -> None:
    known = {"python", "pycon", "sh", "console", "text", "toml"}

    assert [block.where for block in BLOCKS if block.language not in known and block.marker != "not run"] == []


def test_what_stands_as_plain_text_is_no_code() -> None:
    code = re.compile(r"^\s*(from \S+ import|import \w|def |async def |class |\$ |>>> )", re.MULTILINE)

    plain = [block for block in BLOCKS if block.language == "text" and not block.marker]
    assert [block.where for block in plain if code.search(block.text)] == []


def test_every_target_of_make_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {match for each in pages() for match in re.findall(r"(?:`|^)make (\w+)", each.text, re.MULTILINE)}

    assert named <= targets
    assert {"demo", "test"} <= named


def test_every_option_of_the_command_line_that_a_page_names_is_there() -> None:
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    known = {
        name: {text for parameter in command.params for text in parameter.opts}
        for name, command in commands.commands.items()
    }
    named = [
        (each.name, call[0], flag)
        for each in pages()
        for call in re.findall(r"\banarchon (demo|run|next|history)\b([^`\n]*)", each.text)
        for flag in re.findall(r"(?<=\s)--?[a-z][\w-]*", call[1])
    ]

    assert named
    assert [found for found in named if found[2] not in known[found[1]]] == []


def test_a_block_that_does_not_do_what_it_says_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {
        "python": "assert False\n",
        "pycon": ">>> 1 + 1\n3\n",
        "console": "$ python -c 'print(1)'\n2\n",
        "sh": "python -c 'raise SystemExit(1)'\n",
    }

    for language, text in wrong.items():
        runner = Runner(page("docs/index.md"), tmp_path)
        runner.page = _with(page("docs/index.md"), Block("docs/index.md", 1, language, text, "", ""))
        with pytest.raises(AssertionError, match=r"docs/index\.md:1"):
            runner.run()


def _with(original: Page, block: Block) -> Page:
    changed = Page(original.path)
    changed.blocks = [block]
    return changed
