"""The world's pages: choose a character, and play.

Every action is a form. With our script the form is sent in the background, and only the screen is replaced.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from squinney.errors import Invalid, NotFound, SquinneyError
from squinney.game import Character, Entry, Event, UnknownCharacter, World, rules
from squinney.game.surface import maps
from squinney.game.surface.live import close_live, listen
from squinney.http.dependencies import service
from squinney.http.pages import render
from squinney.http.permissions import is_admin, needs, signed_in
from squinney.http.visitor import visitor_of
from squinney.patterns.ids import new_id
from squinney.transactions import Key


@asynccontextmanager
async def _lifespan(app: Any) -> AsyncIterator[None]:
    """End the threads of live play when the app shuts down."""
    yield
    await run_in_threadpool(close_live, app)


router = APIRouter(prefix="/game", lifespan=_lifespan)
router.routes.append(WebSocketRoute("/game/ws", listen))
WRITES_NEED = "member"

TheWorld = Annotated[World, Depends(service("game", "world", World))]
Text = Annotated[str, Form(max_length=1_000)]

FIRST_GOLD = 40
MOST_CHARACTERS = 10
MOST_OPENED = 8  # containers in a room whose contents are shown
CLASSES = {
    "wanderer": {},
    "sailor": {"strength": 14, "intelligence": 8},
    "scholar": {"strength": 7, "intelligence": 16},
    "thief": {"dexterity": 15, "charisma": 7},
}
IN_BACKGROUND = "x-game"


def _require_own(request: Request, character: Character) -> None:
    """Refuse another user's character as unknown, so that nobody learns whether the character exists."""
    if character.get("owner") != signed_in(request)["_id"] and not is_admin(request):
        raise UnknownCharacter(f"there is no character {character['_id']}", character_id=character["_id"])


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
        characters=world.owned_by(person["_id"], limit=MOST_CHARACTERS).items if person else [],
        start=start,
        classes=list(CLASSES),
        most=MOST_CHARACTERS,
        typed=typed,
        key=new_id(),
        error=error,
    )


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
            most_owned=MOST_CHARACTERS,
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
    key: str = "",
) -> Response:
    _require_own(request, world.character(character_id))
    me = world.screen(character_id)
    room = me["location"]
    people = [one for one in room["players"] if one["id"] != character_id]
    keepers = [one for one in people if one["kind"] == "shopkeeper"]
    shown = [*rules.walk(me["inventory"]), *room["inventory"]]
    opened = [entry for entry in room["inventory"] if entry.get("count")][:MOST_OPENED]
    return render(
        request,
        template,
        me=me,
        room=room,
        people=people,
        unseen_people=max(0, room["player_count"] - len(room["players"])),
        unseen_things=max(0, room["thing_count"] - len(room["inventory"])),
        contents={entry["id"]: _contents(world, character_id, entry["id"]) for entry in opened},
        bags=[one for one in shown if one["kind"] == "container"],
        texts=world.descriptions(entry["id"] for entry in shown),
        shops=[(keeper, world.goods(keeper["id"])) for keeper in keepers[:3]],
        keeper=keepers[0] if keepers else None,
        pays=_shop_price(world, keepers[0]["id"]) if keepers else None,
        armor=world.armor(character_id),
        weapons=world.weapons(character_id),
        used=rules.in_use(me),
        limit=rules.carry_limit(me),
        events=[event for event in reversed(world.recent(room["id"], limit=12)) if event["kind"] != "changed"],
        map=maps.draw(world.map_of(character_id), room["id"]),
        described=rules.described,
        way=rules.direction_name,
        key=key or new_id(),
        error=error,
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


Act = Callable[[World, str, "FormFields"], Event]


class FormFields:
    """The fields of a form, with the idempotency key that makes a form sent twice act once."""

    def __init__(self, fields: dict[str, str], key: str, scope: str) -> None:
        self._fields = fields
        self.key = Key(key, scope) if key else None

    def text(self, name: str) -> str:
        """Raises: `Invalid` if the field is empty."""
        value = self._fields[name]
        if not value:
            raise Invalid(f"{name} is missing", field=name)
        return value

    def qty(self) -> int | None:
        """Return the quantity, or None if the field is empty. Raises: `Invalid` if it is not a number."""
        value = self._fields["qty"].strip()
        if not value:
            return None
        if not value.isascii() or not value.isdigit() or len(value) > 9:
            raise Invalid("qty must be a whole number", field="qty")
        return int(value)


ACTS: dict[str, Act] = {
    "move": lambda w, me, f: w.move(me, f.text("direction"), key=f.key),
    "pick-up": lambda w, me, f: w.pick_up(me, f.text("item"), f.qty(), key=f.key),
    "drop": lambda w, me, f: w.drop(me, f.text("item"), f.qty(), key=f.key),
    "put-in": lambda w, me, f: w.put_in(me, f.text("container"), f.text("item"), f.qty(), key=f.key),
    "take-out": lambda w, me, f: w.take_out(me, f.text("container"), f.text("item"), f.qty(), key=f.key),
    "give": lambda w, me, f: w.give(me, f.text("to"), f.text("item"), f.qty(), key=f.key),
    "wear": lambda w, me, f: w.wear(me, f.text("item"), key=f.key),
    "wield": lambda w, me, f: w.wield(me, f.text("item"), f.text("hand"), key=f.key),
    "remove": lambda w, me, f: w.remove(me, f.text("item"), key=f.key),
    "use": lambda w, me, f: w.use(me, f.text("item"), key=f.key),
    "buy": lambda w, me, f: w.buy(me, f.text("to"), f.text("item"), f.qty() or 1, key=f.key),
    "sell": lambda w, me, f: w.sell(me, f.text("to"), f.text("item"), f.qty() or 1, key=f.key),
    "say": lambda w, me, f: w.say(me, f.text("text"), key=f.key),
}


@router.post("/play/{character_id}/{action}", response_class=HTMLResponse)
def act(
    request: Request,
    world: TheWorld,
    character_id: str,
    action: str,
    key: Text = "",
    item: Text = "",
    container: Text = "",
    to: Text = "",
    direction: Text = "",
    hand: Text = "right",
    qty: Text = "",
    text: Text = "",
) -> Response:
    """Run an action; a refusal is shown on the same screen."""
    _require_own(request, world.character(character_id))
    in_background = IN_BACKGROUND in request.headers
    fields = {"item": item, "container": container, "to": to, "direction": direction}
    form = FormFields({**fields, "hand": hand, "qty": qty, "text": text}, key, f"web:{character_id}")
    try:
        if action not in ACTS:
            raise NotFound(f"nobody can {action[:40]} here")
        ACTS[action](world, character_id, form)
    except SquinneyError as error:
        template = "game/screen.html" if in_background else "game/play.html"
        return _screen(request, world, character_id, template, error=error)
    if in_background:
        return _screen(request, world, character_id, "game/screen.html")
    return RedirectResponse(f"/game/play/{character_id}", status_code=303)
