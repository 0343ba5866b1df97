"""The HTTP routes of the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query

from squinney.game import (
    IntoItself,
    InUse,
    NameTaken,
    NoExit,
    NoSpace,
    NotEnoughGold,
    NotForSale,
    NotMadeForThat,
    OutOfReach,
    TooFast,
    TooHeavy,
    UnknownCharacter,
    UnknownLocation,
    UnknownThing,
    World,
)
from squinney.game.surface import models
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey, service
from squinney.http.problems import responses
from squinney.http.response_models import list_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.transactions import AlreadyExists, Busy, KeyReused, StillRunning

router = APIRouter(prefix="/api/game", tags=["game"], route_class=OneThreadRoute)

TheWorld = Annotated[World, Depends(service("game", "world", World))]
Owner = Annotated[str, Query(min_length=1, max_length=200)]
F = TypeVar("F", bound=Callable[..., Any])
_ONCE: list[type[Any]] = [Busy, KeyReused, StillRunning]
_ACTING: list[type[Any]] = [UnknownCharacter, UnknownThing, OutOfReach, TooFast, *_ONCE]
_LIMITS: list[type[Any]] = [TooHeavy, NoSpace]


# ---- rooms and things ----


@router.post(
    "/locations", status_code=201, response_model=models.LocationModel, responses=responses(AlreadyExists, *_ONCE)
)
def create_location(world: TheWorld, body: models.NewLocation, key: IdempotencyKey) -> Any:
    """Create a room."""
    return world.create_location(**body.model_dump(), key=key)


@router.get("/locations", response_model=models.LocationPage, responses=responses())
def list_locations(world: TheWorld, sign: SignCursor, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List all rooms, by id."""
    return signed_page(world.locations(cursor=cursor, limit=limit), sign)


@router.get("/locations/{location_id}", response_model=models.LocationModel, responses=responses(UnknownLocation))
def get_location(world: TheWorld, location_id: str) -> Any:
    """Return a room."""
    return world.location(location_id)


@router.get("/locations/{location_id}/people", response_model=models.CharacterPage, responses=responses())
def list_people(world: TheWorld, sign: SignCursor, location_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List the characters in a room."""
    return signed_page(world.people(location_id, cursor=cursor, limit=limit), sign)


@router.get("/locations/{location_id}/things", response_model=models.ItemPage, responses=responses())
def list_things(world: TheWorld, sign: SignCursor, location_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List the things in a room."""
    return signed_page(world.things(location_id, cursor=cursor, limit=limit), sign)


@router.get("/locations/{location_id}/events", response_model=list_of(models.EventModel), responses=responses())
def list_events(world: TheWorld, location_id: str, limit: Limit = 20) -> Any:
    """List the latest events of a room, newest first."""
    return world.recent(location_id, limit=limit)


@router.post(
    "/items",
    status_code=201,
    response_model=models.ItemModel,
    responses=responses(
        UnknownLocation, UnknownCharacter, UnknownThing, AlreadyExists, NotMadeForThat, *_LIMITS, *_ONCE
    ),
)
def create_item(world: TheWorld, body: models.NewItem, key: IdempotencyKey) -> Any:
    """Create a thing."""
    kind_fields = {"hands", "region", "heals", "mana", "capacity"}
    given = {name: value for name, value in body.model_dump().items() if value is not None or name not in kind_fields}
    return world.create_item(**given, key=key)


@router.get("/items/{item_id}", response_model=models.ItemModel, responses=responses(UnknownThing))
def get_item(world: TheWorld, item_id: str) -> Any:
    """Return a thing."""
    return world.item(item_id)


@router.get("/gold", response_model=models.Gold, responses=responses())
def read_gold(world: TheWorld) -> Any:
    """Return the gold of all characters."""
    return {"gold": world.gold()}


# ---- characters ----


@router.post(
    "/characters",
    status_code=201,
    response_model=models.CharacterModel,
    responses=responses(UnknownLocation, NameTaken, AlreadyExists, *_ONCE),
)
def create_character(world: TheWorld, body: models.NewCharacter, key: IdempotencyKey) -> Any:
    """Create a character."""
    return world.create_character(**body.model_dump(), key=key)


@router.get("/characters", response_model=models.CharacterPage, responses=responses())
def list_characters(world: TheWorld, sign: SignCursor, owner: Owner, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List an owner's characters."""
    return signed_page(world.owned_by(owner, cursor=cursor, limit=limit), sign)


@router.get("/characters/{character_id}", response_model=models.CharacterModel, responses=responses(UnknownCharacter))
def get_character(world: TheWorld, character_id: str) -> Any:
    """Return a character, with a copy of the room that may be about a second old."""
    return world.character(character_id)


@router.get(
    "/characters/{character_id}/room",
    response_model=models.LocationModel,
    responses=responses(UnknownCharacter, UnknownLocation),
)
def look(world: TheWorld, character_id: str) -> Any:
    """Return the room that a character is in."""
    return world.look(character_id)


@router.get(
    "/characters/{character_id}/armor",
    response_model=dict[str, list[dict[str, Any]]],
    responses=responses(UnknownCharacter),
)
def read_armor(world: TheWorld, character_id: str) -> Any:
    """Return the things that a character wears, by region."""
    found = world.armor(character_id)
    return {region: [_described(one) for one in worn] for region, worn in found.items()}


@router.get(
    "/characters/{character_id}/weapons",
    response_model=dict[str, dict[str, Any] | None],
    responses=responses(UnknownCharacter),
)
def read_weapons(world: TheWorld, character_id: str) -> Any:
    """Return the things that a character wields, by hand."""
    return {hand: one and _described(one) for hand, one in world.weapons(character_id).items()}


def _described(item: Any) -> Any:
    return {"id": item["_id"], **{name: item[name] for name in ("name", "bonus", "described", "description")}}


@router.get(
    "/characters/{character_id}/containers/{container_id}",
    response_model=list[dict[str, Any]],
    responses=responses(UnknownCharacter, UnknownThing, OutOfReach),
)
def read_contents(world: TheWorld, character_id: str, container_id: str) -> Any:
    """Return the contents of a container that a character can reach."""
    return world.contents(character_id, container_id)


# ---- actions ----


def _action(path: str, *errors: type[Any]) -> Callable[[F], F]:
    return router.post(
        f"/characters/{{character_id}}/{path}", response_model=models.EventModel, responses=responses(*_ACTING, *errors)
    )


@_action("move", NoExit, UnknownLocation)
def move(world: TheWorld, character_id: str, body: models.Move, key: IdempotencyKey) -> Any:
    """Move a character through an exit of the room."""
    return world.move(character_id, body.direction, key=key)


@_action("pick-up", *_LIMITS)
def pick_up(world: TheWorld, character_id: str, body: models.Some, key: IdempotencyKey) -> Any:
    """Pick up a thing from the floor of the room."""
    return world.pick_up(character_id, **body.model_dump(), key=key)


@_action("drop", InUse)
def drop(world: TheWorld, character_id: str, body: models.Some, key: IdempotencyKey) -> Any:
    """Drop a carried thing."""
    return world.drop(character_id, **body.model_dump(), key=key)


@_action("put-in", InUse, NotMadeForThat, IntoItself, *_LIMITS)
def put_in(world: TheWorld, character_id: str, body: models.InContainer, key: IdempotencyKey) -> Any:
    """Put a carried thing into a container."""
    return world.put_in(character_id, **body.model_dump(), key=key)


@_action("take-out", *_LIMITS)
def take_out(world: TheWorld, character_id: str, body: models.InContainer, key: IdempotencyKey) -> Any:
    """Take a thing out of a container."""
    return world.take_out(character_id, **body.model_dump(), key=key)


@_action("give", InUse, *_LIMITS)
def give(world: TheWorld, character_id: str, body: models.Gift, key: IdempotencyKey) -> Any:
    """Give a carried thing to another character in the same room."""
    return world.give(character_id, **body.model_dump(), key=key)


@_action("split", InUse, *_LIMITS)
def split(world: TheWorld, character_id: str, body: models.Split, key: IdempotencyKey) -> Any:
    """Split a carried stack."""
    return world.split(character_id, **body.model_dump(), key=key)


@_action("stack", InUse, NotMadeForThat)
def stack(world: TheWorld, character_id: str, body: models.Stack, key: IdempotencyKey) -> Any:
    """Merge a carried stack into another."""
    return world.stack(character_id, **body.model_dump(), key=key)


@_action("wear", InUse, NotMadeForThat)
def wear(world: TheWorld, character_id: str, body: models.OfItem, key: IdempotencyKey) -> Any:
    """Put on a carried piece of armor."""
    return world.wear(character_id, body.item, key=key)


@_action("wield", InUse, NotMadeForThat)
def wield(world: TheWorld, character_id: str, body: models.Wield, key: IdempotencyKey) -> Any:
    """Take a carried weapon into a hand."""
    return world.wield(character_id, **body.model_dump(), key=key)


@_action("remove")
def remove(world: TheWorld, character_id: str, body: models.OfItem, key: IdempotencyKey) -> Any:
    """Take off a worn thing, or put away a wielded one."""
    return world.remove(character_id, body.item, key=key)


@_action("use", NotMadeForThat)
def use(world: TheWorld, character_id: str, body: models.OfItem, key: IdempotencyKey) -> Any:
    """Drink a carried potion."""
    return world.use(character_id, body.item, key=key)


@_action("adjust")
def adjust(world: TheWorld, character_id: str, body: models.Adjustment, key: IdempotencyKey) -> Any:
    """Add amounts, which may be negative, to a character's values; each value stays within its bounds."""
    return world.adjust(character_id, **body.model_dump(), key=key)


@_action("buy", NotForSale, NotEnoughGold, *_LIMITS)
def buy(world: TheWorld, character_id: str, body: models.Trade, key: IdempotencyKey) -> Any:
    """Buy from a shopkeeper in the same room."""
    return world.buy(character_id, **body.model_dump(), key=key)


@_action("sell", InUse, NotForSale, NotEnoughGold, *_LIMITS)
def sell(world: TheWorld, character_id: str, body: models.Trade, key: IdempotencyKey) -> Any:
    """Sell to a shopkeeper in the same room."""
    return world.sell(character_id, **body.model_dump(), key=key)


@_action("say")
def say(world: TheWorld, character_id: str, body: models.Words, key: IdempotencyKey) -> Any:
    """Say something to everybody in the room."""
    return world.say(character_id, body.text, key=key)
