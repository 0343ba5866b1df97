"""Page loads of a visitor during attacks: many sign-ups, uploads that never send their bytes, and expensive previews.

Quiet and attacked rounds alternate, and only their ratio is compared; the visitor never pauses. The attackers run in a
separate process, which is also started in quiet rounds, and each attacker has its own address. That process has the
lowest priority: real attackers have their own machines, but here they share the machine of the service.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import re
import secrets
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from bench import report
from bench.http import served
from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

NAME = "bench_attacks"
AIM = 3.0
PAGES = ("/shop", "/", "/healthz")
SIGN_UPS, IDLE, PREVIEWS = 60, 45, 20
TABLES = ("|a" * 300 + "\n" + "|-" * 300 + "\n" + "x\n" * 219 + "\n") * 10


MAX_TABLE = "|a" * 20 + "\n" + "|-" * 20 + "\n" + "|x" * 20 + "\n" + "x\n" * 235


@dataclass
class Browser:
    """A visitor with a cookie and the token for forms."""

    url: str
    cookie: str = ""
    csrf: str = ""
    gallery: str = ""
    address: str = "127.0.0.1"

    def connect(self) -> http.client.HTTPConnection:
        """Open a new connection from this browser's address."""
        host = urlsplit(self.url)
        return http.client.HTTPConnection(host.hostname or "", host.port, timeout=60, source_address=(self.address, 0))

    def get(self, path: str) -> str:
        """Return a page, and keep its cookie and token."""
        return self.request("GET", path, None, {"Accept": "text/html", "Cookie": self.cookie})[1]

    def post(self, path: str, **form: str) -> int:
        """Send a form, and return the status of the response."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": self.cookie}
        return self.request("POST", path, urlencode({"csrf": self.csrf, **form}), headers)[0]

    def request(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> tuple[int, str]:
        """Return the status and the text of a response, and keep its cookie and token."""
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
        for name, value in response.getheaders():
            if name.lower() == "set-cookie" and value.startswith("squinney="):
                self.cookie = value.partition(";")[0]
        if token := re.search(r'name="csrf" content="([^"]+)"|name="csrf" value="([^"]+)"', text):
            self.csrf = token[1] or token[2]
        return response.status, text


def sign_ups(member: Browser, number: int) -> Iterator[str]:
    """Sign up as a new user, again after each response."""
    while True:
        stranger = Browser(member.url, address=address_of(number))
        stranger.get("/sign-up")
        status = 0
        while status != 303:
            status = stranger.post("/sign-up", login=secrets.token_hex(8), password=secrets.token_hex(8))
            yield str(status)


def idle_uploads(member: Browser, number: int) -> Iterator[str]:
    """Start uploads whose bytes are never sent."""
    while True:
        with announced_upload(member, address_of(number)) as connection:
            response = None
            while response is None:
                try:
                    response = connection.recv(1_000)
                except TimeoutError:
                    yield ""
            yield response[9:12].decode() or "closed"


def announced_upload(member: Browser, address: str) -> socket.socket:
    """Return a connection that has sent the headers of an upload, and nothing more."""
    host = urlsplit(member.url)
    slug = secrets.token_hex(4)
    head = (
        f"POST /site/-/upload?parent={member.gallery}&slug={slug} HTTP/1.1\r\nHost: {host.netloc}\r\n"
        f"Cookie: {member.cookie}\r\nX-CSRF-Token: {member.csrf}\r\n"
        "Content-Type: image/png\r\nContent-Length: 1000000\r\n\r\n"
    )
    connection = socket.create_connection((host.hostname, host.port), timeout=60, source_address=(address, 0))
    connection.sendall(head.encode())
    connection.settimeout(0.5)
    return connection


def require_waiting(member: Browser) -> None:
    """Check that the service waits for an upload's bytes: an upload that is refused at once would be no attack."""
    with announced_upload(member, address_of(0)) as connection:
        try:
            raise AssertionError(f"the service did not wait for the upload: {connection.recv(1_000)!r}")
        except TimeoutError:
            return


def previews(member: Browser, number: int) -> Iterator[str]:
    """Request the preview of ten large tables, again after each response."""
    browser = Browser(member.url, member.cookie, member.csrf, address=address_of(number))
    while True:
        yield str(browser.post("/site/-/preview", text=f"{number} {secrets.token_hex(4)}\n\n{TABLES}"))


def costly_previews(member: Browser, number: int) -> Iterator[str]:
    """Request the preview of the largest table that is allowed, again after each response."""
    browser = Browser(member.url, member.cookie, member.csrf, address=address_of(number))
    while True:
        yield str(browser.post("/site/-/preview", text=f"{number} {secrets.token_hex(4)}\n\n{MAX_TABLE}"))


Attack = Callable[[Browser, int], Iterator[str]]  # yields the status of each response, or "" to let the caller stop
ATTACKS: dict[str, tuple[int, Attack]] = {
    "sign-ups": (SIGN_UPS, sign_ups),
    "idle uploads": (IDLE, idle_uploads),
    "previews": (PREVIEWS, previews),
    "costly previews": (PREVIEWS, costly_previews),
}


def address_of(number: int) -> str:
    """Return the address of an attacker; all of 127.0.0.0/8 is this machine."""
    return f"127.0.1.{number + 1}"


def _attackers(name: str, member: Browser, ready: Any, go: Any, over: Any, statuses: Any) -> None:
    """Run the attackers of one kind in this process: wait for `go`, attack until `over`, and report the statuses."""
    os.nice(19)
    size, attack = ATTACKS[name]
    counted: Counter[str] = Counter()

    def attacker(number: int) -> None:
        go.wait()
        while not over.is_set():
            try:
                for status in attack(member, number):
                    counted[status] += bool(status)
                    if over.is_set():
                        return
            except (OSError, http.client.HTTPException) as error:
                counted[type(error).__name__] += 1

    with ThreadPoolExecutor(size) as pool:
        running = [pool.submit(attacker, number) for number in range(size)]
        ready.set()
        for request in running:
            request.result()
    statuses.put(+counted)


def visit(url: str, seconds: float) -> list[float]:
    """Load the pages in turn, and return the time of each in milliseconds; a refused page is an error."""
    browser, times, until = Browser(url), [], time.monotonic() + seconds
    while time.monotonic() < until:
        for path in PAGES:
            started = time.perf_counter()
            status, _ = browser.request("GET", path, None, {"Accept": "text/html"})
            times.append((time.perf_counter() - started) * 1000)
            assert status == 200, f"{path}: {status}"
    return times


@dataclass
class Measured:
    """The times of a visitor's page loads without and with an attack, and the statuses that the attackers received."""

    quiet: list[float] = field(default_factory=list)
    attacked: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def ratio(self) -> float:
        """The p99 under attack divided by the quiet p99."""
        return p99(self.attacked) / p99(self.quiet)


def measure(member: Browser, name: str, seconds: float, into: Measured) -> None:
    """Measure one round: quiet, then attacked."""
    context = multiprocessing.get_context("spawn")
    ready, go, over, statuses = context.Event(), context.Event(), context.Event(), context.Queue()
    attackers = context.Process(target=_attackers, args=(name, member, ready, go, over, statuses))
    attackers.start()
    try:
        assert ready.wait(60)
        into.quiet += visit(member.url, seconds)
        go.set()
        into.attacked += visit(member.url, seconds)
    finally:
        go.set()
        over.set()
        into.statuses += statuses.get(timeout=60)
        attackers.join(60)


def editor(url: str, db: Db) -> Browser:
    """Return the browser of a new user who may preview and upload, and who has a gallery."""
    member = Browser(url)
    member.get("/sign-up")
    member.post("/sign-up", login="mallory", password=secrets.token_hex(8))
    services = assembly.assemble(db).services
    people = services["identity"]["people"]
    person = people.set_role(people.by_login("mallory")["_id"], "editor")
    author = {"_id": person["_id"], "name": "Mallory"}
    gallery = services["content"]["nodes"].create(None, "attacked", "gallery", "Attacked", author, {"text": ""})
    member.gallery = gallery["_id"]
    member.get("/account")
    return member


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(times, n=100)[98]


def run(connection: Connection, *, rounds: int = 2, seconds: float = 4.0) -> None:
    """Measure and write the page."""
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    connection.client.drop_database(NAME)
    db = connection.client[NAME]
    schema.apply(db, assembly.collections())
    assembly.load_demo(db)
    environment = {"SQUINNEY_SECRET": secrets.token_hex(32), "SQUINNEY_RATE_PER_ADDRESS": "0", "PORT": "0"}
    serve = ["-m", "squinney.service.commands.main", "--uri", uri, "--database", NAME, "serve", "--no-demo"]
    measured = {name: Measured() for name in ATTACKS}
    with served(serve, environment) as (url, _):
        member = editor(url, db)
        require_waiting(member)
        visit(url, 2)  # fill the caches
        for _round in range(rounds):
            for name in ATTACKS:
                measure(member, name, seconds, measured[name])
    connection.client.drop_database(NAME)
    _write(measured, rounds, seconds, connection.client.admin.command("buildInfo")["version"])


def _write(measured: dict[str, Measured], rounds: int, seconds: float, version: str) -> None:
    rows = [
        [
            f"{ATTACKS[name][0]} x {name}",
            ", ".join(f"{count} x {status}" for status, count in sorted(attack.statuses.items())) or "none",
            f"{len(attack.quiet)} / {len(attack.attacked)}",
            f"{statistics.median(attack.quiet):.1f} / {statistics.median(attack.attacked):.1f}",
            f"{p99(attack.quiet):.1f} / {p99(attack.attacked):.1f}",
            f"{attack.ratio:.1f}x",
        ]
        for name, attack in measured.items()
    ]
    above = [name for name, attack in measured.items() if attack.ratio > AIM]
    head = ["attackers", "their responses", "pages quiet / attacked", "median ms", "p99 ms", "p99 ratio"]
    parts = [
        f"A visitor loads {', '.join(f'`{path}`' for path in PAGES)} in turn, {rounds} times {seconds:g} s quiet and "
        f"{seconds:g} s during each attack. The goal is a p99 of at most {AIM:g} times the quiet one. One process of "
        "`squinney serve` runs without rate limits by address. Everything runs on the same machine; the attackers' "
        "process has the lowest priority, and each attacker has its own address. The attackers sign up again after "
        "each response, start uploads whose bytes are never sent, or request previews of ten large tables, which are "
        "refused, or of one table of the largest size allowed.",
        report.table(head, rows),
        f"Above the goal: {', '.join(above) or 'none'}.",
        report.machine(version),
    ]
    report.write_page("attacks", "What attackers cost a visitor", parts)
    print("\n\n".join(parts), flush=True)
