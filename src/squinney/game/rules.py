"""What the world permits, and how its lists change. Nothing here talks to the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from squinney.game.documents import (
    MOST_CARRIED,
    MOST_INTRINSIC,
    WEIGHT_PER_STRENGTH,
    Character,
    Entry,
    Holder,
    Item,
    Location,
    Person,
)
from squinney.game.errors import InUse, NoSpace, OutOfReach, TooFast, TooHeavy

MINUTE = timedelta(minutes=1)
COPIED = ("bonus", "price", "stack", "region", "hands", "count")
DIRECTIONS = {"n": "north", "e": "east", "s": "south", "w": "west", "u": "up", "d": "down"}


# ---- things ----


def holder(kind: Any, holder_id: str | None) -> Holder:
    """Where a thing is."""
    return {"kind": kind, "id": holder_id}


def weight_of(item: Mapping[str, Any]) -> int:
    """Of all pieces, with what is in them."""
    return int(item["weight"] * item["qty"] + item.get("load", 0))


def size_of(item: Mapping[str, Any]) -> int:
    """How many entries it takes: itself, and all that is in it."""
    return int(1 + item.get("things", 0))


def entry_of(item: Mapping[str, Any], inside: Sequence[Entry] | None = None) -> Entry:
    """The thing as its holder lists it; a character's bags list what is `inside`."""
    entry = {"id": item["_id"], "name": item["name"], "kind": item["kind"], "qty": item["qty"]}
    entry["weight"] = weight_of(item)
    entry.update({name: item[name] for name in COPIED if item.get(name) is not None})
    if inside is not None:
        entry["inventory"] = list(inside)
    return cast(Entry, entry)


def described(item: Mapping[str, Any]) -> str:
    """As people read it: `+3 wizard's hat`, `5 arrows`."""
    bonus = item.get("bonus") or 0
    name = f"{bonus:+d} {item['name']}" if bonus else str(item["name"])
    return f"{item['qty']} × {name}" if item.get("qty", 1) > 1 else name


def stack_of(item: Mapping[str, Any]) -> str:
    """The same for things that may lie on one stack: those alike in everything."""
    parts = [item[name] for name in ("kind", "name", "bonus", "weight", "price")]
    return "|".join(str(part) for part in [*parts, item.get("heals", 0), item.get("mana", 0), item.get("description")])


# ---- lists ----


def walk(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Every entry, also those in bags."""
    for entry in entries:
        yield entry
        yield from walk(entry.get("inventory", ()))


def entry_with(entries: Iterable[Entry], item_id: str) -> Entry | None:
    """The entry of a thing, however deep."""
    return next((entry for entry in walk(entries) if entry["id"] == item_id), None)


def without(entries: Iterable[Entry], item_id: str) -> list[Entry]:
    """The entries but one, which may lie in a bag."""
    kept = [entry for entry in entries if entry["id"] != item_id]
    for entry in kept:
        if "inventory" in entry:
            entry["inventory"] = without(entry["inventory"], item_id)
    return kept


# ---- characters ----


def carry_limit(character: Mapping[str, Any]) -> int | None:
    """The weight that somebody can carry; a shopkeeper has shelves."""
    if character["kind"] == "shopkeeper":
        return None
    return int(character["character"]["intrinsics"]["strength"]) * WEIGHT_PER_STRENGTH


def require_can_carry(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """What makes nobody's load larger is never refused."""
    limit = carry_limit(after)
    if limit is not None and after["load"] > max(limit, before["load"]):
        raise TooHeavy(
            f"{after['name']} can carry {limit}, and would carry {after['load']}", limit=limit, field="weight"
        )
    if after["things"] > max(MOST_CARRIED, before["things"]):
        raise NoSpace(f"{after['name']} can keep {MOST_CARRIED} things", limit=MOST_CARRIED)


def in_use(character: Mapping[str, Any]) -> set[str]:
    """The ids of what is worn or wielded."""
    return {used["id"] for used in (*character["armor"], *character["weapons"])}


def require_not_in_use(character: Mapping[str, Any], item: Mapping[str, Any]) -> None:
    """What is worn stays where it is until it is taken off."""
    if item["_id"] in in_use(character):
        raise InUse(f"take off or put away {item['name']} first", item_id=item["_id"])


def require_carried(character: Character, item: Item) -> None:
    """It is in their hands: not in a bag, nor elsewhere."""
    if item["holder"] != {"kind": "character", "id": character["_id"]}:
        raise OutOfReach(f"{character['name']} does not carry {item['name']}", item_id=item["_id"])


def require_same_room(character: Character, other: Character) -> None:
    """Both are in one place."""
    if character["location"]["id"] != other["location"]["id"]:
        raise OutOfReach(f"{other['name']} is not here", character_id=other["_id"])


def adjusted(sheet: Mapping[str, Any], health: int, mana: int, intrinsics: Mapping[str, int]) -> dict[str, Any]:
    """The values with these added, each kept within its bounds."""
    values = {name: sheet["intrinsics"][name] + more for name, more in intrinsics.items()}
    return {
        **sheet,
        "health": min(max(0, sheet["health"] + health), sheet["max_health"]),
        "mana": min(max(0, sheet["mana"] + mana), sheet["max_mana"]),
        "intrinsics": {
            **sheet["intrinsics"],
            **{name: min(max(1, value), MOST_INTRINSIC) for name, value in values.items()},
        },
    }


def pace_after(character: Mapping[str, Any], acts: int, most: int, now: datetime) -> dict[str, Any]:
    """What a player has done in this minute, with so many acts more.

    Raises: `TooFast` where that is too much.
    """
    pace = character.get("pace")
    if pace is None or not pace["from"] <= now < pace["from"] + MINUTE:
        return {"from": now, "count": acts}
    if pace["count"] + acts > most:
        wait = max(1, round((pace["from"] + MINUTE - now).total_seconds()))
        raise TooFast(f"{character['name']} is out of breath; wait {wait} s", limit=most, retry_after_seconds=wait)
    return {"from": pace["from"], "count": pace["count"] + acts}


def price_of(item: Mapping[str, Any], qty: int, percent: int, *, rounded_up: bool) -> int:
    """What a shop asks (rounded up) or pays (rounded down) for so many."""
    full = item["price"] * qty * percent
    return int(-(-full // 100) if rounded_up else full // 100)


# ---- rooms ----


def person_of(character: Mapping[str, Any]) -> Person:
    """The character as a room lists them."""
    return {"id": character["_id"], "name": character["name"], "kind": character["kind"]}


def copy_of(room: Location) -> dict[str, Any]:
    """The room as those in it keep it."""
    names = ("name", "description", "exits", "players", "player_count", "inventory", "thing_count", "version")
    return {"id": room["_id"], **{name: room[name] for name in names}}  # type: ignore[literal-required]


def way(direction: str) -> str:
    """A direction as people say it."""
    return DIRECTIONS.get(direction, direction)
