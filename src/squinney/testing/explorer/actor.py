"""Run one operation under the scheduler, in a thread that is held before every command it sends."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Literal

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from squinney.mongo.connect import client_for
from squinney.mongo.write_commands import is_write
from squinney.testing.async_operations import AsyncCaller, operation_task
from squinney.testing.effects import Effects
from squinney.testing.explorer.written_collections import WrittenCollections
from squinney.testing.lost_replies import LostReply
from squinney.testing.server_commands import described, writes_elsewhere
from squinney.transactions import group_commit

Status = Literal["running", "held", "waiting", "done"]  # "waiting": for another operation, inside the server
Arrival = tuple["Actor", Status]  # an actor that is now held or done
Run = Callable[..., Any]  # called with the database, and with `asynchronous`, for operations that are `async def`
NOT_HELD = {"hello", "buildInfo", "ping", "endSessions", "killCursors", "listCollections", "listIndexes"}
MAX_DEATHS = 20  # commands that an operation tries to send after its death
USE_GIVEN = "use the database that it is called with"
OWN_CLIENT = f"made a client of its own, whose commands no schedule can hold: {USE_GIVEN}"
OTHER_CLIENT = f"sent a command by another client, which no schedule can hold: {USE_GIVEN}"
OTHER_DATABASE = f"wrote to the database {{!r}}, which is neither restored nor compared: {USE_GIVEN}"
SURVIVES = (
    "goes on after its death: it catches every error, also the one that ends it here. "
    "Let it catch PyMongoError or Exception, not BaseException (a bare `except:`)"
)
MAX_SECONDS_AFTER = 1.0  # for an operation's threads that go on after it
IN_A_THREAD = (
    "in a thread of its own, where no schedule can hold it: send it in the operation's thread, "
    "or pass threads_in_turn=True if it is of a thread pool"
)
_this_thread = threading.local()


def current_actor() -> Actor | None:
    """Return the actor whose operation runs in this thread."""
    return getattr(_this_thread, "actor", None)


class Died(BaseException):
    """Ends an operation where its process is supposed to die. `except Exception` does not catch it."""


@dataclass(frozen=True)
class OperationOutcome:
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
        self._asynchronous = AsyncCaller(uri, event_listeners=[self], appname=self.name)
        self._arrivals = arrivals
        self._written = written
        self._gate = threading.Semaphore(0)
        self._work: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.strays: list[str] = []  # what it sent past the scheduler, and how to mend that
        self.threads: list[threading.Thread] = []  # those that it started
        self._survives = False  # its operation goes on after its death, so its thread is of no use any more
        self._database = ""
        self._thread = threading.Thread(target=self._serve, daemon=True, name=self.name)
        self._thread.start()
        self._reset()

    def _reset(self) -> None:
        self.status: Status = "done"  # set by the scheduler only
        self.outcome = OperationOutcome()
        self.next = ""  # the command it is held before
        self.asleep = False  # held in a `time.sleep`
        self.writes_next = False  # the command it is held before is a write
        self.runs: dict[str, group_commit.PendingRuns] = {}
        self.dead = False
        self._deaths = 0
        self.lost_reply = False  # whether it got a network error instead of the reply to a write
        self._lost = LostReply()
        self._loses_next = False
        self.in_flight = False  # the server has its command and has not replied
        self.open: dict[bytes, Any] = {}  # sessions with an open transaction
        self.effects = Effects()
        self.sent: tuple[str, Mapping[str, Any]] | None = None  # the command it is held before, or sent last
        self.replied: Mapping[str, Any] | None = None  # the reply to that
        self._held_id = 0
        self.gave_work_away = False  # to a pool, which ran it in the operation's own thread, or to a task

    @property
    def gone(self) -> bool:
        """Whether it may have left a run or a transaction open: it is dead, or ended after it lost a reply."""
        return self.dead or (self.lost_reply and self.status == "done")

    def close(self) -> None:
        """End the thread and close the client."""
        self._work.put(None)
        if not self._survives:
            self._thread.join(10)
        self.client.close()

    # ---- called by the scheduler ----

    def start(self, run: Run, database: str) -> None:
        """Start the operation. It runs to its first command, or to its end."""
        self._reset()
        self._database = database
        self.status = "running"
        self._work.put(lambda: run(self.client[database], asynchronous=self._asynchronous))

    def resume(self) -> None:
        """Let the operation send its command and run to the next one."""
        self.status = "running"
        self.asleep = False
        self._gate.release()

    def resume_without_reply(self) -> None:
        """Let the operation send its write, and give it a network error instead of the reply."""
        self._loses_next = self.lost_reply = True
        self.resume()

    def kill(self) -> None:
        """End the operation before its next command. Its open transactions stay open, as after a real crash."""
        self.dead = True
        self.resume()

    def wait_for_threads(self) -> None:
        """Let threads that go on after the operation send their commands, which would disturb what is played next."""
        until = time.monotonic() + MAX_SECONDS_AFTER
        while self.threads:
            # guard: a thread that goes on after its operation is waited for
            self.threads.pop().join(max(0.0, until - time.monotonic()))

    # ---- called in the actor's thread ----

    def _serve(self) -> None:
        _this_thread.actor = self
        while (work := self._work.get()) is not None:
            try:
                outcome = OperationOutcome(Context().run(work))
            except Died:
                outcome = OperationOutcome(died=True)
            except BaseException as error:
                outcome = OperationOutcome(error=error)
            self.outcome = OperationOutcome(died=True) if self.dead else outcome
            self.next = ""
            self._arrivals.put((self, "done"))
        self._asynchronous.close()

    def _hold(self) -> None:
        if not self.dead:
            self._arrivals.put((self, "held"))
            self._gate.acquire()
        if self.dead:
            self._die()

    def _die(self) -> None:
        self._deaths += 1
        # guard: an operation that catches its death is abandoned
        if self._deaths > MAX_DEATHS:
            self._survives = True
            self.strays.append(SURVIVES)
            self.outcome = OperationOutcome(died=True)
            self._arrivals.put((self, "done"))
            threading.Event().wait()  # for ever: else it would disturb what is played next
        raise Died

    def note_client(self, name: str) -> None:
        """Note which client has got a reply in this actor's thread."""
        # guard: commands by another client than the operation's are noticed
        if name != self.name:
            self.strays.append(OTHER_CLIENT)

    def sleep(self) -> None:
        """Replace `time.sleep`: an operation that sleeps waits for others, so hold it until they had their turn."""
        self.next = "sleep"
        self.sent = None
        self.writes_next = False
        self.asleep = True
        self._hold()

    def started(self, event: CommandStartedEvent) -> None:
        self._written.note(event.command_name, event.command)
        self.effects.started(event)
        if current_actor() is not self:
            if event.command_name not in NOT_HELD:
                what = f"{described(event.command_name, event.command)} ({threading.current_thread().name})"
                # guard: commands of an operation's own threads are noticed
                self.strays.append(f"sent {what} {IN_A_THREAD}")
            return
        if (task := operation_task.get()) and task is not asyncio.current_task():
            self.gave_work_away = True  # other orders of its tasks are not tried
        if writes_elsewhere(event, self._database):
            self.strays.append(OTHER_DATABASE.format(event.database_name))
        if self._lost.lose_again(event):
            return
        if event.command_name not in NOT_HELD:
            self.next = described(event.command_name, event.command)
            self.writes_next = is_write(event.command_name, event.command)
            self.sent = (event.command_name, event.command)
            self._hold()
            self._held_id, self.replied = event.request_id, None
            if self._loses_next:
                self._loses_next = False
                self._lost.lose(event)
        self._note_transaction(event.command_name, event.command)
        self.in_flight = True

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.effects.succeeded(event)
        if event.request_id == self._held_id:
            self.replied = event.reply
        self.in_flight = False

    def failed(self, event: CommandFailedEvent) -> None:
        if event.request_id == self._held_id:
            self.replied = event.failure
        self.in_flight = False

    def _note_transaction(self, name: str, command: Mapping[str, Any]) -> None:
        if command.get("startTransaction"):
            self.open[bytes(command["lsid"]["id"])] = command["lsid"]
        elif name in ("commitTransaction", "abortTransaction"):
            self.open.pop(bytes(command["lsid"]["id"]), None)
