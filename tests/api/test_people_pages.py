"""The pages for sign-up, sign-in and sign-out, and the admin pages, without a browser."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.racing import at_once

from squinney import assembly
from squinney.clock import utcnow
from squinney.http.access.visitor import SIGNED_IN
from squinney.http.pages import own_path
from squinney.http.site_options import SiteOptions
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.service.site import create_site
from squinney.service.town.parts import MARKS
from squinney.service.town.welcome import PLAY_MONEY, welcome

PASSWORD = "correct horse battery"
HTML = {"Accept": "text/html"}


def csrf_of(client: TestClient, path: str = "/sign-in") -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', client.get(path, headers=HTML).text)
    assert found
    return found[1]


def send(client: TestClient, path: str, **form: str) -> Any:
    """Submit a form as a browser does."""
    data = {"csrf": csrf_of(client), **form}
    return client.post(path, data=data, headers={**HTML, "Origin": "http://testserver"})


def sign_up(client: TestClient, login: str = "ada", **form: str) -> Any:
    return send(client, "/sign-up", login=login, password=PASSWORD, name="Ada <b>", **form)


def test_a_person_signs_up_out_and_in(stranger: TestClient) -> None:
    page = sign_up(stranger)
    assert "Welcome, Ada &lt;b&gt;." in page.text
    assert "Sign out" in page.text
    assert "Welcome" not in stranger.get("/", headers=HTML).text, "the message is shown once"
    assert "Your login is" in stranger.get("/account", headers=HTML).text
    assert "You have signed out." in send(stranger, "/sign-out").text
    assert "Sign in" in stranger.get("/account", headers=HTML).text
    page = send(stranger, "/sign-in", login="ADA", password=PASSWORD, next="/ledger")
    assert page.url.path == "/ledger"


def test_signing_in_gives_another_cookie_and_signing_out_ends_it(stranger: TestClient) -> None:
    stranger.get("/")
    before = stranger.cookies["squinney"]
    sign_up(stranger)
    session = stranger.cookies["squinney"]
    assert session.startswith(SIGNED_IN)
    assert session != before
    kept_until = next(cookie.expires for cookie in stranger.cookies.jar if cookie.name == "squinney")
    assert kept_until > time.time() + 89 * 86_400, "a session in use lasts for more than 14 days"
    send(stranger, "/sign-out")
    assert stranger.cookies["squinney"] not in (before, session)
    stranger.cookies.set("squinney", session)
    assert "Sign in" in stranger.get("/", headers=HTML).text, "the session has ended"


@pytest.mark.parametrize("other", ['prefs={"a": "b"}', "a[b]=1", "flag", "naïve=1", "=", 'quoted="'])
def test_other_cookies_do_not_hide_the_session(stranger: TestClient, other: str) -> None:
    sign_up(stranger)
    ours = f"squinney={stranger.cookies['squinney']}"
    stranger.cookies.clear()
    for cookies in (f"{other}; {ours}", f"{ours}; {other}"):
        assert "Sign out" in stranger.get("/", headers={**HTML, "Cookie": cookies.encode()}).text


def test_a_planted_cookie_does_not_become_a_session(stranger: TestClient) -> None:
    for number, planted in enumerate((SIGNED_IN + "planted-by-somebody", "v.planted-by-somebody")):
        stranger.cookies.clear()
        stranger.cookies.set("squinney", planted, domain="testserver.local", path="/")
        assert "Sign out" in send(stranger, "/sign-up", login=f"ada{number}", password=PASSWORD).text
        assert stranger.cookies["squinney"].startswith(SIGNED_IN)
        assert stranger.cookies["squinney"] != planted
        attacker = TestClient(stranger.app)
        attacker.cookies.set("squinney", planted)
        assert "Sign out" not in attacker.get("/", headers=HTML).text


def test_the_cookie_is_http_only_and_secure_over_tls(stranger: TestClient) -> None:
    plain = stranger.get("http://testserver/sign-in").headers["set-cookie"]
    assert "HttpOnly" in plain
    assert "SameSite=Lax" in plain
    assert "Secure" not in plain
    stranger.cookies.clear()
    assert "Secure" in stranger.get("https://testserver/sign-in").headers["set-cookie"]


def test_wrong_passwords_get_the_same_message_and_are_throttled(
    stranger: TestClient, systems: assembly.Assembled
) -> None:
    sign_up(stranger)
    send(stranger, "/sign-out")
    wrong = send(stranger, "/sign-in", login="ada", password="wrong password")
    nobody = send(stranger, "/sign-in", login="ben", password="wrong password")
    assert wrong.status_code == nobody.status_code == 401
    assert wrong.text.count("the login or the password is wrong") == 1
    for _ in range(10):
        last = send(stranger, "/sign-in", login="ben", password="wrong password")
    assert last.status_code == 429
    assert "too many attempts" in last.text
    assert 1 <= int(last.headers["retry-after"]) <= 900


def test_a_new_password_ends_other_sessions_and_needs_the_old_one(stranger: TestClient) -> None:
    sign_up(stranger)
    elsewhere = TestClient(stranger.app)
    send(elsewhere, "/sign-in", login="ada", password=PASSWORD)
    refused = send(stranger, "/account/password", old="wrong password", new="another password")
    assert refused.status_code == 401
    assert "the current password is wrong" in refused.text
    changed = send(stranger, "/account/password", old=PASSWORD, new="another password")
    assert "Your password has been changed" in changed.text
    assert "Sign out" not in elsewhere.get("/", headers=HTML).text
    assert "Sign out" in stranger.get("/", headers=HTML).text


def test_sign_up_can_be_closed_and_invitations_still_work(systems: assembly.Assembled) -> None:
    closed = create_site(systems, options=SiteOptions(sign_up_open=False))
    with TestClient(closed) as client:
        assert "Sign up" not in client.get("/sign-in", headers=HTML).text
        assert client.get("/sign-up", headers=HTML).status_code == 403
        assert sign_up(client).status_code == 403
        assert systems.db["identity.people"].count_documents({}) == 0
        token = systems.services["identity"]["invitations"].create("member")
        assert "Welcome, ada." in send(client, "/welcome", token=token, login="ada", password=PASSWORD).text


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "//[",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil",
        "javascript:alert(1)",
        "/a\r\nX: y",
        "x",
        "",
    ],
)
def test_sign_in_does_not_redirect_to_other_sites(target: str) -> None:
    assert own_path(target) == "/"


def test_a_redirect_after_signing_in_stays_on_this_site(stranger: TestClient) -> None:
    form = {"login": "ann@example.org", "password": "a long password", "name": "Ann", "next": "//evil.example"}
    signed_up = send(stranger, "/sign-up", **form)
    sent_to = signed_up.history[0] if signed_up.history else signed_up
    assert (sent_to.status_code, sent_to.headers["location"]) == (303, "/")


def test_sign_in_redirects_to_a_path_of_the_site() -> None:
    assert own_path("/ledger?cursor=x") == "/ledger?cursor=x"


def test_writes_need_a_role_and_strangers_are_redirected_to_sign_in(stranger: TestClient) -> None:
    form = {"name": "x", "currency": "EUR", "key": "k"}
    led = send(stranger, "/ledger/accounts", **form)
    assert led.url.path == "/sign-in"
    sign_up(stranger)
    assert send(stranger, "/ledger/accounts", **form).url.path.startswith("/ledger/")
    refused = stranger.get("/admin", headers=HTML)
    assert refused.status_code == 403
    assert "requires the role admin" in refused.text


def test_sign_in_redirects_back_to_the_page_that_required_it(stranger: TestClient) -> None:
    sign_up(stranger)
    send(stranger, "/sign-out")
    form = {"csrf": csrf_of(stranger), "src": "a", "dst": "b", "amount": "1", "key": "k"}
    page = "http://testserver/ledger?cursor=x"
    for referer, back in [(page, "/ledger?cursor=x"), ("", "/"), ("http://evil.example/a", "/"), ("http://[", "/")]:
        headers = {**HTML, "Origin": "http://testserver", "Referer": referer}
        led = stranger.post("/ledger/transfers", data=form, headers=headers)
        assert (led.url.path, led.url.params["next"]) == ("/sign-in", back)
    assert stranger.get("/admin/keys?cursor=x", headers=HTML).url.params["next"] == "/admin/keys?cursor=x"
    assert stranger.get("/admin/keys?cursor=" + "x" * 600, headers=HTML).status_code == 200


def test_the_sign_in_link_returns_to_the_current_page(stranger: TestClient) -> None:
    def next_of(page: Any) -> str:
        return httpx2.URL(re.search(r'<a href="(/sign-in[^"]*)"', page.text)[1]).params["next"]  # type: ignore[index]

    assert next_of(stranger.get("/shop?type=Film&sort=price", headers=HTML)) == "/shop?type=Film&sort=price"
    for page in ("/sign-in?next=/ledger%3Fcursor%3Dx", "/sign-up?next=/ledger%3Fcursor%3Dx"):
        assert next_of(stranger.get(page, headers=HTML)) == "/ledger?cursor=x", "not back to the form"
    assert next_of(stranger.get("/sign-in", headers=HTML)) == "/"
    form = {"csrf": csrf_of(stranger), "login": "ada", "password": "wrong password"}
    referer = {"Referer": "http://testserver/sign-in?next=/ledger"}
    assert next_of(stranger.post("/sign-in", data=form, headers={**HTML, **referer})) == "/ledger"


def test_every_form_of_every_page_has_the_token(site: TestClient) -> None:
    paths = [
        "/",
        "/ledger",
        "/sign-in",
        "/sign-up",
        "/account",
        "/admin",
        "/admin/jobs",
        "/admin/keys",
        "/admin/people",
    ]
    for path in [*paths, "/admin/problems", "/api/docs"]:
        page = site.get(path, headers=HTML)
        assert page.status_code == 200, path
        forms = re.findall(r"<form[^>]*post[^>]*>(.{0,40})", page.text)
        assert all('name="csrf"' in form for form in forms), path
        assert page.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", page.text), (
            "the page contains what the security policy forbids"
        )


def test_a_flash_cannot_be_forged(stranger: TestClient) -> None:
    stranger.cookies.set("squinney-flash", "W3sibWVzc2FnZSI6ICJldmlsIn1d.nonsense")
    assert "evil" not in stranger.get("/", headers=HTML).text


# ---- the admin ----


def test_the_admin_runs_jobs(site: TestClient) -> None:
    name = assembly.jobs()[0].name
    assert "never run" in site.get("/admin/jobs", headers=HTML).text
    page = site.post(f"/admin/jobs/{name}", headers=HTML)
    assert f"{name}: ok." in page.text
    assert site.post("/admin/jobs/nothing", headers=HTML).status_code == 404


def test_a_job_of_the_admin_has_no_time_limit(site: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    @operation(3)
    def last_part(db: Db) -> None:
        db.command("ping")

    def run(db: Db) -> None:
        time.sleep(3.5)  # longer than a request may take whose operations have the time limit of the last part
        last_part(db)

    monkeypatch.setattr(assembly, "jobs", lambda systems: [Job("slow", every_seconds=60, run=run, what="takes long")])
    assert "slow: ok." in site.post("/admin/jobs/slow", headers=HTML).text


def test_the_admin_makes_and_revokes_keys(site: TestClient, systems: assembly.Assembled) -> None:
    made = site.post("/admin/keys", data={"name": "shop", "scopes": ["ledger:read"]}, headers=HTML)
    shown = re.search(r'id="new-key">([^<]+)<', made.text)
    assert shown
    key = {"Authorization": f"Bearer {shown[1]}"}
    assert site.get("/api/ledger/accounts", headers=key).status_code == 200
    assert shown[1] not in site.get("/admin/keys", headers=HTML).text
    key_id = shown[1].split("_")[1]
    assert "is revoked" in site.post(f"/admin/keys/{key_id}/revoke", headers=HTML).text
    assert site.get("/api/ledger/accounts", headers=key).status_code == 401
    assert "scope" in site.post("/admin/keys", data={"name": "shop"}, headers=HTML).text


def test_a_refused_key_form_keeps_its_values(site: TestClient) -> None:
    refused = site.post("/admin/keys", data={"name": "shop", "scopes": ["ledger:read", "nonsense"]}, headers=HTML)
    assert refused.status_code == 422
    assert 'value="shop"' in refused.text
    assert 'value="ledger:read" checked' in refused.text


def test_the_admin_sees_which_keys_have_expired(site: TestClient, systems: assembly.Assembled) -> None:
    now = utcnow()
    keys = systems.services["identity"]["keys"]
    keys.create("later", ["ledger:read"], expires_at=now + timedelta(days=3))
    key, _ = keys.create("sooner", ["ledger:read"], expires_at=now + timedelta(days=1))
    systems.db["identity.keys"].update_one({"_id": key["_id"]}, {"$set": {"expires_at": now - timedelta(days=1)}})
    page = site.get("/admin/keys", headers=HTML).text
    assert re.search(f"until {now + timedelta(days=3):%Y-%m-%d}", page)
    assert re.search(f"expired <time[^>]*{now - timedelta(days=1):%Y-%m-%d}", page)
    assert 'aria-label="Revoke sooner"' not in page


def test_the_admin_changes_people_but_not_themselves(site: TestClient, systems: assembly.Assembled) -> None:
    people = systems.services["identity"]["people"]
    ada = people.sign_up("ada", PASSWORD, name="<script>alert(1)</script>")
    page = site.post(f"/admin/people/{ada['_id']}", data={"role": "editor"}, headers=HTML)
    assert people.get(ada["_id"])["role"] == "editor"
    assert "can sign in as editor." in page.text
    assert "<script>alert" not in page.text
    site.post(f"/admin/people/{ada['_id']}", data={"enabled": "no"}, headers=HTML)
    assert "disabled_at" in people.get(ada["_id"])
    site.post(f"/admin/people/{ada['_id']}", data={"enabled": "yes"}, headers=HTML)
    assert "disabled_at" not in people.get(ada["_id"])
    assert site.post("/admin/people/admin", data={"role": "member"}, headers=HTML).status_code == 403
    assert site.post(f"/admin/people/{ada['_id']}", data={"role": "king"}, headers=HTML).status_code == 422


def test_the_admin_sees_and_repairs_problems(site: TestClient, systems: assembly.Assembled) -> None:
    systems.db["identity.logins"].insert_one({"_id": "orphan", "person_id": "nobody", "password": "x"})
    assert "login-without-person" in site.get("/admin/problems", headers=HTML).text
    page = site.post("/admin/problems/repair", headers=HTML)
    assert "Repaired: " in page.text
    assert "logins removed: 1" in page.text
    assert "login-without-person" not in page.text


def test_error_pages_are_pages(site: TestClient) -> None:
    page = site.get("/nothing", headers=HTML)
    assert page.status_code == 404
    assert "<h1>This page does not exist.</h1>" in page.text
    page = site.get("/analytics/hits?days=99999", headers=HTML)
    assert page.status_code == 422
    assert "days: Input should be" in page.text
    assert site.get("/nothing").headers["content-type"] == "application/problem+json"


@pytest.fixture
def demo(systems: assembly.Assembled) -> assembly.Assembled:
    """Return the systems of a demo, with a world of one room."""
    systems.db[MARKS].insert_one({"_id": "town: bank", "loaded": True})
    systems.services["game"]["world"].create_location("jetty", description="A jetty.", exits={})
    return systems


def owned(systems: assembly.Assembled, person: str) -> tuple[list[int], list[str]]:
    """Return the balances of a person's accounts, and the names of the person's characters."""
    accounts, world = systems.services["ledger"]["accounts"], systems.services["game"]["world"]
    return [one["balance"] for one in accounts.owned_by(person).items], [
        one["name"] for one in world.owned_by(person).items
    ]


def test_a_newcomer_of_the_demo_gets_an_account_and_a_character_once(
    stranger: TestClient, demo: assembly.Assembled
) -> None:
    sign_up(stranger)
    person = demo.db["identity.people"].find_one({"login": "ada"})["_id"]  # type: ignore[index]
    assert owned(demo, person) == ([PLAY_MONEY], ["Ada <b>"])
    send(stranger, "/sign-out")
    send(stranger, "/sign-in", login="ada", password=PASSWORD)
    assert owned(demo, person) == ([PLAY_MONEY], ["Ada <b>"])
    demo.db[MARKS].delete_many({})
    sign_up(stranger, "bob")
    person = demo.db["identity.people"].find_one({"login": "bob"})["_id"]  # type: ignore[index]
    assert owned(demo, person) == ([], []), "only in a demo"


def test_a_newcomer_is_welcome_although_a_gift_fails(stranger: TestClient, demo: assembly.Assembled) -> None:
    demo.db["game.locations"].delete_many({})
    assert "Welcome, Ada" in sign_up(stranger).text


def test_two_tabs_get_the_gifts_once(demo: assembly.Assembled) -> None:
    at_once(2, lambda number: welcome(demo).give("cid", "Cid"))
    assert owned(demo, "cid") == ([PLAY_MONEY], ["Cid"])
