"""The site under a path of a FastAPI application with users of its own, in a real browser."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect

from squinney import assembly
from squinney.mongo.schema import Db
from tests.hosting import ROOT, fastapi_host
from tests.plugins.shelf import Prepared


@pytest.fixture
def town(prepared: Prepared) -> Db:
    """Return a database with the demo data."""
    db = prepared(assembly.collections())
    assembly.load_demo(db)
    return db


@pytest.fixture
def address(town: Db) -> Iterator[str]:
    """Serve the host application in a thread of this process; return its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(fastapi_host(town), log_level="warning", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def visitor(browser: Browser, address: str) -> Iterator[Page]:
    """Return a page; the test fails if anything was asked for outside of the path, was not found, or failed."""
    context = browser.new_context(base_url=address)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("response", lambda answer: wrong.append(answer.url) if answer.status in (404, 405, 500) else None)
    page.on("request", lambda asked: wrong.append(asked.url) if not _belongs(asked.url, address) else None)
    page.set_default_timeout(15_000)
    yield page
    context.close()
    assert wrong == []


def _belongs(url: str, address: str) -> bool:
    return url.startswith((f"{address}{ROOT}", f"{address}/login", "data:"))


def test_a_member_and_an_editor_of_the_host_work_under_its_path(visitor: Page) -> None:
    """A link, a form, a redirect, a script, an image, an upload and a socket, each under the path."""
    visitor.goto(f"{ROOT}/")
    visitor.get_by_role("link", name="Sign in", exact=True).click()  # the host's own page, which comes back
    expect(visitor.get_by_text("Member", exact=True)).to_be_visible()

    visitor.locator("nav").get_by_role("link", name="Shop").click()
    visitor.locator("main a[href*='/shop/products/']").first.click()
    visitor.locator("form[action$='/shop/cart/items'] button").first.click()
    visitor.wait_for_url(f"**{ROOT}/shop/cart*")
    assert visitor.locator("img").count() == 0 or visitor.evaluate("[...document.images].every((one) => one.complete)")

    visitor.goto(f"{ROOT}/game")
    visitor.locator("form[action$='/game/characters'] input[name=name]").fill("Mara")
    with visitor.expect_websocket() as opened:
        visitor.locator("form[action$='/game/characters'] button").click()
    assert f"{ROOT}/game/ws" in opened.value.url
    with visitor.expect_response(lambda answer: f"{ROOT}/game/play/" in answer.url):
        visitor.locator(".exits button").first.click()

    assert visitor.goto(f"{ROOT}/shop/admin").status == 403
    visitor.goto(f"/login?name=editor&next={ROOT}/shop/admin")
    expect(visitor.get_by_role("heading", name="Shop admin")).to_be_visible()
