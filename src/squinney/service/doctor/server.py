"""What `doctor` says about the server: version, topology, parameters and disk."""

from __future__ import annotations

from collections.abc import Iterator

from pymongo.errors import OperationFailure

from squinney.mongo.schema import Db
from squinney.service.doctor.finding import Finding

OLDEST_SUPPORTED = (7, 0)
MIN_FREE_BYTES = 1 << 30
MAX_TRANSACTION_SECONDS = 15


def examine_server(db: Db) -> Iterator[Finding]:
    """Examine the server."""
    version = db.client.admin.command("buildInfo")["version"]
    hello = db.client.admin.command("hello")
    topology = "sharded cluster" if hello.get("msg") == "isdbgrid" else f"replica set {hello.get('setName')}"
    yield Finding("ok", "server", f"MongoDB {version}, {topology}")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SUPPORTED:
        yield Finding(
            "notice",
            "server",
            f"MongoDB {version} has reached its end of life",
            "fine for development; in production set MONGODB_URI to a newer server",
        )
    yield from _transaction_lifetime(db)
    statistics = db.command("dbStats", freeStorage=1)
    free = statistics.get("fsTotalSize", 0) - statistics.get("fsUsedSize", 0)
    if statistics.get("fsTotalSize") and free < MIN_FREE_BYTES:
        yield Finding(
            "problem",
            "disk",
            f"only {int(free) >> 20} MiB are free",
            "free some space: MongoDB stops when the disk is full",
        )


def _transaction_lifetime(db: Db) -> Iterator[Finding]:
    """Check how long the server keeps the locks of a process that was killed during a transaction."""
    name = "transactionLifetimeLimitSeconds"
    try:
        seconds = db.client.admin.command({"getParameter": 1, name: 1}).get(name, 0)
    except OperationFailure:  # a mongos lacks the parameter, and not every user may read it
        return
    if seconds > MAX_TRANSACTION_SECONDS:
        yield Finding(
            "notice",
            "server",
            f"a process that dies in a transaction locks its documents for up to {seconds} s",
            f"set the server's {name} to {MAX_TRANSACTION_SECONDS}",
        )
