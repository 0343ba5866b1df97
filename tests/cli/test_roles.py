"""The roles that each command needs, as `docs/operations.md` lists them, on a server with authentication."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from tests.cli import child

from squinney.mongo.embedded import binary

DATABASE = "roles"
USERS = {"reader": ["read"], "writer": ["readWrite"], "upgrader": ["readWrite", "dbAdmin"]}
WITH_READ_WRITE = [
    ("demo",),
    ("indexes", "--apply"),
    ("indexes", "--rebuild"),
    ("doctor", "--repair"),
    ("migrate",),
    ("jobs", "run", "end-abandoned-transactions"),
    ("ledger", "list"),
    ("remove", "all", "--yes"),
]


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with authentication, that is `HOST:PORT`, with three users."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "db").mkdir()
    key = folder / "key"
    key.touch(0o600)
    key.write_text(secrets.token_hex(16))
    found = binary.find(libraries=folder / "lib")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = ["--dbpath", folder / "db", "--logpath", folder / "log", "--keyFile", key, "--nounixsocket"]
    arguments += ["--bind_ip", "127.0.0.1", "--port", host.partition(":")[2], "--replSet", "rs"]
    server = subprocess.Popen([found.path, *arguments], env=found.environment, stdout=subprocess.DEVNULL)
    try:
        _add_users(host)
        yield host
    finally:
        server.terminate()
        server.wait()


def _add_users(host: str) -> None:
    with MongoClient[Any](f"mongodb://{host}/?directConnection=true") as client:  # the first user may be added so
        config = {"_id": "rs", "members": [{"_id": 0, "host": host}]}
        client.admin.command("replSetInitiate", config)
        while not client.admin.command("hello").get("isWritablePrimary"):
            time.sleep(0.05)
        client.admin.command("createUser", "root", pwd="pw", roles=["root"])
    with MongoClient[Any](f"mongodb://root:pw@{host}/?replicaSet=rs") as client:
        for user, roles in USERS.items():
            given = [{"role": role, "db": DATABASE} for role in roles]
            client.admin.command("createUser", user, pwd="pw", roles=given)


def test_each_command_works_with_the_roles_that_the_page_lists(guarded_server: str, tmp_path: Path) -> None:
    def run(user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        uri = f"mongodb://{user}:pw@{guarded_server}/?replicaSet=rs"
        settings = {"MONGODB_URI": uri, "SQUINNEY_DATABASE": DATABASE, "SQUINNEY_SYSTEMS": "ledger,ads"}
        folder = tmp_path / secrets.token_hex(4)
        folder.mkdir()
        return child.run(arguments, {**os.environ, **settings}, "", folder)

    refused = run("reader", "demo")
    assert (refused.returncode, re.sub(r"execute command \w+", "execute command ...", refused.stderr)) == (
        70,
        "squinney: MongoDB refused the operation: not authorized on roles to execute command ...; "
        "docs/operations.md lists the roles that each command needs\n",
    )
    for arguments in WITH_READ_WRITE[:-1]:
        done = run("writer", *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    backup = run("reader", "backup", str(tmp_path / "kept"))
    assert backup.returncode == 0, backup.stderr
    with MongoClient[Any](f"mongodb://upgrader:pw@{guarded_server}/?replicaSet=rs") as client:  # an older version's
        client[DATABASE].command("collMod", "ledger.accounts", validator={"currency": {"$exists": True}})
    assert run("writer", "indexes", "--apply").returncode == 70
    assert run("upgrader", "indexes", "--apply").returncode == 0
    assert run("writer", *WITH_READ_WRITE[-1]).returncode == 0
    restored = run("upgrader", "restore", str(tmp_path / "kept"))
    assert restored.returncode == 0, restored.stderr
