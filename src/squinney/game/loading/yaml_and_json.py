"""Worlds in YAML or JSON.

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
MOST_THINGS = 500_000  # some lines of YAML, which refer to each other, can say more than there is memory


def read(file: str, given: Any) -> Blueprint:
    """The blueprint; what it does not understand is told, and left out."""
    if not isinstance(given, Mapping) or not isinstance(given.get("rooms"), Mapping):
        raise Invalid(f"{file} must be a mapping with `rooms`", field="file")
    plan = Blueprint(name=str(given.get("name", "")), start=str(given.get("start", "")))
    for unknown in sorted(str(name) for name in given.keys() - TOP):
        plan.tell(file, 0, f"`{unknown}` is not understood")
    for room_id, room in given["rooms"].items():
        if _fits(plan, file, f"room {room_id}", room, ROOM):
            plan.rooms[str(room_id)] = {
                "name": str(room.get("name", room_id)),
                "description": str(room.get("description", "")),
                "exits": {
                    str(way): str(target)
                    for way, target in _mapping(plan, file, f"exits of {room_id}", room.get("exits")).items()
                },
            }
            plan.lines[str(room_id)] = (file, 0)
            _things(plan, file, str(room_id), {"location": str(room_id)}, room.get("things"))
    for person_id, person in _mapping(plan, file, "people", given.get("people")).items():
        if _fits(plan, file, f"person {person_id}", person, PERSON):
            made = {name: value for name, value in person.items() if name not in ("room", "things", "class")}
            made.setdefault("name", str(person_id))
            if "class" in person:
                made["character_class"] = person["class"]
            plan.people[str(person_id)] = {**made, "location": str(person.get("room", plan.start))}
            plan.lines[str(person_id)] = (file, 0)
            _things(plan, file, str(person_id), {"character": str(person_id)}, person.get("things"))
    if plan.start and plan.start not in plan.rooms:
        plan.tell(file, 0, f"`start` is {plan.start}, which is no room")
    plan.check_references()
    return plan


def _things(plan: Blueprint, file: str, above: str, place: dict[str, str], given: Any, depth: int = 0) -> None:
    if given is not None and not isinstance(given, list):
        plan.tell(file, 0, f"things of {above} must be a list")
        return
    if len(plan.things) > MOST_THINGS:
        raise Invalid(f"{file} has more than {MOST_THINGS} things", field="file", limit=MOST_THINGS)
    for number, thing in enumerate(given or ()):
        thing_id = f"{above}/{number}"
        if _fits(plan, file, f"thing {thing_id}", thing, THING):
            made = {name: value for name, value in thing.items() if name != "things"}
            made.setdefault("name", "thing")
            plan.things[thing_id] = {**made, **place}
            plan.lines[thing_id] = (file, 0)
            if depth < DEEPEST:
                _things(plan, file, thing_id, {"container": thing_id}, thing.get("things"), depth + 1)


def _mapping(plan: Blueprint, file: str, what: str, value: Any) -> Mapping[Any, Any]:
    if value is not None and not isinstance(value, Mapping):
        plan.tell(file, 0, f"{what} must be a mapping")
    return value if isinstance(value, Mapping) else {}


def _fits(plan: Blueprint, file: str, what: str, given: Any, known: set[str]) -> bool:
    if not isinstance(given, Mapping):
        plan.tell(file, 0, f"{what} must be a mapping")
        return False
    unknown = sorted(str(name) for name in given.keys() - known)
    if unknown:
        plan.tell(file, 0, f"{what} has {', '.join(unknown)}, which is not understood")
    return not unknown
