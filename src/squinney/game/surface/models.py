"""What the world's routes take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from squinney.game.documents import MOST_GOLD, MOST_QTY, MOST_VITAL, MOST_WEIGHT, Character, Event, Item, Location
from squinney.http.answers import answer, page_of

Id = Annotated[str, Field(min_length=1, max_length=200)]
Qty = Annotated[int, Field(ge=1, le=MOST_QTY, strict=True)]
Intrinsic = Literal["strength", "dexterity", "intelligence", "charisma"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewLocation(_Strict):
    """What making a room takes."""

    id: Id | None = None
    name: str = Field("", max_length=100, examples=["The jetty"])
    description: str = Field(max_length=4_000, examples=["Wet planks."])
    exits: dict[str, Id] = Field({}, max_length=20, examples=[{"n": "square"}])


class NewItem(_Strict):
    """What making a thing takes; the fields of its own that a kind has are the last five."""

    id: Id | None = None
    name: str = Field(min_length=1, max_length=100, examples=["lamp"])
    kind: Literal["thing", "weapon", "armor", "potion", "container"] = "thing"
    location: Id | None = None
    character: Id | None = None
    container: Id | None = None
    qty: Qty = 1
    weight: int = Field(1, ge=0, le=MOST_WEIGHT, strict=True)
    price: int = Field(0, ge=0, le=10**9, strict=True)
    bonus: int = Field(0, ge=-1_000, le=1_000, strict=True)
    description: str = Field("", max_length=2_000)
    hands: int | None = Field(None, ge=1, le=2, strict=True)
    region: Literal["head", "hands", "feet", "body"] | None = None
    heals: int | None = Field(None, ge=0, le=MOST_VITAL, strict=True)
    mana: int | None = Field(None, ge=0, le=MOST_VITAL, strict=True)
    capacity: int | None = Field(None, ge=0, le=MOST_WEIGHT, strict=True)


class NewCharacter(_Strict):
    """What making a character takes."""

    id: Id | None = None
    name: str = Field(min_length=1, max_length=60, examples=["Ann"])
    location: Id
    gold: int = Field(0, ge=0, le=MOST_GOLD, strict=True)
    kind: Literal["player", "shopkeeper", "monster"] = "player"
    owner: Id | None = Field(None, description="The person who plays them on the web front")
    character_class: str = Field("wanderer", min_length=1, max_length=40)
    intrinsics: dict[Intrinsic, Annotated[int, Field(ge=1, le=25, strict=True)]] | None = None
    wanders: bool = False
    shop: dict[Literal["sells_at", "buys_at"], Annotated[int, Field(ge=0, le=10_000, strict=True)]] | None = None


class Move(_Strict):
    """Through which exit."""

    direction: str = Field(min_length=1, max_length=20, pattern=r"^[^.$\x00][^.\x00]*$", examples=["n"])


class OfItem(_Strict):
    """A thing."""

    item: Id


class Some(OfItem):
    """A thing, or so many of a stack."""

    qty: Qty | None = None


class InContainer(Some):
    """A thing, and the container it goes into or comes out of."""

    container: Id


class Gift(Some):
    """A thing, and who gets it."""

    to: Id


class Split(OfItem):
    """How many are taken from the stack."""

    qty: Qty


class Stack(OfItem):
    """The stack that it goes onto."""

    onto: Id


class Wield(OfItem):
    """A weapon, and the hand."""

    hand: Literal["left", "right", "both"] = "right"


class Trade(OfItem):
    """A thing, how many, and with whom."""

    shopkeeper: Id
    qty: Qty = 1


class Words(_Strict):
    """What is said."""

    text: str = Field(min_length=1, max_length=500, pattern=r"^[^\x00]+$")


Change = Annotated[int, Field(ge=-MOST_VITAL, le=MOST_VITAL, strict=True)]


class Adjustment(_Strict):
    """What is added to a character's values."""

    health: Change = 0
    mana: Change = 0
    intrinsics: dict[Intrinsic, Change] = {}


# ---- answers ----


_ENTRIES = list[dict[str, Any]]  # what a thing has not is left out of them
_OURS = ("schema_version", "txns", "things")

EventModel = answer(Event, called="EventModel")
LocationModel = answer(Location, without=["txns", "is_start"], players=_ENTRIES, inventory=_ENTRIES)
CharacterModel = answer(Character, without=[*_OURS, "minted", "created_at", "pace", "wanders"], inventory=_ENTRIES)
ItemModel = answer(Item, without=[*_OURS, "stack", "count"])
LocationPage = page_of(LocationModel)
CharacterPage = page_of(CharacterModel)
ItemPage = page_of(ItemModel)


class Gold(BaseModel):
    """All gold there is."""

    gold: int
