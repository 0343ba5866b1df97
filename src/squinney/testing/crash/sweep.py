"""The parent process of a sweep: it starts a child that dies, runs recovery and checks the database."""

from __future__ import annotations

import multiprocessing
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from pymongo.read_concern import ReadConcern

from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db
from squinney.testing.calls import (
    call,
    failure_of,
    one_line,
    problems_left,
    require_collections,
    require_function,
    require_functions,
    run_prepare,
)
from squinney.testing.children import children
from squinney.testing.crash import child
from squinney.testing.crash.child import WAYS, Way
from squinney.testing.crash.proxy import socket_folder
from squinney.testing.effects import in_vain
from squinney.testing.emptying import EmptyDatabase, non_empty

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
CHILD_SECONDS = 60
NEVER = 1_000_000_000  # more writes than any operation has

Act = Callable[..., object]


@dataclass(frozen=True)
class CrashPoint:
    """Where an operation died or lost a reply: at which write and in which way. `wrong` is what a check found."""

    write: int
    what: str
    way: Way
    wrong: str = ""

    def __str__(self) -> str:
        where = _moment(self.way, f"{self.write} ({self.what})")
        return f"{where}: {self.wrong}" if self.wrong else where


def _moment(way: Way, write: str) -> str:
    """Say what happens to a child and when, such as `died before write 2 (update accounts)`."""
    return {
        "before": f"died before write {write}",
        "after": f"died after write {write}",
        "reply-lost": f"died after write {write}, its reply lost",
        "reconnected": f"lost the reply to write {write} and went on",
    }[way]


@dataclass(frozen=True)
class Swept:
    """Every crash point of an operation that passed its sweep."""

    points: Sequence[CrashPoint]

    def __len__(self) -> int:
        return len(self.points)


class NotCrashSafe(AssertionError):
    """A check failed after some crash points; `points` lists them."""

    def __init__(self, points: Sequence[CrashPoint], tried: int) -> None:
        self.points = points
        self.tried = tried
        lines = "\n".join(f"  {point}" for point in points)
        super().__init__(f"{len(points)} of {tried} crash points leave something wrong:\n{lines}")


class Sweep(Protocol):
    """The fixture `sweep`: the function `sweep`, on the test's database."""

    def __call__(
        self,
        prepare: Act,
        act: Act,
        check: Act,
        *,
        collections: Sequence[Collection] = (),
        settle: Act | None = None,
        problems: Callable[[Db], Iterable[object]] | None = None,
        ways: Sequence[Way] = WAYS,
    ) -> Swept: ...


def sweep(
    prepare: Act,
    act: Act,
    check: Act,
    *,
    db: Db,
    socket: Path,
    collections: Sequence[Collection] = (),
    settle: Act | None = None,
    problems: Callable[[Db], Iterable[object]] | None = None,
    ways: Sequence[Way] = WAYS,
) -> Swept:
    """Crash the operation at each of its writes, in each way, and check the database after each crash.

    `prepare(db)` fills a database that has the `collections`. `act` is the operation: a function at the top level of a
    module, since it runs in a child process. `act` is called with the database and, if it has a second parameter, with
    what `prepare` returned. If it is an `async def`, its database is that of an `AsyncMongoClient`.

    In the way `reconnected` the operation does not die: it gets a network error although its write happened, and the
    connection works again. An operation that then sends the write a second time must not have a second effect.

    After each crash `settle(db)` runs twice (by default nothing: a transaction leaves nothing). Then
    `check` asserts what must hold, whether the operation happened or not, and `problems(db)` must find nothing.

    Raises: `NotCrashSafe`, with every crash point after which something is wrong; `AssertionError` if the operation
    or a check fails without a crash, or if the operation changes no document or does not end; `TypeError` and
    `ValueError` for unusable arguments.
    """
    _require_usable(prepare, act, check, settle, problems, ways)
    require_collections(collections)
    # A test's database is emptied before each crash, so nothing in it is worth keeping.
    schema.apply(db, collections, adopt=[collection.name for collection in collections])
    database = EmptyDatabase(db, collections)
    prepared = _require_completes(act, prepare, database, socket)
    if wrong := _find_wrong(db, prepared, settle or _nothing, check, problems):
        raise AssertionError(f"the checks fail even without a crash: {wrong}")
    points: list[CrashPoint] = []
    for way in ways:
        for point, prepared in crash_points(act, prepare, way, database, socket):
            wrong = _find_wrong(db, prepared, settle or _nothing, check, problems)
            points.append(CrashPoint(point.write, point.what, way, wrong))
    if not points:
        raise AssertionError("the operation wrote nothing, so there was no write to crash at")
    if bad := [point for point in points if point.wrong]:
        raise NotCrashSafe(bad, len(points))
    return Swept(points)


def _require_usable(
    prepare: Act,
    act: Act,
    check: Act,
    settle: Act | None,
    problems: Act | None,
    ways: Sequence[str],
) -> None:
    """Refuse unusable arguments before anything runs."""
    for name, needed in {"prepare": prepare, "act": act, "check": check}.items():
        require_function(name, needed)
    require_functions(prepare=prepare, check=check, settle=settle, problems=problems)
    _pickled("act", act)
    if isinstance(ways, str) or not ways or set(ways) - set(WAYS):
        raise ValueError(f"ways must be a list of one or more of {', '.join(WAYS)}, not {ways!r}")


def _pickled(name: str, value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        kind = "a function at the top level of a module" if name == "act" else "ids and other plain values"
        raise ValueError(f"{name} is sent to another process, so it must be {kind}: {error}") from None


def _require_completes(act: Act, prepare: Act, database: EmptyDatabase, socket: Path) -> Any:
    """Run the operation once without a crash, since one that fails or never ends cannot be swept.

    Returns what `prepare` returned.
    """
    database.restore()
    prepared = run_prepare(prepare, database.db)
    _run_child(act, "before", NEVER, database.db, socket, prepared)
    return prepared


def crash_points(
    act: Act,
    prepare: Act,
    way: Way,
    database: EmptyDatabase,
    socket: Path,
    *,
    every: int = 1,
) -> Iterator[tuple[CrashPoint, Any]]:
    """Crash at one write after the other, or at every n-th; yield each point after its crash, with what was prepared.

    Ends when the operation completes because it has fewer writes.
    """
    for at_write in count(1, every):
        database.restore()
        prepared = run_prepare(prepare, database.db)
        what = _run_child(act, way, at_write, database.db, socket, prepared)
        if what is None:
            return
        yield CrashPoint(at_write, what, way), prepared


def _run_child(act: Act, way: Way, at_write: int, db: Db, socket: Path, prepared: Any) -> str | None:
    """Return the command at which the child died, or None if the operation completed with fewer writes."""
    app = f"crash-{secrets.token_hex(6)}"
    receiver, sender = multiprocessing.Pipe(duplex=False)
    pickled = (_pickled("act", act), _pickled("what prepare returns", prepared))
    with socket_folder() as folder:
        arguments = (sender, socket, folder, db.name, app, *pickled, way, at_write)
        process = children.Process(target=child.run, args=arguments, daemon=True)
        process.start()
        sender.close()
        exit_code = _exit_code_of(process)
    abort_open_transactions(db, app)
    messages = list(_messages(receiver))
    if exit_code not in (child.DIED, child.COMPLETED):
        expected = "" if at_write == NEVER else f"; it should have {_moment(way, str(at_write))}"
        raise AssertionError("\n".join([f"{_failure(exit_code)}{expected}", *messages]))
    if exit_code == child.DIED:
        return messages[0]
    if messages:
        raise AssertionError(in_vain("the operation", messages, non_empty(db, messages)))
    return None


def _exit_code_of(process: BaseProcess) -> int | None:
    """Wait for the process and return its exit code, or kill it and return None if it does not end in time."""
    process.join(CHILD_SECONDS)
    exit_code = process.exitcode
    if exit_code is None:
        process.kill()
        process.join()
    return exit_code


def _failure(exit_code: int | None) -> str:
    return {
        None: f"the operation did not end in {CHILD_SECONDS} seconds",
        child.FAILED: "the operation failed without a crash",
        child.NOT_IMPORTABLE: "another process cannot import the operation; its module must be on sys.path",
    }.get(exit_code, f"the operation's process ended with exit code {exit_code}")


def _messages(pipe: Any) -> Iterator[str]:
    try:
        while pipe.poll():
            yield pipe.recv()
    except EOFError:
        return


def abort_open_transactions(db: Db, app: str) -> None:
    """End the sessions of a dead process. The server would do so after `transactionLifetimeLimitSeconds`: a minute."""
    idle: list[dict[str, Any]] = [
        {"$currentOp": {"idleSessions": True, "allUsers": True}},
        {"$match": {"appName": app, "type": "idleSession"}},
    ]
    admin = db.client.get_database("admin", read_concern=ReadConcern("local"))
    sessions = [{"id": session["lsid"]["id"]} for session in admin.aggregate(idle)]
    if sessions:
        admin.command("killSessions", sessions, codec_options=db.codec_options)


def _nothing(db: Db) -> None:
    """Settle nothing."""


def _find_wrong(
    db: Db, prepared: Any, settle: Act, check: Act, problems: Callable[[Db], Iterable[object]] | None
) -> str:
    """Settle and check the database after a crash; describe what is wrong, or return an empty string."""
    try:
        for _ in range(2):
            call(settle, db, prepared)
    except Exception as error:
        return f"settle failed: {one_line(error)}"
    if left := problems_left(problems, db):
        return left
    return failure_of(check, db, prepared)
