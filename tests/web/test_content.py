"""A person writes, schedules, comments, collides and merges; and nothing typed runs in a real browser."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.serving import Serving
from tests.systems.content.pictures import jpeg
from tests.systems.content.vectors import XSS

PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def signed_in(browser: Browser, serving: Serving) -> dict[str, object]:
    """The state of a browser in which the first admin has signed in, by the link that `serve` printed."""
    link = _first_admins_link(serving)
    context = browser.new_context(base_url=serving.url)
    page = context.new_page()
    page.goto(link)
    for name, value in (("login", "admin@example.org"), ("name", "Ada"), ("password", PASSWORD)):
        if page.locator(f"input[name={name}]").count():
            page.locator(f"input[name={name}]").first.fill(value)
    page.locator("main form button").first.click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    state = context.storage_state()
    context.close()
    return state  # type: ignore[return-value]


def _first_admins_link(serving: Serving) -> str:
    """It is in the lines that `serve` prints behind its address."""
    assert serving._process.stdout
    for _ in range(10):
        if found := re.search(r"http://\S+/welcome\?token=\S+", serving.said):
            return found[0]
        serving.said += serving._process.stdout.readline()
    raise AssertionError(f"serve printed no link for the first admin: {serving.said}")


@pytest.fixture
def editor(browser: Browser, serving: Serving, signed_in: dict[str, object]) -> Iterator[Page]:
    """A signed-in admin whose browser complains of nothing and opens no dialog."""
    context = browser.new_context(base_url=serving.url, storage_state=signed_in)  # type: ignore[arg-type]
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
    page.get_by_label("Title").fill(title)
    page.get_by_label("Address").fill(slug)
    page.get_by_label("Text").fill(text)
    page.get_by_label("Publish").select_option(when)
    if at:
        page.get_by_label("Time (UTC)").fill(at)
    page.get_by_role("button", name="Create").click()
    page.wait_for_url(f"**/{slug}")


def test_a_post_with_a_photo_is_scheduled_appears_and_is_talked_about(editor: Page, page: Page, tmp_path: Path) -> None:
    photo = tmp_path / "pic.jpg"
    photo.write_bytes(jpeg("green", (300, 200)))
    slug = f"p{secrets.token_hex(4)}"
    editor.goto("/site/gallery")
    editor.get_by_role("link", name="Upload").click()
    editor.get_by_label("File").set_input_files(photo)
    editor.get_by_label("Address").fill(slug)
    editor.get_by_label("Title").fill("A green field")
    editor.get_by_role("button", name="Upload").click()
    editor.wait_for_url(f"**/gallery/{slug}")
    shown = editor.locator("img.photo")
    assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 300
    source = shown.get_attribute("src")

    editor.goto("/site/blog")
    parent = editor.get_by_role("link", name="New entry").get_attribute("href").partition("parent=")[2]
    soon = datetime.now(UTC) + timedelta(seconds=12)
    write(editor, slug, "Scheduled post", f"Look:\n\n![green]({source})", parent, "at", f"{soon:%Y-%m-%dT%H:%M:%S}")
    page.goto("/site/blog")
    expect(page.get_by_role("link", name="Scheduled post")).to_have_count(0)
    assert page.goto(f"/site/blog/{slug}").status == 404
    page.wait_for_timeout(max(0, (soon - datetime.now(UTC)).total_seconds() * 1000 + 500))
    page.goto("/site/blog")
    page.get_by_role("link", name="Scheduled post").click()
    assert page.locator(".prose img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 300

    editor.goto(f"/site/blog/{slug}")
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


def test_two_editors_collide_and_the_second_merges(editor: Page) -> None:
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
    expect(second.get_by_role("heading", name="Somebody else has saved")).to_be_visible()
    expect(second.get_by_label("Merged text")).to_have_value("ONE\n\ntwo\n\nTHREE\n")
    second.get_by_role("button", name="Save the merge").click()
    second.wait_for_url(f"**/{slug}")
    expect(second.locator(".prose").first).to_contain_text("ONE")
    expect(second.locator(".prose").first).to_contain_text("THREE")


def test_nothing_that_is_typed_runs(editor: Page) -> None:
    """Through a page's text, its title, a comment, the preview and a feed."""
    slug = f"x{secrets.token_hex(4)}"
    whole = "\n\n".join(XSS)
    write(editor, slug, "<script>alert(1)</script><img src=x onerror=alert(1)>", "start")
    for text in [whole, *XSS]:
        token = editor.locator("meta[name=csrf]").get_attribute("content")
        rendered = editor.evaluate(
            """async ([text, token]) => {
                const answer = await fetch('/site/-/preview', {method: 'POST',
                    headers: {'X-CSRF-Token': token}, body: new URLSearchParams({text})});
                const html = (await answer.json()).html;
                const place = document.createElement('div');
                document.body.append(place);
                place.innerHTML = html;
                const again = place.innerHTML;
                place.innerHTML = again;
                const bad = [...place.querySelectorAll('*')].filter((one) =>
                    ['SCRIPT', 'STYLE', 'IFRAME', 'OBJECT', 'EMBED', 'SVG', 'MATH', 'FORM', 'BASE', 'META', 'LINK']
                        .includes(one.tagName.toUpperCase()) ||
                    [...one.attributes].some((a) => a.name.startsWith('on') || a.name === 'style' ||
                        /^\\s*(javascript|data|vbscript):/i.test(a.value)));
                const found = bad.map((one) => one.outerHTML);
                place.remove();
                return found;
            }""",
            [text, token],
        )
        assert rendered == [], text
    for text in XSS[::9]:
        editor.goto(f"/site/{slug}")
        editor.get_by_label("Your comment").fill(text)
        editor.get_by_role("button", name="Post comment").click()
        editor.wait_for_url("**at=**")
    editor.goto(f"/site/{slug}")
    editor.get_by_role("link", name="Edit").click()
    editor.get_by_label("Text").fill(whole)
    editor.get_by_role("button", name="Save").click()
    editor.wait_for_url(f"**/{slug}")
    editor.wait_for_timeout(500)
    for link in editor.locator(".prose a").all():
        assert not re.match(r"\s*(javascript|data|vbscript):", link.get_attribute("href") or "", re.I)
    editor.goto("/site/blog")
    feed = editor.get_by_role("link", name="RSS").get_attribute("href")
    assert editor.request.get(feed).status == 200
