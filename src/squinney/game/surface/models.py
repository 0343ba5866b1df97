"""The request and response models of the world's routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from squinney.game.documents import MAX_GOLD, MAX_QTY, MAX_VITAL, MAX_WEIGHT, Character, Event, Item, Location
from squinney.http.bodies import Body
from squinney.http.response_models import model_of, page_of

Id = Annotated[str, Field(min_length=1, max_length=200)]
Qty = Annotated[int, Field(ge=1, le=MAX_QTY)]
Intrinsic = Literal["strength", "dexterity", "intelligence", "charisma"]


class NewLocation(Body):
    """A room to create."""

    id: Id | None = None
    name: str = Field("", max_length=100, examples=["The jetty"])
    description: str = Field(max_length=4_000, examples=["Wet planks."])
    exits: dict[str, Id] = Field({}, max_length=20, examples=[{"n": "square"}])


class NewItem(Body):
    """A thing to create. The last five fields are for certain kinds only."""

    id: Id | None = None
    name: str = Field(min_length=1, max_length=100, examples=["lamp"])
    kind: Literal["thing", "weapon", "armor", "potion", "container"] = "thing"
    location: Id | None = None
    character: Id | None = None
    container: Id | None = None
    qty: Qty = 1
    weight: int = Field(1, ge=0, le=MAX_WEIGHT)
    price: int = Field(0, ge=0, le=10**9)
    bonus: int = Field(0, ge=-1_000, le=1_000)
    description: str = Field("", max_length=2_000)
    hands: int | None = Field(None, ge=1, le=2)
    region: Literal["head", "hands", "feet", "body"] | None = None
    heals: int | None = Field(None, ge=0, le=MAX_VITAL)
    mana: int | None = Field(None, ge=0, le=MAX_VITAL)
    capacity: int | None = Field(None, ge=0, le=MAX_WEIGHT)


class NewCharacter(Body):
    """A character to create."""

    id: Id | None = None
    name: str = Field(min_length=1, max_length=60, examples=["Ann"])
    location: Id
    gold: int = Field(0, ge=0, le=MAX_GOLD)
    kind: Literal["player", "shopkeeper", "monster"] = "player"
    owner: Id | None = Field(None, description="The user who plays the character on the web front")
    character_class: str = Field("wanderer", min_length=1, max_length=40)
    intrinsics: dict[Intrinsic, Annotated[int, Field(ge=1, le=25)]] | None = None
    wanders: bool = False
    shop: dict[Literal["sells_at", "buys_at"], Annotated[int, Field(ge=0, le=10_000)]] | None = None


class Move(Body):
    """The exit to go through."""

    direction: str = Field(min_length=1, max_length=20, pattern=r"^[^.$\x00][^.\x00]*$", examples=["n"])


class OfItem(Body):
    """A thing."""

    item: Id


class Some(OfItem):
    """A thing, or `qty` of a stack."""

    qty: Qty | None = None


class InContainer(Some):
    """A thing, and the container that it is put into or taken out of."""

    container: Id


class Gift(Some):
    """A thing, and the character that receives it."""

    to: Id


class Split(OfItem):
    """A stack, and the number to split off."""

    qty: Qty


class Stack(OfItem):
    """A stack, and the stack that it is merged into."""

    onto: Id


class Wield(OfItem):
    """A weapon, and the hand."""

    hand: Literal["left", "right", "both"] = "right"


class Trade(OfItem):
    """A thing, the number of pieces, and the shopkeeper."""

    shopkeeper: Id
    qty: Qty = 1


class Words(Body):
    """The text to say."""

    text: str = Field(min_length=1, max_length=500, pattern=r"^[^\x00]+$")


Change = Annotated[int, Field(ge=-MAX_VITAL, le=MAX_VITAL)]


class Adjustment(Body):
    """The amounts to add to a character's values."""

    health: Change = 0
    mana: Change = 0
    intrinsics: dict[Intrinsic, Change] = {}


# ---- responses ----


_ENTRIES = list[dict[str, Any]]  # not a model: fields that a thing does not have must be missing, not null
_INTERNAL = ("schema_version", "things")

EventModel = model_of(Event, model_name="EventModel")
LocationModel = model_of(Location, without=["is_start"], players=_ENTRIES, inventory=_ENTRIES)
CharacterModel = model_of(
    Character, without=[*_INTERNAL, "minted", "created_at", "pace", "wanders"], inventory=_ENTRIES
)
ItemModel = model_of(Item, without=[*_INTERNAL, "stack", "count"])
LocationPage = page_of(LocationModel)
CharacterPage = page_of(CharacterModel)
ItemPage = page_of(ItemModel)


class Gold(BaseModel):
    """The gold of all characters."""

    gold: int
