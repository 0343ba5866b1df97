"""What attackers cost everybody else: a visitor loads pages while others sign up, stand still or have much rendered.

Quiet and attacked rounds follow each other, so that only their ratio counts; a round's visitor never pauses. The
attackers are a process of their own, started in quiet rounds too, and each comes from an address of its own. Their
process gives way to the others: attackers have machines of their own, here they share the service's.
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


LARGEST_TABLE = "|a" * 20 + "\n" + "|-" * 20 + "\n" + "|x" * 20 + "\n" + "x\n" * 235


@dataclass
class Browser:
    """A visitor with a cookie and the token for forms."""

    url: str
    cookie: str = ""
    csrf: str = ""
    gallery: str = ""
    address: str = "127.0.0.1"

    def connect(self) -> http.client.HTTPConnection:
        """A connection of its own."""
        place = urlsplit(self.url)
        return http.client.HTTPConnection(
            place.hostname or "", place.port, timeout=60, source_address=(self.address, 0)
        )

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


def sign_ups(member: Browser, number: int) -> Iterator[str]:
    """A stranger signs up, again as soon as that is answered."""
    while True:
        stranger = Browser(member.url, address=address_of(number))
        stranger.get("/sign-up")
        status = 0
        while status != 303:
            status = stranger.post("/sign-up", login=secrets.token_hex(8), password=secrets.token_hex(8))
            yield str(status)


def idle_uploads(member: Browser, number: int) -> Iterator[str]:
    """Uploads that are announced, and whose bytes never come."""
    while True:
        with announced_upload(member, address_of(number)) as line:
            answered = None
            while answered is None:
                try:
                    answered = line.recv(1_000)
                except TimeoutError:
                    yield ""
            yield answered[9:12].decode() or "closed"


def announced_upload(member: Browser, address: str) -> socket.socket:
    """A line on which an upload has begun and goes no further."""
    place = urlsplit(member.url)
    slug = secrets.token_hex(4)
    head = (
        f"POST /site/-/upload?parent={member.gallery}&slug={slug} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        f"Cookie: {member.cookie}\r\nX-CSRF-Token: {member.csrf}\r\n"
        "Content-Type: image/png\r\nContent-Length: 1000000\r\n\r\n"
    )
    line = socket.create_connection((place.hostname, place.port), timeout=60, source_address=(address, 0))
    line.sendall(head.encode())
    line.settimeout(0.5)
    return line


def require_waiting(member: Browser) -> None:
    """An upload that is refused at once would attack nobody."""
    with announced_upload(member, address_of(0)) as line:
        try:
            raise AssertionError(f"the upload did not wait: {line.recv(1_000)!r}")
        except TimeoutError:
            return


def previews(member: Browser, number: int) -> Iterator[str]:
    """A member has ten large tables rendered, over and over."""
    browser = Browser(member.url, member.cookie, member.csrf, address=address_of(number))
    while True:
        yield str(browser.post("/site/-/preview", text=f"{number} {secrets.token_hex(4)}\n\n{TABLES}"))


def costly_previews(member: Browser, number: int) -> Iterator[str]:
    """The same with as much as is rendered at all."""
    browser = Browser(member.url, member.cookie, member.csrf, address=address_of(number))
    while True:
        yield str(browser.post("/site/-/preview", text=f"{number} {secrets.token_hex(4)}\n\n{LARGEST_TABLE}"))


Attack = Callable[[Browser, int], Iterator[str]]  # gives the status of each answer, or nothing to look at the clock
ATTACKS: dict[str, tuple[int, Attack]] = {
    "sign-ups": (SIGN_UPS, sign_ups),
    "idle uploads": (IDLE, idle_uploads),
    "previews": (PREVIEWS, previews),
    "costly previews": (PREVIEWS, costly_previews),
}


def address_of(number: int) -> str:
    """Where an attacker comes from: the whole of 127.0.0.0/8 is this machine."""
    return f"127.0.1.{number + 1}"


def _attackers(name: str, member: Browser, ready: Any, go: Any, over: Any, answers: Any) -> None:
    """The process of a crowd: ready, then idle until told to go."""
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
        for one in running:
            one.result()
    answers.put(+counted)


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


@dataclass
class Measured:
    """A visitor's page loads without and with an attack, and what the attackers were answered."""

    quiet: list[float] = field(default_factory=list)
    attacked: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    @property
    def ratio(self) -> float:
        """How many times as long the slowest but one in a hundred takes."""
        return p99(self.attacked) / p99(self.quiet)


def measure(member: Browser, name: str, seconds: float, into: Measured) -> None:
    """One round: quiet, then attacked."""
    context = multiprocessing.get_context("spawn")
    ready, go, over, answers = context.Event(), context.Event(), context.Event(), context.Queue()
    attackers = context.Process(target=_attackers, args=(name, member, ready, go, over, answers))
    attackers.start()
    try:
        assert ready.wait(60)
        into.quiet += visit(member.url, seconds)
        go.set()
        into.attacked += visit(member.url, seconds)
    finally:
        go.set()
        over.set()
        into.answers += answers.get(timeout=60)
        attackers.join(60)


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
        visit(url, 2)  # what is made once is made
        for _round in range(rounds):
            for name in ATTACKS:
                measure(member, name, seconds, measured[name])
    connection.client.drop_database(NAME)
    _write(measured, rounds, seconds, connection.client.admin.command("buildInfo")["version"])


def _write(measured: dict[str, Measured], rounds: int, seconds: float, version: str) -> None:
    rows = [
        [
            f"{ATTACKS[name][0]} x {name}",
            ", ".join(f"{count} x {status}" for status, count in sorted(one.answers.items())) or "none",
            f"{len(one.quiet)} / {len(one.attacked)}",
            f"{statistics.median(one.quiet):.1f} / {statistics.median(one.attacked):.1f}",
            f"{p99(one.quiet):.1f} / {p99(one.attacked):.1f}",
            f"{one.ratio:.1f}x",
        ]
        for name, one in measured.items()
    ]
    above = [name for name, one in measured.items() if one.ratio > AIM]
    head = ["attackers", "their answers", "pages quiet / attacked", "median ms", "p99 ms", "p99 ratio"]
    parts = [
        f"A visitor loads {', '.join(f'`{path}`' for path in PAGES)} over and over, {rounds} times {seconds:g} s quiet "
        f"and {seconds:g} s beside each attack. The aim is a p99 of at most {AIM:g} times the quiet one. One process "
        "of `squinney serve` with limits by address switched off; all run on the same machine, the attackers' process "
        "with the lowest priority, each attacker from an address of its own. Attackers: strangers who sign up again "
        "as soon as they are answered; uploads that are announced and whose bytes never come; a member who has ten "
        "large tables rendered, which is refused, or one that is as large as is allowed.",
        report.table(head, rows),
        f"Above the aim: {', '.join(above) or 'none'}.",
        report.machine(version),
    ]
    report.write_page("attacks", "What attackers cost a visitor", parts)
    print("\n\n".join(parts), flush=True)
