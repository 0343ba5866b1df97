"""The HTTP routes of content: nodes, files with ranges, feeds and comments."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET
from tests.systems.content.feed_rules import broken_rules
from tests.systems.content.pictures import jpeg, noise
from tests.systems.content.test_render import dangers
from tests.systems.content.vectors import XSS

from squinney import assembly
from squinney.content.documents import MAX_TEXT_LENGTH
from squinney.content.markup import render
from squinney.http.site_options import SiteOptions
from squinney.mongo.embedded import Embedded
from squinney.service.site import create_site
from squinney.testing.server_commands import watched

AUTHOR = {"id": "ada", "name": "Ada"}
ATOM = "{http://www.w3.org/2005/Atom}"
THEN = "2026-01-01T00:00:00Z"


def create(site: TestClient, slug: str, parent_id: str | None = None, **more: Any) -> Any:
    body = {"slug": slug, "type": "basic-page", "title": slug, "author": AUTHOR, "parent_id": parent_id, **more}
    response = site.post("/api/content/nodes", json=body)
    assert response.status_code == 201, response.text
    return response.json()


def test_a_long_text_in_any_writing_system_is_accepted(site: TestClient) -> None:
    node = create(site, "long")
    text = "\u4e2d" * MAX_TEXT_LENGTH
    edited = site.patch(f"/api/content/nodes/{node['id']}", json={"nonce": node["nonce"], "detail": {"text": text}})
    assert edited.json()["detail"]["text"] == text
    form = {"nonce": edited.json()["nonce"], "session": "s", "title": "Long", "text": text[1:]}
    assert site.post(f"/site/-/edit/{node['id']}", data=form, follow_redirects=False).status_code == 303
    stored = site.get(f"/api/content/nodes/{node['id']}").json()
    assert stored["detail"]["text"] == text[1:]
    lines = {**form, "nonce": stored["nonce"], "text": ("x" * 49 + "\r\n") * (MAX_TEXT_LENGTH // 50)}
    assert site.post(f"/site/-/edit/{node['id']}", data=lines, follow_redirects=False).status_code == 303


def test_a_large_upload_as_a_form_is_refused(site: TestClient) -> None:
    del site.headers["X-CSRF-Token"]
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
        response = site.post("/site/-/upload?parent=x&slug=y", content=b"a" * (9 << 20), headers={"Content-Type": kind})
        assert response.status_code == 413


def test_one_scope_covers_nodes_and_their_comments(site: TestClient, systems: assembly.Assembled) -> None:
    node = create(site, "talked-about")
    _, key = systems.services["identity"]["keys"].create("site", ["content:read"])
    site.headers["Authorization"] = f"Bearer {key}"
    assert site.get(f"/api/comments/nodes/{node['id']}").status_code == 200
    assert site.post(f"/api/comments/nodes/{node['id']}", json={}).json()["details"] == {"scope": "content:write"}


def test_comments_follow_the_permissions_of_the_named_viewer(site: TestClient) -> None:
    draft, page = create(site, "draft"), create(site, "page", published=THEN)
    for node in (draft, page):
        said = {"author_id": "ada", "author_name": "Ada", "text": "mine"}
        slug = site.post(f"/api/comments/nodes/{node['id']}", json=said).json()["slug"]
    zoe = {"On-Behalf-Of": "zoe"}
    assert site.get(f"/api/comments/nodes/{draft['id']}", headers=zoe).json()["code"] == "unknown-node"
    assert len(site.get(f"/api/comments/nodes/{page['id']}", headers=zoe).json()["items"]) == 1
    url = f"/api/comments/nodes/{page['id']}/comment?slug={slug}"
    assert site.delete(url, headers=zoe).status_code == 403
    assert site.patch(url, json={"text": "hers"}, headers=zoe).status_code == 403
    assert len(site.get("/api/comments/authors/ada").json()["items"]) == 2
    assert [one["node_id"] for one in site.get("/api/comments/authors/ada", headers=zoe).json()["items"]] == [
        page["id"]
    ]
    comment = url.replace("/comment?", "/{}?")
    flag, verdict = {"by": "zoe"}, {"by": "zoe", "verdict": "remove"}
    assert site.post(comment.format("flags"), json={"by": "ada"}, headers=zoe).status_code == 403
    assert site.post(comment.format("flags"), json=flag, headers=zoe).status_code == 201
    assert len(site.get("/api/comments/queue").json()["items"]) == 1
    assert site.get("/api/comments/queue", headers=zoe).json()["items"] == []
    assert site.post(comment.format("decision"), json=verdict, headers=zoe).status_code == 403
    convert = f"/api/comments/nodes/{page['id']}/convert"
    assert site.post(convert, json={"to": "paged"}, headers=zoe).status_code == 403
    assert site.post(f"/api/comments/nodes/{page['id']}", json=said, headers=zoe).status_code == 403
    assert site.get("/api/comments/authors/ada/export", headers=zoe).status_code == 403
    assert site.post("/api/comments/authors/ada/erase", headers=zoe).status_code == 403
    ada = {"On-Behalf-Of": "ada"}
    assert len(site.get("/api/comments/authors/ada/export", headers=ada).json()) == 2
    assert len(site.get("/api/comments/queue", headers=ada).json()["items"]) == 1
    assert site.delete(url, headers=ada).status_code == 204


def test_a_persons_comments_take_as_many_queries_on_one_node_as_on_many(
    site: TestClient, systems: assembly.Assembled, mongod: Embedded
) -> None:
    folder = create(site, "folder", type="folder", published=THEN)
    with watched(mongod.uri, systems.db.name) as (db, commands):
        again = TestClient(create_site(assembly.assemble(db), options=SiteOptions(secret=SECRET)), headers=site.headers)
        taken = []
        for number in range(4):
            node = create(site, f"page-{number}", folder["id"], published=THEN)
            said = {"author_id": "ada", "author_name": "Ada", "text": "mine"}
            site.post(f"/api/comments/nodes/{node['id']}", json=said)
            commands.sent.clear()
            found = again.get("/api/comments/authors/ada", headers={"On-Behalf-Of": "zoe"}).json()["items"]
            assert len(found) == number + 1
            taken.append(sum(command.get("find") == "content.nodes" for _, command in commands.sent))
    assert taken == [3] * 4, "for the epochs, for the nodes, and for the folder above them"


def test_head_is_get_without_the_body(site: TestClient) -> None:
    query = {"slug": "pic", "author_id": "ada", "author_name": "Ada"}
    photo = site.post("/api/content/assets", params=query, content=jpeg()).json()
    for path in (f"/api/content/assets/{photo['id']}", f"/api/content/nodes/{photo['id']}", "/site", "/healthz"):
        head, whole = (ask(path, headers={"Accept-Encoding": "identity"}) for ask in (site.head, site.get))
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.content))
    counted = [line for line in site.get("/metrics").text.splitlines() if 'method="HEAD"' in line]
    assert counted
    assert not any("unmatched" in line for line in counted)
    absurd = {"Range": f"bytes={'1' * 5_000}-"}
    assert site.get(f"/api/content/assets/{photo['id']}", headers=absurd).status_code == 200


def test_invalid_times_and_partial_tag_changes_are_refused(site: TestClient) -> None:
    node = create(site, "page", tags=["kept"])
    url = f"/api/content/nodes/{node['id']}"
    assert site.post(f"{url}/publish", json={"at": "9999-12-31T23:00:00-05:00"}).status_code == 422
    assert site.post(f"{url}/tags", json={"remove": ["kept"], "add": ["a,b"]}).status_code == 422
    assert site.get(url).json() == node


def test_a_node_is_created_edited_moved_and_removed(site: TestClient) -> None:
    blog = create(site, "blog", type="blog", published=THEN)
    entry = create(site, "hello", blog["id"], detail={"text": "*hi*"}, tags=["news"])
    url = f"/api/content/nodes/{entry['id']}"
    assert site.get("/api/content/by-path", params={"path": "/blog/hello"}).json() == entry
    assert site.get(f"{url}/html").json() == {"html": "<p><em>hi</em></p>\n"}
    edited = site.patch(url, json={"nonce": entry["nonce"], "title": "Hello", "by": AUTHOR}).json()
    conflict = site.patch(url, json={"nonce": entry["nonce"], "title": "Mine"})
    assert (conflict.status_code, conflict.json()["code"]) == (409, "edit-conflict")
    assert {name: conflict.json()["details"][name]["title"] for name in ("base", "theirs", "yours")} == {
        "base": "hello",
        "theirs": "Hello",
        "yours": "Mine",
    }
    assert site.post(f"{url}/restore", json={"nonce": entry["nonce"]}).json()["title"] == "hello"
    assert [one["version"] for one in site.get(f"{url}/history").json()["items"]] == [3, 2, 1]
    assert edited["version"] == 2
    assert site.post(f"{url}/tags", json={"add": ["x"], "remove": ["news"]}).json()["tags"] == ["x"]
    assert site.get("/api/content/tags/x").json()["items"] == []
    site.post(f"{url}/publish", json={"at": THEN})
    assert [one["slug"] for one in site.get("/api/content/tags/x").json()["items"]] == ["hello"]
    assert site.post(f"{url}/move", json={"parent_id": None, "slug": "moved"}).json()["slug"] == "moved"
    led = site.get("/api/content/by-path", params={"path": "/blog/hello"})
    assert (led.history[0].status_code, led.json()["slug"]) == (308, "moved")
    assert site.delete(f"/api/content/nodes/{blog['id']}").status_code == 204
    assert site.delete(f"/api/content/nodes/{blog['id']}").json()["code"] == "unknown-node"


def test_a_viewer_sees_only_what_they_may(site: TestClient) -> None:
    node = create(site, "secret", published=THEN)
    url = f"/api/content/nodes/{node['id']}"
    access = {"access": {"read": ["user:zoe"], "edit": []}}
    assert site.put(f"{url}/access", json=access).status_code == 200
    assert site.get(url).status_code == 200
    assert site.get(url, headers={"On-Behalf-Of": "zoe"}).status_code == 200
    assert site.get(url, headers={"On-Behalf-Of": "ben"}).status_code == 404
    refused = site.patch(url, json={"nonce": node["nonce"], "title": "x"}, headers={"On-Behalf-Of": "zoe"})
    assert refused.status_code == 403


def upload(site: TestClient, body: bytes, **more: Any) -> Any:
    wanted = {"slug": "pic", "author_id": "ada", "author_name": "Ada", "published": THEN, **more}
    return site.post("/api/content/assets", params=wanted, content=body)


def test_an_asset_supports_conditional_and_range_requests(site: TestClient) -> None:
    body = noise(150)
    node = upload(site, body, sha256=hashlib.sha256(body).hexdigest()).json()
    url = f"/api/content/assets/{node['id']}?rendition=original"
    whole = site.get(url)
    assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, body, "image/jpeg")
    etag = whole.headers["etag"]
    assert site.get(url, headers={"If-None-Match": etag}).status_code == 304
    size = len(body)
    for asked, start, end in [
        ("0-99", 0, 100),
        ("100-", 100, size),
        ("-7", size - 7, size),
        (f"5-{size * 2}", 5, size),
    ]:
        part = site.get(url, headers={"Range": f"bytes={asked}"})
        assert (part.status_code, part.content) == (206, body[start:end])
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    beyond = site.get(url, headers={"Range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    for ignored in ({"Range": "lines=1-2"}, {"Range": "bytes=9-5"}, {"Range": "bytes=0-1", "If-Range": '"other"'}):
        assert site.get(url, headers=ignored).status_code == 200
    assert "sandbox" in whole.headers["content-security-policy"]
    replaced = site.put(f"/api/content/assets/{node['id']}", params={"nonce": node["nonce"]}, content=jpeg())
    assert replaced.status_code == 200
    assert site.get(url, headers={"If-None-Match": etag}).content == jpeg()
    stale = site.put(f"/api/content/assets/{node['id']}", params={"nonce": node["nonce"]}, content=jpeg())
    assert stale.json()["code"] == "edit-conflict"


@pytest.mark.parametrize("body", [b"", b"<html>", b"<svg onload=alert(1)>"], ids=["empty", "html", "svg"])
def test_an_upload_that_is_not_a_photo_is_refused(site: TestClient, body: bytes) -> None:
    response = upload(site, body)
    assert (response.status_code, response.json()["code"]) == (422, "bad-media")


def test_a_truncated_photo_is_refused_without_a_word_of_the_decoder(site: TestClient) -> None:
    for size in (20, 100, 300, 600):
        response = upload(site, jpeg()[:size])
        assert (response.status_code, response.json()["code"]) == (422, "bad-media")
        assert response.json()["detail"] == "the image is broken or truncated"


def test_a_hidden_page_looks_like_a_missing_one(stranger: TestClient, site: TestClient) -> None:
    hidden = create(site, "hidden", type="folder", published=THEN)
    site.put(f"/api/content/nodes/{hidden['id']}/access", json={"access": {"read": [], "edit": ["role:admin"]}})
    create(site, "below", hidden["id"], published=THEN)
    create(site, "draft")
    visitor, behalf = TestClient(site.app), {"On-Behalf-Of": "bob"}
    for path in ("hidden", "draft", "hidden/below", "hidden/missing"):
        missing = path.replace("hidden", "xxxxxx").replace("draft", "xxxxx")
        for accept in ("text/html", "application/json"):
            pages = [visitor.get(f"/site/{one}", headers={"Accept": accept}) for one in (path, missing)]
            assert [page.status_code for page in pages] == [404, 404]
            seen, absent = (re.sub(r'name="csrf" (value|content)="[^"]+"', "", page.text) for page in pages)
            assert seen.replace(path, missing) == absent, path
        answers = [site.get("/api/content/by-path", params={"path": one}, headers=behalf) for one in (path, missing)]
        assert answers[0].text.replace(path, missing) == answers[1].text


def test_feeds_are_valid_and_support_304(site: TestClient) -> None:
    blog = create(site, "blog", type="blog", title="Blog & <more>", published=THEN)
    for number, text in enumerate(XSS):
        title = f"{number} {text}".replace("\n", " ").replace("\r", " ").replace("\x01", "")[:250]
        create(site, f"e{number}", blog["id"], title=title, detail={"text": text}, published=THEN, tags=["a"])
    create(site, "later", blog["id"], published="2099-01-01T00:00:00Z")
    rss, atom = (site.get(f"/api/content/feeds/{blog['id']}.{kind}") for kind in ("rss", "atom"))
    assert rss.headers["content-type"].startswith("application/rss+xml")
    assert atom.headers["content-type"].startswith("application/atom+xml")
    assert broken_rules(rss.content, "rss") == []
    assert broken_rules(atom.content, "atom") == []
    items = ElementTree.fromstring(rss.content).findall("channel/item")
    entries = ElementTree.fromstring(atom.content).findall(f"{ATOM}entry")
    assert len(items) == len(entries) == 30
    for item, entry in zip(items, entries, strict=True):
        assert item.findtext("link") == entry.find(f"{ATOM}link").get("href")
        assert item.findtext("link").startswith("http://testserver/site/blog/e")
        assert item.findtext("description") == entry.findtext(f"{ATOM}content")
        assert dangers(item.findtext("description"), render.TAGS) == []
        assert entry.find(f"{ATOM}title").get("type") is None  # plain text, even if it looks like HTML
    assert b"later" not in rss.content + atom.content
    for feed in (rss, atom):
        again = site.get(str(feed.url), headers={"If-None-Match": feed.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    create(site, "new", blog["id"], published="2026-02-01T00:00:00Z")
    assert site.get(str(rss.url), headers={"If-None-Match": rss.headers["etag"]}).status_code == 200


def test_a_photo_in_a_feed_is_shown_wherever_the_feed_is_read(site: TestClient) -> None:
    gallery = create(site, "gallery", type="gallery", published=THEN)
    about = {"author_id": "ada", "author_name": "Ada", "parent_id": gallery["id"], "published": THEN}
    photo = site.post("/api/content/assets", params={**about, "slug": "p", "title": 'A "<b>"'}, content=jpeg()).json()
    film = b"\0\0\0\x18ftypmp42" + b"\0" * 100
    site.post("/api/content/assets", params={**about, "slug": "f", "type": "video"}, content=film)
    create(site, "old", gallery["id"], published="0999-01-01T00:00:00Z")
    rss, atom = (site.get(f"/api/content/feeds/{gallery['id']}.{kind}").content for kind in ("rss", "atom"))
    assert (broken_rules(rss, "rss"), broken_rules(atom, "atom")) == ([], [])
    assert b"<atom:published>0999-01-01T00:00:00Z" in atom
    address = f"http://testserver/site/-/asset/{photo['id']}?v={photo['nonce']}"
    items = {item.findtext("link")[-1]: item for item in ElementTree.fromstring(rss).findall("channel/item")}
    shown = items["p"].findtext("description")
    assert f'<img src="{address}" alt="A &quot;&lt;b&gt;&quot;" width="64" height="48">' in shown
    kinds = {name: item.find("enclosure").get("type") for name, item in items.items() if name != "d"}
    assert kinds == {"p": "image/jpeg", "f": "video/mp4"}
    assert items["p"].find("enclosure").get("length") == str(photo["detail"]["web"]["length"])
    policy = "cross-origin-resource-policy"
    assert site.get(address).headers[policy] == "same-origin", "a response to a signed-in visitor may be private"
    site.cookies.clear()
    assert site.get(address).headers[policy] == "cross-origin"


def test_feeds_without_entries_and_with_odd_ones_are_valid_too(site: TestClient) -> None:
    blog = create(site, "blog", type="blog", published=THEN)
    url = f"/api/content/feeds/{blog['id']}"
    assert [broken_rules(site.get(f"{url}.{kind}").content, kind) for kind in ("rss", "atom")] == [[], []]
    create(site, "bare", blog["id"], published=THEN, detail={"text": ""}, tags=["a b", "é"])
    text = "\u0001 \ufffe [here](/site/x) ![pic](/site/-/asset/1) [there](https://example.org/y) [odd](//example.org)"
    create(site, "odd", blog["id"], published=THEN, detail={"text": text})
    for kind in ("rss", "atom"):
        feed = site.get(f"{url}.{kind}")
        assert broken_rules(feed.content, kind) == []
        for address in ("http://testserver/site/x", "http://testserver/site/-/asset/1", "https://example.org/y"):
            assert f'="{address}"'.encode() in feed.content.replace(b"&quot;", b'"')


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("rss", b"<link>http:", b"<link>/relative:"),
        ("rss", b"<description>", b"<descr>"),
        ("rss", b"GMT</pubDate>", b"noon</pubDate>"),
        ("rss", b"Thu, 01 Jan", b"Fri, 01 Jan"),
        ("rss", b'isPermaLink="false"', b""),
        ("atom", b"Z</", b"</"),
        ("atom", b'rel="self"', b'rel="me"'),
        ("atom", b"urn:squinney:node:", b""),
        ("atom", b"<atom:name>Ada</atom:name>", b""),
    ],
)
def test_the_feed_validator_finds_errors(site: TestClient, kind: str, before: bytes, after: bytes) -> None:
    blog = create(site, "blog", type="blog", published=THEN)
    create(site, "entry", blog["id"], published=THEN)
    body = site.get(f"/api/content/feeds/{blog['id']}.{kind}").content
    assert before in body
    broken = body.replace(before, after).replace(before.replace(b"<", b"</", 1), after.replace(b"<", b"</", 1))
    assert broken_rules(broken, kind) != []


def test_comments_over_http(site: TestClient) -> None:
    node = create(site, "page", published=THEN)
    url = f"/api/comments/nodes/{node['id']}"
    body = {"author_id": "ada", "author_name": "Ada", "text": "first <b>x</b>"}
    first = site.post(url, json=body, headers={"Idempotency-Key": "k1"})
    assert first.status_code == 201
    assert site.post(url, json=body, headers={"Idempotency-Key": "k1"}).json()["slug"] == first.json()["slug"]
    slug = first.json()["slug"]
    assert "&lt;b&gt;" in first.json()["html"]
    reply = site.post(url, json={**body, "text": "reply", "reply_to": slug}).json()
    site.post(url, json={**body, "text": "third"})
    assert [one["text"] for one in site.get(url, params={"order": "threaded", "limit": 2}).json()["items"]][
        1
    ] == "reply"
    page = site.get(url, params={"limit": 2}).json()
    rest = site.get(url, params={"limit": 2, "cursor": page["next"]}).json()
    assert [one["text"] for one in [*page["items"], *rest["items"]]] == ["first <b>x</b>", "reply", "third"]
    assert len(site.get(f"{url}/discussion", params={"slug": slug}).json()) == 2
    edited = site.patch(f"{url}/comment", params={"slug": slug, "by": "ada"}, json={"text": "better"})
    assert edited.json()["text"] == "better"
    assert site.patch(f"{url}/comment", params={"slug": slug, "by": "ben"}, json={"text": "x"}).status_code == 403
    assert (
        site.post(f"{url}/flags", params={"slug": reply["slug"]}, json={"by": "ben", "reason": "rude"}).status_code
        == 201
    )
    queue = site.get("/api/comments/queue").json()["items"]
    assert [one["comment"]["text"] for one in queue] == ["reply"]
    decided = site.post(f"{url}/decision", params={"slug": reply["slug"]}, json={"by": "m", "verdict": "remove"})
    assert decided.json()["state"] == "removed"
    assert site.post(f"{url}/convert", json={"to": "paged"}).json() == {"count": 2, "strategy": "paged"}
    refused = site.get(url, params={"order": "threaded"})
    assert (refused.status_code, refused.json()["code"]) == (409, "strategy-cannot")
    exported = site.get("/api/comments/authors/ada/export")
    assert [one["text"] for one in exported.json()] == ["better", "third"]
    assert exported.json()[0] == site.get(f"{url}/comment", params={"slug": slug}).json()
    assert "content-length" not in exported.headers, "the response is streamed"
    assert site.head("/api/comments/authors/ada/export").headers["content-type"] == "application/json"
    assert site.get("/api/comments/authors/nobody/export").json() == []
    assert site.get(f"/api/comments/authors/{'x' * 300}/export").status_code == 422
    assert site.post("/api/comments/authors/ada/erase").json() == {"comments": 2, "flags": 0, "names": 3}
    assert site.get(f"{url}/count").json()["count"] == 0
    assert site.delete(f"{url}/comment", params={"slug": slug}).status_code == 404
