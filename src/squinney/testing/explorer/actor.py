"""One operation under the scheduler: a thread that is held before every command it sends."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Literal
from unittest.mock import patch

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.patterns.fair_locks import FairLocks
from squinney.testing.commands import described, is_write
from squinney.testing.explorer.touched import Touched
from squinney.testing.protocol import RECORDS
from squinney.transactions import group_commit
from squinney.transactions.constraints import Constraints

Status = Literal["running", "held", "waiting", "done"]  # only the scheduler sets it
Arrival = tuple["Actor", Status]
NOT_HELD = {"hello", "buildInfo", "ping", "endSessions", "killCursors", "listCollections", "listIndexes"}
WRITES = {"insert", "update", "delete", "findAndModify"}
real_sleep = time.sleep
_this_thread = threading.local()


class Died(BaseException):
    """Ends an operation where its process would have died. No `except Exception` catches it."""


@dataclass(frozen=True)
class Outcome:
    """What an operation answered: a value, an error, or nothing, because it died."""

    value: Any = None
    error: BaseException | None = None
    died: bool = False


class Actor(CommandListener):
    """A thread and a client that do one operation after another, held before each command."""

    def __init__(self, letter: str, uri: str, arrivals: SimpleQueue[Arrival], touched: Touched) -> None:
        self.letter = letter
        self.name = f"explorer-{secrets.token_hex(4)}-{letter}"
        self.client = client_for(uri, event_listeners=[self], appname=self.name)
        self.records: list[Any] = []  # ids of its records in `transactions`
        self._arrivals = arrivals
        self._touched = touched
        self._gate = threading.Semaphore(0)
        self._work: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True, name=self.name)
        self._thread.start()
        self._reset()

    def _reset(self) -> None:
        self.status: Status = "done"
        self.outcome = Outcome()
        self.next = ""  # the command it is held before
        self.asleep = False  # it is held in a `time.sleep`
        self.dead = False
        self.in_flight = False  # the server has its command and has not answered
        self.open: dict[bytes, Any] = {}  # sessions with a transaction that is not over
        self.records = []
        self.wrote = False

    def close(self) -> None:
        """End the thread and the client."""
        self._work.put(None)
        self._thread.join(10)
        self.client.close()

    # ---- the scheduler's side ----

    def begin(self, run: Callable[[Db], Any], database: str) -> None:
        """Start the operation; it arrives at its first command, or at its end."""
        self._reset()
        self.status = "running"
        self._work.put(lambda: run(self.client[database]))

    def go_on(self) -> None:
        """Let it send its command and come to the next."""
        self.status = "running"
        self.asleep = False
        self._gate.release()

    def die(self) -> None:
        """It sends nothing more. What it has open on the server stays open, as after a death."""
        self.dead = True
        self.go_on()

    # ---- the thread's side ----

    def _serve(self) -> None:
        _this_thread.actor = self
        while (work := self._work.get()) is not None:
            try:
                outcome = Outcome(Context().run(work))
            except Died:
                outcome = Outcome(died=True)
            except BaseException as error:
                outcome = Outcome(error=error)
            self.outcome = Outcome(died=True) if self.dead else outcome
            self.next = ""
            self._arrivals.put((self, "done"))

    def _hold(self) -> None:
        if not self.dead:
            self._arrivals.put((self, "held"))
            self._gate.acquire()
        if self.dead:
            raise Died

    def sleep(self) -> None:
        """In the place of `time.sleep`: it waits for others, so they go on."""
        self.next = "sleep"
        self.asleep = True
        self._hold()

    def started(self, event: CommandStartedEvent) -> None:
        self._note(event.command_name, event.command)
        if getattr(_this_thread, "actor", None) is not self:
            return
        if event.command_name not in NOT_HELD:
            self.next = described(event.command_name, event.command)
            self._hold()
        self._note_transaction(event.command_name, event.command)
        self.in_flight = True

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.in_flight = False

    def failed(self, event: CommandFailedEvent) -> None:
        self.in_flight = False

    def _note(self, name: str, command: Mapping[str, Any]) -> None:
        self._touched.note(name, command)
        self.wrote = self.wrote or is_write(name, command)
        if name in WRITES and command[name] == RECORDS and command.get("autocommit") is not False:
            self.records += _ids(command)

    def _note_transaction(self, name: str, command: Mapping[str, Any]) -> None:
        if command.get("startTransaction"):
            self.open[bytes(command["lsid"]["id"])] = command["lsid"]
        elif name in ("commitTransaction", "abortTransaction"):
            self.open.pop(bytes(command["lsid"]["id"]), None)


def _ids(command: Mapping[str, Any]) -> list[Any]:
    asked = [command.get("query"), *(one["q"] for one in command.get("updates", ())), *command.get("documents", ())]
    return [one["_id"] for one in asked if one and "_id" in one]


@contextmanager
def as_processes() -> Iterator[None]:
    """Inside, operations under the scheduler are like processes of their own, and never sleep.

    They neither queue for each other inside this process nor commit together, and a sleep lets others go on.
    """
    in_turn = FairLocks.of

    @contextmanager
    def out_of_turn(self: FairLocks, name: Hashable) -> Iterator[bool]:
        if getattr(_this_thread, "actor", None) is None:
            with in_turn(self, name) as crowded:
                yield crowded
        else:
            yield False

    def unwatched() -> bool:
        return getattr(_this_thread, "actor", None) is None

    with (
        patch.object(time, "sleep", _virtual_sleep),
        patch.object(FairLocks, "of", out_of_turn),
        patch.object(group_commit, "may_group", unwatched),
        patch.object(Constraints, "_read", _read_once(Constraints._read)),
    ):
        yield


def _read_once(read: Callable[[Constraints, str], Any]) -> Callable[[Constraints, str], Any]:
    """Indexes and validators do not change while schedules are played: a long-lived process knows them."""
    known: dict[tuple[str, str], Any] = {}

    def read_once(self: Constraints, name: str) -> Any:
        key = (self._db.name, name)
        if key not in known:
            known[key] = read(self, name)
        return replace(known[key], until=float("inf"))

    return read_once


def _virtual_sleep(seconds: float) -> None:
    """An operation under the scheduler does not sleep: it lets others go on."""
    actor = getattr(_this_thread, "actor", None)
    if actor is None:
        real_sleep(seconds)
    else:
        actor.sleep()
