"""What a player can look at, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from squinney.game import Character, Entry, Location, World, rules
from squinney.game.entries import entry_with
from squinney.game.surface import grammar, words

View = Callable[[World, Character, str], str]


def look(world: World, me: Character, rest: str) -> str:
    """Describe the room, or a thing or character."""
    return examine(world, me, rest) if rest else room_text(me["location"], me["_id"])  # type: ignore[arg-type]


def room_text(room: Location, character_id: str) -> str:
    """Return a room's description, its exits, and who and what else is there."""
    lines = [room["name"] or "Somewhere", room["description"]]
    lines.append("Ways: " + (", ".join(rules.direction_name(way) for way in room["exits"]) or "none"))
    others = [person["name"] for person in room["players"] if person["id"] != character_id]
    lines += [f"Here: {_joined(others, room['player_count'] - len(room['players']))}"] if others else []
    things = [rules.described(entry) for entry in room["inventory"]]
    lines += [f"On the ground: {_joined(things, room['thing_count'] - len(things))}"] if things else []
    return "\n".join(lines)


def examine(world: World, me: Character, rest: str) -> str:
    """Describe a thing with its contents, or a character."""
    near = [*grammar.within_reach(me), *me["location"]["players"]]
    thing = words.find_named(near, rest.removeprefix("at ").removeprefix("in "))
    seen = world.descriptions([thing["id"]]).get(thing["id"], f"Nothing special about {thing['name']}.")
    if thing["kind"] != "container":
        return seen
    inside = _listed(world.contents(me["_id"], thing["id"]), set(), "    ")
    return "\n".join([seen, "In it:" if inside else "It is empty.", *inside])


def inventory(world: World, me: Character, rest: str) -> str:
    """List what the character carries."""
    first = f"{me['gold']} gold, carrying {me['load']} of {rules.carry_limit(me)}"
    return "\n".join([first, *_listed(me["inventory"], rules.in_use(me))])


def equipment(world: World, me: Character, rest: str) -> str:
    """List what the character wears and wields."""
    worn = [f"{piece['region']}: {rules.described(_carried(me, piece['id']))}" for piece in me["armor"]]
    wielded = [f"{weapon['hand']}: {rules.described(_carried(me, weapon['id']))}" for weapon in me["weapons"]]
    return "\n".join([*worn, *wielded]) or "You wear and wield nothing."


def goods(world: World, me: Character, rest: str) -> str:
    """List what the shop sells."""
    sold = world.goods(grammar.shopkeeper(me))
    lines = [f"{rules.described(entry)}: {entry['cost']} gold{' each' if entry['qty'] > 1 else ''}" for entry in sold]
    return "\n".join(lines) or "Nothing today."


def known_rooms(world: World, me: Character, rest: str) -> str:
    """List the rooms that the character has visited, with their exits."""
    rooms = {room["_id"]: room for room in world.map_of(me["_id"])}
    lines = []
    for room in rooms.values():
        ways = [f"{way} to {rooms[to]['name'] if to in rooms else '?'}" for way, to in room["exits"].items()]
        lines.append(f"{room['name'] or room['_id']}: {', '.join(ways)}")
    return "\n".join(lines)


VIEWS: dict[str, View] = {
    "look": look,
    "inventory": inventory,
    "equipment": equipment,
    "examine": examine,
    "read": examine,
    "list": goods,
    "map": known_rooms,
}


def _carried(me: Character, item_id: str) -> Any:
    return entry_with(me["inventory"], item_id) or {"name": "something"}


def _joined(names: list[str], more: int) -> str:
    return ", ".join(names) + (f", and {more} more" if more > 0 else "")


def _listed(entries: Iterable[Entry], used: set[str], indent: str = "") -> list[str]:
    lines = []
    for entry in entries:
        lines.append(f"{indent}{rules.described(entry)}{' (in use)' if entry['id'] in used else ''}")
        lines += _listed(entry.get("inventory", ()), used, f"{indent}    ")
    return lines
