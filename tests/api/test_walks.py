"""The walks of `docs/architecture.md` are those of recorded calls. `python tools/write_walks.py` writes them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from pymongo import MongoClient
from starlette.testclient import TestClient
from tests import walks
from tests.plugins.shelf import Prepared

from squinney import assembly
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db, Document

_KEYS = count()
MAX_RETURNS = 2
TRIES = 4


@pytest.fixture
def walk() -> Iterator[walks.Walk]:
    recorder = walks.Walk()
    with recorder.in_new_threads():
        yield recorder


@pytest.fixture
def recorded(prepared: Prepared, mongod: Embedded, walk: walks.Walk) -> Iterator[Db]:
    """A database with all collections, whose commands the walk sees."""
    name = prepared(assembly.collections()).name
    client: MongoClient[Document]
    with client_for(mongod.uri, event_listeners=[walk]) as client:
        yield client[name]


@pytest.fixture
def systems(recorded: Db) -> assembly.Assembled:
    return assembly.assemble(recorded)


def _ok(response: Any) -> Any:
    assert response.status_code < 300, response.text
    return response.json() if "json" in response.headers["content-type"] else response.text


def _key() -> dict[str, str]:
    return {"Idempotency-Key": str(next(_KEYS))}


Act = Callable[[], object]


def _transfer(site: TestClient, systems: assembly.Assembled) -> Act:
    new = {"currency": "EUR", "opening": 100}
    src, dst = (_ok(site.post("/api/ledger/accounts", json=new))["id"] for _ in range(2))
    body = {"src": src, "dst": dst, "amount": 1}
    return lambda: _ok(site.post("/api/ledger/transfers", json=body, headers=_key()))


def _checkout(site: TestClient, systems: assembly.Assembled) -> Act:
    pricing = {"list": 100, "retail": 100, "currency": "EUR"}
    _ok(site.post("/api/commerce/products", json={"id": "a", "type": "Film", "title": "A", "pricing": pricing}))
    _ok(site.post("/api/commerce/stock/a/receipts", json={"qty": 100}))
    carts = [_ok(site.post("/api/commerce/carts", json={}))["id"] for _ in range(TRIES)]
    for cart in carts:
        _ok(site.post(f"/api/commerce/carts/{cart}/items", json={"sku": "a"}, headers=_key()))
    return lambda: _ok(site.post(f"/api/commerce/carts/{carts.pop()}/checkout", headers=_key()))


def _comment(site: TestClient, systems: assembly.Assembled) -> Act:
    page = {"type": "basic-page", "title": "P", "slug": "p", "author": {"id": "a", "name": "Ada"}}
    node = _ok(site.post("/api/content/nodes", json=page))["id"]
    body = {"author_id": "a", "author_name": "Ada", "text": "hello"}
    return lambda: _ok(site.post(f"/api/comments/nodes/{node}", json=body, headers=_key()))


def _members(site: TestClient) -> Act:
    for name in ("ann", "bob"):
        _ok(site.post("/api/social/members", json={"name": name, "user": name}))
    _ok(site.post("/api/social/members/bob/circle", json={"other": "ann", "circle": "friends"}))
    body = {"me": "ann", "type": "status", "detail": {"text": "hi"}, "circles": ["*public*"]}
    return lambda: _ok(site.post("/api/social/posts", json=body, headers=_key()))


def _post(site: TestClient, systems: assembly.Assembled) -> Act:
    return _members(site)


def _delivery(site: TestClient, systems: assembly.Assembled) -> tuple[Act, Act]:
    return _members(site), systems.services["social"]["network"].deliver


def _news(site: TestClient, systems: assembly.Assembled) -> Act:
    _members(site)()
    systems.services["social"]["network"].deliver()
    return lambda: _ok(site.get("/api/social/members/bob/news"))


def _take(site: TestClient, systems: assembly.Assembled) -> tuple[Act, Act]:
    world = systems.services["game"]["world"]
    world.create_location("hall", name="Hall", description="A hall.")
    world.create_character("Ann", id="ann", location="hall", owner="admin")
    world.create_item("lamp", id="lamp", character="ann")
    site.app.state.count_in_cart = None  # type: ignore[attr-defined]  # the header of a page is on nobody's way
    return lambda: world.drop("ann", "lamp"), lambda: _ok(site.post("/game/play/ann/type", data={"line": "take lamp"}))


def _log_line(site: TestClient, systems: assembly.Assembled) -> Act:
    from squinney.analytics import EventLog, feed_hits

    line = '1.2.3.4 - - [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 23 "-" "Mozilla/5.0"\n'
    log = EventLog(systems.db)

    def import_one() -> None:
        log.import_file(
            io.BytesIO(line.replace("/a", f"/{next(_KEYS)}").encode()),
            source=f"log {next(_KEYS)}",
            after_checkpoint=lambda source: feed_hits(systems.db, source["_id"]),
        )

    return import_one


HOLDER = """
import sys, time
from squinney.mongo.connect import client_for
client = client_for(sys.argv[1])
with client.start_session() as session, session.start_transaction():
    accounts = client[sys.argv[2]]["ledger.accounts"]
    accounts.update_one({"_id": sys.argv[3]}, {"$inc": {"balance": -1}}, session=session)
    print("holds", flush=True)
    time.sleep(600)
"""


def _recovery(site: TestClient, systems: assembly.Assembled, uri: str) -> Act:
    """A transfer of an account that a dead process has changed in an open transaction."""
    new = {"currency": "EUR", "opening": 100}
    src, dst = (_ok(site.post("/api/ledger/accounts", json=new))["id"] for _ in range(2))

    def transfer() -> None:
        command = [sys.executable, "-c", HOLDER, uri, systems.db.name, src]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "holds\n"
            process.kill()
        systems.services["ledger"]["accounts"].transfer(src, dst, 1)

    return transfer


WALKS: dict[str, Callable[[TestClient, assembly.Assembled], Act | tuple[Act, Act]]] = {
    "A transfer": _transfer,
    "A checkout": _checkout,
    "A comment": _comment,
    "A post is written": _post,
    "A post is delivered": _delivery,
    "A reader's news": _news,
    "Take lamp": _take,
    "A log line": _log_line,
}


@pytest.mark.parametrize("title", WALKS)
def test_the_page_shows_the_files_that_are_passed(
    title: str, site: TestClient, systems: assembly.Assembled, walk: walks.Walk
) -> None:
    made = WALKS[title](site, systems)
    before, act = made if isinstance(made, tuple) else (lambda: None, made)
    for _ in range(TRIES):  # the first time fills caches; on a busy machine an attempt may be repeated
        before()
        with walk.recording():
            walks.in_a_thread(act)
        if walk.text(title) == walks.on_the_page(title):
            break
    _compare(title, walk)


def test_the_page_shows_how_the_transaction_of_a_dead_process_is_ended(
    site: TestClient, systems: assembly.Assembled, mongod: Embedded, walk: walks.Walk
) -> None:
    act = _recovery(site, systems, mongod.uri)
    for _ in range(TRIES):
        with walk.recording():
            walks.in_a_thread(act)
        if walk.text("A recovery") == walks.on_the_page("A recovery"):
            break
    _compare("A recovery", walk)


def _compare(title: str, walk: walks.Walk) -> None:
    if os.environ.get("SQUINNEY_WRITE_WALKS"):
        walks.write(title, walk.text(title))
    assert walks.on_the_page(title) == walk.text(title), "run: python tools/write_walks.py"
    assert walk.returns <= MAX_RETURNS
