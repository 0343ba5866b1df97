"""Runs the products we compare with as processes, with the Python that `SQUINNEY_PEERS` names; one line in, one out."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.postgres import private_postgres
from squinney import assembly, commerce
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

PEERS = "SQUINNEY_PEERS"
HERE = Path(__file__).parent


def fresh(connection: Connection) -> Db:
    """Return an empty database with the shop's collections."""
    db = connection.client["bench_commerce"]
    connection.client.drop_database(db.name)
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *commerce.COLLECTIONS])
    return db


class Peer:
    """A process that runs requests, or the reason why it is missing."""

    def __init__(self, process: subprocess.Popen[str] | None, missing: str = "") -> None:
        self._process = process
        self._missing = missing

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line and return the response; `missing` has the reason if there is none."""
        if self._process is None:
            return {"missing": self._missing}
        try:
            assert self._process.stdin
            assert self._process.stdout
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            return dict(json.loads(self._process.stdout.readline()))
        except (OSError, ValueError):
            return {"missing": "its process ended"}


@contextmanager
def peer(script: str, *arguments: str) -> Iterator[Peer]:
    """Start a script of this folder; its first argument is the socket folder of a private PostgreSQL."""
    python = os.environ.get(PEERS, "")
    with ExitStack() as stack:
        socket = stack.enter_context(private_postgres())
        if socket is None or not python:
            lacking = "django-oscar, django-treebeard and psycopg"
            yield Peer(None, "no PostgreSQL" if socket is None else f"{PEERS} names no Python with {lacking}")
            return
        yield Peer(stack.enter_context(_process([python, "-P", str(HERE / script), str(socket), *arguments])))


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
