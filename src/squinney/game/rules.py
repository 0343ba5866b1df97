"""The rules of the world: pure functions. How the lists of things change: `entries.py`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney.game.documents import (
    MAX_CARRIED,
    MAX_INTRINSIC,
    WEIGHT_PER_STRENGTH,
    Character,
    Item,
    Location,
    Person,
)
from squinney.game.errors import InUse, NoSpace, OutOfReach, TooHeavy
from squinney.patterns import per_minute

DIRECTIONS = {"n": "north", "e": "east", "s": "south", "w": "west", "u": "up", "d": "down"}


# ---- things ----


def described(item: Mapping[str, Any]) -> str:
    """Return the text shown for a thing: `+3 wizard's hat`, `5 × arrow`."""
    bonus = item.get("bonus") or 0
    name = f"{bonus:+d} {item['name']}" if bonus else str(item["name"])
    return f"{item['qty']} × {name}" if item.get("qty", 1) > 1 else name


def stack_of(item: Mapping[str, Any]) -> str:
    """Return a string that is equal for things that can share a stack: things that are alike in every field."""
    parts = [item[name] for name in ("kind", "name", "bonus", "weight", "price")]
    return "|".join(str(part) for part in [*parts, item.get("heals", 0), item.get("mana", 0), item.get("description")])


# ---- characters ----


def carry_limit(character: Mapping[str, Any]) -> int | None:
    """Return the weight that a character can carry; None for a shopkeeper, who has no limit."""
    if character["kind"] == "shopkeeper":
        return None
    return int(character["character"]["intrinsics"]["strength"]) * WEIGHT_PER_STRENGTH


def require_can_carry(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a change only if it makes a load over the limit larger. Raises: `TooHeavy`, `NoSpace`."""
    limit = carry_limit(after)
    # guard: a character carries no more than the strength allows
    if limit is not None and after["load"] > max(limit, before["load"]):
        raise TooHeavy(
            f"{after['name']} can carry {limit}, and would carry {after['load']}", limit=limit, field="weight"
        )
    if after["things"] > max(MAX_CARRIED, before["things"]):
        raise NoSpace(f"{after['name']} can keep {MAX_CARRIED} things", limit=MAX_CARRIED)


def in_use(character: Mapping[str, Any]) -> set[str]:
    """Return the ids of the things that a character wears or wields."""
    return {used["id"] for used in (*character["armor"], *character["weapons"])}


def require_not_in_use(character: Mapping[str, Any], item: Mapping[str, Any]) -> None:
    """Raises: `InUse` if the character wears or wields the thing."""
    # guard: a thing in use cannot be dropped or given away
    if item["_id"] in in_use(character):
        raise InUse(f"take off or put away {item['name']} first", item_id=item["_id"])


def require_carried(character: Character, item: Item) -> None:
    """Raises: `OutOfReach` unless the character carries the thing directly, not inside a container."""
    # guard: a character gives, drops and uses only carried things
    if item["holder"] != {"kind": "character", "id": character["_id"]}:
        raise OutOfReach(f"{character['name']} does not carry {item['name']}", item_id=item["_id"])


def require_same_room(character: Character, other: Character) -> None:
    """Raises: `OutOfReach`."""
    # guard: a character gives and trades only with characters in the same room
    if character["location"]["id"] != other["location"]["id"]:
        raise OutOfReach(f"{other['name']} is not here", character_id=other["_id"])


def adjusted(sheet: Mapping[str, Any], health: int, mana: int, intrinsics: Mapping[str, int]) -> dict[str, Any]:
    """Return the character sheet with these amounts added, each value kept within its bounds."""
    values = {name: sheet["intrinsics"][name] + more for name, more in intrinsics.items()}
    return {
        **sheet,
        "health": min(max(0, sheet["health"] + health), sheet["max_health"]),
        "mana": min(max(0, sheet["mana"] + mana), sheet["max_mana"]),
        "intrinsics": {
            **sheet["intrinsics"],
            **{name: min(max(1, value), MAX_INTRINSIC) for name, value in values.items()},
        },
    }


def pace_after(character: Mapping[str, Any], acts: int, limit: int, now: datetime) -> dict[str, Any]:
    """Return the player's count of acts in the current minute after `acts` more.

    Raises: `TooFast` if the count would exceed `limit`.
    """
    name = character["name"]
    return per_minute.counted(
        character.get("pace"),
        limit=limit,
        now=now,
        says=lambda wait: f"{name} is out of breath; wait {wait} s",
        actions=acts,
    )


def price_of(item: Mapping[str, Any], qty: int, percent: int, *, rounded_up: bool) -> int:
    """Return the price of `qty` pieces at a shop's percentage: rounded up if the shop sells, down if it buys."""
    full = item["price"] * qty * percent
    return int(-(-full // 100) if rounded_up else full // 100)


# ---- rooms ----


def person_of(character: Mapping[str, Any]) -> Person:
    """Return the entry by which a room lists a character."""
    return {"id": character["_id"], "name": character["name"], "kind": character["kind"]}


def copy_of(room: Location) -> dict[str, Any]:
    """Return the copy of a room that each character in the room has."""
    names = ("name", "description", "exits", "players", "player_count", "inventory", "thing_count", "version")
    return {"id": room["_id"], **{name: room[name] for name in names}}  # type: ignore[literal-required]


def direction_name(direction: str) -> str:
    """Return the word for a direction's letter: `north` for `n`."""
    return DIRECTIONS.get(direction, direction)
