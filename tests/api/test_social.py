"""The HTTP routes and the pages of the social network."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from typing import Any

import httpx
import pytest
from anyio import from_thread, to_thread
from PIL import Image
from starlette.testclient import TestClient
from tests.api.asgi import call
from tests.api.conftest import SECRET
from tests.api.test_overload import held, signed_in, while_waiting

from squinney import assembly
from squinney.clock import utcnow
from squinney.content import Photos, UnknownNode
from squinney.errors import Unavailable
from squinney.http.site_options import SiteOptions
from squinney.mongo.deadlines import request_clock
from squinney.service.site import create_site
from squinney.social import Network, rules
from squinney.social.posts.photos import forget_lost_photos

HTML = {"Accept": "text/html"}


@pytest.fixture
def network(systems: assembly.Assembled) -> Network:
    return systems.services["social"]["network"]


def _join(site: TestClient, name: str) -> str:
    made = site.post("/api/social/members", json={"name": name, "user": name.lower()})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def _form(site: TestClient, path: str, **data: str) -> str:
    response = site.post(path, data=data, headers={**HTML, "Referer": "http://testserver/social"})
    assert response.status_code == 200, response.text
    return response.text


# ---- the API ----


def test_a_post_is_written_read_and_withdrawn(site: TestClient, network: Network) -> None:
    ann, bob = _join(site, "Ann"), _join(site, "Bob")
    circled = site.post(f"/api/social/members/{ann}/circle", json={"other": bob, "circle": "a/b"})
    assert circled.json() == {"circles": ["a/b"]}
    body = {"me": ann, "type": "status", "detail": {"text": "hi @bob"}, "circles": ["a/b"]}
    made = [site.post("/api/social/posts", json=body, headers={"Idempotency-Key": "k"}).json() for _ in range(2)]
    assert made[0]["id"] == made[1]["id"]
    post = made[0]["id"]
    network.deliver()
    (seen,) = site.get(f"/api/social/members/{bob}/news").json()["items"]
    assert (seen["audience"], seen["circles"], seen["by"]["name"]) == ("limited", [], "Ann")
    assert site.get(f"/api/social/posts/{post}").status_code == 404, "the post is hidden from visitors"
    assert site.get(f"/api/social/members/{bob}/unseen").json() == {"unseen": 2}
    comment = site.post(f"/api/social/posts/{post}/comments", json={"me": bob, "text": "oh"}).json()["id"]
    assert [one["id"] for one in site.get(f"/api/social/posts/{post}/comments?viewer=ann").json()["items"]] == [comment]
    assert site.delete(f"/api/social/comments/{comment}?me={bob}").json() == {"done": True}
    site.post(f"/api/social/members/{ann}/uncircle", json={"other": bob, "circle": "a/b"})
    assert site.get(f"/api/social/members/{bob}/news").json()["items"] == []
    assert site.delete(f"/api/social/posts/{post}?me={bob}").status_code == 404
    assert site.delete(f"/api/social/posts/{post}?me={ann}").status_code == 200


def test_people_are_blocked_muted_listed_and_erased(site: TestClient, network: Network) -> None:
    ann, bob = _join(site, "Ann"), _join(site, "Bob")
    for what in ("mute", "unmute", "block"):
        assert site.post(f"/api/social/members/{ann}/{what}", json={"other": bob}).json() == {"done": True}
    assert [one["id"] for one in site.get(f"/api/social/members/{ann}/blocked").json()["items"]] == [bob]
    refused = site.post(f"/api/social/members/{bob}/circle", json={"other": ann, "circle": "x"})
    nobody = site.post(f"/api/social/members/{bob}/circle", json={"other": "nobody", "circle": "x"})
    assert (refused.status_code, refused.text.replace(ann, "nobody")) == (404, nobody.text), "a block stays secret"
    refused = site.post(f"/api/social/members/{ann}/circle", json={"other": bob, "circle": "x"})
    assert (refused.status_code, refused.json()["code"]) == (403, "blocked")
    site.post(f"/api/social/members/{ann}/unblock", json={"other": bob})
    assert site.put(f"/api/social/members/{ann}/name", json={"name": "Anne"}).json()["name"] == "Anne"
    site.put(f"/api/social/members/{ann}/profile", json={"about": "Looms"})
    assert site.get(f"/api/social/members/{ann}/profile?viewer={bob}").json()["about"] == "Looms"
    assert site.get("/api/social/handles/ann").json()["name"] == "Anne"
    assert '"what": "member"' in site.get(f"/api/social/members/{ann}/export").text
    assert site.delete(f"/api/social/members/{ann}?erase=true").status_code == 200
    network.deliver()
    assert site.get(f"/api/social/members/{ann}").status_code == 404
    assert site.post("/api/social/members", json={"name": "Bob", "user": bob}).status_code == 409


def test_ids_may_have_slashes(member: TestClient, network: Network) -> None:
    for one in ("a/b", "a/news"):
        made = member.post("/api/social/members", json={"name": one, "user": one}).json()
        path = f"/api/social/members/{one.replace('/', '%2F')}"
        assert member.get(path).json()["id"] == one
        assert member.get(f"{path}/news").json()["items"] == []
        assert member.post(f"{path}/circle", json={"other": "admin", "circle": "x"}).json() == {"circles": ["x"]}
        page = member.get(f"/social/people/{made['handle']}", headers=HTML).text
        (form,) = re.findall(r'action="(/social/mute/[^"]+)"', page)
        _form(member, form)
        assert network.profile("admin", one)["muted"]
        assert member.delete(path).json() == {"done": True}


def test_an_idempotency_key_reveals_nothing_by_other_members(site: TestClient, systems: assembly.Assembled) -> None:
    bodies = [
        {"me": _join(site, name), "type": "status", "detail": {"text": "x"}, "circles": ["*circles*"]}
        for name in ("Ann", "Bob")
    ]
    _, other = systems.services["identity"]["keys"].create("other", ["social:write"])
    sent = {"Idempotency-Key": "k"}
    first, stolen = (site.post("/api/social/posts", json=body, headers=sent) for body in bodies)
    assert (stolen.status_code, stolen.json()["code"], stolen.json()["details"]) == (409, "key-reused", {})
    separate = site.post("/api/social/posts", json=bodies[0], headers={**sent, "Authorization": f"Bearer {other}"})
    assert separate.status_code == first.status_code == 201
    assert separate.json()["id"] != first.json()["id"], "idempotency keys belong to one API key"
    path = f"/api/social/posts/{first.json()['id']}"
    comments = [{"me": "ann", "text": "x"}, {"me": "bob", "text": "x"}]
    statuses = [site.post(f"{path}/comments", json=one, headers=sent).status_code for one in comments]
    assert statuses == [201, 409]
    site.delete(path, params={"me": "ann"})
    assert site.post("/api/social/posts", json=bodies[0], headers=sent).status_code == 404, "the post is deleted"


# ---- pages ----


@pytest.fixture
def member(site: TestClient) -> TestClient:
    """Return a client that is signed in and has joined, as `admin`."""
    assert "You have joined" in _form(site, "/social/join")
    return site


def test_a_stranger_sees_the_welcome_page(stranger: TestClient, network: Network) -> None:
    network.join("Ann <b>", user="ann")
    network.post("ann", "status", {"text": "for all"}, ["*public*"])
    welcome = stranger.get("/social", headers=HTML).text
    assert "Sign in to join" in welcome
    assert "Ann &lt;b&gt;" in welcome
    assert "for all" in stranger.get("/social/people/ann-b", headers=HTML).text
    for path in ("/social/wall", "/social/notices", "/social/circles", "/social/me", "/social/live/news"):
        assert stranger.get(path, headers=HTML, follow_redirects=False).headers["location"].startswith("/sign-in")


def test_a_member_writes_and_others_answer(member: TestClient, network: Network) -> None:
    network.join("Ann", user="ann")
    _form(member, "/social/circle", other="ann", new="Friends")
    _form(member, "/social/posts", text="<script>alert(1)</script> to @ann", audience="Friends")
    wall = member.get("/social/wall", headers=HTML).text
    assert "&lt;script&gt;alert" in wall
    assert 'to <a href="/social/people/ann">@ann</a>' in wall
    network.deliver()
    (post,) = network.news("ann").items
    network.comment("ann", post["id"], "so it is")
    assert "commented on" in member.get("/social/notices", headers=HTML).text
    assert "so it is" in member.get("/social/live/wall", headers=HTML).text
    _form(member, "/social/seen")
    assert "data-unseen" not in member.get("/social", headers=HTML).text
    _form(member, f"/social/posts/{post['id']}/comments", text="yes")
    assert "yes" in member.get(f"/social/posts/{post['id']}", headers=HTML).text
    network.circle("ann", "admin", "all")
    network.post("ann", "status", {"text": "for @admin"}, ["*public*"])
    notices = member.get("/social/notices", headers=HTML).text
    assert "follows you" in notices
    assert "mentioned you" in notices
    network.post("ann", "link", {"url": "https://example.com/x"}, ["*circles*"], "admin")
    assert "https://example.com/x" in member.get("/social/incoming", headers=HTML).text


def test_pages_give_no_access_to_other_members_posts(member: TestClient, network: Network) -> None:
    for one in ("ann", "bob"):
        network.join(one.title(), user=one)
    network.circle("ann", "bob", "few")
    post = network.post("ann", "status", {"text": "for few"}, ["few"])["id"]
    comment = network.comment("bob", post, "oh")
    for path in (f"/social/posts/{post}", f"/social/photos/{post}"):
        assert member.get(path, headers=HTML).status_code == 404
    for path, data in (
        (f"/social/posts/{post}/comments", {"text": "me too"}),
        (f"/social/posts/{post}/delete", {}),
        (f"/social/comments/{comment}/delete", {}),
        ("/social/uncircle", {"other": "bob", "circle": "few", "me": "ann"}),
    ):
        _form(member, path, **data)
    assert network.get_post("bob", post)["comment_count"] == 1
    assert network.get("ann")["circles"] == [{"name": "few", "count": 1}]
    refused = member.post("/social/posts", data={"text": "x", "audience": "few", "me": "ann"}, headers=HTML)
    assert "you have no circle" in refused.text
    assert "for few" not in "".join(member.get(f"/social{one}", headers=HTML).text for one in ("", "/people/ann"))


def test_an_error_is_shown_with_the_typed_values(member: TestClient, network: Network) -> None:
    refused = member.post("/social/posts", data={"text": "kept words", "link": "nowhere"}, headers=HTML)
    assert refused.status_code == 422
    assert "must be an address" in refused.text
    assert "kept words" in refused.text
    assert "visible characters" in member.post("/social/profile", data={"name": " "}, headers=HTML).text
    assert "there is no member" in _form(member, "/social/circle", other="nobody", new="x")
    assert member.post("/social/nonsense/ann", headers=HTML).status_code == 422
    assert member.get("/social/live/nonsense", headers=HTML).status_code == 422
    assert member.post("/social/erase", headers=HTML).status_code == 422


def test_a_member_blocks_edits_the_profile_exports_and_leaves(member: TestClient, network: Network) -> None:
    network.join("Ann", user="ann")
    network.post("ann", "status", {"text": "from ann"}, ["*public*"])
    assert "from ann" in member.get("/social/people/ann", headers=HTML).text
    _form(member, "/social/block/ann")
    page = member.get("/social/people/ann", headers=HTML).text
    assert "You have blocked Ann" in page
    assert "from ann" not in page
    _form(member, "/social/unblock/ann")
    _form(member, "/social/profile", name="The boss", about="Runs this", link="https://example.com")
    assert "Runs this" in member.get("/social/people/admin", headers=HTML).text
    assert '"what": "member"' in member.get("/social/export").text
    _form(member, "/social/erase", sure="yes")
    network.deliver()
    assert "Join" in member.get("/social", headers=HTML).text


def _picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(made, "PNG")
    return made.getvalue()


def test_a_photo_is_seen_by_those_who_see_its_post(
    member: TestClient, network: Network, systems: assembly.Assembled
) -> None:
    network.join("Ann", user="ann")
    _form(member, "/social/circle", other="ann", new="Friends")
    sent = {"photo": ("teal.png", _picture(), "image/png")}
    written = member.post("/social/posts", data={"audience": "Friends", "alt": "teal"}, files=sent, headers=HTML)
    assert written.status_code == 200, written.text
    (post,) = network.wall("admin", "admin").items
    assert post["type"] == "photo"
    assert member.get(f"/social/photos/{post['id']}").headers["content-type"].startswith("image/")
    visitor = TestClient(member.app)
    assert visitor.get(f"/social/photos/{post['id']}").status_code == 404, "the post is for friends only"
    member.post(f"/social/posts/{post['id']}/delete", headers=HTML)
    with pytest.raises(UnknownNode):
        systems.services["content"]["nodes"].by_id(post["detail"]["file"])


def test_a_job_deletes_photos_of_deleted_posts(
    member: TestClient, network: Network, systems: assembly.Assembled
) -> None:
    for colour in ("red", "teal"):
        sent = {"photo": (f"{colour}.png", _picture(), "image/png")}
        member.post("/social/posts", data={"text": colour}, files=sent, headers=HTML)
    kept, gone = (post["detail"]["file"] for post in network.wall("admin", "admin").items)
    member.delete(f"/api/social/posts/{network.wall('admin', 'admin').items[1]['id']}?me=admin")
    content = systems.services["content"]
    store = assembly.kept_photos(content["nodes"], content["photos"])
    assert forget_lost_photos(systems.db, store) == {"removed": 0}, "its post may not be written yet"
    later = utcnow() + timedelta(hours=2)
    assert forget_lost_photos(systems.db, store, clock=lambda: later) == {"removed": 1}
    assert [one["_id"] for one in store.list().items] == [kept]
    with pytest.raises(UnknownNode):
        content["nodes"].by_id(gone)
    _form(member, "/social/erase", sure="yes")
    network.deliver()
    assert forget_lost_photos(systems.db, store, clock=lambda: later) == {"removed": 1}


def test_no_post_shows_a_file_that_is_not_its_authors(member: TestClient, network: Network) -> None:
    network.join("Ann", user="ann")
    sent = {"photo": ("teal.png", _picture(), "image/png")}
    member.post("/social/posts", data={"audience": "*circles*"}, files=sent, headers=HTML)
    (secret,) = network.wall("admin", "admin").items
    stolen = network.post("ann", "photo", {"file": secret["detail"]["file"]}, ["*public*"])["id"]
    assert member.get(f"/social/photos/{stolen}").status_code == 404


def test_no_photo_is_kept_of_a_post_that_is_refused(member: TestClient, systems: assembly.Assembled) -> None:
    sent = {"photo": ("teal.png", _picture(), "image/png")}
    refused = member.post("/social/posts", data={"audience": "no circle of mine"}, files=sent, headers=HTML)
    assert refused.status_code == 422
    content = systems.services["content"]
    assert assembly.kept_photos(content["nodes"], content["photos"]).list().items == []


def test_pressing_join_twice_does_no_harm(member: TestClient) -> None:
    assert "You have left" not in _form(member, "/social/join")


def test_a_file_that_is_not_an_image_is_refused(member: TestClient) -> None:
    sent = {"photo": ("x.png", b"<svg onload=alert(1)>", "image/png")}
    refused = member.post("/social/posts", data={"text": "hi"}, files=sent, headers=HTML)
    assert refused.status_code == 422


def _sent_with_photo(headers: dict[str, str], number: int) -> dict[str, Any]:
    request = httpx.Request("POST", "http://testserver", data={"text": "hi"}, files={"photo": ("x.png", _picture())})
    body = request.read()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    given = {**headers, "content-type": request.headers["content-type"], "content-length": str(len(body)), **HTML}
    return {"headers": given, "receive": receive, "client": f"192.0.2.{number}"}


def test_a_photo_upload_uses_no_thread_of_the_pages(member: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def upload(*_: Any, **__: Any) -> None:
        taken.append(from_thread.run_sync(to_thread.current_default_thread_limiter).borrowed_tokens)
        raise Unavailable("that is all")

    monkeypatch.setattr(Photos, "upload", upload)
    sent = {"photo": ("x.png", _picture(), "image/png")}
    assert member.post("/social/posts", data={"text": "hi"}, files=sent, headers=HTML).status_code == 503
    assert taken == [0]


def test_many_photo_uploads_do_not_delay_pages(
    systems: assembly.Assembled, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rules.MAX_PER_MINUTE, "photos", 100)
    app = create_site(systems, options=SiteOptions(secret=SECRET))
    network.join("Admin", user="admin")
    headers = signed_in(systems)

    def crowd() -> list[Any]:
        return [call(app, "POST", "/social/posts", **_sent_with_photo(headers, number)) for number in range(60)]

    with held(monkeypatch, Photos, "upload", 2) as (begun, go):
        _, page, responses = while_waiting(crowd, begun, go, app)
    assert page.status == 200
    assert {response.status for response in responses} == {503}
    assert sum(b"too many photo posts" in response.body for response in responses) >= 38, "two run, twenty wait"
    assert b">hi</textarea>" in responses[-1].body, "the typed text is kept"


def test_a_slow_photo_upload_leaves_time_for_its_post(
    member: TestClient, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = Photos.upload

    def long_upload(*args: Any, **options: Any) -> Any:
        made = upload(*args, **options)
        clock = request_clock.get()
        if clock and clock.began is not None:
            clock.began -= 3_600
        return made

    monkeypatch.setattr(Photos, "upload", long_upload)
    sent = {"photo": ("x.png", _picture(), "image/png")}
    assert member.post("/social/posts", data={"text": "at last"}, files=sent, headers=HTML).status_code == 200
    assert [post["type"] for post in network.wall("admin", "admin").items] == ["photo"]


def test_photos_are_counted_before_they_are_decoded(
    member: TestClient, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rules.MAX_PER_MINUTE, "photos", 2)
    sent = {"photo": ("x.png", b"no picture", "image/png")}
    responses = [member.post("/social/posts", data={"text": "hi"}, files=sent, headers=HTML) for _ in range(3)]
    assert [response.status_code for response in responses] == [422, 422, 429]
    assert "at most 2 photos a minute" in responses[-1].text
    assert member.post("/social/posts", data={"text": "words"}, headers=HTML).status_code == 200


def test_a_member_who_blocked_the_viewer_looks_unknown(member: TestClient, network: Network) -> None:
    network.join("Ann", user="ann")
    network.block("ann", "admin")
    blocked, nobody = (member.get(f"/social/people/{one}", headers=HTML) for one in ("ann", "abc"))
    assert (blocked.status_code, nobody.status_code) == (404, 404)
    assert "there is no member @ann" in blocked.text.lower()
    assert "there is no member @abc" in nobody.text.lower()


def test_pages_redirect_people_who_have_not_joined(site: TestClient) -> None:
    for path in ("wall", "incoming", "notices", "circles", "me"):
        response = site.get(f"/social/{path}", headers=HTML, follow_redirects=False)
        assert (response.status_code, response.headers["location"]) == (303, "/social"), path


def test_requests_about_who_blocked_the_caller_are_answered_like_about_nobody(
    site: TestClient, member: TestClient, network: Network
) -> None:
    """Every route that takes another member's id, in the API and among the forms."""
    network.join("Zqa", user="zqa")
    network.join("Eve", user="eve")
    network.block("zqa", "admin")
    network.block("zqa", "eve")
    for other in ("zqa", "zqb"):
        network.unmute("eve", other)
    answers = {}
    for other in ("zqa", "zqb"):
        told = [
            site.get(f"/api/social/members/{other}/{what}", params={"viewer": "eve"}) for what in ("profile", "wall")
        ]
        for what in ("mute", "block", "circle", "uncircle", "unblock", "unmute", "circle"):
            body = {"other": other, **({"circle": "friends"} if "circle" in what else {})}
            told.append(site.post(f"/api/social/members/eve/{what}", json=body))
            told.append(site.get("/api/social/members/eve/blocked"))
        post = {"me": "eve", "type": "status", "detail": {"text": "hi"}, "circles": ["*public*"], "to": other}
        told.append(site.post("/api/social/posts", json=post))
        forms: list[tuple[str, dict[str, str]]] = [
            *((f"{what}/{other}", {}) for what in ("mute", "block", "unblock", "unmute")),
            ("circle", {"other": other, "circle": "friends"}),
            ("uncircle", {"other": other, "circle": "friends"}),
            ("posts", {"text": "hi", "to": other}),
        ]
        headers = {**HTML, "Referer": "http://testserver/social"}
        told += [member.post(f"/social/{path}", data=data, headers=headers) for path, data in forms]
        answers[other] = [f"{response.status_code} {_without_what_varies(response.text, other)}" for response in told]
    for of_blocker, of_nobody in zip(answers["zqa"], answers["zqb"], strict=True):
        assert of_blocker.splitlines() == of_nobody.splitlines()


def _without_what_varies(text: str, other: str) -> str:
    text = re.sub(r'"at": ?"[^"]*"|nonce="[^"]*"|name="csrf" (value|content)="[^"]*"', "", text)
    return text.replace(other, "OTHER")
