"""A replica set that tests can break: its members can be killed, paused and stepped down."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure

from squinney.errors import NoServer
from squinney.mongo.embedded import binary, folders, process
from squinney.mongo.embedded.binary import Binary

SET_NAME = "squinney-three"
ELECTION_MILLISECONDS = 2_000
PRIMARY_SECONDS = 60.0


class ReplicaSet:
    """Members on loopback ports, numbered from 0, each with its own data folder."""

    def __init__(self, folder: Path, mongod: Binary, ports: list[int]) -> None:
        self.ports = ports
        self.folders = [folder / f"member-{number}" for number in range(len(ports))]
        self._binary = mongod

    @classmethod
    def start(cls, folder: Path, members: int = 3, *, mongod: Path | None = None) -> Self:
        """Start the members with fail points allowed and wait for the first primary.

        Raises: NoServer if a member does not start or no primary is elected.
        """
        folders.claim(folder)
        program = binary.find(mongod, libraries=folder / "lib")
        replica_set = cls(folder, program, free_ports(members))
        atexit.register(replica_set.stop)
        try:
            for member in range(members):
                replica_set.folders[member].mkdir(mode=0o700)
                replica_set.restart(member)
            replica_set._initiate()
            replica_set.primary()
        except BaseException:
            replica_set.stop()
            raise
        return replica_set

    @property
    def uri(self) -> str:
        """The connection string of the replica set."""
        return f"mongodb://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/?replicaSet={SET_NAME}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def pid(self, member: int) -> int:
        """Return the process id of a running member."""
        pid = process.process_id(self.folders[member])
        if pid is None:
            raise NoServer(f"Member {member} is not running")
        return pid

    def primary_pid(self) -> int:
        """Wait until there is a primary; return its process id."""
        return self.pid(self.primary())

    def kill_primary(self) -> int:
        """Kill the primary as a power loss would; return its number, for `restart`."""
        member = self.primary()
        os.kill(self.pid(member), signal.SIGKILL)
        process.wait_until_ended(self.folders[member], process.STOP_SECONDS)
        return member

    def step_down(self, *, seconds: int = 10) -> int:
        """Make the primary step down for `seconds`; return the number of the new primary."""
        former = self.primary()
        with suppress(ConnectionFailure), self._admin(former) as admin:
            admin.command("replSetStepDown", seconds, secondaryCatchUpPeriodSecs=min(5, seconds - 1))
        return self.primary(other_than=former)

    def pause(self, pid: int) -> None:
        """Pause a process without ending it; to others it looks like a swapping or partitioned machine."""
        os.kill(pid, signal.SIGSTOP)

    def resume(self, pid: int) -> None:
        """Continue a paused process."""
        os.kill(pid, signal.SIGCONT)

    def restart(self, member: int) -> None:
        """Start a member if it is not running."""
        folder = self.folders[member]
        if process.is_running(folder):
            return
        arguments = ["--bind_ip", "127.0.0.1", "--port", str(self.ports[member]), "--nounixsocket"]
        arguments += ["--replSet", SET_NAME, "--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "256"]
        arguments += ["--setParameter", "enableTestCommands=1"]
        process.start(self._binary, folder, arguments)

    def stop(self) -> None:
        """Kill all members. Their data is not needed any more."""
        atexit.unregister(self.stop)
        for folder in self.folders:
            process.send(folder, signal.SIGKILL)
        for folder in self.folders:
            process.wait_until_ended(folder, process.STOP_SECONDS)

    def primary(self, *, other_than: int | None = None) -> int:
        """Wait until a member is a writable primary; return its number.

        Raises: NoServer after a minute.
        """
        deadline = time.monotonic() + PRIMARY_SECONDS
        while time.monotonic() < deadline:
            for member in range(len(self.ports)):
                if member != other_than and self._is_primary(member):
                    return member
            time.sleep(0.05)
        raise NoServer(f"The replica set has had no primary for {PRIMARY_SECONDS:.0f} s")

    def _is_primary(self, member: int) -> bool:
        if not process.is_running(self.folders[member]):
            return False
        try:
            with self._admin(member) as admin:
                return bool(admin.command("hello")["isWritablePrimary"])
        except (ConnectionFailure, OperationFailure):
            return False

    def _initiate(self) -> None:
        members = [{"_id": number, "host": f"127.0.0.1:{port}"} for number, port in enumerate(self.ports)]
        settings = {"electionTimeoutMillis": ELECTION_MILLISECONDS, "heartbeatIntervalMillis": 500}
        with self._admin(0, patience_milliseconds=10_000) as admin:
            admin.command("replSetInitiate", {"_id": SET_NAME, "members": members, "settings": settings})

    @contextmanager
    def _admin(self, member: int, *, patience_milliseconds: int = 500) -> Iterator[Any]:
        client: MongoClient[dict[str, Any]] = MongoClient(
            f"mongodb://127.0.0.1:{self.ports[member]}/?directConnection=true",
            serverSelectionTimeoutMS=patience_milliseconds,
            connectTimeoutMS=1_000,
            socketTimeoutMS=20_000,
        )
        with client:
            yield client.admin


def free_ports(count: int) -> list[int]:
    """Find unused ports. All stay bound until the last is found, so that they differ."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
        return ports
