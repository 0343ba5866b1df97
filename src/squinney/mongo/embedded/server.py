"""A real MongoDB, private to one user and data folder, started when needed and shared by that user's processes.

It is a replica set of one member, so that transactions and change streams work. It listens on no network port: its
socket is in a folder that only its user may enter. Three file locks in the data folder coordinate the processes:

- `users.lock` is held, shared, by each process that uses the server; the last of them stops the server;
- `gate.lock` lets one process at a time start or stop the server;
- `server.lock` is held by the server itself while it runs (see `process.py`).

Locks are released when their holder ends, so there is nothing to clean up after `kill -9` or a power loss. After
`kill -9` of a process the server keeps running for the next one; after a power loss the next process starts it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote_plus

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from squinney.errors import NoServer
from squinney.mongo.embedded import binary, process
from squinney.mongo.embedded import folders as data_folders

SET_NAME = "squinney"
CACHE_GIGABYTES = "0.25"
OPLOG_MEGABYTES = "512"
TEST_COMMANDS = ("--setParameter", "enableTestCommands=1")
ANSWER_SECONDS = 30.0


def uri_of(socket: Path) -> str:
    """Return the URI of a server that listens on a Unix socket."""
    return f"mongodb://{quote_plus(str(socket))}/?directConnection=true"


class Embedded:
    """The use of a folder's embedded MongoDB by one process."""

    def __init__(self, folder: Path, mongod: Path | None, arguments: Sequence[str], runtime: Path | None) -> None:
        self.folder = folder
        self.socket = folder / "no-socket-yet"
        self.pid = 0
        self.version = ""
        self._mongod = mongod
        self._arguments = arguments
        self._runtime = runtime
        self._users = open(folder / "users.lock", "a")  # noqa: SIM115 - stop() closes it
        self._gate = open(folder / "gate.lock", "a")  # noqa: SIM115
        self._owner = os.getpid()

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        mongod: Path | None = None,
        test_commands: bool = False,
        arguments: Sequence[str] = (),
        runtime: Path | None = None,
    ) -> Self:
        """Use the server of `folder`, and start it if it does not run.

        `arguments` are further options of mongod, and `test_commands` allows fail points; both are ignored if the
        server already runs. `runtime` is where the socket's folder is created, by default in `/tmp`.

        Atomic: `gate.lock` admits one process at a time.
        After a crash: the server runs or was never started; the next call finds out.
        Raises: `NoServer`, with one sentence of advice.
        """
        folder = folder.absolute()
        data_folders.claim(folder)
        server = cls(folder, mongod, [*(TEST_COMMANDS if test_commands else ()), *arguments], runtime)
        try:
            with process.gate(server._gate, folder):
                fcntl.flock(server._users, fcntl.LOCK_SH)
                server._find_or_start()
        except BaseException:
            server._close_locks()
            raise
        atexit.register(server.stop)
        return server

    @property
    def uri(self) -> str:
        """The URI for clients."""
        return uri_of(self.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> bool:
        """Stop using the server; the last process that uses it stops it. Return whether this one did.

        A forked child shares its parent's use and cannot end it.

        After a crash: the server runs without users, until another process has used it and stops it.
        """
        if self._users.closed or os.getpid() != self._owner:
            return False
        atexit.unregister(self.stop)
        try:
            with process.gate(self._gate, self.folder):
                last = process.try_lock(self._users)
                if last:
                    self._shut_down()
                return last
        finally:
            self._close_locks()

    def _close_locks(self) -> None:
        self._users.close()
        self._gate.close()

    def revive(self) -> bool:
        """Restart the server if it has died, for example when the system ran out of memory; return whether it had.

        Clients reconnect automatically, because the path of its socket does not change.

        Raises: `NoServer` if it does not start.
        """
        with process.gate(self._gate, self.folder):
            dead = not process.is_running(self.folder)
            if dead:
                self._find_or_start()
            return dead

    def rotate_log(self) -> bool:
        """Rename the server's log if it is large; return whether it was."""
        if not process.rotate(self.folder):
            return False
        with self._admin() as admin:
            admin.command("logRotate", "server")
        return True

    def _find_or_start(self) -> None:
        # guard, 2 lines: a running server needs no free disk space
        with suppress(FileNotFoundError):
            self.socket = Path((self.folder / "socket").read_text())
        if process.is_running(self.folder):
            if self._answers():
                self.rotate_log()
                return
            process.end(self.folder)  # it hangs, or its socket was deleted: no new client could connect
        self._launch()
        if self._answers():
            process.note_version(self.folder, self.version)
        else:
            reason = f"see {self.folder / 'mongod.log'}" if process.is_running(self.folder) else "it ended at once"
            raise NoServer(f"The embedded MongoDB of {self.folder} does not respond ({reason}): try again")

    def _launch(self) -> None:
        data_folders.check_room(self.folder)
        mongod = binary.find(self._mongod, libraries=self.folder / "lib")
        self.socket = data_folders.socket_for(self.folder, self._runtime)
        fresh = self.folder / "socket.new"
        fresh.write_text(str(self.socket))
        os.replace(fresh, self.folder / "socket")
        arguments = ["--bind_ip", str(self.socket), "--nounixsocket", "--replSet", SET_NAME]
        arguments += ["--wiredTigerCacheSizeGB", CACHE_GIGABYTES, "--oplogSize", OPLOG_MEGABYTES]
        try:
            process.start(mongod, self.folder, [*arguments, *self._arguments])
        except NoServer:
            self._remove_socket()
            raise

    def _answers(self) -> bool:
        """Wait until the server is a writable primary, and initiate it if necessary; return False if that fails."""
        deadline = time.monotonic() + ANSWER_SECONDS
        with self._admin() as admin:
            while time.monotonic() < deadline and process.is_running(self.folder):
                if not self.socket.exists():  # the driver would wait half a second before its next attempt
                    time.sleep(0.01)
                    continue
                with suppress(ConnectionFailure, OperationFailure):  # still starting or electing
                    if admin.command("hello")["isWritablePrimary"]:
                        self.pid = int(admin.command("serverStatus")["pid"])
                        self.version = admin.command("buildInfo")["version"]
                        return True
                    self._become_member(admin)
                time.sleep(0.01)
        return False

    def _become_member(self, admin: Any) -> None:
        """Make the server a replica set whose only member has the path of its current socket as its host."""
        members = [{"_id": 0, "host": str(self.socket)}]
        config = admin.client.local.system.replset.find_one()
        if config is None:
            admin.command("replSetInitiate", {"_id": SET_NAME, "members": members})
        elif config["members"][0]["host"] != str(self.socket):  # the folder or the socket was moved
            moved = {**config, "members": members, "version": config["version"] + 1}
            admin.command("replSetReconfig", moved, force=True)

    def _shut_down(self) -> None:
        # The command is twice as fast as a signal, which waits for secondaries that do not exist.
        with suppress(PyMongoError), self._admin() as admin:
            admin.command("shutdown", force=True, timeoutSecs=0)
        if not process.wait_until_ended(self.folder, process.STOP_SECONDS):
            process.end(self.folder)
        self._remove_socket()

    def _remove_socket(self) -> None:
        with suppress(OSError):
            self.socket.unlink(missing_ok=True)
            self.socket.parent.rmdir()

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        client: MongoClient[dict[str, Any]] = MongoClient(
            self.uri, serverSelectionTimeoutMS=500, connectTimeoutMS=2000, socketTimeoutMS=10_000, appname="squinney"
        )
        with client:
            yield client.admin
