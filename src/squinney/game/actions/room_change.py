"""What one action changes in a room.

Many actions change the same room at once, so rooms are changed by operators that need no version, and none of these
actions has to read the room again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from squinney.game import rules
from squinney.game.documents import LOCATIONS, MAX_LISTED, Entry, Location
from squinney.game.errors import UnknownLocation
from squinney.mongo.schema import Document
from squinney.transactions import Stale, Step


class RoomChange:
    """Update operators for one room. The same operators update the acting character's copy of the room."""

    def __init__(self) -> None:
        self.operators: dict[str, dict[str, Any]] = {}
        self.array_filters: list[Document] = []
        self.guard: Document = {}

    def _add(self, operator: str, path: str, value: Any) -> None:
        self.operators.setdefault(operator, {})[path] = value

    def list_person(self, character: Mapping[str, Any]) -> None:
        """Add an arriving character to the room's list and count."""
        self._add("$push", "players", {"$each": [rules.person_of(character)], "$slice": MAX_LISTED})
        self._add("$inc", "player_count", 1)

    def unlist_person(self, character: Mapping[str, Any]) -> None:
        """Remove a leaving character from the room's list and count."""
        self._add("$pull", "players", {"id": character["_id"]})
        self._add("$inc", "player_count", -1)

    def list_entry(self, entry: Entry) -> None:
        """Add a thing to the room's list and count."""
        self._add("$push", "inventory", {"$each": [entry], "$slice": MAX_LISTED})
        self._add("$inc", "thing_count", 1)

    def unlist_entry(self, item_id: str) -> None:
        """Remove a thing from the room's list and count."""
        self._add("$pull", "inventory", {"id": item_id})
        self._add("$inc", "thing_count", -1)

    def change_entry(self, item_id: str, **increments: int) -> None:
        """Add to the numbers of a listed thing; nothing happens if the thing is not among the listed ones."""
        for name, value in increments.items():
            if value:
                self._add("$inc", f"inventory.$[entry].{name}", value)
        self.array_filters = [{"entry.id": item_id}]

    def update(self, prefix: str = "") -> Document:
        """Return the update document, with `prefix` before every path."""
        return {
            operator: {prefix + path: value for path, value in paths.items()}
            for operator, paths in self.operators.items()
        }

    def applied_to(self, room: Location) -> Location:
        """Return the room after this change. The version stays: other actions may have changed the room meanwhile."""
        lists: dict[str, list[Any]] = {name: list(room[name]) for name in ("players", "inventory")}
        for name, pulled in self.operators.get("$pull", {}).items():
            lists[name] = [entry for entry in lists[name] if entry["id"] != pulled["id"]]
        for name, pushed in self.operators.get("$push", {}).items():
            lists[name] = [*lists[name], *pushed["$each"]][:MAX_LISTED]
        counts = {name: room.get(name, 0) + more for name, more in self.operators.get("$inc", {}).items()}
        return cast(Location, {**room, **lists, **{name: value for name, value in counts.items() if "." not in name}})

    def step(self, location_id: str) -> Step:
        """Return the guarded step that applies the change."""
        update = self.update()
        update.setdefault("$inc", {})["version"] = 1
        return Step(
            LOCATIONS,
            location_id,
            guard=self.guard,
            update=update,
            array_filters=self.array_filters,
            refused=lambda room: Stale() if room else UnknownLocation(f"there is no room {location_id}"),
        )
