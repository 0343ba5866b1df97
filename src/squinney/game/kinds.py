"""The kinds of characters and things, as typed documents with upgrades from older schema versions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from squinney.patterns.polymorphic import Document, Part, Types, upgrades

DEFAULT_INTRINSIC = 10
DEFAULT_VITALS = {"health": 20, "mana": 10}
SHOP_PERCENT = {"sells_at": 100, "buys_at": 50}


class Intrinsics(Part):
    """A character's attributes."""

    strength: int = DEFAULT_INTRINSIC
    dexterity: int = DEFAULT_INTRINSIC
    intelligence: int = DEFAULT_INTRINSIC
    charisma: int = DEFAULT_INTRINSIC


class Sheet(Part):
    """A character's class, health, mana and intrinsics."""

    class_: str = Field("wanderer", alias="class")
    health: int = DEFAULT_VITALS["health"]
    max_health: int = DEFAULT_VITALS["health"]
    mana: int = DEFAULT_VITALS["mana"]
    max_mana: int = DEFAULT_VITALS["mana"]
    intrinsics: Intrinsics = Intrinsics()


class AnyCharacter(Document):
    """The base of all characters.

    Version 1 had no `max_health`, no `max_mana` and no `charisma`.
    """

    type: str = Field(alias="kind")
    schema_version: int = 2
    name: str
    character: Sheet = Sheet()
    gold: int = 0


class Player(AnyCharacter):
    """A character that a person plays."""

    type: Literal["player"] = Field("player", alias="kind")


class Shopkeeper(AnyCharacter):
    """A character that buys and sells at percentages of a thing's price."""

    type: Literal["shopkeeper"] = Field("shopkeeper", alias="kind")
    shop: dict[str, int] = SHOP_PERCENT


class Monster(AnyCharacter):
    """A character that nobody plays; with `wanders` a job moves it."""

    type: Literal["monster"] = Field("monster", alias="kind")
    wanders: bool = False


@upgrades(AnyCharacter, 1)
def add_limits_and_charisma(stored: dict[str, Any]) -> dict[str, Any]:
    """Upgrade a character of version 1. A limit is the current value or the default, whichever is larger."""
    sheet = stored.setdefault("character", {})
    for name, default in DEFAULT_VITALS.items():
        sheet.setdefault(name, default)
        sheet.setdefault(f"max_{name}", max(default, sheet[name]))
    sheet.setdefault("intrinsics", {}).setdefault("charisma", DEFAULT_INTRINSIC)
    return stored


class AnyThing(Document):
    """The base of all things."""

    type: str = Field(alias="kind")
    name: str
    qty: int = 1
    weight: int = 1
    price: int = 0
    bonus: int = 0


class Thing(AnyThing):
    """A thing without a special use."""

    type: Literal["thing"] = Field("thing", alias="kind")


class Weapon(AnyThing):
    """A thing to wield with one hand or two."""

    type: Literal["weapon"] = Field("weapon", alias="kind")
    hands: int = 1


class Armor(AnyThing):
    """A thing to wear."""

    type: Literal["armor"] = Field("armor", alias="kind")
    region: Literal["head", "hands", "feet", "body"] = "body"


class Potion(AnyThing):
    """A thing to drink; it is used up."""

    type: Literal["potion"] = Field("potion", alias="kind")
    heals: int = 0
    mana: int = 0


class Container(AnyThing):
    """A thing that holds other things.

    Version 1 had no `things`, the count of its contents at any depth.
    """

    type: Literal["container"] = Field("container", alias="kind")
    schema_version: int = 2
    capacity: int = 100
    load: int = 0
    count: int = 0
    things: int = 0


@upgrades(Container, 1)
def add_things(stored: dict[str, Any]) -> dict[str, Any]:
    """Upgrade a container of version 1. In version 1 containers held no containers, so `things` equals `count`."""
    stored.setdefault("things", stored.get("count", 0))
    return stored


CHARACTER_TYPES = Types(AnyCharacter, Player, Shopkeeper, Monster)
ITEM_TYPES = Types(AnyThing, Thing, Weapon, Armor, Potion, Container)
