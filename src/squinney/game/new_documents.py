"""Build the documents of new rooms, things and characters from checked input."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney import checks
from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.documents import (
    INTRINSICS,
    MOST_EXITS,
    MOST_GOLD,
    MOST_INTRINSIC,
    MOST_QTY,
    MOST_VITAL,
    MOST_WEIGHT,
    REGIONS,
    Location,
)
from squinney.game.kinds import CHARACTER_TYPES, DEFAULT_INTRINSIC, DEFAULT_VITALS, ITEM_TYPES, SHOP_PERCENT
from squinney.patterns.ids import new_id
from squinney.patterns.polymorphic import newest_version

STACKABLE = ("thing", "potion")
LARGEST = {"heals": MOST_VITAL, "mana": MOST_VITAL, "capacity": MOST_WEIGHT}
# The further fields of each kind of thing, with their defaults.
KIND_FIELDS: dict[str, dict[str, Any]] = {
    "thing": {},
    "weapon": {"hands": 1},
    "armor": {"region": "body"},
    "potion": {"heals": 0, "mana": 0},
    "container": {"capacity": 100},
}
DEFAULTS = {"qty": 1, "weight": 1, "price": 0, "bonus": 0, "description": ""}


def location_document(
    location_id: str | None, *, description: str, name: str = "", exits: Mapping[str, str] | None = None
) -> Location:
    """Return a new, empty room.

    Raises: `Invalid`.
    """
    return {
        "_id": checks.identifier(location_id, "id") if location_id is not None else new_id(),
        "name": checks.text(name, "name", most=100),
        "description": checks.text(description, "description", most=4_000),
        "exits": checked_exits(exits or {}),
        "players": [],
        "player_count": 0,
        "inventory": [],
        "thing_count": 0,
        "version": 1,
        "txns": [],
    }


def checked_exits(exits: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(exits, Mapping):
        raise Invalid("exits must be a mapping of directions to room ids", field="exits")
    if len(exits) > MOST_EXITS:
        raise Invalid(f"exits must have at most {MOST_EXITS} entries", field="exits", limit=MOST_EXITS)
    return {
        checks.field_name(direction, "exits", most=20): checks.identifier(target, "exits")
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
        "name": checks.text(given.pop("name"), "name", least=1, most=100),
        "description": checks.text(given.pop("description"), "description", most=2_000),
        "bonus": checks.integer(given.pop("bonus"), "bonus", least=-1_000, most=1_000),
        "weight": checks.integer(given.pop("weight"), "weight", least=0, most=MOST_WEIGHT),
        "price": checks.integer(given.pop("price"), "price", least=0, most=10**9),
        "qty": checks.integer(given.pop("qty"), "qty", least=1, most=MOST_QTY if kind in STACKABLE else 1),
        "holder": {"kind": "void", "id": None},
        # Random: another process may have cached a deleted thing with the same id, and must not mistake this for it.
        "version": random.randrange(1, 2**31),
        "txns": [],
    }
    if unknown := set(given) - set(KIND_FIELDS[kind]):
        raise Invalid(f"{min(unknown)} is not a field of a {kind}", field=min(unknown))
    fields = KIND_FIELDS[kind].items()
    item.update({name: _checked_kind_field(name, given.get(name, default)) for name, default in fields})
    if kind == "container":
        item.update(load=0, count=0, things=0)
    if kind in STACKABLE:
        item["stack"] = rules.stack_of(item)
    return item


def _checked_kind_field(name: str, value: Any) -> Any:
    if name == "region":
        if value not in REGIONS:
            raise Invalid(f"region must be one of {', '.join(REGIONS)}", field="region")
        return value
    if name == "hands":
        return checks.integer(value, "hands", least=1, most=2)
    return checks.integer(value, name, least=0, most=LARGEST[name])


def _checked_name(name: str) -> str:
    """Refuse invisible characters: with them a name could imitate another name, or control a terminal."""
    checks.text(name, "name", least=1, most=60, pattern=r"\S(.*\S)?", like="without spaces around it")
    if not name.isprintable():
        raise Invalid("name must contain only printable characters", field="name")
    return name


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
        "name": _checked_name(name),
        "owner": checks.identifier(owner, "owner") if owner is not None else None,
        "character": sheet,
        "gold": checks.integer(gold, "gold", least=0, most=MOST_GOLD),
        "minted": gold,
        "armor": [],
        "weapons": [],
        "inventory": [],
        "load": 0,
        "things": 0,
        "seen": [],
        "version": 1,
        "txns": [],
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
    sheet: dict[str, Any] = {"class": checks.text(character_class, "character_class", least=1, most=40)}
    for name, default in DEFAULT_VITALS.items():
        value = vitals[name] if vitals[name] is not None else default
        sheet[name] = sheet[f"max_{name}"] = checks.integer(value, name, least=1, most=MOST_VITAL)
    checked = checked_intrinsics(intrinsics, least=1, most=MOST_INTRINSIC)
    return {**sheet, "intrinsics": {**dict.fromkeys(INTRINSICS, DEFAULT_INTRINSIC), **checked}}


def checked_intrinsics(given: Mapping[str, int], *, least: int, most: int) -> dict[str, int]:
    """Raises: `Invalid`."""
    if unknown := set(given) - set(INTRINSICS):
        raise Invalid(f"intrinsics must be among {', '.join(INTRINSICS)}, not {min(unknown)}", field="intrinsics")
    return {name: checks.integer(value, name, least=least, most=most) for name, value in given.items()}


def _checked_percent(shop: Mapping[str, int], name: str) -> int:
    return checks.integer(shop.get(name, SHOP_PERCENT[name]), name, least=0, most=10_000)
