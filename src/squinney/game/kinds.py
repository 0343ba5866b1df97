"""The kinds of characters and things, as typed documents that know their older versions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from squinney.game.documents import CHARACTERS, ITEMS
from squinney.mongo.schema import Db
from squinney.patterns.migrations import Migration
from squinney.patterns.polymorphic import Document, Part, Types, upgrades

PLAIN_INTRINSIC = 10


class Intrinsics(Part):
    """What a character is born with."""

    strength: int = PLAIN_INTRINSIC
    dexterity: int = PLAIN_INTRINSIC
    intelligence: int = PLAIN_INTRINSIC
    charisma: int = PLAIN_INTRINSIC


class Sheet(Part):
    """A character's values."""

    class_: str = Field("wanderer", alias="class")
    health: int = 20
    max_health: int = 20
    mana: int = 10
    max_mana: int = 10
    intrinsics: Intrinsics = Intrinsics()


class AnyCharacter(Document):
    """Whoever is in the world.

    Version 1 had no limits of health and mana, and no charisma.
    """

    type: str = Field(alias="kind")
    schema_version: int = 2
    name: str
    character: Sheet = Sheet()
    gold: int = 0


class Player(AnyCharacter):
    """Somebody plays them."""

    type: Literal["player"] = Field("player", alias="kind")


class Shopkeeper(AnyCharacter):
    """Buys and sells at these percentages of a thing's price."""

    type: Literal["shopkeeper"] = Field("shopkeeper", alias="kind")
    shop: dict[str, int] = {"sells_at": 100, "buys_at": 50}


class Monster(AnyCharacter):
    """Walks by itself, or stays."""

    type: Literal["monster"] = Field("monster", alias="kind")
    wanders: bool = False


@upgrades(AnyCharacter, 1)
def limits_and_charisma(stored: dict[str, Any]) -> dict[str, Any]:
    """Nobody loses anything: the limit is what they have, or the plain one where that is more."""
    sheet = stored.setdefault("character", {})
    for name, plain in (("health", 20), ("mana", 10)):
        sheet.setdefault(name, plain)
        sheet.setdefault(f"max_{name}", max(plain, sheet[name]))
    sheet.setdefault("intrinsics", {}).setdefault("charisma", PLAIN_INTRINSIC)
    return stored


class AnyThing(Document):
    """Whatever can be picked up."""

    type: str = Field(alias="kind")
    name: str
    qty: int = 1
    weight: int = 1
    price: int = 0
    bonus: int = 0


class Thing(AnyThing):
    """Good for nothing in particular."""

    type: Literal["thing"] = Field("thing", alias="kind")


class Weapon(AnyThing):
    """To be wielded with one hand or two."""

    type: Literal["weapon"] = Field("weapon", alias="kind")
    hands: int = 1


class Armor(AnyThing):
    """To be worn."""

    type: Literal["armor"] = Field("armor", alias="kind")
    region: Literal["head", "hands", "feet", "body"] = "body"


class Potion(AnyThing):
    """To be drunk, once."""

    type: Literal["potion"] = Field("potion", alias="kind")
    heals: int = 0
    mana: int = 0


class Container(AnyThing):
    """Holds other things.

    Version 1 did not count what lies deeper than directly in it.
    """

    type: Literal["container"] = Field("container", alias="kind")
    schema_version: int = 2
    capacity: int = 100
    load: int = 0
    count: int = 0
    things: int = 0


@upgrades(Container, 1)
def count_things(stored: dict[str, Any]) -> dict[str, Any]:
    """What was counted lay directly in it, for bags were not put into bags."""
    stored.setdefault("things", stored.get("count", 0))
    return stored


CHARACTER_TYPES = Types(AnyCharacter, Player, Shopkeeper, Monster)
ITEM_TYPES = Types(AnyThing, Thing, Weapon, Armor, Potion, Container)


def migrations(db: Db) -> list[Migration]:
    """What `squinney migrate` brings up to date in the background."""
    return [Migration(db[CHARACTERS], CHARACTER_TYPES), Migration(db[ITEMS], ITEM_TYPES)]
