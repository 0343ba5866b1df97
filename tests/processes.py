"""Asking after processes."""

from __future__ import annotations

import time

import psutil
from pymongo import MongoClient
from pymongo.read_concern import ReadConcern

from squinney.mongo.schema import Document


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but not been buried yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(client: MongoClient[Document], app: str) -> None:
    """Wait until the server has done what a client sent that is dead or gave up, which it does before it sees that."""
    connections = [{"$currentOp": {"idleConnections": True, "allUsers": True}}, {"$match": {"appName": app}}]
    admin = client.get_database("admin", read_concern=ReadConcern("local"))
    until = time.monotonic() + 30
    while list(admin.aggregate(connections)):
        assert time.monotonic() < until, "the server keeps the connection"
        time.sleep(0.01)
