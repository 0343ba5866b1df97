"""Build the documents of new rooms, things and characters from checked input."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney import checks
from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.character_names import checked_name
from squinney.game.documents import (
    INTRINSICS,
    MAX_EXITS,
    MAX_GOLD,
    MAX_INTRINSIC,
    MAX_QTY,
    MAX_VITAL,
    MAX_WEIGHT,
    REGIONS,
    Location,
)
from squinney.game.kinds import CHARACTER_TYPES, DEFAULT_INTRINSIC, DEFAULT_VITALS, ITEM_TYPES, SHOP_PERCENT
from squinney.patterns.ids import new_id
from squinney.patterns.polymorphic import newest_version

STACKABLE = ("thing", "potion")
MAXIMA = {"heals": MAX_VITAL, "mana": MAX_VITAL, "capacity": MAX_WEIGHT}
# The further fields of each kind of thing, with their defaults.
KIND_FIELDS: dict[str, dict[str, Any]] = {
    "thing": {},
    "weapon": {"hands": 1},
    "armor": {"region": "body"},
    "potion": {"heals": 0, "mana": 0},
    "container": {"capacity": 100},
}
MAX_ACCEPTED = 20
DEFAULTS = {"qty": 1, "weight": 1, "price": 0, "bonus": 0, "description": ""}


def location_document(
    location_id: str | None, *, description: str, name: str = "", exits: Mapping[str, str] | None = None
) -> Location:
    """Return a new, empty room.

    Raises: `Invalid`.
    """
    return {
        "_id": checks.identifier(location_id, "id") if location_id is not None else new_id(),
        "name": checks.text(name, "name", max_length=100),
        "description": checks.text(description, "description", max_length=4_000),
        "exits": checked_exits(exits or {}),
        "players": [],
        "player_count": 0,
        "inventory": [],
        "thing_count": 0,
        "version": 1,
    }


def checked_exits(exits: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(exits, Mapping):
        raise Invalid("exits must be a mapping of directions to room ids", field="exits")
    if len(exits) > MAX_EXITS:
        raise Invalid(f"exits must have at maximum {MAX_EXITS} entries", field="exits", limit=MAX_EXITS)
    return {
        checks.field_name(direction, "exits", max_length=20): checks.identifier(target, "exits")
        for direction, target in exits.items()
    }


def item_document(item_id: str | None, kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return a new thing in the void. Fields that are not `given` get their defaults.

    Raises: `Invalid`.
    """
    given = {**DEFAULTS, **given}
    if kind not in KIND_FIELDS:
        raise Invalid(f"kind must be one of {', '.join(KIND_FIELDS)}", field="kind")
    item: dict[str, Any] = {
        "_id": checks.identifier(item_id, "id") if item_id is not None else new_id(),
        "kind": kind,
        "schema_version": newest_version(ITEM_TYPES.models[kind]),
        "name": checks.text(given.pop("name"), "name", min_length=1, max_length=100),
        "description": checks.text(given.pop("description"), "description", max_length=2_000),
        "bonus": checks.integer(given.pop("bonus"), "bonus", minimum=-1_000, maximum=1_000),
        "weight": checks.integer(given.pop("weight"), "weight", minimum=0, maximum=MAX_WEIGHT),
        "price": checks.integer(given.pop("price"), "price", minimum=0, maximum=10**9),
        "qty": checks.integer(given.pop("qty"), "qty", minimum=1, maximum=MAX_QTY if kind in STACKABLE else 1),
        "holder": {"kind": "void", "id": None},
        # Random: another process may have cached a deleted thing with the same id, and must not mistake this for it.
        # guard: a new thing with the id of a deleted one has another version
        "version": random.randrange(1, 2**31),
    }
    goal = _goal_fields(kind, given)
    if unknown := set(given) - set(KIND_FIELDS[kind]):
        raise Invalid(f"{min(unknown)} is not a field of a {kind}", field=min(unknown))
    fields = KIND_FIELDS[kind].items()
    item.update({name: _checked_kind_field(name, given.get(name, default)) for name, default in fields})
    if kind == "container":
        item.update(load=0, count=0, things=0, **goal)
    if kind in STACKABLE:
        item["stack"] = rules.stack_of(item)
    return item


def _goal_fields(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the fields of a container that waits for certain things: a goal of the world."""
    if kind != "container" or not given.get("accepts"):
        return {}
    accepts = given.pop("accepts")
    if not isinstance(accepts, list) or len(accepts) > MAX_ACCEPTED or len(set(map(str, accepts))) < len(accepts):
        what = f"accepts must be a list of up to {MAX_ACCEPTED} different names of things"
        raise Invalid(what, field="accepts", limit=MAX_ACCEPTED)
    names = [checks.text(name, "accepts", min_length=1, max_length=100) for name in accepts]
    completed = checks.text(given.pop("completed", ""), "completed", max_length=500)
    return {"accepts": names, "completed": completed, "is_goal": True}


def _checked_kind_field(name: str, value: Any) -> Any:
    if name == "region":
        if value not in REGIONS:
            raise Invalid(f"region must be one of {', '.join(REGIONS)}", field="region")
        return value
    if name == "hands":
        return checks.integer(value, "hands", minimum=1, maximum=2)
    return checks.integer(value, name, minimum=0, maximum=MAXIMA[name])


def character_document(
    name: str,
    *,
    id: str | None = None,
    gold: int = 0,
    kind: str = "player",
    owner: str | None = None,
    character_class: str = "wanderer",
    health: int | None = None,
    mana: int | None = None,
    intrinsics: Mapping[str, int] | None = None,
    wanders: bool = False,
    shop: Mapping[str, int] | None = None,
    at: datetime,
) -> dict[str, Any]:
    """Return a new character without a `location`.

    Raises: `Invalid`.
    """
    if kind not in CHARACTER_TYPES.models:
        raise Invalid(f"kind must be one of {', '.join(CHARACTER_TYPES.models)}", field="kind")
    sheet = _checked_sheet(character_class, {"health": health, "mana": mana}, intrinsics or {})
    character: dict[str, Any] = {
        "_id": checks.identifier(id, "id") if id is not None else new_id(),
        "kind": kind,
        "schema_version": newest_version(CHARACTER_TYPES.models[kind]),
        "name": checked_name(name),
        "owner": checks.identifier(owner, "owner") if owner is not None else None,
        "character": sheet,
        "gold": checks.integer(gold, "gold", minimum=0, maximum=MAX_GOLD),
        "minted": gold,
        "armor": [],
        "weapons": [],
        "inventory": [],
        "load": 0,
        "things": 0,
        "seen": [],
        "version": 1,
        "created_at": at,
    }
    if kind == "shopkeeper":
        character["shop"] = {name: _checked_percent(shop or {}, name) for name in SHOP_PERCENT}
    if kind == "monster" and wanders:
        character["wanders"] = True
    return character


def _checked_sheet(
    character_class: str, vitals: Mapping[str, int | None], intrinsics: Mapping[str, int]
) -> dict[str, Any]:
    sheet: dict[str, Any] = {"class": checks.text(character_class, "character_class", min_length=1, max_length=40)}
    for name, default in DEFAULT_VITALS.items():
        value = vitals[name] if vitals[name] is not None else default
        sheet[name] = sheet[f"max_{name}"] = checks.integer(value, name, minimum=1, maximum=MAX_VITAL)
    checked = checked_intrinsics(intrinsics, minimum=1, maximum=MAX_INTRINSIC)
    return {**sheet, "intrinsics": {**dict.fromkeys(INTRINSICS, DEFAULT_INTRINSIC), **checked}}


def checked_intrinsics(given: Mapping[str, int], *, minimum: int, maximum: int) -> dict[str, int]:
    """Raises: `Invalid`."""
    if unknown := set(given) - set(INTRINSICS):
        raise Invalid(f"intrinsics must be among {', '.join(INTRINSICS)}, not {min(unknown)}", field="intrinsics")
    return {name: checks.integer(value, name, minimum=minimum, maximum=maximum) for name, value in given.items()}


def _checked_percent(shop: Mapping[str, int], name: str) -> int:
    return checks.integer(shop.get(name, SHOP_PERCENT[name]), name, minimum=0, maximum=10_000)
