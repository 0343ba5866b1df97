"""Run one operation under the scheduler, in a thread that is held before every command it sends."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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
from squinney.testing.commands import described
from squinney.testing.effects import Effects
from squinney.testing.explorer.written_collections import WrittenCollections
from squinney.testing.protocol import RECORDS
from squinney.transactions import group_commit
from squinney.transactions.constraints import Constraints

Status = Literal["running", "held", "waiting", "done"]  # "waiting": for another operation, inside the server
Arrival = tuple["Actor", Status]  # an actor that is now held or done
NOT_HELD = {"hello", "buildInfo", "ping", "endSessions", "killCursors", "listCollections", "listIndexes"}
WRITES = {"insert", "update", "delete", "findAndModify"}
real_sleep = time.sleep
_this_thread = threading.local()


class Died(BaseException):
    """Ends an operation where its process is supposed to die. `except Exception` does not catch it."""


@dataclass(frozen=True)
class Outcome:
    """How an operation ended: with a value, with an error, or by its death."""

    value: Any = None
    error: BaseException | None = None
    died: bool = False


class Actor(CommandListener):
    """A thread and a client that run one operation per schedule, held before each command."""

    def __init__(self, letter: str, uri: str, arrivals: SimpleQueue[Arrival], written: WrittenCollections) -> None:
        self.letter = letter
        self.name = f"explorer-{secrets.token_hex(4)}-{letter}"
        self.client = client_for(uri, event_listeners=[self], appname=self.name)
        self._arrivals = arrivals
        self._written = written
        self._gate = threading.Semaphore(0)
        self._work: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True, name=self.name)
        self._thread.start()
        self._reset()

    def _reset(self) -> None:
        self.status: Status = "done"  # set by the scheduler only
        self.outcome = Outcome()
        self.next = ""  # the command it is held before
        self.asleep = False  # held in a `time.sleep`
        self.dead = False
        self.in_flight = False  # the server has its command and has not replied
        self.open: dict[bytes, Any] = {}  # sessions with an open transaction
        self.records: list[Any] = []  # ids of its records in `transactions`
        self.effects = Effects()

    def close(self) -> None:
        """End the thread and close the client."""
        self._work.put(None)
        self._thread.join(10)
        self.client.close()

    # ---- called by the scheduler ----

    def start(self, run: Callable[[Db], Any], database: str) -> None:
        """Start the operation. It runs to its first command, or to its end."""
        self._reset()
        self.status = "running"
        self._work.put(lambda: run(self.client[database]))

    def resume(self) -> None:
        """Let the operation send its command and run to the next one."""
        self.status = "running"
        self.asleep = False
        self._gate.release()

    def kill(self) -> None:
        """End the operation before its next command. Its open transactions stay open, as after a real crash."""
        self.dead = True
        self.resume()

    # ---- called in the actor's thread ----

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
        """Replace `time.sleep`: an operation that sleeps waits for others, so hold it until they had their turn."""
        self.next = "sleep"
        self.asleep = True
        self._hold()

    def started(self, event: CommandStartedEvent) -> None:
        self._note(event.command_name, event.command)
        self.effects.started(event)
        if getattr(_this_thread, "actor", None) is not self:
            return
        if event.command_name not in NOT_HELD:
            self.next = described(event.command_name, event.command)
            self._hold()
        self._note_transaction(event.command_name, event.command)
        self.in_flight = True

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.effects.succeeded(event)
        self.in_flight = False

    def failed(self, event: CommandFailedEvent) -> None:
        self.in_flight = False

    def _note(self, name: str, command: Mapping[str, Any]) -> None:
        self._written.note(name, command)
        if name in WRITES and command[name] == RECORDS and command.get("autocommit") is not False:
            self.records += _ids(command)

    def _note_transaction(self, name: str, command: Mapping[str, Any]) -> None:
        if command.get("startTransaction"):
            self.open[bytes(command["lsid"]["id"])] = command["lsid"]
        elif name in ("commitTransaction", "abortTransaction"):
            self.open.pop(bytes(command["lsid"]["id"]), None)


def _ids(command: Mapping[str, Any]) -> list[Any]:
    filters = [command.get("query"), *(one["q"] for one in command.get("updates", ()))]
    return [one["_id"] for one in (*filters, *command.get("documents", ())) if one and "_id" in one]


@contextmanager
def as_separate_processes() -> Iterator[None]:
    """In the `with` block, make operations under the scheduler behave as if each had its own process.

    They neither wait for each other's in-process locks nor share commits, and a sleep lets the others continue. What an
    operation gives to a thread pool runs in its own thread, so that the commands sent there are held too.
    """
    fair_lock = FairLocks.hold

    @contextmanager
    def lock_unless_scheduled(self: FairLocks, name: Hashable) -> Iterator[bool]:
        if _is_scheduled():
            yield False
        else:
            with fair_lock(self, name) as crowded:
                yield crowded

    with (
        patch.object(time, "sleep", _scheduled_sleep),
        patch.object(FairLocks, "hold", lock_unless_scheduled),
        patch.object(group_commit, "may_group", lambda: not _is_scheduled()),
        patch.object(Constraints, "_read", _read_once(Constraints._read)),
        patch.object(ThreadPoolExecutor, "submit", _run_if_scheduled(ThreadPoolExecutor.submit)),
    ):
        yield


def _is_scheduled() -> bool:
    return getattr(_this_thread, "actor", None) is not None


def _run_if_scheduled(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    def run_or_submit(pool: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not _is_scheduled():
            return submit(pool, work, *args, **kwargs)
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done

    return run_or_submit


def _read_once(read: Callable[[Constraints, str], Any]) -> Callable[[Constraints, str], Any]:
    """Cache indexes and validators, as a long-lived process does. They do not change during an exploration."""
    known: dict[tuple[str, str], Any] = {}

    def read_once(self: Constraints, name: str) -> Any:
        key = (self._db.name, name)
        if key not in known:
            known[key] = read(self, name)
        return replace(known[key], until=float("inf"))

    return read_once


def _scheduled_sleep(seconds: float) -> None:
    actor = getattr(_this_thread, "actor", None)
    if actor is None:
        real_sleep(seconds)
    else:
        actor.sleep()
