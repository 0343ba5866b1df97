"""The HTTP routes of the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from squinney.game import (
    NameTaken,
    NoSpace,
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
from squinney.game.surface.actions import TABLE, Action
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey, service
from squinney.http.error_responses import responses
from squinney.http.response_models import list_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.transactions import AlreadyExists, Busy, KeyReused

router = APIRouter(prefix="/api/game", tags=["game"], route_class=OneThreadRoute)

TheWorld = Annotated[World, Depends(service("game", "world", World))]
Owner = Annotated[str, Query(min_length=1, max_length=200)]
_ONCE: list[type[Any]] = [Busy, KeyReused]
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
    by_region = world.armor(character_id)
    return {region: [_described(piece) for piece in worn] for region, worn in by_region.items()}


@router.get(
    "/characters/{character_id}/weapons",
    response_model=dict[str, dict[str, Any] | None],
    responses=responses(UnknownCharacter),
)
def read_weapons(world: TheWorld, character_id: str) -> Any:
    """Return the things that a character wields, by hand."""
    return {hand: weapon and _described(weapon) for hand, weapon in world.weapons(character_id).items()}


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


def _endpoint(action: Action) -> Callable[..., Any]:
    """Return the endpoint of an action, with the action's fields as its body."""

    def endpoint(world: TheWorld, character_id: str, body: Any, key: IdempotencyKey) -> Any:
        return action.method(world, character_id, **body.model_dump(), key=key)

    endpoint.__annotations__["body"] = action.fields
    endpoint.__name__, endpoint.__doc__ = action.method.__name__, action.what
    return endpoint


for _action in TABLE:
    router.post(
        f"/characters/{{character_id}}/{_action.name}",
        response_model=models.EventModel,
        responses=responses(*_ACTING, *_action.errors),
    )(_endpoint(_action))
