"""Replacing the secret of a site while it runs: the one before signs nothing, and what it signed is still valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.http.access.visitor import ANONYMOUS, Visitor, signature_of
from squinney.http.site_options import SiteOptions
from squinney.service.middleware.visitors import FLASH_COOKIE, _encode_flashes
from squinney.service.site import create_site

OLD, NEW = b"the secret before, which is long enough", b"the secret from now on, which is long enough"
TOKEN = ANONYMOUS + "a-visitor-of-the-tests"
Process = Callable[..., TestClient]


@pytest.fixture
def process(systems: assembly.Assembled) -> Iterator[Process]:
    """Return a function that starts a process of the site with these secrets."""
    _, key = systems.services["identity"]["keys"].create("tests", ["*:write"])
    with ExitStack() as stack:

        def start(secret: bytes, *earlier: bytes) -> TestClient:
            site = create_site(systems, options=SiteOptions(secret=secret, earlier_secrets=earlier))
            client = stack.enter_context(TestClient(site, follow_redirects=False))
            client.headers["Authorization"] = f"Bearer {key}"
            client.cookies.set("squinney", TOKEN)
            return client

        yield start


def accepts_form(client: TestClient, secret: bytes) -> bool:
    return client.post("/shop/cart/items", data={"csrf": Visitor(secret, TOKEN).csrf, "sku": "none"}).status_code != 403


def test_what_either_secret_signed_is_valid_and_only_the_first_signs(
    systems: assembly.Assembled, process: Process
) -> None:
    accounts = systems.services["ledger"]["accounts"]
    for _ in range(3):
        accounts.open("EUR")
    old, both, new = process(OLD), process(NEW, OLD), process(NEW)
    path = "/api/ledger/accounts?limit=1"
    by_old, by_both = (client.get(path).json()["next"] for client in (old, both))
    assert both.get(f"{path}&cursor={by_old}").status_code == 200
    assert new.get(f"{path}&cursor={by_old}").status_code == 422
    assert new.get(f"{path}&cursor={by_both}").status_code == 200, "the new secret signed it"
    assert [accepts_form(client, OLD) for client in (old, both, new)] == [True, True, False]
    assert [accepts_form(client, NEW) for client in (old, both, new)] == [False, True, True]


def test_messages_of_the_secret_before_are_shown(process: Process) -> None:
    for client, is_shown in ((process(NEW, OLD), True), (process(NEW), False)):
        client.cookies.set(FLASH_COOKIE, _encode_flashes(OLD, [{"message": "It was saved.", "kind": "good"}]))
        assert ("It was saved." in client.get("/sign-in").text) == is_shown
        client.cookies.set(FLASH_COOKIE, "e30." + signature_of(b"guessed", "flash", "e30"))
        assert client.get("/sign-in").status_code == 200


def test_a_form_that_is_sent_again_has_the_same_key_with_another_secret() -> None:
    assert Visitor(OLD, TOKEN).scope == Visitor(NEW, TOKEN).scope
    assert Visitor(OLD, TOKEN).scope != Visitor(OLD, TOKEN + "x").scope
    assert TOKEN not in Visitor(OLD, TOKEN).scope
