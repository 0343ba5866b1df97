"""All systems under a path of somebody else's application, with its users."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from tests.crawling import crawl, targets
from tests.hosting import ALL, KEY, ROOT, SECRET, USERS, fastapi_host, starlette_host
from tests.plugins.shelf import Prepared

import squinney
from squinney import assembly, commerce, content, ledger
from squinney.errors import Invalid
from squinney.http.access import live_connections
from squinney.http.rooted import with_root
from squinney.mongo.schema import Db

HTML = {"accept": "text/html"}


@pytest.fixture
def town(prepared: Prepared) -> Db:
    """Return a database with the demo data."""
    db = prepared(assembly.collections())
    assembly.load_demo(db)
    return db


@pytest.fixture
def ready(prepared: Prepared) -> Db:
    return prepared(assembly.collections())


@pytest.fixture
def host(ready: Db) -> Iterator[TestClient]:
    with TestClient(fastapi_host(ready), raise_server_exceptions=False, follow_redirects=False) as client:
        yield client


def as_user(client: TestClient, name: str) -> TestClient:
    client.cookies.set("host-user", name)
    return client


def csrf_on(client: TestClient, path: str) -> str:
    found = re.search(r'name="csrf" (?:value|content)="([^"]+)"', client.get(path, headers=HTML).text)
    assert found, path
    return found[1]


@pytest.mark.parametrize("make", [fastapi_host, starlette_host])
def test_every_link_and_asset_stays_under_the_path(town: Db, make: Callable[..., Any]) -> None:
    with TestClient(make(town)) as client:
        found = crawl(as_user(client, "admin"), f"{ROOT}/", most=150 if make is fastapi_host else 20)
        assert len(found) >= 20
        assert [path for path in found if not path.startswith(f"{ROOT}/") and path != ROOT] == []
        assert {path: status for path, status in found.items() if status >= 400} == {}
        assert client.get("/").text in ("the host", '"the host"')
        assert f'<link rel="canonical" href="http://testserver{ROOT}/shop">' in client.get(f"{ROOT}/shop").text
        assert f"http://testserver{ROOT}/shop<" in client.get(f"{ROOT}/sitemap.xml").text
        pages = [client.get(path, headers=HTML).text for path in list(found)[:30]]
    forms = [url for page in pages for name, url in targets(page) if name == "form" and url.startswith("/")]
    assert forms
    assert [url for url in forms if not url.startswith(f"{ROOT}/")] == []


def test_a_form_is_sent_and_redirects_under_the_path(host: TestClient, ready: Db) -> None:
    as_user(host, "member")
    csrf = csrf_on(host, f"{ROOT}/ledger")
    sent_from = {"referer": f"http://testserver{ROOT}/ledger", **HTML}
    form = {"currency": "EUR", "name": "Savings", "key": "1", "csrf": csrf}
    done = host.post(f"{ROOT}/ledger/accounts", data=form, headers=sent_from)
    assert done.status_code == 303, done.text
    assert (done.status_code, done.headers["location"][: len(ROOT) + 8]) == (303, f"{ROOT}/ledger/")
    assert all(f"Path={ROOT};" in cookie for cookie in done.headers.get_list("set-cookie"))
    assert ready["ledger.accounts"].find_one({"name": "Savings"})["owner"] == "user-member"
    assert host.post(f"{ROOT}/ledger/accounts", data={**form, "csrf": "no"}).status_code == 403


def test_a_member_cannot_do_what_an_editor_can(host: TestClient) -> None:
    answers = {}
    for name in ("member", "editor", "admin"):
        as_user(host, name)
        paths = ("/shop/admin", "/site/-/queue", "/admin")
        answers[name] = [host.get(f"{ROOT}{path}", headers=HTML).status_code for path in paths]
    assert answers == {"member": [403] * 3, "editor": [200, 200, 403], "admin": [200] * 3}


def test_who_is_not_signed_in_is_sent_to_the_page_of_the_host(host: TestClient) -> None:
    sent = host.get(f"{ROOT}/ledger/mine?tab=1", headers=HTML)
    assert sent.headers["location"] == f"//testserver/login?next={ROOT}/ledger/mine%3Ftab%3D1"
    assert "/login?next=" in host.get(f"{ROOT}/", headers=HTML).text
    for path in ("/sign-in", "/sign-up", "/account", "/admin/people"):
        assert as_user(host, "admin").get(f"{ROOT}{path}", headers=HTML).status_code == 404


def test_without_authenticate_only_what_is_public_answers(ready: Db) -> None:
    with TestClient(fastapi_host(ready, authenticate=None), follow_redirects=False) as client:
        as_user(client, "admin")
        assert client.get(f"{ROOT}/shop", headers=HTML).status_code == 200
        for path in ("/ledger/mine", "/admin", "/shop/admin", "/site/-/queue", "/api/ledger/accounts"):
            assert client.get(f"{ROOT}{path}", headers=HTML).status_code in (401, 403), path


def test_programs_need_a_key(ready: Db) -> None:
    systems = [one for one in ALL if not one.__name__.endswith("identity")]
    with TestClient(fastapi_host(ready, api_keys=[KEY], systems=systems)) as client:
        as_user(client, "admin")
        path = f"{ROOT}/api/ledger/accounts"
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"Authorization": f"Bearer {KEY}"}).json()["items"] == []
        assert client.get(f"{ROOT}/api/openapi.json").json()["servers"] == [{"url": ROOT}]


@pytest.mark.parametrize(
    "wrong", [{"id": "1", "name": "x", "role": "owner"}, {"id": "", "name": "x", "role": "admin"}, 5]
)
def test_a_person_with_a_role_that_we_do_not_know_is_nobody(ready: Db, wrong: Any) -> None:
    app = fastapi_host(ready, authenticate=lambda connection: wrong)
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get(f"{ROOT}/", headers=HTML).status_code == 500


def test_authenticate_may_be_async_and_sees_the_host(ready: Db) -> None:
    seen: list[HTTPConnection] = []

    async def ask(connection: HTTPConnection) -> dict[str, str]:
        seen.append(connection)
        return USERS["editor"]

    app = fastapi_host(ready, authenticate=ask)
    with TestClient(app) as client:
        assert client.get(f"{ROOT}/shop/admin", headers=HTML).status_code == 200
    assert seen[0].url.path == f"{ROOT}/shop/admin"
    assert seen[0].app is app


def until_it_ends(socket: Any) -> None:
    with pytest.raises(WebSocketDisconnect):  # noqa: PT012
        while True:
            socket.receive_text()


def test_a_socket_ends_when_the_host_knows_the_person_no_more(town: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_connections, "CHECK_SECONDS", 0.1)
    app = fastapi_host(town)
    with TestClient(app, follow_redirects=False) as client:
        as_user(client, "member")
        form = {"name": "Mara", "character_class": "sailor", "key": "1", "csrf": csrf_on(client, f"{ROOT}/game")}
        made = client.post(f"{ROOT}/game/characters", data=form, headers=HTML)
        character = made.headers["location"].rpartition("/")[2]
        with client.websocket_connect(f"{ROOT}/game/ws?character={character}") as socket:
            del app.state.users["member"]
            until_it_ends(socket)


def test_a_site_that_is_not_started_says_so(ready: Db) -> None:
    answer = TestClient(fastapi_host(ready)).get(f"{ROOT}/")
    assert answer.status_code == 503
    assert "the application's lifespan" in answer.text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"path": "/back/"}, "path: must begin with / and not end with /"),
        ({"secret": "short"}, "secret: must have at least 32 characters"),
        ({"api_keys": ["short"]}, "api_keys: each key must have at least 32"),
        ({"systems": ["ledger"]}, "give systems, such as squinney.ledger, not 'ledger'"),
        ({"systems": [ledger, ledger]}, "both have the name ledger"),
    ],
)
def test_a_mount_that_cannot_work_is_refused_at_once(db: Db, change: dict[str, Any], said: str) -> None:
    given = {"path": "/back", "systems": [commerce, content], "secret": SECRET, **change}
    with pytest.raises(Invalid, match=said):
        squinney.mount(FastAPI(), given.pop("path"), given.pop("systems"), db=db, **given)


def test_only_addresses_of_tags_get_the_path() -> None:
    page = '<a href="/x" title="a > b">href="/y"</a> <img srcset="/a 1x, /b 2x" src="//host/c"><p data-root="/r">'
    assert with_root(page, "/r") == (
        '<a href="/r/x" title="a > b">href="/y"</a> <img srcset="/r/a 1x, /r/b 2x" src="//host/c"><p data-root="/r">'
    )


def test_no_script_has_an_address_without_the_path() -> None:
    from pathlib import Path

    for script in Path(squinney.__file__).parent.rglob("*.js"):
        found = re.findall(r"(?:fetch|EventSource|WebSocket|URL|assign)\(\s*[\"'`]/[^\n]*", script.read_text())
        assert found == [], f"{script.name}: begin it with ${{root}}"
