"""The world over HTTP, on its pages and through sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from squinney import assembly
from squinney.game import World
from squinney.game.surface import listeners, live, maps

HTML = {"Accept": "text/html"}


@pytest.fixture
def world(systems: assembly.Assembled) -> World:
    """A hall and a yard; Ann belongs to the admin, Bob to another user."""
    made: World = systems.services["game"]["world"]
    made.create_location("hall", name="Hall", description="A <b>hall</b>.", exits={"n": "yard"})
    made.create_location("yard", name="Yard", description="A yard.", exits={"s": "hall"})
    made.create_character("Ann", id="ann", location="hall", gold=50, owner="admin")
    made.create_character("Bob", id="bob", location="hall", owner="another")
    made.create_character("Mo", id="mo", location="hall", kind="shopkeeper", gold=5)
    made.create_item("lamp", id="lamp", location="hall", description="Brass & <glass>.")
    made.create_item("rope", id="rope", character="mo", price=7, qty=3)
    return made


def test_a_world_is_made_and_played_over_http(site: TestClient) -> None:
    def post(path: str, status: int, **body: Any) -> Any:
        response = site.post(f"/api/game/{path}", json=body)
        assert response.status_code == status, response.text
        return response.json()

    post("locations", 201, id="hall", description="A hall.", exits={"n": "yard"})
    post("locations", 201, id="yard", description="A yard.")
    ann = post("characters", 201, name="Ann", location="hall", gold=9)["id"]
    sack = post("items", 201, name="sack", kind="container", character=ann, capacity=9)["id"]
    hat = post("items", 201, name="hat", kind="armor", region="head", bonus=1, location="hall")["id"]
    assert post(f"characters/{ann}/pick-up", 200, item=hat)["text"] == "Ann takes +1 hat"
    post(f"characters/{ann}/put-in", 200, item=hat, container=sack)
    inside = site.get(f"/api/game/characters/{ann}/containers/{sack}").json()
    assert [entry["id"] for entry in inside] == [hat]
    post(f"characters/{ann}/take-out", 200, item=hat, container=sack)
    post(f"characters/{ann}/wear", 200, item=hat)
    assert site.get(f"/api/game/characters/{ann}/armor").json()["head"][0]["described"] == "+1 hat"
    assert site.get(f"/api/game/characters/{ann}/weapons").json()["left"] is None
    assert post(f"characters/{ann}/drop", 409, item=hat)["code"] == "in-use"
    assert post(f"characters/{ann}/move", 409, direction="w")["code"] == "no-exit"
    post(f"characters/{ann}/say", 200, text="bye")
    post(f"characters/{ann}/move", 200, direction="n")
    assert site.get(f"/api/game/characters/{ann}/room").json()["id"] == "yard"
    assert [event["kind"] for event in site.get("/api/game/locations/hall/events").json()][:2] == ["left", "said"]
    assert site.get("/api/game/locations").json()["items"][0]["id"] == "hall"
    assert site.get("/api/game/gold").json() == {"gold": 9}
    assert site.get("/api/game/items/nothing").status_code == 404
    assert "qty" in str(post("items", 422, name="x", qty=0))


def test_a_request_sent_twice_acts_once(site: TestClient, world: World) -> None:
    once = {"Idempotency-Key": "k1"}
    body = {"shopkeeper": "mo", "item": "rope", "qty": 2}
    answers = [site.post("/api/game/characters/ann/buy", json=body, headers=once) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert world.character("ann")["gold"] == 36


# ---- pages ----


def send(site: TestClient, action: str, **fields: Any) -> Any:
    return site.post(f"/game/play/ann/{action}", data=fields, headers=HTML)


def test_a_newcomer_makes_a_character_and_plays(site: TestClient, world: World) -> None:
    assert "Enter the world" in site.get("/game", headers=HTML).text
    form = {"name": "Eve", "character_class": "sailor", "key": "k"}
    made = site.post("/game/characters", data=form, headers=HTML)
    assert made.status_code == 200, made.text
    assert "A &lt;b&gt;hall&lt;/b&gt;." in made.text
    assert "<b>hall" not in made.text
    assert "Brass &amp; &lt;glass&gt;." in made.text
    refused = site.post("/game/characters", data={**form, "key": "other"}, headers=HTML)
    assert (refused.status_code, "another character is called Eve" in refused.text) == (409, True)
    assert world.named("eve")["character"]["intrinsics"]["strength"] == 14


def test_every_action_of_the_page_is_done_or_refused_in_words(site: TestClient, world: World) -> None:
    world.create_item("sack", id="sack", kind="container", character="ann")
    world.create_item("hat", id="hat", kind="armor", region="head", character="ann")
    world.create_item("tea", id="tea", kind="potion", heals=1, character="ann")
    world.create_item("stick", id="stick", kind="weapon", character="ann")
    for action, fields in [
        ("pick-up", {"item": "lamp"}),
        ("put-in", {"item": "lamp", "container": "sack"}),
        ("take-out", {"item": "lamp", "container": "sack"}),
        ("give", {"item": "lamp", "to": "bob"}),
        ("wear", {"item": "hat"}),
        ("remove", {"item": "hat"}),
        ("wield", {"item": "stick", "hand": "left"}),
        ("use", {"item": "tea"}),
        ("buy", {"item": "rope", "shopkeeper": "mo", "qty": "2"}),
        ("drop", {"item": "sack"}),
        ("say", {"text": "<script>alert(1)</script>"}),
        ("move", {"direction": "n"}),
    ]:
        assert send(site, action, **fields).status_code == 200, action
    assert "Yard" in send(site, "move", direction="w").text
    for action, fields, words in [
        ("move", {"direction": "w"}, "no way leads west"),
        ("buy", {"item": "rope", "shopkeeper": "mo"}, "Mo is not here"),
        ("pick-up", {"item": "nothing"}, "there is no thing nothing"),
        ("drop", {"item": "stick"}, "take off or put away stick first"),
        ("drop", {"item": "stick", "qty": "many"}, "qty must be a whole number"),
        ("drop", {}, "item is missing"),
        ("fly", {}, "nobody can fly here"),
        ("adjust", {"health": "9"}, "nobody can adjust here"),
    ]:
        refused = send(site, action, **fields)
        assert refused.status_code >= 400
        assert words in refused.text, action
    world.move("ann", "s")
    assert "&lt;script&gt;alert" in site.get("/game/play/ann", headers=HTML).text


def test_a_form_sent_twice_acts_once(site: TestClient, world: World) -> None:
    for _ in range(2):
        send(site, "buy", item="rope", shopkeeper="mo", qty="1", key="same")
    assert world.character("ann")["gold"] == 43


def test_a_typed_line_is_an_action_or_a_view(site: TestClient, world: World) -> None:
    def typed(line: str, **fields: str) -> Any:
        return send(site, "type", line=line, **fields)

    assert "Ann takes lamp" in typed("take lamp").text
    assert "50 gold, carrying 1 of 150" in typed("inventory").text
    for _ in range(2):
        typed("buy rope", key="same")
    assert world.character("ann")["gold"] == 43
    assert "A yard." in typed("north").text
    refused = typed("take <moon>")
    assert refused.status_code == 404
    assert "there is no &lt;moon&gt; here" in refused.text
    assert 'value="take &lt;moon&gt;"' in refused.text
    reloaded = site.get("/game/play/ann/type", headers=HTML, follow_redirects=False)
    assert (reloaded.status_code, reloaded.headers["location"]) == (303, "/game/play/ann")


def test_nobody_plays_another_ones_character(
    stranger: TestClient, site: TestClient, world: World, systems: assembly.Assembled
) -> None:
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "member"}})
    assert site.get("/game/play/bob", headers=HTML).status_code == 404
    assert site.post("/game/play/bob/move", data={"direction": "n"}, headers=HTML).status_code == 404
    assert world.character("bob")["location"]["id"] == "hall"
    stranger.cookies.clear()
    assert stranger.get("/game", headers=HTML).status_code == 200
    assert stranger.get("/game/play/ann", headers=HTML, follow_redirects=False).status_code == 303


def test_the_map_shows_rooms_seen_and_ways_untried(world: World) -> None:
    one = maps.draw(world.map_of("ann"), "hall")
    assert (one.count("<rect"), one.count("unknown")) == (1, 1)
    world.move("ann", "n")
    two = maps.draw(world.map_of("ann"), "yard")
    assert (two.count("<rect"), two.count("unknown")) == (2, 0)
    rooms: Any = {
        "a": {"exits": {"e": "b", "n": "c"}},
        "b": {"exits": {"n": "d"}},
        "c": {"exits": {"e": "e"}},
        "d": {"exits": {}},
        "e": {"exits": {}},
    }
    cells = maps.cells_of(rooms, "a")
    assert len(set(cells.values())) == 5  # by direction alone, d and e would share a cell


# ---- sockets ----

WS = "/game/ws?character=ann"


def until(socket: Any, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    while True:
        event: dict[str, Any] = socket.receive_json()
        if holds(event):
            return event


def test_a_socket_receives_the_events_of_the_room_that_its_character_is_in(site: TestClient, world: World) -> None:
    with site.websocket_connect(WS) as socket:
        assert socket.receive_json() == {"kind": "hello"}
        world.pick_up("bob", "lamp")
        assert until(socket, lambda e: e["kind"] == "took")["text"] == "Bob takes lamp"
        world.move("ann", "n")
        until(socket, lambda e: e["kind"] == "arrived")
        world.say("bob", "anybody?")  # in the hall, which ann has left
        world.move("bob", "n")
        heard = until(socket, lambda e: e["character_id"] == "bob")
        assert (heard["kind"], heard["location_id"]) == ("arrived", "yard")
        socket.send_text("ping")
        world.say("bob", "there you are")
        assert until(socket, lambda e: e["kind"] == "said")["text"] == "there you are"


@pytest.mark.parametrize("message", ["x" * 10_000, "{}", b"\0\1", "PING"])
def test_a_socket_that_sends_garbage_is_closed(site: TestClient, world: World, message: str | bytes) -> None:
    with site.websocket_connect(WS) as good, site.websocket_connect(WS) as bad:
        good.receive_json()
        bad.receive_json()
        bad.send_bytes(message) if isinstance(message, bytes) else bad.send_text(message)
        with pytest.raises(WebSocketDisconnect) as closed:
            until(bad, lambda event: False)
        assert closed.value.code == live.REFUSED
        world.say("bob", "hello")
        assert until(good, lambda e: e["kind"] == "said")


def test_a_socket_that_sends_too_many_messages_is_closed(site: TestClient, world: World) -> None:
    with site.websocket_connect(WS) as socket:
        for _ in range(live.MAX_MESSAGES + 1):
            socket.send_text("ping")
        with pytest.raises(WebSocketDisconnect):
            until(socket, lambda event: False)


def test_a_slow_sockets_queue_is_replaced_by_a_gap_event() -> None:
    listener, everybody = listeners.Listener("ann", "hall"), listeners.Listeners()
    everybody.add(listener)
    event = {"kind": "said", "character_id": "bob", "location_id": "hall", "name": "Bob", "text": "x"}
    for _ in range(listeners.MAX_WAITING + 1):
        everybody.deliver(event)
    assert list(listener._waiting) == [{"kind": "gap"}]
    everybody.deliver({**event, "location_id": "yard"})
    assert len(listener._waiting) == 1


def test_an_event_is_queued_only_for_its_receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand sockets in other rooms cost nothing."""
    offered: list[str] = []
    monkeypatch.setattr(listeners.Listener, "put", lambda self, event: offered.append(self.character_id))
    everybody = listeners.Listeners()
    sockets = [listeners.Listener(f"c{number}", f"room {number % 100}") for number in range(2_000)]
    for socket in sockets:
        everybody.add(socket)
    event = {"kind": "arrived", "character_id": "c0", "location_id": "room 1", "name": "C", "text": "x"}
    everybody.deliver(event)
    assert (len(offered), "c0" in offered) == (21, True)
    offered.clear()
    everybody.deliver({**event, "kind": "said", "character_id": "c1", "location_id": "room 0"})
    assert ("c0" in offered, len(offered)) == (False, 20)  # the 19 still in that room, and the speaker
    for socket in sockets:
        everybody.remove(socket)
    assert not everybody._in_room
    assert not everybody._of_character


def test_a_character_who_moves_while_the_socket_opens_receives_events_of_the_new_room(
    site: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, deliver, delivered = World.character, live.Live._deliver, threading.Event()

    def read_and_move(self: World, character_id: str) -> Any:
        found = read(self, character_id)
        if found["location"]["id"] == "hall":
            world.move("ann", "n")
            assert delivered.wait(120)
        return found

    def deliver_and_notice(self: live.Live, changes: Any) -> None:
        deliver(self, changes)
        if any(change.document["kind"] == "arrived" for change in changes):
            delivered.set()

    monkeypatch.setattr(World, "character", read_and_move)
    monkeypatch.setattr(live.Live, "_deliver", deliver_and_notice)
    with site.websocket_connect(WS) as socket:
        assert socket.receive_json() == {"kind": "hello"}
        world.move("bob", "n")
        assert until(socket, lambda e: e["character_id"] == "bob")["location_id"] == "yard"


def test_a_socket_needs_the_owner_of_the_character_and_a_page_of_this_site(
    site: TestClient, world: World, systems: assembly.Assembled
) -> None:
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "member"}})
    for address, headers in [
        ("/game/ws?character=bob", {}),
        ("/game/ws?character=nobody", {}),
        ("/game/ws", {}),
        (WS, {"origin": "https://evil.example"}),
    ]:
        with pytest.raises(WebSocketDisconnect), site.websocket_connect(address, headers=headers) as socket:
            socket.receive_json()
    site.cookies.clear()
    with pytest.raises(WebSocketDisconnect), site.websocket_connect(WS) as socket:
        socket.receive_json()


def test_the_threads_of_live_play_end_with_the_site(
    systems: assembly.Assembled, world: World, site: TestClient
) -> None:
    with site.websocket_connect(WS) as socket:
        socket.receive_json()
        app: Any = site.app
        process_live = live.live_of(app)
        assert process_live._copies._thread.is_running
    site.__exit__()
    assert not process_live._copies._thread.is_running
    site.__enter__()


def test_the_sockets_of_one_person_are_limited(site: TestClient, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_PER_PERSON", 1)
    with site.websocket_connect(WS) as first:
        first.receive_json()
        with pytest.raises(WebSocketDisconnect), site.websocket_connect(WS) as second:
            second.receive_json()
    with site.websocket_connect(WS) as again:
        again.receive_json()
