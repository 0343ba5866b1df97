"""The entries by which characters, containers and rooms list their things: made from the things, found and removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from squinney.game.documents import MAX_CONTAINER_DEPTH, Entry

ENTRY_FIELDS = ("bonus", "price", "stack", "region", "hands", "count")


def weight_of(item: Mapping[str, Any]) -> int:
    """Return the weight of all pieces of a stack, with their contents."""
    return int(item["weight"] * item["qty"] + item.get("load", 0))


def size_of(item: Mapping[str, Any]) -> int:
    """Return the number of things: the item itself and everything inside it."""
    return int(1 + item.get("things", 0))


def entry_of(item: Mapping[str, Any], contents: Sequence[Entry] | None = None) -> Entry:
    """Return the entry by which a holder lists a thing. A character's containers also list their `contents`."""
    entry = {"id": item["_id"], "name": item["name"], "kind": item["kind"], "qty": item["qty"]}
    entry["weight"] = weight_of(item)
    entry.update({name: item[name] for name in ENTRY_FIELDS if item.get(name) is not None})
    if contents is not None:
        entry["inventory"] = list(contents)
    return cast(Entry, entry)


def all_entries(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield every entry, also those inside containers."""
    for entry in entries:
        yield entry
        yield from all_entries(entry.get("inventory", ()))


def entry_with(entries: Iterable[Entry], item_id: str) -> Entry | None:
    """Find the entry of a thing, also inside containers."""
    return next((entry for entry in all_entries(entries) if entry["id"] == item_id), None)


def entries_without(entries: Iterable[Entry], item_id: str) -> list[Entry]:
    """Return the entries without the given thing, which may be inside a container."""
    kept = [entry for entry in entries if entry["id"] != item_id]
    for entry in kept:
        if "inventory" in entry:
            entry["inventory"] = entries_without(entry["inventory"], item_id)
    return kept


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
    return [entry_of(item, contents.get(item["_id"])) for item in own]


def container_levels(entry: Entry) -> int:
    """Return how many levels of containers an entry has; 0 for a thing that is not a container."""
    if "inventory" not in entry:
        return 0
    return 1 + max((container_levels(inner) for inner in entry["inventory"]), default=0)
