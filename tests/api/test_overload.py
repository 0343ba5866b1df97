"""Slow requests, expensive work and slow bodies do not delay other requests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from pymongo.errors import AutoReconnect, ExecutionTimeout, PyMongoError, WaitQueueTimeoutError
from starlette.testclient import TestClient
from tests.api.asgi import Response, call, never, within

from squinney import assembly
from squinney.clock import utcnow
from squinney.content import Viewer
from squinney.errors import Unavailable
from squinney.http.access.visitor import ANONYMOUS, SIGNED_IN, Visitor
from squinney.http.site_options import SiteOptions
from squinney.http.threads import ThreadLimit
from squinney.identity import passwords
from squinney.mongo.deadlines import RequestClock, operation, request_clock
from squinney.service.middleware import rates
from squinney.service.middleware.rates import Pace
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"
THREADS = 40  # the number of threads for pages
HTML = {"accept": "text/html"}


@pytest.fixture
def app(systems: assembly.Assembled) -> Any:
    return create_site(systems, options=SiteOptions(secret=SECRET))


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, count: int) -> Iterator[tuple[Any, Any]]:
    """Make callers of a function wait until the end of the `with`; `begun` is set when `count` of them wait."""
    go, begun, calls = threading.Event(), threading.Event(), []

    def waits(*_: Any, **__: Any) -> Any:
        calls.append(1)
        if len(calls) >= count:
            begun.set()
        go.wait(120)
        raise Unavailable("held up by a test")

    monkeypatch.setattr(where, name, waits)
    try:
        yield begun, go
    finally:
        go.set()


def while_waiting(crowd: Callable[[], list[Any]], begun: threading.Event, go: threading.Event, app: Any) -> list[Any]:
    """Return the responses of probes and of a page while the crowd waits, and then the responses to the crowd."""

    async def run() -> list[Any]:
        waiting = [asyncio.ensure_future(one) for one in crowd()]
        while not begun.is_set():
            await asyncio.sleep(0.01)
        try:
            probes = [await within(call(app, "GET", path)) for path in ("/healthz", "/readyz", "/metrics")]
            page = await within(call(app, "GET", "/sign-in", headers=HTML))
        finally:
            go.set()
        return [probes, page, await asyncio.gather(*waiting)]

    return asyncio.run(run())


def test_health_responds_while_all_page_threads_wait(
    app: Any, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, key = systems.services["identity"]["keys"].create("test", ["ledger:read"])
    headers = {"authorization": f"Bearer {key}"}
    systems.services["identity"]["keys"].find(key)

    async def probes() -> list[Response]:
        waiting = [asyncio.ensure_future(call(app, "GET", "/api/ledger/accounts", headers=headers)) for _ in range(60)]
        while not begun.is_set():
            await asyncio.sleep(0.01)
        try:
            return [await within(call(app, "GET", path)) for path in ("/healthz", "/readyz", "/metrics")]
        finally:
            go.set()
            await asyncio.gather(*waiting)

    kind = type(systems.services["ledger"]["accounts"])
    with held(monkeypatch, kind, "all", THREADS) as (begun, go):
        assert [response.status for response in asyncio.run(probes())] == [200, 200, 200]


def test_refusals_are_sent_at_a_steady_rate() -> None:
    pace = Pace(10, burst_seconds=0.3, max_wait_seconds=3)
    waits = [pace.wait_seconds(100.0) for _ in range(60)]
    assert waits[:4] == [0.0] * 4  # a small burst at once
    assert waits[4:6] == pytest.approx([0.1, 0.2])
    assert waits[-2:] == pytest.approx([3.1, 3.1])  # a refusal that waits longer than the longest is not counted
    assert pace.wait_seconds(110.0) == 0.0


def test_repeated_refusals_are_delayed(systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers with a key, successful requests and health checks do not wait."""
    app = create_site(systems, options=SiteOptions(secret=SECRET, refusals_per_second=1))
    _, key = systems.services["identity"]["keys"].create("test", ["ledger:read"])
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(rates, "sleep", sleep)

    def wait_of(path: str, **headers: str) -> tuple[int, bool]:
        before = len(waited)
        status = asyncio.run(call(app, "GET", path, headers=headers)).status
        return status, any(waited[before:])

    assert [wait_of("/nowhere") for _ in range(4)] == [(404, False), (404, True), (404, True), (404, True)]
    assert wait_of("/api/ledger/accounts") == (401, True)
    assert max(waited) == 3.0
    assert wait_of("/api/ledger/accounts/unknown", authorization=f"Bearer {key}") == (404, False)
    assert wait_of("/sign-in", **HTML) == (200, False)
    assert wait_of("/healthz") == (200, False)


def form(path: str, number: int, **fields: str) -> dict[str, Any]:
    token = ANONYMOUS + "a-visitors-token"
    body = urlencode({"csrf": Visitor(SECRET, token).csrf, **fields}).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = {
        "cookie": f"squinney={token}",
        "content-type": "application/x-www-form-urlencoded",
        "content-length": str(len(body)),
        "accept": "text/html",
    }
    return {"headers": headers, "receive": receive, "client": f"192.0.2.{number}"}


def test_many_sign_ups_use_no_thread_of_the_pages(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def crowd() -> list[Any]:
        return [
            call(app, "POST", "/sign-up", **form("/sign-up", number, login=f"p{number}", password="a long password"))
            for number in range(60)
        ]

    with held(monkeypatch, passwords, "hashed", 1) as (begun, go):
        probes, page, responses = while_waiting(crowd, begun, go, app)
    assert [response.status for response in probes] == [200, 200, 200]
    assert page.status == 200
    assert {response.status for response in responses} == {503}
    assert all(int(response.headers["retry-after"]) >= 1 for response in responses)


def test_sign_ups_per_address_are_limited(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    monkeypatch.setattr(passwords, "hashed", lambda password: hashed.append(password) or "hashed")

    async def sign_up(number: int) -> Response:
        sent = form("/sign-up", 1, login=f"p{number}", password="a long password")
        return await call(app, "POST", "/sign-up", **sent)

    async def run() -> list[Response]:
        return [await sign_up(number) for number in range(55)]

    responses = asyncio.run(run())
    assert [response.status for response in responses] == [303] * 50 + [429] * 5
    assert len(hashed) == 50, "the refused passwords were not hashed"
    assert 2 < int(responses[-1].headers["retry-after"]) <= 3_600, "the remaining time, not the default"


def signed_in(systems: assembly.Assembled) -> dict[str, str]:
    admin = {"_id": "admin", "login": "admin", "name": "Admin", "role": "admin", "created_at": utcnow()}
    systems.db["identity.people"].insert_one(admin)
    token = SIGNED_IN + systems.services["identity"]["sessions"].start(admin)
    return {"cookie": f"squinney={token}", "x-csrf-token": Visitor(SECRET, token).csrf}


def test_stalled_uploads_use_no_thread_of_the_pages(systems: assembly.Assembled) -> None:
    app = create_site(systems, options=SiteOptions(secret=SECRET, body_seconds=1))
    nodes, author = systems.services["content"]["nodes"], {"_id": "admin", "name": "Admin"}
    parent = nodes.create(None, "pictures", "gallery", "Pictures", author, viewer=Viewer("admin", ("admin",)))["_id"]
    headers = {**signed_in(systems), "content-length": "1000", "content-type": "image/png"}

    async def run() -> tuple[Response, list[Response]]:
        uploads = [
            asyncio.ensure_future(
                call(app, "POST", f"/site/-/upload?parent={parent}&slug=p{number}", headers=headers, receive=never)
            )
            for number in range(50)
        ]
        await asyncio.wait(uploads, return_when=asyncio.FIRST_COMPLETED)  # the uploads beyond the limit
        page = await within(call(app, "GET", "/", headers=HTML))
        done = [one.result() for one in uploads if one.done()]
        await asyncio.wait(uploads)  # until each has timed out, because ending the loop earlier would interrupt threads
        return page, done

    page, refused = asyncio.run(run())
    assert page.status == 200
    assert {response.status for response in refused} in ({503}, {503, 408})


def test_missing_bodies_do_not_block_other_requests(systems: assembly.Assembled) -> None:
    options = SiteOptions(secret=SECRET, max_waiting=5, max_sending=8, max_sending_per_address=6)
    app = create_site(systems, options=options)
    headers = {"content-length": "100", "content-type": "application/x-www-form-urlencoded"}

    async def run() -> list[Response]:
        slow = [
            asyncio.ensure_future(call(app, "POST", "/sign-in", headers=headers, receive=never, client="192.0.2.9"))
            for _ in range(6)
        ]
        await asyncio.sleep(0)
        same = await within(call(app, "POST", "/sign-in", headers=headers, receive=never, client="192.0.2.9"))
        page = await within(call(app, "GET", "/", headers=HTML))
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        after = await within(call(app, "GET", "/", headers=HTML))
        return [same, page, after]

    same, page, after = asyncio.run(run())
    assert same.status == 503
    assert b"too many bodies" in same.body
    assert page.status == after.status == 200


def test_work_beyond_its_limit_is_refused() -> None:
    go, begun = threading.Event(), threading.Event()

    def compute() -> str:
        begun.set()
        go.wait(120)
        return "done"

    async def run() -> tuple[list[str], list[Unavailable]]:
        work = ThreadLimit("computing", at_once=1, max_waiting=1, wait_seconds=60)
        first = asyncio.ensure_future(work.run(compute))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        second = asyncio.ensure_future(work.run(compute))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as full:
            await asyncio.wait_for(work.run(compute), 10)  # at once, without waiting for a free thread
        impatient = ThreadLimit("computing", at_once=1, max_waiting=9, wait_seconds=0.01)
        blocking = asyncio.ensure_future(impatient.run(compute))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as late:
            await impatient.run(compute)
        go.set()
        return [await first, await second, await blocking], [full.value, late.value]

    done, refused = asyncio.run(run())
    assert done == ["done"] * 3
    assert all(error.details["retry_after_seconds"] >= 1 for error in refused)


# ---- time limits ----


def test_operations_of_one_request_share_one_time_limit() -> None:
    token = request_clock.set(RequestClock(time.monotonic() - 9))
    try:
        with operation(10), pytest.raises(Unavailable, match="too long"), operation(8):
            pass
        with pytest.raises(Unavailable, match="too long"), operation(5, reads_only=True):
            pass
    finally:
        request_clock.reset(token)
    with operation(5):
        pass


def test_queries_after_a_timeout_get_no_new_time_limit(
    app: Any, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    queried = []

    def too_slow(*_: Any, **__: Any) -> None:
        clock = request_clock.get()
        assert clock
        assert clock.began
        clock.began -= 10  # as if the call had waited for 10 seconds
        raise Unavailable("MongoDB took too long to answer")

    services = systems.services["commerce"]
    monkeypatch.setattr(type(services["catalog"]), "find", too_slow)
    collection = type(systems.db["commerce.categories"])
    real = collection.find

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        queried.append(self.name)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(collection, "find", recorded)
    response = asyncio.run(call(app, "GET", "/shop", headers=HTML))
    assert response.status == 503
    assert response.headers["retry-after"]
    assert queried == []


def test_each_chunk_of_a_stream_has_its_own_time_limit(app: Any) -> None:
    from fastapi.responses import StreamingResponse

    clocks = []

    async def pieces() -> AsyncIterator[bytes]:
        clocks.append(request_clock.get())
        yield b"a piece"

    app.router.routes.insert(0, _route("/stream", lambda: StreamingResponse(pieces())))
    assert asyncio.run(call(app, "GET", "/stream")).body == b"a piece"
    assert clocks == [RequestClock(None)]


def test_a_slow_query_does_not_count_as_an_outage(
    app: Any, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request is served, unless the connection to the server was lost."""
    catalog = type(systems.services["commerce"]["catalog"])

    def statuses(error: PyMongoError) -> list[int]:
        def fails(*_: Any, **__: Any) -> None:
            raise Unavailable("MongoDB took too long to answer") from error

        with monkeypatch.context() as patched:
            patched.setattr(catalog, "find", fails)
            first = asyncio.run(call(app, "GET", "/shop", headers=HTML)).status
        return [first, asyncio.run(call(app, "GET", "/sign-in", headers=HTML)).status]

    assert statuses(ExecutionTimeout("too slow", 50)) == [503, 200]
    assert statuses(WaitQueueTimeoutError("no connection is free")) == [503, 200]
    assert statuses(AutoReconnect("gone")) == [503, 503]


@pytest.mark.parametrize(("kilobytes", "status"), [(120, 422), (129, 413)])
def test_a_long_form_is_refused_before_it_is_parsed(app: Any, kilobytes: int, status: int) -> None:
    """Parsing a form blocks the event loop; the status 422 shows that the form was parsed."""
    fields = form("/sign-up", 1, login="x", password="p" * (kilobytes << 10))
    response = asyncio.run(call(app, "POST", "/sign-up", **fields))
    assert response.status == status


def test_every_503_has_a_retry_after_header(app: Any, systems: assembly.Assembled) -> None:
    from fastapi.responses import PlainTextResponse

    app.router.routes.insert(0, _route("/plain", lambda: PlainTextResponse("no", status_code=503)))
    with TestClient(app) as client:
        assert client.get("/plain").headers["retry-after"] == "2"


def _route(path: str, endpoint: Callable[[], Any]) -> Any:
    from fastapi.routing import APIRoute

    return APIRoute(path, endpoint)
