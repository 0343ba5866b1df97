"""The ledger's main read over HTTP: `squinney serve` compared with the same endpoint in plain FastAPI and PyMongo."""

from __future__ import annotations

import http.client
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import psutil

from bench import report
from bench.harness import Contender, compare
from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.connect import Connection

THREADS = 8
ACCOUNTS = 1_000
NAME = "bench_http"

PLAIN = """
import socket, sys
from datetime import datetime
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from pymongo import MongoClient

db = MongoClient(sys.argv[1], tz_aware=True, readConcernLevel="majority")[sys.argv[2]]
app = FastAPI()

class Account(BaseModel):
    id: str
    name: str
    currency: str
    balance: int
    opened_at: datetime
    closed_at: datetime | None = None

@app.get("/api/ledger/accounts/{account_id}", response_model=Account)
def get_account(account_id: str):
    account = db["ledger.accounts"].find_one({"_id": account_id})
    if account is None:
        raise HTTPException(404)
    return {"id": account["_id"], **account}

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen(2048)
print("http://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app)).run(sockets=[listener])
"""


def run(connection: Connection, *, rounds: int = 9, seconds: float = 2.0) -> None:
    """Measure and write the page."""
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    db = connection.client[NAME]
    connection.client.drop_database(NAME)
    schema.apply(db, assembly.collections())
    systems = assembly.assemble(db)
    ids = [systems.services["ledger"]["accounts"].open("EUR", 100, name="bench")["_id"] for _ in range(ACCOUNTS)]
    _, key = systems.services["identity"]["keys"].create("bench", ["ledger:read"])
    environment = {"SQUINNEY_SECRET": secrets.token_hex(32), "SQUINNEY_RATE_PER_KEY": "0", "PORT": "0"}
    serve = ["-m", "squinney.service.commands.main", "--uri", uri, "--database", NAME, "serve", "--no-demo"]
    with ExitStack() as stack:
        ours, our_process = stack.enter_context(served(serve, environment))
        plain, plain_process = stack.enter_context(served(["-c", PLAIN, uri, NAME], {}))
        headers = {"Authorization": f"Bearer {key}"}
        contenders = [
            Contender("plain FastAPI", _reader(plain, ids, {})),
            Contender("serve", _reader(ours, ids, headers)),
        ]
        processes = [plain_process, our_process]
        before = [_cpu_seconds(process) for process in processes]
        series = compare(contenders, threads=THREADS, rounds=rounds, seconds=seconds)
        spent = [_cpu_seconds(process) - began for process, began in zip(processes, before, strict=True)]
    version = connection.client.admin.command("buildInfo")["version"]
    connection.client.drop_database(NAME)
    _write(series, spent, version, rounds, seconds)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def served(arguments: list[str], environment: dict[str, str]) -> Iterator[tuple[str, psutil.Process]]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        address = re.search(r"http://\S+:\d+", process.stdout.readline())
        assert address, "the server did not start"
        threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would block it
        yield address[0], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _reader(url: str, ids: list[str], headers: dict[str, str]):  # type: ignore[no-untyped-def]
    """Return a function that reads an account, with one persistent connection per thread."""
    host = urlsplit(url)
    local = threading.local()
    turn = [0] * 64

    def read(thread: int) -> None:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(host.hostname or "", host.port)
        turn[thread] += 1
        path = f"/api/ledger/accounts/{ids[(turn[thread] * 7 + thread) % len(ids)]}"
        local.connection.request("GET", path, headers=headers)
        response = local.connection.getresponse()
        body = response.read()
        assert response.status == 200, body

    return read


def _write(series: list, spent: list[float], version: str, rounds: int, seconds: float) -> None:  # type: ignore[type-arg]
    cpu = [
        seconds / sum(run.operations for run in contender.rounds)
        for seconds, contender in zip(spent, series, strict=True)
    ]
    rows = [
        [
            contender.name,
            f"{contender.rate:,.0f}",
            f"{contender.percentile(0.5):.1f}",
            f"{contender.percentile(0.99):.1f}",
            f"{contender.ratio_to(series[0]):.2f}x",
            f"{each * 1000:.2f}",
            f"{cpu[0] / each:.2f}x",
        ]
        for contender, each in zip(series, cpu, strict=True)
    ]
    head = [
        "how",
        "reads/s",
        "p50 ms",
        "p99 ms",
        "rate compared with plain FastAPI",
        "processor ms per read",
        "reads per processor second",
    ]
    summary = (
        f"In the same processor time, `squinney serve` reads {cpu[0] / cpu[1]:.2f}x as many accounts as the same "
        "endpoint in plain FastAPI and PyMongo, although the plain endpoint checks no key, counts no rate, and has no "
        "time limits and no security headers."
    )
    report.write_page(
        "http",
        "HTTP: `squinney serve` compared with plain FastAPI",
        [
            summary,
            report.table(head, rows),
            f"{THREADS} callers with one persistent connection each, {rounds} interleaved rounds of {seconds:g} s; "
            f"rates are medians, ratios are medians of the rounds' ratios. Both run with uvicorn in one process. Rates "
            f"depend on the other load of the machine (load {os.getloadavg()[0]:.0f} here), processor time less so; "
            f"the processor time of `serve` includes its background jobs. {report.machine(version)}",
        ],
    )
    print(report.table(head, rows))
    print(summary)
