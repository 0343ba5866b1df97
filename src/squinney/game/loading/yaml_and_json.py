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
THING |= {"capacity", "things"}
DEEPEST = 10
MOST_THINGS = 500_000  # a few lines of YAML with aliases can expand to more things than fit in memory


def read(file: str, given: Any) -> Blueprint:
    """Return the blueprint of a parsed file; parts with unknown fields or wrong types are reported and left out."""
    if not isinstance(given, Mapping) or not isinstance(given.get("rooms"), Mapping):
        raise Invalid(f"{file} must be a mapping with `rooms`", field="file")
    blueprint = Blueprint(name=str(given.get("name", "")), start=str(given.get("start", "")))
    for unknown in sorted(str(name) for name in given.keys() - TOP):
        blueprint.add_problem(file, 0, f"unknown field `{unknown}`")
    for room_id, room in given["rooms"].items():
        if _fits(blueprint, file, f"room {room_id}", room, ROOM):
            blueprint.rooms[str(room_id)] = {
                "name": str(room.get("name", room_id)),
                "description": str(room.get("description", "")),
                "exits": {
                    str(way): str(target)
                    for way, target in _mapping(blueprint, file, f"exits of {room_id}", room.get("exits")).items()
                },
            }
            blueprint.defined_at[str(room_id)] = (file, 0)
            _things(blueprint, file, str(room_id), {"location": str(room_id)}, room.get("things"))
    for person_id, person in _mapping(blueprint, file, "people", given.get("people")).items():
        if _fits(blueprint, file, f"person {person_id}", person, PERSON):
            made = {name: value for name, value in person.items() if name not in ("room", "things", "class")}
            made.setdefault("name", str(person_id))
            if "class" in person:
                made["character_class"] = person["class"]
            blueprint.people[str(person_id)] = {**made, "location": str(person.get("room", blueprint.start))}
            blueprint.defined_at[str(person_id)] = (file, 0)
            _things(blueprint, file, str(person_id), {"character": str(person_id)}, person.get("things"))
    if blueprint.start and blueprint.start not in blueprint.rooms:
        blueprint.add_problem(file, 0, f"`start` is {blueprint.start}, which is not a room")
    blueprint.check_references()
    return blueprint


def _things(blueprint: Blueprint, file: str, above: str, place: dict[str, str], given: Any, depth: int = 0) -> None:
    if given is not None and not isinstance(given, list):
        blueprint.add_problem(file, 0, f"things of {above} must be a list")
        return
    if len(blueprint.things) > MOST_THINGS:
        raise Invalid(f"{file} has more than {MOST_THINGS} things", field="file", limit=MOST_THINGS)
    for number, thing in enumerate(given or ()):
        thing_id = f"{above}/{number}"
        if _fits(blueprint, file, f"thing {thing_id}", thing, THING):
            made = {name: value for name, value in thing.items() if name != "things"}
            made.setdefault("name", "thing")
            blueprint.things[thing_id] = {**made, **place}
            blueprint.defined_at[thing_id] = (file, 0)
            if depth < DEEPEST:
                _things(blueprint, file, thing_id, {"container": thing_id}, thing.get("things"), depth + 1)


def _mapping(blueprint: Blueprint, file: str, what: str, value: Any) -> Mapping[Any, Any]:
    if value is not None and not isinstance(value, Mapping):
        blueprint.add_problem(file, 0, f"{what} must be a mapping")
    return value if isinstance(value, Mapping) else {}


def _fits(blueprint: Blueprint, file: str, what: str, given: Any, known: set[str]) -> bool:
    if not isinstance(given, Mapping):
        blueprint.add_problem(file, 0, f"{what} must be a mapping")
        return False
    unknown = sorted(str(name) for name in given.keys() - known)
    if unknown:
        blueprint.add_problem(file, 0, f"{what} has unknown fields: {', '.join(unknown)}")
    return not unknown
