"""Behind this page: who may look, and that nothing is recorded until somebody does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo.monitoring import CommandListener
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.clock import utcnow
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.http.site_options import SiteOptions
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.service.behind.mirror import Behind
from squinney.service.behind.recording import is_known_name
from squinney.service.behind.shown import PageText
from squinney.service.site import create_site

OPTIONS = SiteOptions(secret=SECRET)
Signed = Callable[[str], None]


@pytest.fixture
def made() -> list[CommandListener]:
    """Return the listeners of the second applications that were made."""
    return []


@pytest.fixture
def behind(systems: assembly.Assembled, mongod: Embedded, made: list[CommandListener]) -> Iterator[Behind]:
    def make(listener: CommandListener) -> tuple[Any, Callable[[], object]]:
        made.append(listener)
        client = client_for(mongod.uri, event_listeners=[listener])
        mirrored = assembly.assemble(client[systems.db.name])

        def close() -> None:
            mirrored.close()
            client.close()

        return create_site(mirrored, options=OPTIONS), close

    behind = Behind(make, systems.db, for_everybody=True)
    yield behind
    behind.close()


@pytest.fixture
def browser(systems: assembly.Assembled, behind: Behind) -> Iterator[TestClient]:
    with TestClient(create_site(systems, options=OPTIONS, behind=behind)) as browser:
        yield browser


@pytest.fixture
def sign_in(browser: TestClient, systems: assembly.Assembled) -> Signed:
    def sign_in(role: str) -> None:
        person = {"_id": f"p-{role}", "login": role, "name": "Who Looks", "role": role, "created_at": utcnow()}
        systems.db["identity.people"].insert_one(person)
        token = SIGNED_IN + systems.services["identity"]["sessions"].start(person)
        browser.cookies.clear()
        browser.cookies.set("squinney", token)
        browser.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf

    return sign_in


def test_without_demo_data_only_admins_look(browser: TestClient, behind: Behind, sign_in: Signed) -> None:
    behind.for_everybody = False
    for role in ("visitor", "member", "editor"):
        if role != "visitor":
            sign_in(role)
        for path in ("/behind?page=/shop", "/behind/source?file=ledger/accounts.py"):
            assert browser.get(path).status_code == 404
        assert "Behind this page" not in browser.get("/shop").text
    sign_in("admin")
    assert "Behind this page" in browser.get("/shop").text
    assert "commerce.products" in browser.get("/behind?page=/shop").text


def test_nothing_is_recorded_until_somebody_looks(browser: TestClient, made: list[CommandListener]) -> None:
    browser.get("/shop")
    browser.get("/behind/source?file=ledger/accounts.py")
    assert made == []
    for _ in range(2):
        browser.get("/behind?page=/shop")
    assert len(made) == 1


def test_nothing_of_people_sessions_and_keys_is_recorded(browser: TestClient, sign_in: Signed) -> None:
    sign_in("member")
    shown = browser.get("/behind?page=/account").text
    assert "Commands sent to MongoDB" in shown
    assert "identity." not in shown


def test_forms_with_passwords_are_not_recorded(browser: TestClient, behind: Behind, sign_in: Signed) -> None:
    sign_in("member")
    browser.get("/behind?page=/shop")
    browser.cookies.set("squinney-behind", "open")
    changed = browser.post("/sign-out", follow_redirects=False)
    assert changed.status_code == 303
    assert "What you did" not in browser.get("/behind", params={"page": changed.headers["location"]}).text
    assert behind.has_no_actions()


@pytest.mark.parametrize(
    "page", ["//evil.test/", "/behind?page=/", "/api/docs", "/static/site.css", "nothing", "/sitemap.xml"]
)
def test_only_pages_are_looked_behind(page: str, browser: TestClient) -> None:
    refused = browser.get("/behind", params={"page": page})
    assert refused.status_code in (404, 422)
    assert "Commands sent" not in refused.text


def test_the_link_stands_only_where_something_is_behind_a_page(browser: TestClient) -> None:
    for page in ("/", "/shop", "/sign-in"):
        (link,) = re.findall(r'href="(/behind[^"]*)"', browser.get(page).text)
        assert browser.get(link).status_code == 200
    for page in ("/nowhere", "/api/docs", "/behind?page=/shop", f"/shop?search={'x' * 2_000}"):
        assert 'href="/behind?' not in browser.get(page).text, page


def test_a_hidden_page_looks_like_a_missing_one_from_behind(browser: TestClient, systems: assembly.Assembled) -> None:
    nodes, author = systems.services["content"]["nodes"], {"_id": "a", "name": "A"}
    nodes.create(None, "draft", "basic-page", "Draft", author)
    seen, absent = (browser.get("/behind", params={"page": f"/site/{slug}"}) for slug in ("draft", "xxxxx"))
    assert "there is no such page for you" in seen.text
    assert without_tokens(seen.text).replace("draft", "xxxxx") == without_tokens(absent.text)


def without_tokens(html: str) -> str:
    return re.sub(r'csrf" (value|content)="[^"]+"', "", html)


@pytest.mark.parametrize("file", ["../../etc/passwd", "/etc/passwd", "docs/../pyproject.toml", "secret"])
def test_only_our_own_files_are_shown(file: str, browser: TestClient) -> None:
    assert browser.get("/behind/source", params={"file": file}).status_code == 404
    assert "class Accounts" in browser.get("/behind/source?file=ledger/accounts.py").text


def test_an_action_is_shown_with_its_guarded_steps(browser: TestClient, sign_in: Signed, systems: Any) -> None:
    sign_in("member")
    accounts = systems.services["ledger"]["accounts"]
    ada, bob = (accounts.open("EUR", 9_900, name=name, owner="p-member") for name in ("Savings", "Travel"))
    browser.get("/behind?page=/ledger")
    browser.cookies.set("squinney-behind", "open")
    form = {"src": ada["_id"], "dst": bob["_id"], "amount": "12.34", "key": "k1", "memo": "a secret reason"}
    sent = browser.post("/ledger/transfers", data=form, follow_redirects=False)
    assert sent.status_code == 303, sent.text
    assert accounts.get(ada["_id"])["balance"] == 9_900 - 1_234
    shown = browser.get("/behind", params={"page": sent.headers["location"]}).text
    did = shown.partition("What you did")[2].partition("Commands sent")[0]
    assert did.count("ledger.accounts") == 2
    assert "{_id: ?" in did
    assert "a secret reason" not in did
    other = browser.get("/behind?page=/shop").text
    assert "What you did" not in other


def test_a_field_that_is_named_after_a_value_is_no_known_name() -> None:
    assert is_known_name("balance")
    assert not is_known_name("ada")
    assert not is_known_name("p-17")


def test_a_page_shows_its_text_and_not_its_hidden_fields() -> None:
    page = PageText(
        "<head><title>headline</title></head><p>Ada paid <b>12.34</b> on <time>2 Jan</time>"
        "<input type=hidden name=csrf value=token-17><a href='/x/id-9'>more</a><script>hidden</script>"
    )
    for shown in ("Ada paid", "12.34", "id-9"):
        assert shown in page
    for hidden in ("token-17", "hidden", "headline", "Ad", "2.34"):
        assert hidden not in page
    assert page.shown(1234) == "12.34"
    assert page.shown(2) == "", "short numbers are there by chance"
