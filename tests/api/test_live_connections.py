"""Live connections end with the session of the person who opened them, whichever process ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.errors import ConnectionFailure
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from squinney import assembly
from squinney.errors import Unavailable
from squinney.game import World
from squinney.game.surface import live
from squinney.http.access import live_connections
from squinney.http.access.visitor import SIGNED_IN
from squinney.identity import People, Sessions

WS = "/game/ws?character=ann"
PATIENCE_SECONDS = 120  # the machine may be busy; without the check a socket stays open for ever


@pytest.fixture
def world(systems: assembly.Assembled) -> World:
    made: World = systems.services["game"]["world"]
    made.create_location("hall", name="Hall", description="A hall.")
    made.create_character("Ann", id="ann", location="hall", owner="admin")
    return made


def _sign_out(site: TestClient, systems: assembly.Assembled) -> None:
    Sessions(systems.db).end(_token(site))  # as another process would


def _token(site: TestClient) -> str:
    return str(site.cookies["squinney"]).removeprefix(SIGNED_IN)


def _sign_out_here(site: TestClient, systems: assembly.Assembled) -> None:
    assert site.post("/sign-out", follow_redirects=False).status_code == 303


def _set_password(site: TestClient, systems: assembly.Assembled) -> None:
    systems.db["identity.logins"].insert_one({"_id": "admin", "person_id": "admin", "password": "x"})
    People(systems.db).set_password("admin", "another long password")


def _disable(site: TestClient, systems: assembly.Assembled) -> None:
    People(systems.db).disable("admin")


def _demote(site: TestClient, systems: assembly.Assembled) -> None:
    People(systems.db).set_role("admin", "member")


@pytest.mark.parametrize("end", [_sign_out, _sign_out_here, _set_password, _disable, _demote])
def test_a_socket_ends_with_its_session(
    site: TestClient,
    world: World,
    systems: assembly.Assembled,
    end: Callable[[TestClient, assembly.Assembled], None],
) -> None:
    with site.websocket_connect(WS) as socket:
        assert socket.receive_json() == {"kind": "hello"}
        end(site, systems)
        _is_closed(socket, world)


def _is_closed(socket: Any, world: World) -> None:
    """Talk until the socket is closed: each event that it receives proves that it is still open."""
    with pytest.raises(WebSocketDisconnect) as closed:
        _talk(socket, world)
    assert (closed.value.code, closed.value.reason) == (live.REFUSED, "your session has ended")


def _talk(socket: Any, world: World) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        world.say("ann", "still here?")
        socket.receive_json()
        time.sleep(0.1)


def test_the_socket_of_another_session_stays_open(
    site: TestClient, world: World, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_connections, "CHECK_SECONDS", 0.1)
    first = _token(site)
    with site.websocket_connect(WS) as leaving:
        leaving.receive_json()
        site.cookies.clear()
        site.cookies.set("squinney", SIGNED_IN + Sessions(systems.db).start(People(systems.db).get("admin")))
        with site.websocket_connect(WS) as staying:
            staying.receive_json()
            Sessions(systems.db).end(first)
            _is_closed(leaving, world)
            world.say("ann", "the last word")
            while staying.receive_json()["text"] != "the last word":
                pass


def test_a_socket_that_cannot_be_checked_for_long_ends(
    site: TestClient, world: World, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_connections, "CHECK_SECONDS", 0.1)
    failed = []

    def fail(tokens: object) -> object:
        failed.append(tokens)
        raise Unavailable("MongoDB cannot be reached") from ConnectionFailure()

    monkeypatch.setattr(systems.services["identity"]["sessions"], "people", fail)
    with site.websocket_connect(WS) as socket:
        socket.receive_json()
        while len(failed) < 3:
            time.sleep(0.05)
        world.say("ann", "not yet")
        assert socket.receive_json()["text"] == "not yet"
        monkeypatch.setattr(live_connections, "MAX_UNCHECKED_SECONDS", 0.0)
        _is_closed(socket, world)


def test_a_socket_ends_where_the_check_itself_fails(
    site: TestClient, world: World, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tokens: object) -> object:
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(live_connections, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(systems.services["identity"]["sessions"], "people", fail)
    with site.websocket_connect(WS) as socket:
        socket.receive_json()
        _is_closed(socket, world)
