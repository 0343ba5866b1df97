"""Trying the demo as somebody: with any one of its conditions missing, the page does not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.http.access.visitor import ANONYMOUS, Visitor
from squinney.http.routes import routes_with_paths
from squinney.http.site_options import SiteOptions
from squinney.service.front.try_as import TryAs
from squinney.service.site import create_site
from squinney.service.town.parts import MARKS

HERE = "http://127.0.0.1:8080"
Site = Callable[..., Any]


def load(systems: assembly.Assembled) -> None:
    """Mark the demo data as loaded."""
    for system in systems.systems:
        systems.db[MARKS].update_one({"_id": system.name}, {"$set": {"loaded": True}}, upsert=True)


@contextmanager
def visiting(
    systems: assembly.Assembled, *, url: str = HERE, client: str = "127.0.0.1", **conditions: Any
) -> Iterator[TestClient]:
    """Visit a site where trying is possible, except for what `conditions` say."""
    given = {"host": "127.0.0.1", "is_embedded": True, **conditions}
    app = create_site(systems, options=SiteOptions(secret=SECRET), try_as=TryAs(systems, **given))
    with TestClient(app, base_url=url, client=(client, 1), headers={"accept": "text/html"}) as browser:
        use(browser, ANONYMOUS + "x" * 43)
        yield browser


def use(browser: TestClient, token: str) -> None:
    """Make the browser's only cookie that of this visitor."""
    browser.cookies.clear()
    browser.cookies.set("squinney", token)
    browser.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf


def try_as(browser: TestClient, who: str = "lena", **headers: str) -> Any:
    return browser.post("/try-as", data={"who": who}, headers=headers, follow_redirects=False)


@pytest.mark.parametrize(("who", "role"), [("ada", "member"), ("june", "editor"), ("lena", "admin")])
@pytest.mark.parametrize("url", [HERE, "http://localhost:8080", "http://127.0.0.1"])
def test_one_click_signs_in_as_somebody_of_the_town(systems: assembly.Assembled, who: str, role: str, url: str) -> None:
    load(systems)
    with visiting(systems, url=url) as browser:
        assert f'value="{who}"' in browser.get("/sign-in").text
        assert try_as(browser, who).status_code == 303
        page = browser.get("/shop").text
        assert f", {role}." in page
        assert ('href="/admin"' in page) == (role == "admin")
    assert systems.db["identity.people"].count_documents({}) == 0
    assert not systems.services["identity"]["people"].is_there_an_admin()  # the first real admin can still come


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param({"enabled": False}, id="the setting"),
        pytest.param({"is_embedded": False}, id="the embedded server"),
        pytest.param({"host": "0.0.0.0"}, id="a loopback address"),
        pytest.param({"host": "192.0.2.1"}, id="a loopback address of this machine"),
        pytest.param({"trusted_proxies": ("127.0.0.1",)}, id="no trusted proxy"),
        pytest.param({"url": "http://evil.example:8080"}, id="our own name"),
        pytest.param({"url": "http://127.0.0.1.evil.example"}, id="our own name, not one that begins like it"),
        pytest.param({"url": "http://localhost.evil.example"}, id="our own name, not one that begins like this"),
        pytest.param({"client": "192.0.2.7"}, id="a visitor of this machine"),
    ],
)
def test_without_one_of_the_conditions_it_does_not_exist(systems: assembly.Assembled, missing: dict[str, Any]) -> None:
    load(systems)
    with visiting(systems, **missing) as browser:
        assert "/try-as" not in browser.get("/sign-in").text
        assert try_as(browser).status_code == 404
    assert systems.db["identity.sessions"].count_documents({}) == 0


@pytest.mark.parametrize(
    "name", ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP"]
)
def test_through_a_proxy_it_does_not_exist(systems: assembly.Assembled, name: str) -> None:
    load(systems)
    with visiting(systems) as browser:
        assert "/try-as" not in browser.get("/sign-in", headers={name: "127.0.0.1"}).text
        assert try_as(browser, **{name: "127.0.0.1"}).status_code == 404


def test_without_the_demo_data_it_does_not_exist(systems: assembly.Assembled) -> None:
    with visiting(systems) as browser:
        assert try_as(browser).status_code == 404
        load(systems)
        assert try_as(browser).status_code == 303


def test_a_site_that_does_not_offer_it_does_not_have_it(stranger: TestClient, systems: assembly.Assembled) -> None:
    load(systems)
    assert stranger.post("/try-as", data={"who": "lena"}).status_code == 404


def test_it_needs_the_token_of_the_form_and_a_known_person(systems: assembly.Assembled) -> None:
    load(systems)
    with visiting(systems) as browser:
        assert try_as(browser, **{"X-CSRF-Token": "of another site"}).status_code == 403
        assert try_as(browser, "the first admin").status_code == 422


def test_a_tried_admin_makes_no_keys_people_or_settings(systems: assembly.Assembled) -> None:
    load(systems)
    with visiting(systems) as browser:
        use(browser, try_as(browser).cookies["squinney"])
        assert browser.get("/admin/keys").status_code == 200
        paths = {path for path, _ in routes_with_paths(browser.app.routes) if path.startswith("/admin")}  # type: ignore[attr-defined]
        allowed = {path for path in paths if path.startswith(("/admin/jobs/", "/admin/problems/"))}
        assert {"/admin/keys", "/admin/people/{person_id}"} < paths - allowed
        for path in paths - allowed:
            refused = browser.post(path, data={"name": "n", "scopes": "*:write", "role": "admin"})
            assert refused.status_code in (403, 405), path
    assert systems.db["identity.keys"].count_documents({}) == 0


def test_a_tried_session_ends_where_trying_is_impossible(systems: assembly.Assembled) -> None:
    load(systems)
    with visiting(systems) as browser:
        token = try_as(browser).cookies["squinney"]
        use(browser, token)
        assert browser.get("/admin", follow_redirects=False).status_code == 200
    with visiting(systems, host="0.0.0.0") as browser:
        use(browser, token)
        assert browser.get("/admin", follow_redirects=False).status_code == 303
