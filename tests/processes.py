"""Check whether processes are alive, and wait for dead clients to disconnect."""

from __future__ import annotations

import time

import psutil
from pymongo import MongoClient
from pymongo.read_concern import ReadConcern

from squinney.mongo.schema import Document


def is_alive(pid: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(client: MongoClient[Document], app: str) -> None:
    """Wait until the server has finished the commands of a dead client and closed its connections."""
    connections = [{"$currentOp": {"idleConnections": True, "allUsers": True}}, {"$match": {"appName": app}}]
    admin = client.get_database("admin", read_concern=ReadConcern("local"))
    until = time.monotonic() + 120
    while list(admin.aggregate(connections)):
        assert time.monotonic() < until, "the server did not close the connection"
        time.sleep(0.01)
