"""Writing, scheduling, commenting and merging in a browser; and no typed text runs as a script."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Error, Page, StorageState, expect

from tests.serving import Serving
from tests.sizes import heavy, todays
from tests.systems.content.pictures import jpeg
from tests.systems.content.vectors import XSS
from tests.web.conftest import SQUINNEY, sign_in

PAST = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def signed_in(browser: Browser, serving: Serving, boss: str) -> StorageState:
    """Return the cookies of a browser in which the admin has signed in."""
    context = browser.new_context(base_url=serving.url)
    sign_in(context.new_page(), boss)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def editor(browser: Browser, serving: Serving, signed_in: StorageState) -> Iterator[Page]:
    """Return a page of the signed-in admin. The test fails on script errors and dialogs."""
    context = browser.new_context(base_url=serving.url, storage_state=signed_in)
    page = context.new_page()
    page.set_default_timeout(15_000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
    yield page
    context.close()
    assert complaints == []


def write(page: Page, slug: str, title: str, text: str, parent: str = "", when: str = "now", at: str = "") -> None:
    page.goto(f"/site/-/new?parent={parent}" if parent else "/site/-/new")
    page.get_by_label("Title", exact=True).fill(title)
    page.get_by_label("Address").fill(slug)
    page.get_by_label("Text").fill(text)
    page.get_by_label("Publish").select_option(when)
    if at:
        page.get_by_label("Time (UTC)").fill(at)
    page.get_by_role("button", name="Create").click()
    page.wait_for_url(f"**/{slug}")


def test_a_scheduled_post_with_a_photo_appears_and_gets_comments(editor: Page, page: Page, tmp_path: Path) -> None:
    photo = tmp_path / "pic.jpg"
    photo.write_bytes(jpeg("green", (300, 200)))
    slug = f"p{secrets.token_hex(4)}"
    editor.goto("/site/gallery")
    editor.get_by_role("link", name="Upload").click()
    editor.get_by_label("File").set_input_files(photo)
    editor.get_by_label("Address").fill(slug)
    editor.get_by_label("Title", exact=True).fill("A green field")
    editor.get_by_role("button", name="Upload").click()
    editor.wait_for_url(f"**/gallery/{slug}")
    shown = editor.locator("img.photo")
    assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 300
    source = shown.get_attribute("src")

    editor.goto("/site/magazine")
    parent = editor.get_by_role("link", name="New entry").get_attribute("href").partition("parent=")[2]
    soon = datetime.now(UTC) + timedelta(seconds=12)
    write(editor, slug, "Scheduled post", f"Look:\n\n![green]({source})", parent, "at", f"{soon:%Y-%m-%dT%H:%M:%S}")
    page.goto("/site/magazine")
    expect(page.get_by_role("link", name="Scheduled post")).to_have_count(0)
    assert page.goto(f"/site/magazine/{slug}").status == 404
    page.wait_for_timeout(max(0, (soon - datetime.now(UTC)).total_seconds() * 1000 + 500))
    page.goto("/site/magazine")
    page.get_by_role("link", name="Scheduled post").click()
    assert page.locator(".prose img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 300

    editor.goto(f"/site/magazine/{slug}")
    editor.get_by_label("Your comment").fill("A *first* word")
    editor.get_by_role("button", name="Post comment").click()
    expect(editor.locator(".comment em")).to_have_text("first")
    editor.locator(".comment").first.get_by_text("Reply", exact=True).click()
    editor.get_by_label("Reply to").fill("And an answer")
    editor.get_by_role("button", name="Send reply").click()
    expect(editor.locator(".comment.depth-1")).to_contain_text("And an answer")
    link = editor.locator(".comment.depth-1 a").first.get_attribute("href")
    page.goto(link)
    expect(page.locator(".comment.aimed")).to_contain_text("And an answer")


def test_the_second_of_two_concurrent_editors_merges(editor: Page) -> None:
    slug = f"m{secrets.token_hex(4)}"
    write(editor, slug, "To be merged", "one\n\ntwo\n\nthree\n")
    second = editor.context.new_page()
    for tab in (editor, second):
        tab.goto(f"/site/{slug}")
        tab.get_by_role("link", name="Edit").click()
        expect(tab.locator("#preview")).to_contain_text("three")
    editor.get_by_label("Text").fill("ONE\n\ntwo\n\nthree\n")
    editor.get_by_role("button", name="Save").click()
    editor.wait_for_url(f"**/{slug}")
    second.get_by_label("Text").fill("one\n\ntwo\n\nTHREE\n")
    second.get_by_role("button", name="Save").click()
    expect(second.get_by_role("heading", name="Another user has saved")).to_be_visible()
    expect(second.get_by_label("Merged text")).to_have_value("ONE\n\ntwo\n\nTHREE\n")
    second.get_by_role("button", name="Save the merge").click()
    second.wait_for_url(f"**/{slug}")
    expect(second.locator(".prose").first).to_contain_text("ONE")
    expect(second.locator(".prose").first).to_contain_text("THREE")


# Finds all elements and attributes that could run code, in the page or in HTML that a script inserts into it.
DANGEROUS = """(root) => [...root.querySelectorAll('*')].filter((one) =>
    (root !== document && ['SCRIPT', 'STYLE', 'LINK', 'META', 'FORM'].includes(one.tagName.toUpperCase())) ||
    ['IFRAME', 'OBJECT', 'EMBED', 'SVG', 'MATH', 'BASE', 'MARQUEE'].includes(one.tagName.toUpperCase()) ||
    (one.tagName === 'SCRIPT' && !one.src.startsWith(location.origin + '/static/')) ||
    [...one.attributes].some((a) => a.name.startsWith('on') || (a.name === 'style' && root !== document) ||
        (['href', 'src', 'action', 'formaction'].includes(a.name) &&
            /^[\\s\\x00-\\x20]*(javascript|data|vbscript):/i.test(a.value)))
    ).map((one) => one.outerHTML.slice(0, 200))"""
INSERT_HTML = f"""(html) => {{
    const target = document.createElement('div');
    document.body.append(target);
    target.innerHTML = html;
    target.innerHTML = target.innerHTML;
    const found = ({DANGEROUS})(target);
    target.remove();
    return found;
}}"""


@pytest.fixture
def unguarded(browser: Browser, serving: Serving) -> Iterator[Page]:
    """Return a page that ignores the content-security policy, so that any injected script would run."""
    context = browser.new_context(base_url=serving.url, bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(15_000)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(f"{dialog.message} on {page.url}"), dialog.dismiss()))
    page.goto("/site")
    page.evaluate("alert('seen')")
    assert dialogs == [f"seen on {page.url}"]  # the test notices dialogs
    yield page
    context.close()
    assert dialogs[1:] == []


@pytest.fixture(scope="module")
def vectors_blog(serving: Serving) -> str:
    """Create a blog with every XSS vector as title, text, author's name, summary, comment and commenter's name."""
    command = [*SQUINNEY, "--data", str(serving.data), "keys", "create", "--name", "xss", "--scope", "*:write"]
    made = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    key = {"Authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    with httpx.Client(base_url=serving.url, headers=key, timeout=120) as api:
        author = {"id": "mallory", "name": _line(XSS[0], 100)}
        body = {"slug": "vectors", "type": "blog", "title": _line(XSS[1], 300), "author": author, "published": PAST}
        blog = _create(api, "/api/content/nodes", body)
        for number, vector in enumerate(XSS):
            name = _line(vector, 100)
            entry = {
                "slug": f"v{number}", "type": "blog-entry", "parent_id": blog["id"], "title": _line(vector, 300),
                "author": {"id": "mallory", "name": name}, "published": PAST,
                "detail": {"text": vector, "summary": vector}, "tags": ["x"],
            }  # fmt: skip
            node = _create(api, "/api/content/nodes", entry)
            said = {"author_id": "mallory", "author_name": name, "text": vector}
            first = _create(api, f"/api/comments/nodes/{node['id']}", said)
            _create(api, f"/api/comments/nodes/{node['id']}", {**said, "reply_to": first["slug"]})
    return blog["id"]


def _line(vector: str, most: int) -> str:
    return re.sub(r"[\r\n]", " ", vector)[:most]


def _create(api: httpx.Client, path: str, body: dict[str, object]) -> dict[str, str]:
    response = api.post(path, json=body)
    assert response.status_code == 201, response.text
    return response.json()


@heavy
def test_no_vector_runs_in_pages_titles_names_and_comments(unguarded: Page, vectors_blog: str) -> None:
    lists = ["/site", "/site/vectors", "/site/-/tags/x"]
    some = todays(range(len(XSS)), of=6)  # the lists, the feeds and the preview contain all vectors
    for path in [*lists, *(f"/site/vectors/v{number}" for number in some)]:
        assert unguarded.goto(path).status == 200, path
        assert unguarded.evaluate(f"({DANGEROUS})(document)") == [], path
    unguarded.wait_for_timeout(300)


@pytest.mark.parametrize("kind", ["rss", "atom"])
def test_no_vector_runs_from_a_feed(unguarded: Page, vectors_blog: str, kind: str) -> None:
    """The feed is opened as XML, and its HTML is inserted into a page, as feed readers do."""
    url = f"/site/-/feed/{vectors_blog}.{kind}"
    found = unguarded.evaluate(
        """async (url) => {
            const body = await (await fetch(url)).text();
            const feed = new DOMParser().parseFromString(body, 'application/xml');
            const html = [...feed.querySelectorAll('item > description, entry > content')];
            const typed = [...feed.querySelectorAll('title')].map((one) => one.getAttribute('type'));
            const scripts = feed.getElementsByTagNameNS('http://www.w3.org/1999/xhtml', '*');
            return {broken: feed.querySelector('parsererror')?.textContent ?? '', inside: scripts.length,
                    html: html.map((one) => one.textContent), typed};
        }""",
        url,
    )
    assert (found["broken"], found["inside"], len(found["html"])) == ("", 0, 30)
    assert set(found["typed"]) == {None}  # titles are plain text
    for html in found["html"]:
        assert unguarded.evaluate(INSERT_HTML, html) == [], html
    with suppress(Error):  # a browser may offer the feed as a download instead of showing it
        unguarded.goto(url)
    unguarded.wait_for_timeout(300)


def test_no_vector_runs_in_the_preview_and_the_editor(editor: Page) -> None:
    slug = f"x{secrets.token_hex(4)}"
    whole = "\n\n".join(XSS)
    write(editor, slug, "<script>alert(1)</script><img src=x onerror=alert(1)>", "start")
    token = editor.locator("meta[name=csrf]").get_attribute("content")
    for text in [whole, *XSS]:
        preview = {"headers": {"X-CSRF-Token": token}, "form": {"text": text}}
        rendered = editor.request.post("/site/-/preview", **preview)
        assert editor.evaluate(INSERT_HTML, rendered.json()["html"]) == [], text
    editor.get_by_role("link", name="Edit").click()
    editor.get_by_label("Text").fill(whole)
    editor.get_by_role("button", name="Save").click()
    editor.wait_for_url(f"**/{slug}")
    assert editor.evaluate(f"({DANGEROUS})(document.querySelector('.prose'))") == []
