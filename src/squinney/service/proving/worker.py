"""A worker of a proof: it works until it is killed, and reports each operation.

It is told by lines: `kill`, to die at one of its next writes, `races`, and `rest`. When they end, the engine is dead:
then it drops the database of the lane and exits.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from pymongo.monitoring import CommandListener, CommandStartedEvent, CommandSucceededEvent

from squinney.mongo.connect import client_for
from squinney.mongo.deadlines import observe_operations
from squinney.mongo.write_commands import is_write
from squinney.service.proving.instructions import instructions
from squinney.service.proving.subjects import lane_named

MAX_WRITES_TO_DEATH = 3
LAST_COMMANDS_SECONDS = 1.0


class Killer(CommandListener):
    """Kills this process at a random one of its next writes, before or after it; or lets it send nothing more."""

    def __init__(self) -> None:
        self._left = 0
        self._dies_before = False
        self._dying_at: int | None = None
        self._holds = threading.Event()

    def arm(self) -> None:
        """Die at one of the next writes."""
        self._dies_before = random.random() < 0.5
        self._left = random.randint(1, MAX_WRITES_TO_DEATH)

    def hold(self) -> None:
        """Let no thread of this process send another command."""
        self._holds.set()

    def started(self, event: CommandStartedEvent) -> None:
        while self._holds.is_set():
            time.sleep(60)
        if self._left and is_write(event.command_name, event.command):
            self._left -= 1
            if not self._left:
                if self._dies_before:
                    _die()
                self._dying_at = event.request_id

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if event.request_id == self._dying_at:
            _die()

    def failed(self, event: object) -> None:
        pass


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class ProgressReporter:
    """Sends a line when an operation begins and when it ends, and then pauses. Inner operations do not count."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._own = threading.local()

    def entered(self, name: str) -> None:
        """Note that an operation begins."""
        self._own.depth = getattr(self._own, "depth", 0) + 1
        if self._own.depth == 1:
            while instructions.rests:
                time.sleep(60)
            self._send("began")

    def left(self, error: BaseException | None) -> None:
        """Note that an operation ends."""
        self._own.depth -= 1
        if self._own.depth == 0:
            self._send("refused" if error else "done")
            time.sleep(random.uniform(0.5, 1.5) * instructions.pause_seconds)

    def _send(self, what: str) -> None:
        with suppress(OSError):  # the engine is dead; the thread that reads its lines cleans up
            os.write(self._output, f"{what} {threading.get_ident()} {time.monotonic():.4f}\n".encode())


@dataclass(frozen=True)
class WorkerTask:
    """What a worker does. With `pause_seconds` it pauses after each operation, and reports it."""

    lane: str
    uri: str = field(repr=False)
    database: str
    pause_seconds: float = 0
    packages: Sequence[str] = ()


def run(task: WorkerTask, seed: int, told: Connection, reported: Connection) -> None:
    """Do the work of a lane until killed."""
    os.setsid()  # Ctrl-C reaches only the engine, which then kills the workers
    lane = lane_named(task.lane, task.packages)
    instructions.pause_seconds = task.pause_seconds
    if task.pause_seconds:
        observe_operations(ProgressReporter(reported.fileno()))
    killer = Killer()
    lines = os.fdopen(told.fileno())
    threading.Thread(target=_obey, args=[killer, lines, task], daemon=True).start()
    with client_for(task.uri, event_listeners=[killer]) as client:
        lane.proof.work(client[task.database], seed)


def _obey(killer: Killer, lines: Iterable[str], task: WorkerTask) -> None:
    for line in lines:
        if line == "kill\n":
            killer.arm()
        elif line == "races\n":
            instructions.races = True
        elif line == "rest\n":
            instructions.rests = True
    killer.hold()
    time.sleep(LAST_COMMANDS_SECONDS)
    try:
        # guard, 2 lines: workers whose engine is dead leave no database
        with client_for(task.uri) as client:
            client.drop_database(task.database)
    finally:  # another worker drops it, or the server is gone
        os._exit(1)
