"""The pages and forms of the site, without a browser."""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.systems.content.pictures import jpeg
from tests.systems.content.vectors import XSS

from squinney import assembly
from squinney.clock import utcnow
from squinney.content import demo
from squinney.content.markup import render
from squinney.content.nodes import merging
from squinney.errors import Unavailable
from squinney.http.access.visitor import SIGNED_IN
from squinney.mongo.schema import Document
from squinney.testing.emptying import non_empty


def field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found, name
    return html.unescape(found[1])


@pytest.fixture(scope="module")
def demo_documents() -> dict[str, list[Document]]:
    """Return the documents of the demo. It is created once, because drawing its photos takes longer than a test."""
    return {}


@pytest.fixture
def pages(site: TestClient, systems: assembly.Assembled, demo_documents: dict[str, list[Document]]) -> TestClient:
    db = systems.db
    if not demo_documents:
        before = set(non_empty(db, db.list_collection_names()))
        demo(db)
        made = set(non_empty(db, db.list_collection_names())) - before
        demo_documents.update({name: list(db[name].find()) for name in made})
    else:
        for name, documents in demo_documents.items():
            db[name].insert_many(documents)
    site.headers["Accept"] = "text/html"
    return site


def test_every_page_of_the_demo_opens(pages: TestClient) -> None:
    for path, seen in [
        ("/site", "Our blog"),
        ("/site/welcome", "tree of"),
        ("/site/blog", "Thirteen lines"),
        ("/site/blog/ground-squirrels", "Lovely"),
        ("/site/blog/ground-squirrels?order=chronological", "Lovely"),
        ("/site/blog/first-snow", "Lovely"),
        ("/site/gallery", "Dawn"),
        ("/site/gallery/dawn", "Replace the file"),
        ("/site/-/tags/nature", "First snow"),
        ("/site/-/queue", "There are no flagged comments"),
        ("/site/-/new", "Preview"),
    ]:
        page = pages.get(path)
        assert (page.status_code, seen in page.text) == (200, True), path
    assert pages.get("/site/nowhere").status_code == 404
    photo = re.search(r'src="(/site/-/asset/[^"]+)"', pages.get("/site/gallery/dawn").text)
    assert photo
    assert pages.get(photo[1]).headers["content-type"] == "image/jpeg"


def new_page(pages: TestClient, **typed: Any) -> Any:
    form = {"type": "basic-page", "slug": "mine", "title": "Mine", "text": "one\n\ntwo\n", "when": "now", **typed}
    return pages.post("/site/-/new", data=form)


def test_a_form_that_is_refused_is_shown_as_it_was_typed(pages: TestClient) -> None:
    refused = new_page(pages, slug="Not One", text="\nan hour of work", when="at", at="2030-01-01T10:00")
    assert refused.status_code == 422
    assert ">\n\nan hour of work</textarea>" in refused.text
    assert '<option value="at" selected>' in refused.text
    new_page(pages)
    node = pages.get("/api/content/by-path", params={"path": "/mine"}).json()
    for wrong in ({"title": " "}, {"tags": "fine, a/b"}):
        form = {"nonce": node["nonce"], "session": "s", "title": "T", "text": "an hour of work", "tags": "x", **wrong}
        refused = pages.post(f"/site/-/edit/{node['id']}", data=form)
        assert refused.status_code == 422
        assert "an hour of work</textarea>" in refused.text
        assert [field(refused.text, name) for name in ("nonce", "title", "tags")] == [
            node["nonce"],
            form["title"],
            form["tags"],
        ]
    assert pages.get(f"/api/content/nodes/{node['id']}").json() == node


def test_the_last_version_on_a_history_page_is_compared_with_the_one_before(pages: TestClient) -> None:
    new_page(pages, text="the same")
    node = pages.get("/api/content/by-path", params={"path": "/mine"}).json()
    url = f"/api/content/nodes/{node['id']}"
    for number in range(11):
        node = pages.patch(url, json={"nonce": node["nonce"], "title": str(number)}).json()
    history = pages.get(f"/site/-/history/{node['id']}").text
    assert history.count("Version ") == 10
    older = re.search(r'href="(\?cursor=[^"]+)"', history)
    assert older
    second = pages.get(f"/site/-/history/{node['id']}{html.unescape(older[1])}").text
    assert (history + second).count("Restore version") == 11
    assert "+ the same" not in history


def test_a_page_does_not_show_the_title_of_a_hidden_folder(pages: TestClient) -> None:
    author = {"id": "ada", "name": "Ada"}
    above = {"slug": "plans", "type": "folder", "title": "Secret plans", "author": author}
    parent_id = pages.post("/api/content/nodes", json={**above, "published": "2026-01-01T00:00:00Z"}).json()["id"]
    page = {"slug": "open", "type": "basic-page", "title": "Open", "author": author, "parent_id": parent_id}
    node_id = pages.post("/api/content/nodes", json={**page, "published": "2026-01-01T00:00:00Z"}).json()["id"]
    for hidden, access in ((parent_id, []), (node_id, ["everyone"])):
        access = {"read": access, "edit": ["role:editor"]}
        pages.put(f"/api/content/nodes/{hidden}/access", json={"access": access})
    assert "Secret plans" in pages.get("/site/plans/open").text
    pages.cookies.clear()
    shown = pages.get("/site/plans/open")
    assert (shown.status_code, "Secret plans" in shown.text) == (200, False)


def test_saving_a_text_keeps_tags_that_others_added(pages: TestClient) -> None:
    long = [f"{number:02}{'x' * 40}" for number in range(40)]
    new_page(pages, tags=", ".join(["mine", "old", *long]))
    node = pages.get("/api/content/by-path", params={"path": "/mine"}).json()
    page = pages.get(f"/site/-/edit/{node['id']}").text
    pages.post(f"/api/content/nodes/{node['id']}/tags", json={"add": ["theirs"], "remove": ["old"]})
    form = {name: field(page, name) for name in ("nonce", "session", "title", "tags", "had")}
    form["tags"] = form["tags"].replace("mine", "changed")
    assert pages.post(f"/site/-/edit/{node['id']}", data={**form, "text": "x"}).status_code == 200
    tags = pages.get(f"/api/content/nodes/{node['id']}").json()["tags"]
    assert sorted(tags) == sorted([*long, "theirs", "changed"])


def test_a_photo_without_a_file_has_a_page(pages: TestClient) -> None:
    gallery = pages.get("/api/content/by-path", params={"path": "/gallery"}).json()
    author = {"id": "ada", "name": "Ada"}
    for kind in ("photo", "video"):
        node = {"parent_id": gallery["id"], "slug": kind, "type": kind, "title": f"A {kind}", "author": author}
        pages.post("/api/content/nodes", json={**node, "published": "2026-01-01T00:00:00Z"})
        assert f"A {kind}" in pages.get(f"/site/gallery/{kind}").text
        assert f"A {kind}" in pages.get("/site/gallery").text


def test_concurrent_edits_are_merged(pages: TestClient) -> None:
    new_page(pages, text="first\n\nmiddle\n\nlast\n")
    node_id = pages.get("/api/content/by-path", params={"path": "/mine"}).json()["id"]
    ada, ben = (pages.get(f"/site/-/edit/{node_id}").text for _ in range(2))

    def save(page: str, text: str) -> Any:
        form = {"nonce": field(page, "nonce"), "session": field(page, "session"), "title": "Mine", "text": text}
        return pages.post(f"/site/-/edit/{node_id}", data=form)

    assert save(ada, "FIRST\n\nmiddle\n\nlast\n").status_code == 200
    collision = save(ben, "first\n\nmiddle\n\nLAST\n")
    assert collision.status_code == 409
    assert "They changed" in collision.text
    assert "FIRST\n\nmiddle\n\nLAST\n" in collision.text
    merged = save(collision.text, "FIRST\n\nmiddle\n\nLAST\n")
    assert "LAST" in merged.text
    history = pages.get(f"/site/-/history/{node_id}").text
    assert "Version 3" in history
    restored = pages.post(
        f"/site/-/restore/{node_id}", data={"nonce": re.findall(r'name="nonce" value="([^"]+)"', history)[-1]}
    )
    assert "first" in restored.text


def test_only_editors_see_drafts_and_the_schedule_is_stored(pages: TestClient, stranger: TestClient) -> None:
    new_page(pages, when="at", at="2099-01-01T00:00")
    assert pages.get("/site/mine").status_code == 200
    cookies = dict(stranger.cookies)
    stranger.cookies.clear()
    assert stranger.get("/site/mine").status_code == 404
    assert "Mine" not in stranger.get("/site").text
    stranger.cookies.update(cookies)


def test_an_invalid_form_shows_the_error_and_keeps_its_values(pages: TestClient) -> None:
    refused = new_page(pages, slug="No Good", title="Kept title")
    assert refused.status_code == 422
    assert "slug must be lowercase letters and digits" in refused.text
    assert "Kept title" in refused.text


def test_a_refused_action_shows_its_error_on_the_page(pages: TestClient) -> None:
    blog = re.search(r"/site/-/edit/([^\"]+)", pages.get("/site/blog").text)
    assert blog
    response = pages.post(f"/site/-/publish/{blog[1]}", data={"when": "at", "at": ""})
    assert (response.status_code, response.url.path) == (200, "/site/blog")
    assert "at must be a date and time" in response.text
    response = pages.post(f"/site/-/remove/{blog[1]}")
    assert (response.status_code, response.url.path) == (200, "/site/blog")
    assert '<p class="notice bad"' in response.text
    new_page(pages, slug="short-lived", title="Short-lived")
    node = re.search(r"/site/-/edit/([^\"]+)", pages.get("/site/short-lived").text)
    assert node
    assert "“Short-lived” is removed." in pages.post(f"/site/-/remove/{node[1]}").text


def test_a_new_node_gets_the_type_that_fits_its_parent(pages: TestClient) -> None:
    blog = re.search(r"/site/-/new\?parent=([^\"]+)", pages.get("/site/blog").text)
    assert blog
    assert 'value="blog-entry" selected' in pages.get(f"/site/-/new?parent={blog[1]}").text
    assert 'value="basic-page" selected' in pages.get("/site/-/new").text


def test_comments_replies_flags_and_moderation(pages: TestClient) -> None:
    new_page(pages)
    node_id = pages.get("/api/content/by-path", params={"path": "/mine"}).json()["id"]
    url = f"/site/-/comments/{node_id}"
    posted = pages.post(url, data={"text": "A *fine* page", "key": "1"})
    assert "<em>fine</em>" in posted.text
    pages.post(url, data={"text": "A *fine* page", "key": "1"})
    assert "<h2>1 comment</h2>" in pages.get("/site/mine").text
    slug = pages.get(f"/api/comments/nodes/{node_id}").json()["items"][0]["slug"]
    pages.post(url, data={"text": "A reply", "key": "2", "reply_to": slug})
    assert "depth-1" in pages.get("/site/mine").text
    assert "aimed" in pages.get("/site/mine", params={"at": slug}).text
    assert "edited" in pages.post(f"{url}/edit", data={"slug": slug, "text": "Changed"}).text
    assert "Thank you" in pages.post(f"{url}/flag", data={"slug": slug, "reason": "rude"}).text
    assert "Changed" in pages.get("/site/-/queue").text
    pages.post("/site/-/queue", data={"node_id": node_id, "slug": slug, "verdict": "remove"})
    assert "This comment was deleted" in pages.get("/site/mine").text


def test_the_moderation_queue_has_only_pages_that_the_editor_may_read(pages: TestClient) -> None:
    page = {"slug": "theirs", "type": "basic-page", "title": "Theirs", "author": {"id": "zoe", "name": "Zoe"}}
    node_id = pages.post("/api/content/nodes", json={**page, "published": "2026-01-01T00:00:00Z"}).json()["id"]
    pages.put(f"/api/content/nodes/{node_id}/access", json={"access": {"read": [], "edit": []}})
    author = {"author_id": "ben", "author_name": "Ben"}
    slug = pages.post(f"/api/comments/nodes/{node_id}", json={**author, "text": "a secret"}).json()["slug"]
    pages.post(f"/api/comments/nodes/{node_id}/flags", params={"slug": slug}, json={"by": "ben"})
    assert "There are no flagged comments" in pages.get("/site/-/queue").text
    verdict = {"node_id": node_id, "slug": slug, "verdict": "remove"}
    assert pages.post("/site/-/queue", data=verdict).status_code == 404
    assert pages.get(f"/api/comments/nodes/{node_id}").json()["items"][0]["text"] == "a secret"


def test_setting_without_a_choice_changes_nothing(pages: TestClient) -> None:
    new_page(pages, when="at", at="2019-05-06T07:08:09")
    page = pages.get("/site/mine").text
    node_id = re.search(r"/site/-/edit/([^\"]+)", page)[1]
    first = re.search(r'<select name="when"[^>]*><option value="([^"]+)"', page)[1]
    for when in (first, "now", "nonsense"):
        pages.post(f"/site/-/publish/{node_id}", data={"when": when})
        assert pages.get(f"/api/content/nodes/{node_id}").json()["published"] == "2019-05-06T07:08:09Z", when
    for when in ("draft", "keep"):
        pages.post(f"/site/-/publish/{node_id}", data={"when": when})
        assert pages.get(f"/api/content/nodes/{node_id}").json()["published"] is None, when


def test_a_merge_with_conflicts_is_not_saved(pages: TestClient) -> None:
    new_page(pages)
    node = pages.get("/api/content/by-path", params={"path": "/mine"}).json()
    undecided = merging.merge("a\n", "b\n", "c\n").text
    form = {"nonce": node["nonce"], "session": "s", "title": "T", "text": "first\n" + undecided}
    refused = pages.post(f"/site/-/edit/{node['id']}", data=form)
    assert (refused.status_code, "still has both versions at line 2" in refused.text) == (422, True)
    assert "&gt;&gt;&gt;&gt;&gt;&gt;&gt; theirs" in refused.text, "the typed text is kept"
    assert pages.get(f"/api/content/nodes/{node['id']}").json() == node
    decided = {**form, "text": "b, or <<<<<<< yours\n"}
    assert pages.post(f"/site/-/edit/{node['id']}", data=decided, follow_redirects=False).status_code == 303


def test_a_merge_that_is_not_finished_still_shows_both_versions(pages: TestClient) -> None:
    new_page(pages, text="first\n\nmiddle\n")
    node_id = pages.get("/api/content/by-path", params={"path": "/mine"}).json()["id"]
    ada, ben = (pages.get(f"/site/-/edit/{node_id}").text for _ in range(2))
    form = {"nonce": field(ada, "nonce"), "session": field(ada, "session"), "title": "Mine", "text": "ADA\n\nmiddle\n"}
    pages.post(f"/site/-/edit/{node_id}", data=form)
    form = {"nonce": field(ben, "nonce"), "session": field(ben, "session"), "title": "Mine", "text": "BEN\n\nmiddle\n"}
    merging_page = pages.post(f"/site/-/edit/{node_id}", data=form).text
    names = ("nonce", "session", "mine", "opened")
    unfinished = {name: field(merging_page, name) for name in names} | {"title": "Mine"}
    unfinished["text"] = merging.merge("first\n", "BEN\n", "ADA\n").text + "more of mine\n"
    refused = pages.post(f"/site/-/edit/{node_id}", data=unfinished)
    assert refused.status_code == 422
    for shown in ("still has both versions", "They changed", "You changed", "more of mine", "BEN", "ADA"):
        assert shown in refused.text, shown
    again = {name: field(refused.text, name) for name in names} | {"title": "Mine", "text": "BEN and ADA\n"}
    assert "BEN and ADA" in pages.post(f"/site/-/edit/{node_id}", data=again).text


def test_a_link_to_a_deleted_comment_shows_the_article(pages: TestClient) -> None:
    new_page(pages)
    node_id = pages.get("/api/content/by-path", params={"path": "/mine"}).json()["id"]
    said = []
    for number, answers in enumerate((None, None, 1, 2)):
        body = {"author_id": "ben", "author_name": "Ben", "text": f"said {number}"}
        reply_to = {"reply_to": said[answers]} if answers else {}
        said.append(pages.post(f"/api/comments/nodes/{node_id}", json={**body, **reply_to}).json()["slug"])
    posted = pages.post(f"/site/-/comments/{node_id}", data={"text": "mine", "key": "k", "reply_to": said[3]})
    assert [f"said {number}" in posted.text for number in range(4)] == [True] * 4, "with the earlier comments"
    pages.delete(f"/api/comments/nodes/{node_id}/comment", params={"slug": said[0]})
    for gone in (said[0], "nowhere", "no/such!"):
        shown = pages.get("/site/mine", params={"at": gone})
        assert (shown.status_code, "does not exist any more" in shown.text, "said 1" in shown.text) == (200, True, True)
    cursor = pages.get(f"/api/comments/nodes/{node_id}", params={"limit": 1}).json()["next"]
    pages.post(f"/api/comments/nodes/{node_id}/convert", json={"to": "paged"})
    for link in ({"at": said[3], "order": "threaded"}, {"cursor": cursor, "order": "threaded"}):
        shown = pages.get("/site/mine", params=link)
        assert (shown.status_code, "said 3" in shown.text) == (200, True)


def test_summary_alternative_text_and_access_are_edited_on_the_page(pages: TestClient) -> None:
    new_page(pages)
    page = pages.get("/api/content/by-path", params={"path": "/mine"}).json()
    photo = pages.get("/api/content/by-path", params={"path": "/gallery/dawn"}).json()
    for node, name in ((page, "summary"), (photo, "alt")):
        assert field(pages.get(f"/site/-/edit/{node['id']}").text, name) == node["detail"].get(name, "")
        form = {"nonce": node["nonce"], "session": "s", "title": "T", "text": "x", name: "In <short>"}
        assert pages.post(f"/site/-/edit/{node['id']}", data=form).status_code == 200
        stored = pages.get(f"/api/content/nodes/{node['id']}").json()
        assert (stored["detail"][name], stored["detail"]["text"]) == ("In <short>", "x")
        assert field(pages.get(f"/site/-/edit/{node['id']}").text, name) == "In <short>"
        again = {**form, "nonce": stored["nonce"]}
        refused = pages.post(f"/site/-/edit/{node['id']}", data={**again, name: "x" * 2_000})
        assert (refused.status_code, name in refused.text) == (422, True)
        untitled = pages.post(f"/site/-/edit/{node['id']}", data={**again, "title": ""})
        assert (untitled.status_code, field(untitled.text, name)) == (422, "In <short>"), "the typed text is kept"
        assert pages.post(f"/site/-/edit/{node['id']}", data={**again, name: ""}).status_code == 200
        assert pages.get(f"/api/content/nodes/{node['id']}").json()["detail"][name] == "", (
            "the field can be cleared again"
        )
    form = {"nonce": page["nonce"], "session": "t", "title": "T", "text": "y", "summary": "Mine"}
    merged = pages.post(f"/site/-/edit/{page['id']}", data=form)
    assert (merged.status_code, field(merged.text, "summary")) == (409, "Mine")
    rules = {"own": "yes", "read": "signed-in", "edit": "role:editor, user:zoe"}
    assert "is saved" in pages.post(f"/site/-/access/{page['id']}", data=rules).text
    access = {"read": ["signed-in"], "edit": ["role:editor", "user:zoe"]}
    assert pages.get(f"/api/content/nodes/{page['id']}").json()["access"] == access
    assert "must match" in pages.post(f"/site/-/access/{page['id']}", data={**rules, "read": "all"}).text
    pages.post(f"/site/-/access/{page['id']}", data={"read": "x", "edit": "y"})
    assert pages.get(f"/api/content/nodes/{page['id']}").json()["access"] is None


def test_a_moved_page_is_found_by_its_old_address(pages: TestClient) -> None:
    new_page(pages, when="now")
    node_id = re.search(r"/site/-/edit/([^\"]+)", pages.get("/site/mine").text)[1]
    refused = pages.post(f"/site/-/move/{node_id}", data={"slug": "welcome", "folder": ""})
    assert "already has a child with the slug" in refused.text
    moved = pages.post(f"/site/-/move/{node_id}", data={"slug": "yours", "folder": "/blog"})
    assert moved.url.path == "/site/blog/yours"
    led = pages.get("/site/mine?at=34db8bda", follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (301, "/site/blog/yours?at=34db8bda")
    asked = pages.get("/api/content/by-path", params={"path": "/mine"}, follow_redirects=False)
    # If the old address were kept, it would redirect in a loop when the page is moved back.
    assert led.headers["cache-control"] == asked.headers["cache-control"] == "no-store"
    assert pages.get("/site/mine").status_code == 200
    pages.post(f"/site/-/publish/{node_id}", data={"when": "draft"})
    pages.cookies.clear()
    assert pages.get("/site/mine").status_code == 404  # a stranger does not learn where the draft is


def test_an_upload_is_a_request_body(pages: TestClient) -> None:
    gallery = pages.get("/api/content/by-path", params={"path": "/gallery"}).json()["id"]
    sent = pages.post("/site/-/upload", params={"parent": gallery, "slug": "new", "title": "New"}, content=jpeg())
    assert (sent.status_code, sent.json()["url"]) == (201, "/site/gallery/new")
    assert pages.get(sent.json()["asset"]).headers["content-type"] == "image/jpeg"
    assert f'data-gallery="{gallery}"' in pages.get("/site/-/new").text
    assert pages.get("/site/gallery/new").status_code == 200
    bad = pages.post(
        "/site/-/upload", params={"parent": gallery, "slug": "bad"}, content=b"<svg>", headers={"Accept": "*/*"}
    )
    assert (bad.status_code, bad.json()["code"]) == (422, "bad-media")


def test_a_file_is_uploaded_and_replaced_without_scripts(pages: TestClient) -> None:
    gallery = pages.get("/api/content/by-path", params={"path": "/gallery"}).json()["id"]
    form = pages.get(f"/site/-/upload?parent={gallery}").text
    assert f'method="post" enctype="multipart/form-data" action="/site/-/upload?parent={gallery}"' in form
    sent = {"files": {"file": ("boat.jpg", jpeg(), "image/jpeg")}, "follow_redirects": False}
    typed = {"title": "A boat", "slug": "", "alt": "a boat", "type": "photo", "when": "now"}
    done = pages.post(f"/site/-/upload?parent={gallery}", data=typed, **sent)
    assert (done.status_code, done.headers["location"]) == (303, "/site/gallery/a-boat")
    page = pages.get("/site/gallery/a-boat").text
    assert 'alt="a boat"' in page
    action = re.search(r'action="(/site/-/replace/[^"]*)"', page)
    assert action
    assert pages.post(html.unescape(action[1]), **sent).status_code == 303
    wrong = pages.post(f"/site/-/upload?parent={gallery}", data={"type": "poem"}, **sent)
    assert wrong.status_code == 422


def test_nothing_typed_comes_out_as_markup(pages: TestClient) -> None:
    for number, text in enumerate(XSS[::6]):
        title = " ".join(text.replace("\x01", "").split())[:200]
        new_page(pages, slug=f"x{number}", title=title, text=text)
        page = pages.get(f"/site/x{number}").text
        assert not re.search(
            r"<script>|onerror\s*=(?![^<]*&)|<svg|<iframe", page.replace(html.escape(title), ""), re.I
        ), text
        node = pages.get("/api/content/by-path", params={"path": f"/x{number}"}).json()
        rendered = pages.get(f"/api/content/nodes/{node['id']}/html").json()
        assert pages.post("/site/-/preview", data={"text": text}).json() == rendered


def test_a_page_without_a_slug_gets_one_from_its_title(pages: TestClient) -> None:
    assert new_page(pages, slug="", title="Crème & more").url.path == "/site/creme-more"
    gallery = pages.get("/api/content/by-path", params={"path": "/gallery"}).json()["id"]
    sent = pages.post("/site/-/upload", params={"parent": gallery, "slug": "", "title": "A Fox"}, content=jpeg())
    assert sent.json()["url"] == "/site/gallery/a-fox"
    assert pages.post("/site/-/upload", params={"parent": gallery}, content=jpeg()).status_code == 422


def test_a_typed_time_is_never_ignored(pages: TestClient) -> None:
    """Otherwise an editor who types a time but leaves "now" selected would publish at once."""
    for when in ("draft", "now"):
        refused = new_page(pages, when=when, at="2099-01-01T10:00")
        assert (refused.status_code, "at has a time" in refused.text.lower()) == (422, True)
    new_page(pages, when="at", at="2099-01-01T10:00")
    node = pages.get("/api/content/by-path", params={"path": "/mine"}).json()
    for when in ("keep", "now", "draft"):
        response = pages.post(f"/site/-/publish/{node['id']}", data={"when": when, "at": "2098-01-01T10:00"})
        assert "at has a time" in response.text.lower()
    assert pages.get("/api/content/by-path", params={"path": "/mine"}).json()["published"] == node["published"]


def test_a_scheduled_page_shows_its_time(pages: TestClient) -> None:
    new_page(pages, when="at", at="2099-01-01T10:00")
    assert "scheduled, <time" in pages.get("/site/mine").text
    assert "scheduled, <time" in pages.get("/site").text
    new_page(pages, slug="shown")
    assert "scheduled" not in pages.get("/site/shown").text


LARGE_TABLE = "|a" * 20 + "\n" + "|-" * 20 + "\n" + "x\n" * 200


ADA_SAYS = {"author_id": "ada", "author_name": "Ada"}


def test_large_texts_are_rendered_in_another_process(pages: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    new_page(pages, slug="large", text=LARGE_TABLE)
    new_page(pages, slug="small", text="a *b*")
    large, small = (pages.get("/api/content/by-path", params={"path": path}).json() for path in ("/large", "/small"))
    pages.post(f"/site/-/comments/{small['id']}", data={"text": "*c* " * 900, "key": "k"})
    monkeypatch.setattr(render, "CACHE", render.RenderCache(1 << 20))
    elsewhere = []

    def compute(function: Any, *args: Any) -> str:
        elsewhere.append(function.__name__)
        return "<p>from elsewhere</p>"

    assert isinstance(pages.app, FastAPI)
    pages.app.state.processes = compute
    for shown in [
        pages.get("/site/large"),
        pages.get(f"/api/content/nodes/{large['id']}/html"),
        pages.post("/site/-/preview", data={"text": f"other\n\n{LARGE_TABLE}"}),
        pages.get("/site/small"),
        pages.get(f"/api/comments/nodes/{small['id']}"),
        pages.post(f"/api/comments/nodes/{small['id']}", json={**ADA_SAYS, "text": "*d* " * 900}),
        pages.get(f"/api/content/feeds/{pages.get('/api/content/by-path?path=/blog').json()['id']}.rss"),
    ]:
        assert shown.is_success, shown.text
        assert ("from elsewhere" in shown.text) is not shown.url.path.endswith(".rss")
    assert elsewhere == ["_markdown", "_markdown", "_comment", "_comment"], (
        "the cache is by text; small texts are rendered in this process"
    )


def test_a_page_is_shown_if_its_text_cannot_be_rendered(pages: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    new_page(pages, slug="large", text=f"{LARGE_TABLE}<script>")

    def busy(*_: Any) -> str:
        raise Unavailable("too much is being computed at this moment")

    assert isinstance(pages.app, FastAPI)
    monkeypatch.setattr(render, "CACHE", render.RenderCache(1 << 20))
    pages.app.state.processes = busy
    shown = pages.get("/site/large")
    assert (shown.status_code, "<pre>|a|a" in shown.text, "<script>" in shown.text) == (200, True, False)
    assert pages.post("/site/-/preview", data={"text": LARGE_TABLE}).status_code == 503
    pages.app.state.processes = None
    assert "<table>" in pages.get("/site/large").text, "a failed rendering is not cached"


def test_comments_that_cannot_be_rendered_are_stored_and_shown_as_typed(
    pages: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_page(pages, slug="small", text="a")
    node_id = pages.get("/api/content/by-path?path=/small").json()["id"]
    asked = []

    def busy(*_: Any) -> str:
        asked.append(1)
        raise Unavailable("too much is being computed at this moment")

    assert isinstance(pages.app, FastAPI)
    monkeypatch.setattr(render, "CACHE", render.RenderCache(1 << 20))
    pages.app.state.processes = busy
    for letter in "cde":
        posted = pages.post(f"/api/comments/nodes/{node_id}", json={**ADA_SAYS, "text": f"*{letter}* " * 900})
        assert (posted.status_code, posted.json()["html"][:8]) == (201, f"<pre>*{letter}*")
    pages.post(f"/api/comments/nodes/{node_id}", json={**ADA_SAYS, "text": "*small*"})
    asked.clear()
    shown = pages.get(f"/api/comments/nodes/{node_id}").json()["items"]
    assert ["<em>" in comment["html"] for comment in shown] == [False, False, False, True]
    assert asked == [1], "after one refusal, the request does not wait again"


@pytest.mark.parametrize("text", ["x" * 500_001, "|a|b|\n|-|-|\n" * 9_000, "[" * 60_000])
def test_the_preview_and_the_form_refuse_with_the_same_message(pages: TestClient, text: str) -> None:
    seen = pages.post("/site/-/preview", data={"text": text}, headers={"Accept": "*/*"})
    new = {"slug": "long", "type": "basic-page", "title": "T", "author": {"id": "a", "name": "A"}}
    saved = pages.post("/api/content/nodes", json={**new, "detail": {"text": text}})
    assert (seen.status_code, saved.status_code) == (422, 422)
    assert seen.json()["detail"] == saved.json()["detail"]
    assert "detail.text" in seen.json()["detail"]


@pytest.mark.parametrize(
    ("base", "yours", "theirs", "merged", "conflicts"),
    [
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", 0),
        ("a\nb\n", "a\nb\n", "x\n", "x\n", 0),
        ("a\n", "b\n", "b\n", "b\n", 0),
        ("a\n", "b\n", "c\n", "<<<<<<< yours\nb\n=======\nc\n>>>>>>> theirs\n", 1),
        ("", "new", "", "new", 0),
        ("a\n\nb", "a\n\nb\n", "A\n\nb\n", "A\n\nb\n", 0),
        ("a\n\nb", "A\n\nb\n", "a\n\nB", "A\n\nB\n", 0),
        ("a\n", "", "a\n", "", 0),
        ("a\nb\n", "a\n\n\nb\n", "a\nb\nc\n", "a\n\n\nb\nc\n", 0),
        ("a\nb\nc\nd\n", "a\nc\nd\n", "a\nb\nc\nd\ne\n", "a\nc\nd\ne\n", 0),
    ],
)
def test_three_versions_become_one(base: str, yours: str, theirs: str, merged: str, conflicts: int) -> None:
    found = merging.merge(base, yours, theirs)
    assert (found.text, found.conflicts) == (merged, conflicts)
    assert merging.merge(base, theirs, yours).conflicts == conflicts


def test_a_missing_final_newline_is_not_a_change() -> None:
    assert [line.kind for line in merging.compare("a\nb", "a\nb\n")] == ["kept", "kept"]


@pytest.mark.timeout(20)
def test_long_texts_with_similar_lines_are_compared_and_merged_in_time() -> None:
    lines = [text for number in range(10_000) for text in (f"line {number}", "")]
    mine, theirs = ["first", *lines], [*lines[:10_000], "middle", *lines[10_000:-2], "last"]
    merged = merging.merge("\n".join(lines), "\n".join(mine), "\n".join(theirs))
    assert (merged.text.rstrip().split("\n"), merged.conflicts) == (["first", *theirs], 0)
    both = merging.compare("a" + "\n" * 40_000, "b" + "\n" * 30_000 + "c")
    assert Counter(line.kind for line in both) == {"removed": 40_000, "added": 30_001}


@pytest.mark.timeout(20)  # this once took minutes, and an editor can send ten such requests at once
def test_long_texts_that_differ_at_every_third_line_are_compared_in_time() -> None:
    before = [f"line {number}" for number in range(18_000)]
    after = [f"new {number}" if number % 3 == 0 else line for number, line in enumerate(before)]
    found = merging.compare("\n".join(before), "\n".join(after))
    assert Counter(line.kind for line in found) == {"kept": 12_000, "removed": 6_000, "added": 6_000}
    assert [line.text for line in found if line.kind != "removed"] == after
    assert [line.text for line in found if line.kind != "added"] == before


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)), st.sampled_from([0, 4, 100_000]))
@settings(deadline=None, max_examples=200)
def test_a_comparison_has_all_lines_of_both(before: list[int], after: list[int], most: int) -> None:
    """This holds even if only few pairs are searched."""
    texts = ["\n".join(map(str, numbers)) for numbers in (before, after)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "MAX_PAIRS", most)
        found = merging.compare(*texts)
        merged = merging.merge(texts[0], texts[1], texts[0])
    assert [line.text for line in found if line.kind != "added"] == [str(number) for number in before]
    assert [line.text for line in found if line.kind != "removed"] == [str(number) for number in after]
    assert (merged.text, merged.conflicts) == (texts[1], 0)


def test_a_comment_that_is_refused_is_shown_as_it_was_typed(pages: TestClient) -> None:
    node_id = pages.get("/api/content/by-path", params={"path": "/blog/bread"}).json()["id"]
    long = "line\n" * 2_000
    said = {"key": "k1", "text": long.replace("\n", "\r\n")}
    assert pages.post(f"/site/-/comments/{node_id}", data=said).url.path == "/site/blog/bread"
    refused = pages.post(f"/site/-/comments/{node_id}", data={"key": "k2", "text": "words", "reply_to": "nowhere"})
    assert (refused.status_code, field(refused.text, "reply_to"), field(refused.text, "key")) == (404, "nowhere", "k2")
    assert "words</textarea>" in refused.text
    mine = pages.get(f"/api/comments/nodes/{node_id}").json()["items"][-1]
    pages.post(f"/site/-/comments/{node_id}/edit", data={"slug": mine["slug"], "text": "\n    code"})
    assert ">\n\n    code</textarea>" in pages.get("/site/blog/bread").text, (
        "HTML drops the first newline in a textarea"
    )
    assert mine["text"] == long
    refused = pages.post(f"/site/-/comments/{node_id}/edit", data={"slug": mine["slug"], "text": "x" * 30_000})
    assert (refused.status_code, "xxx</textarea>" in refused.text) == (422, True)
    assert field(refused.text, "slug") == mine["slug"]


def test_an_entry_that_begins_with_a_picture_of_the_site_shows_it_in_the_list(
    site: TestClient, systems: assembly.Assembled
) -> None:
    nodes = systems.services["content"]["nodes"]
    author = {"_id": "ann", "name": "Ann"}
    blog = nodes.create(None, "b", "blog", "B", author, published=utcnow())
    for slug, text in (
        ("own", "![A](/site/-/asset/abc)\n\nText"),
        ("other", "![A](https://elsewhere.example/a.png)\n\nText"),
        ("none", "Text ![A](/site/-/asset/def)"),
    ):
        nodes.create(blog, slug, "blog-entry", slug, author, {"text": text}, published=utcnow())
    page = site.get("/site/b", headers={"Accept": "text/html"}).text
    assert re.findall(r'class="lead" src="([^"]+)"', page) == ["/site/-/asset/abc"]


def test_the_editor_is_offered_to_those_who_may_save(pages: TestClient, systems: assembly.Assembled) -> None:
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "member"}})
    person = systems.db["identity.people"].find_one({"_id": "admin"})
    pages.cookies.set("squinney", SIGNED_IN + systems.services["identity"]["sessions"].start(person))
    assert pages.get("/site/-/new").status_code == 403
