"""Read worlds in YAML or JSON, in this format:

name: The Drowned Lamp
start: jetty
rooms:
  jetty: {name: Jetty, description: Wet planks., exits: {n: path}, things: [{name: rope, qty: 3}]}
people:
  mo: {name: Mo, room: jetty, kind: shopkeeper, gold: 50, things: [{name: sack, kind: container, things: [..]}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squinney.errors import Invalid
from squinney.game.loading.blueprint import Blueprint

TOP = {"name", "start", "rooms", "people"}
ROOM = {"name", "description", "exits", "things"}
PERSON = {"name", "room", "kind", "gold", "class", "health", "mana", "intrinsics", "wanders", "shop", "things"}
THING = {"name", "kind", "qty", "weight", "price", "bonus", "description", "hands", "region", "heals", "mana"}
THING |= {"capacity", "accepts", "completed", "things"}
MAX_DEPTH = 10
MAX_THINGS = 500_000  # a few lines of YAML with aliases can expand to more things than fit in memory


def read(file: str, given: Any) -> Blueprint:
    """Return the blueprint of a parsed file; parts with unknown fields or wrong types are reported and left out."""
    if not isinstance(given, Mapping) or not isinstance(given.get("rooms"), Mapping):
        raise Invalid(f"{file} must be a mapping with `rooms`", field="file")
    reader = _Reader(file, Blueprint(name=str(given.get("name", "")), start=str(given.get("start", ""))))
    return reader.read(given)


class _Reader:
    def __init__(self, file: str, blueprint: Blueprint) -> None:
        self._file = file
        self._blueprint = blueprint

    def read(self, given: Mapping[Any, Any]) -> Blueprint:
        blueprint = self._blueprint
        for unknown in sorted(str(name) for name in given.keys() - TOP):
            self._add_problem(f"unknown field `{unknown}`")
        for room_id, room in given["rooms"].items():
            if self._is_known(f"room {room_id}", room, ROOM):
                self._room(str(room_id), room)
        for person_id, person in self._mapping("people", given.get("people")).items():
            if self._is_known(f"person {person_id}", person, PERSON):
                self._person(str(person_id), person)
        if blueprint.start and blueprint.start not in blueprint.rooms:
            self._add_problem(f"`start` is {blueprint.start}, which is not a room")
        blueprint.check_references()
        return blueprint

    def _room(self, room_id: str, room: Mapping[str, Any]) -> None:
        exits = self._mapping(f"exits of {room_id}", room.get("exits"))
        self._blueprint.rooms[room_id] = {
            "name": str(room.get("name", room_id)),
            "description": str(room.get("description", "")),
            "exits": {str(direction): str(target) for direction, target in exits.items()},
        }
        self._blueprint.defined_at[room_id] = (self._file, 0)
        self._things(room_id, {"location": room_id}, room.get("things"))

    def _person(self, person_id: str, person: Mapping[str, Any]) -> None:
        fields = {name: value for name, value in person.items() if name not in ("room", "things", "class")}
        if "class" in person:
            fields["character_class"] = person["class"]
        location = str(person.get("room", self._blueprint.start))
        self._blueprint.people[person_id] = {"name": person_id, **fields, "location": location}
        self._blueprint.defined_at[person_id] = (self._file, 0)
        self._things(person_id, {"character": person_id}, person.get("things"))

    def _things(self, holder_id: str, holder: dict[str, str], given: Any, depth: int = 0) -> None:
        if given is not None and not isinstance(given, list):
            self._add_problem(f"things of {holder_id} must be a list")
            return
        # guard: a file cannot declare more things than the limit
        if len(self._blueprint.things) > MAX_THINGS:
            raise Invalid(f"{self._file} has more than {MAX_THINGS} things", field="file", limit=MAX_THINGS)
        for number, thing in enumerate(given or ()):
            thing_id = f"{holder_id}/{number}"
            if self._is_known(f"thing {thing_id}", thing, THING):
                fields = {name: value for name, value in thing.items() if name != "things"}
                self._blueprint.things[thing_id] = {"name": "thing", **fields, **holder}
                self._blueprint.defined_at[thing_id] = (self._file, 0)
                if depth < MAX_DEPTH:
                    self._things(thing_id, {"container": thing_id}, thing.get("things"), depth + 1)

    def _mapping(self, what: str, value: Any) -> Mapping[Any, Any]:
        if value is not None and not isinstance(value, Mapping):
            self._add_problem(f"{what} must be a mapping")
        return value if isinstance(value, Mapping) else {}

    def _is_known(self, what: str, given: Any, known: set[str]) -> bool:
        if not isinstance(given, Mapping):
            self._add_problem(f"{what} must be a mapping")
            return False
        unknown = sorted(str(name) for name in given.keys() - known)
        if unknown:
            self._add_problem(f"{what} has unknown fields: {', '.join(unknown)}")
        return not unknown

    def _add_problem(self, what: str) -> None:
        self._blueprint.add_problem(self._file, 0, what)
