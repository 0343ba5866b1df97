"""The world's pages: choose a character, and play.

Every action is a form. With our script the form is sent in the background, and only the screen is replaced.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup
from pydantic import Field, create_model
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from squinney.errors import Invalid, NotFound, SquinneyError
from squinney.game import Entry, Location, World, rules
from squinney.game.entries import all_entries
from squinney.game.surface import maps
from squinney.game.surface.actions import ACTIONS, TABLE, act
from squinney.game.surface.grammar import Call
from squinney.game.surface.live import close_live, listen
from squinney.game.surface.typed import Typed
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import is_admin, needs, signed_in
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import service
from squinney.http.pages import render
from squinney.patterns.ids import new_id
from squinney.transactions import Key


@asynccontextmanager
async def _lifespan(app: Any) -> AsyncIterator[None]:
    """End the threads of live play when the app shuts down."""
    yield
    await run_in_threadpool(close_live, app)


router = APIRouter(prefix="/game", lifespan=_lifespan, route_class=PageRoute)
router.routes.append(WebSocketRoute("/game/ws", listen))

TheWorld = Annotated[World, Depends(service("game", "world", World))]
Text = Annotated[str, Form(max_length=1_000)]

FIRST_GOLD = 40
MAX_CHARACTERS = 10
MAX_OPENED = 8  # containers in a room whose contents are shown
CLASSES = {
    "wanderer": {},
    "sailor": {"strength": 14, "intelligence": 8},
    "scholar": {"strength": 7, "intelligence": 16},
    "thief": {"dexterity": 15, "charisma": 7},
}
IN_BACKGROUND = "x-game"


def _require_own(request: Request, world: TheWorld, character_id: str) -> None:
    """Refuse another user's character as unknown, so that nobody learns whether the character exists."""
    world.character_of(character_id, owner=None if is_admin(request) else signed_in(request)["_id"])


# ---- choose a character ----


@router.get("", response_class=HTMLResponse)
def show_characters(request: Request, world: TheWorld) -> Response:
    """Show the user's characters, and a form that creates one."""
    return _index(request, world)


def _index(request: Request, world: World, *, error: SquinneyError | None = None, **typed: str) -> Response:
    person = visitor_of(request).person
    try:
        start = world.start()
    except NotFound:
        start = None
    return render(
        request,
        "game/index.html",
        characters=world.owned_by(person["_id"], limit=MAX_CHARACTERS).items if person else [],
        start=start,
        drawn=_around(world, start) if start else "",
        goals=world.goals(),
        classes=list(CLASSES),
        most=MAX_CHARACTERS,
        typed=typed,
        key=new_id(),
        error=error,
    )


def _around(world: World, start: Location) -> Markup:
    """Draw the first room and those beside it; where their other exits lead is for players to find out."""
    rooms = [start]
    for beside in start["exits"].values():
        with suppress(NotFound):
            rooms.append(world.location(beside))
    return maps.draw(rooms, start["_id"])


@router.post("/characters", response_class=HTMLResponse)
def create_character(request: Request, world: TheWorld, name: Text, character_class: Text, key: Text) -> Response:
    """Create a character and start to play; a form that is sent twice creates one character."""
    owner = signed_in(request)["_id"]
    try:
        if character_class not in CLASSES:
            raise Invalid(f"character_class must be one of {', '.join(CLASSES)}", field="character_class")
        created = world.create_character(
            name.strip(),
            location=world.start()["_id"],
            gold=FIRST_GOLD,
            owner=owner,
            max_owned=MAX_CHARACTERS,
            character_class=character_class,
            intrinsics=CLASSES[character_class],
            key=Key(key, f"web:{owner}") if key else None,
        )
    except SquinneyError as error:
        return _index(request, world, error=error, name=name, character_class=character_class)
    return RedirectResponse(f"/game/play/{created['_id']}", status_code=303)


# ---- play ----


@router.get("/play/{character_id}", response_class=HTMLResponse, dependencies=[needs("member")])
def play(request: Request, world: TheWorld, character_id: str) -> Response:
    """Show the room with its people and things, what the character carries and wears, the shop and the map."""
    return _screen(request, world, character_id, "game/play.html")


@router.get("/play/{character_id}/screen", response_class=HTMLResponse, dependencies=[needs("member")])
def show_screen(request: Request, world: TheWorld, character_id: str) -> Response:
    """Return the screen without the page around it, for our script."""
    return _screen(request, world, character_id, "game/screen.html")


def _screen(
    request: Request,
    world: World,
    character_id: str,
    template: str,
    *,
    error: SquinneyError | None = None,
    answer: str = "",
    line: str = "",
) -> Response:
    _require_own(request, world, character_id)
    me = world.screen(character_id)
    room = me["location"]
    people = [player for player in room["players"] if player["id"] != character_id]
    keepers = [person for person in people if person["kind"] == "shopkeeper"]
    shown = [*all_entries(me["inventory"]), *room["inventory"]]
    opened = [entry for entry in room["inventory"] if entry.get("count")][:MAX_OPENED]
    return render(
        request,
        template,
        me=me,
        room=room,
        people=people,
        unseen_people=max(0, room["player_count"] - len(room["players"])),
        unseen_things=max(0, room["thing_count"] - len(room["inventory"])),
        contents={entry["id"]: _contents(world, character_id, entry["id"]) for entry in opened},
        bags=[entry for entry in shown if entry["kind"] == "container"],
        texts=world.descriptions(entry["id"] for entry in shown),
        shops=[(keeper, world.goods(keeper["id"])) for keeper in keepers[:3]],
        keeper=keepers[0] if keepers else None,
        pays=_shop_price(world, keepers[0]["id"]) if keepers else None,
        armor=world.armor(character_id),
        weapons=world.weapons(character_id),
        used=rules.in_use(me),
        limit=rules.carry_limit(me),
        goals=world.goals(),
        events=[event for event in reversed(world.recent(room["id"], limit=12)) if event["kind"] != "changed"],
        map=maps.draw(world.map_of(character_id), room["id"]),
        described=rules.described,
        way=rules.direction_name,
        key=new_id(),
        error=error,
        answer=answer,
        line=line,
    )


def _shop_price(world: World, shopkeeper_id: str) -> Callable[[Entry], int]:
    """Return a function that gives the price a shop pays for a thing."""
    percent = world.character(shopkeeper_id)["shop"]["buys_at"]
    return lambda entry: rules.price_of(entry, 1, percent, rounded_up=False)


def _contents(world: World, character_id: str, container_id: str) -> list[Any]:
    """Return a container's contents; empty if another character has taken the container meanwhile."""
    try:
        return world.contents(character_id, container_id)
    except SquinneyError:
        return []


# Every field of every action that a player can take: the address of a form names its action.
_FORM_FIELDS: Any = {
    name: (str, Field("", max_length=1_000))
    for action in TABLE
    if action.by_players
    for name in ("key", *action.fields.model_fields)
}
ActionForm = create_model("ActionForm", **_FORM_FIELDS)


@router.get("/play/{character_id}/{action}", response_class=HTMLResponse)
def leave_action(character_id: str, action: str) -> Response:
    """Return to the screen from the address of a form, which is visited when its answer is reloaded."""
    return RedirectResponse(f"/game/play/{character_id}", status_code=303)


@router.post("/play/{character_id}/type", response_class=HTMLResponse)
def type_line(request: Request, world: TheWorld, character_id: str, line: Text = "", key: Text = "") -> Response:
    """Run a typed command, and show its answer on the screen."""
    _require_own(request, world, character_id)
    try:
        typed = Typed(world, character_id)
        answer = typed.run(line, key=_key(key, character_id))
    except SquinneyError as error:
        return _screen(request, world, character_id, _template(request), error=error, line=line)
    # The screen shows a room that was walked into anyway.
    return _screen(request, world, character_id, _template(request), answer="" if typed.location_id else answer)


@router.post("/play/{character_id}/{action}", response_class=HTMLResponse)
def run_action(
    request: Request, world: TheWorld, character_id: str, action: str, form: Annotated[ActionForm, Form()]
) -> Response:
    """Run an action; a refusal is shown on the same screen."""
    _require_own(request, world, character_id)
    try:
        typed = form.model_dump()
        fields = ACTIONS[action].fields_of_form(typed) if action in ACTIONS else {}
        act(world, character_id, Call(action, fields), _key(typed["key"], character_id))
    except SquinneyError as error:
        return _screen(request, world, character_id, _template(request), error=error)
    if IN_BACKGROUND in request.headers:
        return _screen(request, world, character_id, _template(request))
    return RedirectResponse(f"/game/play/{character_id}", status_code=303)


def _key(given: str, character_id: str) -> Key | None:
    """Return the key that makes a form sent twice act once."""
    return Key(given, f"web:{character_id}") if given else None


def _template(request: Request) -> str:
    return "game/screen.html" if IN_BACKGROUND in request.headers else "game/play.html"
