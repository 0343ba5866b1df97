"""The configuration of nginx in the documentation, pasted into Debian's nginx before two real processes."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import MongoClient
from tests.serving import Serving
from websockets.sync.client import connect

from squinney import assembly
from squinney.game import World
from squinney.identity import People
from squinney.mongo.schema import Db, Document, apply

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
PASSWORD = "a long password of Ada"
AROUND = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{ access_log off; {paths} include {folder}/site.conf; }}
"""
PATHS = "".join(
    f"{kind}_temp_path {{folder}}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
)


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    """Skip the tests without nginx, or fail them if SQUINNEY_REQUIRE contains `nginx`."""
    if not (NGINX and shutil.which("openssl")):
        if "nginx" in os.environ.get("SQUINNEY_REQUIRE", ""):
            pytest.fail("the tests of the nginx configuration must run, but nginx or openssl is not installed")
        pytest.skip("nginx or openssl is not installed")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def db(client: MongoClient[Document]) -> Iterator[Db]:
    """The database of both tests."""
    db = client[f"test_{secrets.token_hex(8)}"]
    apply(db, assembly.collections())
    yield db
    client.drop_database(db.name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


@pytest.fixture(scope="module")
def processes(db: Db, mongod: Any, folder: Path) -> Iterator[list[Serving]]:
    """Two processes on one database, which know that nginx is their proxy."""
    environment = {
        "MONGODB_URI": mongod.uri,
        "SQUINNEY_DATABASE": db.name,
        "SQUINNEY_SECRET": "the secret of the tests, long enough",
        "SQUINNEY_TRUSTED_PROXIES": "127.0.0.1",
        "SQUINNEY_RATE_PER_ADDRESS": "0",
        "SQUINNEY_DRAIN_SECONDS": "1",
    }
    with (
        Serving(folder / "a", "--no-demo", **environment) as a,
        Serving(folder / "b", "--no-demo", **environment) as b,
    ):
        yield [a, b]


@pytest.fixture(scope="module")
def proxy(processes: list[Serving], folder: Path) -> Iterator[int]:
    """The port of nginx, with the documented configuration: only its ports, paths and name are replaced."""
    port = free_port()
    certificate = ["-keyout", str(folder / "key"), "-out", str(folder / "pem"), "-subj", "/CN=localhost", "-days", "1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *certificate]
    subprocess.run(made, check=True, capture_output=True)
    site = CONFIGURATION.read_text()
    for was, now in (
        ("listen 80", f"listen 127.0.0.1:{free_port()}"),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8080", processes[0].url.removeprefix("http://")),
        ("127.0.0.1:8081", processes[1].url.removeprefix("http://")),
        ("/etc/ssl/shop.example.pem", str(folder / "pem")),
        ("/etc/ssl/shop.example.key", str(folder / "key")),
        ("shop.example", "localhost"),
        (
            "$host;\n        proxy_set_header X-Forwarded-Proto",
            "$http_host;\n        proxy_set_header X-Forwarded-Proto",
        ),
    ):
        assert was in site
        site = site.replace(was, now)
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder, paths=PATHS.format(folder=folder)))
    with subprocess.Popen([str(NGINX), "-p", str(folder), "-e", f"{folder}/error.log", "-c", "nginx.conf"]) as nginx:
        _wait_for(port, nginx)
        yield port
        nginx.terminate()


def _wait_for(port: int, nginx: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and nginx.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("nginx did not start")


def test_people_sign_in_and_play_through_nginx(proxy: int, db: Db) -> None:
    people = People(db)
    ada = people.sign_up("ada", PASSWORD, name="Ada")
    world = World(db)
    world.create_location("hall", name="Hall", description="A hall.")
    world.create_character("Ann", id="ann", location="hall", owner=ada["_id"])
    base = f"https://localhost:{proxy}"
    with httpx.Client(base_url=base, verify=False, follow_redirects=True) as browser:
        form = browser.get("/sign-in").text
        csrf = re.search(r'name="csrf" value="([^"]+)"', form)
        assert csrf, form
        signed_in = browser.post(
            "/sign-in",
            data={"csrf": csrf[1], "login": "ada", "password": PASSWORD},
            headers={"Origin": base, "X-Forwarded-For": "203.0.113.9"},
        )
        assert signed_in.status_code == 200, signed_in.text
        (cookie,) = [one for one in browser.cookies.jar if one.name == "squinney"]
        assert cookie.secure, "the processes know that the browser speaks TLS"
        assert browser.get("/metrics").status_code == 403
        assert browser.get("/healthz").json() == {"status": "ok"}
        assert browser.get("/shop").headers["content-type"].startswith("text/html")
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    address = f"wss://localhost:{proxy}/game/ws?character=ann"
    with connect(
        address, ssl=trusting, additional_headers={"Cookie": f"squinney={cookie.value}", "Origin": base}
    ) as ws:
        assert "hello" in str(ws.recv(timeout=120))
        world.say("ann", "through the proxy")
        assert "through the proxy" in str(ws.recv(timeout=120))


def test_a_process_is_restarted_and_no_request_fails(proxy: int, processes: list[Serving]) -> None:
    """It says first that it is not ready, answers what comes, and ends; the other one goes on."""
    leaving = processes[0]
    statuses: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=f"https://localhost:{proxy}", verify=False) as browser:
            while not stop.is_set():
                statuses.append(browser.get("/sign-in").status_code)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    try:
        while len(statuses) < 40:
            time.sleep(0.01)
        leaving.send(signal.SIGTERM)
        _wait_until_not_ready(leaving.url)
        assert leaving.wait() == 0
        ended_at = len(statuses)
        while len(statuses) < ended_at + 40:
            time.sleep(0.01)
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    assert set(statuses) == {200}


def _wait_until_not_ready(url: str) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        answer = httpx.get(f"{url}/readyz", timeout=120)
        if answer.status_code == 503:
            assert answer.json()["status"] == "draining"
            assert answer.headers["connection"] == "close"
            return
    raise AssertionError("it stayed ready")
