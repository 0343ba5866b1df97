"""Behind a proxy: whose forwarded headers are trusted."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.api.asgi import Response, call

from squinney import assembly
from squinney.errors import Invalid
from squinney.http.access.visitor import ANONYMOUS, Visitor
from squinney.http.site_options import SiteOptions
from squinney.service.site import create_site
from squinney.settings import Settings

SECRET = b"the secret of the tests, long enough"
FORWARDED = {"x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https", "x-forwarded-host": "shop.example"}


def site(systems: assembly.Assembled, *trusted: str) -> Any:
    return create_site(systems, options=SiteOptions(secret=SECRET, trusted_proxies=trusted))


def guess(app: Any, client: str, **headers: str) -> Response:
    """Send a wrong password, as a browser behind the proxy does."""
    token = ANONYMOUS + "a-visitors-token"
    sent = {"csrf": Visitor(SECRET, token).csrf, "login": "ada", "password": "a wrong password"}
    body = urlencode(sent).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    given = {
        "cookie": f"squinney={token}",
        "content-type": "application/x-www-form-urlencoded",
        "content-length": str(len(body)),
        **headers,
    }
    return asyncio.run(call(app, "POST", "/sign-in", headers=given, receive=receive, client=client))


@pytest.mark.parametrize("trusted", [(), ("10.0.0.0/8",)])
def test_an_untrusted_forwarded_address_does_not_evade_the_throttle(
    systems: assembly.Assembled, trusted: tuple[str, ...]
) -> None:
    app = site(systems, *trusted)
    statuses = [guess(app, "127.0.0.1", **{"x-forwarded-for": f"203.0.113.{number}"}).status for number in range(12)]
    assert statuses == [401] * 10 + [429] * 2


def test_callers_behind_a_trusted_proxy_are_throttled_separately(systems: assembly.Assembled) -> None:
    app = site(systems, "10.0.0.0/8")
    for _ in range(11):
        last = guess(app, "10.1.2.3", **{"x-forwarded-for": "198.51.100.1, 203.0.113.7"})
    assert last.status == 429
    assert 1 <= int(last.headers["retry-after"]) <= 900
    assert guess(app, "10.1.2.3", **{"x-forwarded-for": "198.51.100.1, 203.0.113.8"}).status == 401


def test_behind_a_trusted_proxy_cookies_are_secure_and_the_outer_host_is_accepted(
    systems: assembly.Assembled,
) -> None:
    inner = {**FORWARDED, "host": "backend:8080"}
    proxied = asyncio.run(call(site(systems, "10.0.0.1"), "GET", "/sign-in", headers=inner, client="10.0.0.1"))
    assert "; Secure" in proxied.headers["set-cookie"]
    assert guess(site(systems, "10.0.0.1"), "10.0.0.1", origin="https://shop.example", **inner).status == 401
    for trusted, client in [((), "10.0.0.1"), (("10.0.0.1",), "10.0.0.2")]:
        app = site(systems, *trusted)
        direct = asyncio.run(call(app, "GET", "/sign-in", headers=inner, client=client))
        assert "; Secure" not in direct.headers["set-cookie"]
        assert guess(app, client, origin="https://shop.example", **inner).status == 403


@pytest.mark.parametrize("trusted", ["*", "nonsense"])
def test_a_proxy_that_is_neither_address_nor_network_is_refused_in_code_too(
    systems: assembly.Assembled, trusted: str
) -> None:
    app = site(systems, trusted)
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 network"):
        guess(app, "198.51.100.9")


def test_the_setting_accepts_addresses_and_networks() -> None:
    settings = Settings.from_environment({"SQUINNEY_TRUSTED_PROXIES": "127.0.0.1, 10.0.0.0/8,::1"})
    assert settings.trusted_proxies == ("127.0.0.1", "10.0.0.0/8", "::1")
    assert Settings.from_environment({}).trusted_proxies == ()
    for wrong in ("proxy.example", "10.0.0.1/8", "*", "127.0.0.1,,::1"):
        with pytest.raises(Invalid, match="SQUINNEY_TRUSTED_PROXIES"):
            Settings.from_environment({"SQUINNEY_TRUSTED_PROXIES": wrong})


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", [], 400), ("1.1", ["a", "a"], 400), ("1.1", ["a", "b"], 400), ("1.1", ["a"], 200), ("1.0", [], 200)],
)
def test_a_request_names_exactly_one_host(
    systems: assembly.Assembled, version: str, hosts: list[str], status: int
) -> None:
    scope = {
        "type": "http",
        "http_version": version,
        "method": "GET",
        "scheme": "http",
        "path": "/sign-in",
        "raw_path": b"/sign-in",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", host.encode()) for host in hosts],
        "client": ("192.0.2.1", 1),
        "server": ("testserver", 80),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(site(systems)(scope, receive, send))
    assert sent[0]["status"] == status


def test_metrics_are_for_those_allowed(systems: assembly.Assembled) -> None:
    """Behind a proxy the address is the one that it forwards."""
    options = SiteOptions(secret=SECRET, trusted_proxies=["10.0.0.0/8"], metrics_from=["127.0.0.1", "192.168.0.0/16"])
    app = create_site(systems, options=options)

    def status(client: str, **headers: str) -> int:
        return asyncio.run(call(app, "GET", "/metrics", headers=headers, client=client)).status

    assert status("127.0.0.1") == status("192.168.3.4") == 200
    assert status("203.0.113.7") == status("10.1.2.3", **{"x-forwarded-for": "203.0.113.7"}) == 403
    assert status("10.1.2.3", **{"x-forwarded-for": "192.168.3.4"}) == 200
