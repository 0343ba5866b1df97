"""What new accounts may publish."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.clock import utcnow
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.http.site_options import SiteOptions
from squinney.patterns.ids import new_id
from squinney.service.site import create_site

DAY = timedelta(days=1)


@pytest.fixture
def page(systems: assembly.Assembled) -> str:
    nodes = systems.services["content"]["nodes"]
    author = {"_id": "a", "name": "A"}
    return str(nodes.create(None, "page", "basic-page", "Page", author, published=utcnow() - DAY)["_id"])


def member(systems: assembly.Assembled, *, age: timedelta, role: str = "member", **options: Any) -> TestClient:
    person = {"_id": new_id(), "login": "x", "name": "X", "role": role, "created_at": utcnow() - age}
    systems.db["identity.people"].insert_one(person)
    token = SIGNED_IN + systems.services["identity"]["sessions"].start(person)
    app = create_site(systems, options=SiteOptions(secret=SECRET, **options))
    client = TestClient(app, headers={"X-CSRF-Token": Visitor(SECRET, token).csrf}, follow_redirects=False)
    client.cookies.set("squinney", token)
    systems.services["social"]["network"].join("X", user=person["_id"])
    return client


def comment(client: TestClient, page: str, text: str) -> Any:
    return client.post(f"/site/-/comments/{page}", data={"text": text, "key": new_id()})


def test_a_new_account_publishes_a_few_texts_and_the_refused_one_is_not_lost(
    systems: assembly.Assembled, page: str
) -> None:
    client = member(systems, age=timedelta(0))
    answers = [comment(client, page, f"text {number}") for number in range(20)]
    assert [answer.status_code for answer in answers] == [303] * 6 + [429] * 14
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "text 19" in answers[-1].text
    assert systems.services["content"]["comments"].count(page) == 6
    assert client.post("/social/posts", data={"text": "elsewhere"}).status_code == 429, "one limit for all systems"
    other = member(systems, age=timedelta(0))
    assert comment(other, page, "another person").status_code == 303


@pytest.mark.parametrize(
    "link",
    [
        "see https://spam.example",
        "WWW.spam.example",
        "[buy](//spam.example)",
        "[buy][1]\n\n[1]: //spam.example",
        "[buy]\n\n[buy]: //spam.example",
        "[b\\]uy](//spam.example)",
        "[[buy]](/\\spam.example)",
        "<buy@spam.example>",
    ],
)
def test_a_new_account_publishes_two_texts_with_links(systems: assembly.Assembled, page: str, link: str) -> None:
    client = member(systems, age=timedelta(hours=23))
    assert [comment(client, page, link).status_code for _ in range(3)] == [303, 303, 429]
    assert client.post("/social/posts", data={"text": "look", "link": "https://spam.example"}).status_code == 429
    assert comment(client, page, "no link").status_code == 303


def test_posts_and_their_comments_are_counted(systems: assembly.Assembled) -> None:
    client = member(systems, age=timedelta(0))
    statuses = [client.post("/social/posts", data={"text": f"{number}"}).status_code for number in range(8)]
    assert statuses == [303] * 6 + [429] * 2
    (post, *_) = systems.services["social"]["network"].members(None).items
    feed = systems.services["social"]["network"].wall(None, post["id"]).items
    client.post(f"/social/posts/{feed[0]['id']}/comments", data={"text": "more"})
    assert systems.services["social"]["network"].comments(None, feed[0]["id"]).items == []


@pytest.mark.parametrize(
    ("age", "role", "options"),
    [(DAY, "member", {}), (timedelta(0), "editor", {}), (timedelta(0), "member", {"new_account_hours": 0})],
)
def test_others_are_not_limited(
    systems: assembly.Assembled, page: str, age: timedelta, role: str, options: dict[str, float]
) -> None:
    client = member(systems, age=age, role=role, **options)
    assert {comment(client, page, f"https://x.example {number}").status_code for number in range(8)} == {303}


def test_flags_of_a_new_account_are_counted(systems: assembly.Assembled, page: str) -> None:
    author = {"_id": "a", "name": "A"}
    slugs = [systems.services["content"]["comments"].post(page, author, f"{number}")["slug"] for number in range(8)]
    client = member(systems, age=timedelta(0))
    forms = [{"slug": slug, "reason": "spam"} for slug in slugs]
    assert [client.post(f"/site/-/comments/{page}/flag", data=form).status_code for form in forms] == [303] * 6 + [
        429
    ] * 2
