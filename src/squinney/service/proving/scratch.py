"""Scratch databases: each has the process id of its owner in its name, so that leftovers of dead ones are found."""

from __future__ import annotations

import os
import re
import secrets

from pymongo import MongoClient

from squinney.mongo.schema import Document

# `explorer_` databases are those of `squinney.testing`, which records the schedules for the page.
NAME = re.compile(r"(?:prove_[a-z-]+|explorer)_(\d+)_[0-9a-f]+")


def scratch_name(what: str) -> str:
    """Return a new name of a database for a proof of `what`, owned by this process."""
    return f"prove_{what}_{os.getpid()}_{secrets.token_hex(4)}"


def drop_leftovers(client: MongoClient[Document]) -> list[str]:
    """Drop the scratch databases whose owners are dead; return their names.

    Only for a server that all of its users share a machine with, such as the embedded one.
    """
    names = [name for name in client.list_database_names() if (match := NAME.fullmatch(name)) and _is_dead(match[1])]
    for name in names:
        client.drop_database(name)
    return names


def _is_dead(pid: str) -> bool:
    import psutil  # not needed before a proof runs

    try:
        # A zombie is dead too: its parent was killed as well, and nobody has asked for its exit code.
        return bool(psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except (psutil.AccessDenied, OverflowError):
        return False
