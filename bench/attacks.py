"""What attackers cost everybody else: a visitor loads pages while others sign up, stand still or have much rendered.

Quiet and attacked rounds follow each other, so that only their ratio counts; a round's visitor never pauses. The
attackers are a process of their own: what the visitor waits for must be the service.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

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
Stopped = Callable[[], bool]


@dataclass
class Browser:
    """A visitor with a cookie and the token for forms."""

    url: str
    cookie: str = ""
    csrf: str = ""
    gallery: str = ""

    def connect(self) -> http.client.HTTPConnection:
        """A connection of its own."""
        place = urlsplit(self.url)
        return http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)

    def get(self, path: str) -> str:
        """A page; its cookie and token are kept."""
        return self._ask("GET", path, None, {"Accept": "text/html", "Cookie": self.cookie})[1]

    def post(self, path: str, **form: str) -> int:
        """A form; the answer's status."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": self.cookie}
        return self._ask("POST", path, urlencode({"csrf": self.csrf, **form}), headers)[0]

    def _ask(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> tuple[int, str]:
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie" and value.startswith("squinney="):
                self.cookie = value.partition(";")[0]
        if found := re.search(r'name="csrf" content="([^"]+)"|name="csrf" value="([^"]+)"', text):
            self.csrf = found[1] or found[2]
        return answer.status, text


def quiet(url: str, member: Browser, stopped: Stopped) -> None:
    """Nobody else is there."""


def sign_ups(url: str, member: Browser, stopped: Stopped) -> None:
    """A crowd signs up, each as soon as the one before is answered."""

    def sign_up(number: int) -> None:
        stranger = Browser(url)
        stranger.get("/sign-up")
        while not stopped():
            stranger.post("/sign-up", login=secrets.token_hex(8), password=secrets.token_hex(8))

    _crowd(SIGN_UPS, sign_up)


def idle_uploads(url: str, member: Browser, stopped: Stopped) -> None:
    """Uploads that are announced, and whose bytes never come."""

    def stand_still(number: int) -> None:
        while not stopped():
            with announced_upload(member) as line:
                while not stopped():
                    try:
                        if not line.recv(1_000):
                            break
                    except TimeoutError:
                        continue

    _crowd(IDLE, stand_still)


def announced_upload(member: Browser) -> socket.socket:
    """A line on which an upload has begun and goes no further."""
    place = urlsplit(member.url)
    slug = secrets.token_hex(4)
    head = (
        f"POST /site/-/upload?parent={member.gallery}&slug={slug} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        f"Cookie: {member.cookie}\r\nX-CSRF-Token: {member.csrf}\r\n"
        "Content-Type: image/png\r\nContent-Length: 1000000\r\n\r\n"
    )
    line = socket.create_connection((place.hostname, place.port), timeout=60)
    line.sendall(head.encode())
    line.settimeout(0.5)
    return line


def require_waiting(member: Browser) -> None:
    """An upload that is refused at once would attack nobody."""
    with announced_upload(member) as line:
        try:
            raise AssertionError(f"the upload did not wait: {line.recv(1_000)!r}")
        except TimeoutError:
            return


def previews(url: str, member: Browser, stopped: Stopped) -> None:
    """A member has ten large tables rendered, over and over, twenty times at once."""

    def preview(number: int) -> None:
        browser = Browser(url, member.cookie, member.csrf)
        while not stopped():
            browser.post("/site/-/preview", text=f"{number} {secrets.token_hex(4)}\n\n{TABLES}")

    _crowd(PREVIEWS, preview)


ATTACKS = {"sign-ups": sign_ups, "idle uploads": idle_uploads, "previews": previews}


def _crowd(size: int, one: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(size) as pool:
        for done in [pool.submit(_forgiving, one, number) for number in range(size)]:
            done.result()


def _forgiving(one: Callable[[int], None], number: int) -> None:
    """An attacker who is thrown out has had what was to be measured."""
    try:
        one(number)
    except (OSError, http.client.HTTPException):
        return


def visit(url: str, seconds: float) -> list[float]:
    """How long each page took, in milliseconds; whatever is refused is not a page."""
    browser, took, until = Browser(url), [], time.monotonic() + seconds
    while time.monotonic() < until:
        for path in PAGES:
            began = time.perf_counter()
            status, _ = browser._ask("GET", path, None, {"Accept": "text/html"})
            took.append((time.perf_counter() - began) * 1000)
            assert status == 200, f"{path}: {status}"
    return took


def measure(url: str, member: Browser, attack: Callable[..., None], seconds: float) -> list[float]:
    """A visitor's page loads beside an attack."""
    context = multiprocessing.get_context("spawn")
    begun, over = context.Event(), context.Event()
    attacker = context.Process(target=_attack, args=(attack, url, member, begun, over))
    attacker.start()
    try:
        begun.wait(60)
        return visit(url, seconds)
    finally:
        over.set()
        attacker.join(120)


def _attack(attack: Callable[..., None], url: str, member: Browser, begun: Any, over: Any) -> None:
    begun.set()
    attack(url, member, over.is_set)


def editor(url: str, db: Db) -> Browser:
    """Somebody who may preview and upload, and has a gallery."""
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


def p99(took: list[float]) -> float:
    """The slowest but one in a hundred."""
    return statistics.quantiles(took, n=100)[98]


def run(connection: Connection, *, rounds: int = 3, seconds: float = 4.0) -> None:
    """Print the visitor's p99 beside each attack, and how much that is of quiet."""
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    connection.client.drop_database(NAME)
    db = connection.client[NAME]
    schema.apply(db, assembly.collections())
    assembly.load_demo(db)
    environment = {"SQUINNEY_SECRET": secrets.token_hex(32), "SQUINNEY_RATE_PER_ADDRESS": "0", "PORT": "0"}
    serve = ["-m", "squinney.service.commands.main", "--uri", uri, "--database", NAME, "serve", "--no-demo"]
    took: dict[str, list[float]] = {"quiet": [], **{name: [] for name in ATTACKS}}
    with served(serve, environment) as (url, _):
        member = editor(url, db)
        require_waiting(member)
        visit(url, 1)  # what is made once is made
        for _round in range(rounds):
            for name, attack in ATTACKS.items():
                took["quiet"] += measure(url, member, quiet, seconds / 2)
                took[name] += measure(url, member, attack, seconds)
    connection.client.drop_database(NAME)
    for name, times in took.items():
        ratio = p99(times) / p99(took["quiet"])
        verdict = "" if ratio <= AIM else f"  more than {AIM:g}x"
        print(
            f"{name:>14}: {len(times):5} pages, p99 {p99(times):8.1f} ms, {ratio:5.1f}x of quiet{verdict}", flush=True
        )
