"""Every story is told on some page, and tells the same each time."""

from __future__ import annotations

import pytest

from tests.docs.pages import pages
from tests.docs.timelines import STORIES, told

SHOWN = [block for each in pages() for block in each.blocks if block.marker == "timeline"]


def test_every_story_is_shown_and_what_is_shown_is_a_story() -> None:
    assert {block.argument for block in SHOWN} == set(STORIES)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_tells_the_same_each_time(name: str) -> None:
    assert told(name) == told(name)
