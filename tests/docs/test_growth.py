"""The page of what grows names every collection once."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from squinney import assembly

PAGE = Path(__file__).parents[2] / "docs" / "what-grows.md"


def test_the_page_names_every_collection_once() -> None:
    first_cells = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    named = [name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    matched = {
        collection.name: [name for name in named if fnmatchcase(collection.name, name)]
        for collection in assembly.collections()
    }
    assert {name: patterns for name, patterns in matched.items() if len(patterns) != 1} == {}
    used = {name for patterns in matched.values() for name in patterns}
    assert set(named) - used == set()


def test_what_the_server_deletes_is_on_the_list_of_what_is_bounded() -> None:
    bounded = PAGE.read_text().partition("## Not bounded")[0]
    ends = [
        collection.name
        for collection in assembly.collections()
        if any(index.expire_after_seconds is not None for index in collection.indexes)
    ]
    assert [name for name in ends if f"`{name}`" not in bounded] == []
