"""The entries by which characters and containers list their things, made from the things themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from squinney.game import rules
from squinney.game.documents import MAX_CONTAINER_DEPTH, Entry


def by_holder(items: Iterable[Any]) -> defaultdict[Any, list[Any]]:
    """Group things by the id of their direct holder."""
    held: defaultdict[Any, list[Any]] = defaultdict(list)
    for item in items:
        held[item["holder"]["id"]].append(item)
    return held


def nested_entries(
    holder_id: str, held: Mapping[Any, list[Any]], *, max_depth: int = MAX_CONTAINER_DEPTH + 1
) -> list[Entry]:
    """Return what a holder has, as a character's inventory lists it: containers with their contents.

    At most `max_depth` levels: read while things move, two containers may seem to be inside each other.
    """
    own = sorted(held.get(holder_id, ()) if max_depth else (), key=lambda item: item["_id"])
    contents = {
        item["_id"]: nested_entries(item["_id"], held, max_depth=max_depth - 1)
        for item in own
        if item["kind"] == "container"
    }
    return [rules.entry_of(item, contents.get(item["_id"])) for item in own]


def container_levels(entry: Entry) -> int:
    """Return how many levels of containers an entry has; 0 for a thing that is not a container."""
    if "inventory" not in entry:
        return 0
    return 1 + max((container_levels(inner) for inner in entry["inventory"]), default=0)
