"""The parent process of a sweep: it starts a child that dies, runs recovery and checks the database."""

from __future__ import annotations

import multiprocessing
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, get_args

from pymongo.read_concern import ReadConcern

from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db
from squinney.testing.calls import (
    call,
    failure_of,
    found_by,
    one_line,
    require_collections,
    require_function,
    require_functions,
    run_prepare,
    takes_mode,
)
from squinney.testing.children import children
from squinney.testing.crash import child
from squinney.testing.crash.child import WAYS, Way
from squinney.testing.effects import in_vain
from squinney.testing.emptying import collection_names, empty, non_empty
from squinney.testing.protocol import leftovers, recover
from squinney.transactions import Mode

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
CHILD_SECONDS = 60
NEVER = 1_000_000_000  # more writes than any operation has

Act = Callable[..., object]


@dataclass(frozen=True)
class CrashPoint:
    """Where an operation died: at which write, in which way and mode. `wrong` says what a check found, if anything."""

    write: int
    what: str
    way: Way
    mode: str = ""
    wrong: str = ""

    def __str__(self) -> str:
        where = f"died {_moment(self.way, f'{self.write} ({self.what})')}" + (f", {self.mode}" if self.mode else "")
        return f"{where}: {self.wrong}" if self.wrong else where


def _moment(way: Way, write: str) -> str:
    """Say when a child dies, such as `before write 2 (update accounts)`."""
    return {
        "before": f"before write {write}",
        "after": f"after write {write}",
        "reply-lost": f"after write {write}, its reply lost",
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
        lines = "\n".join(f"  {point}" for point in points)
        super().__init__(f"{len(points)} of {tried} crash points leave something wrong:\n{lines}")


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
    what `prepare` returned. If `act` has a parameter called `mode`, anywhere, it is swept in both transaction modes.

    After each crash `settle(db)` runs twice (by default all deadlines expire and `Transactions(db).recover()` runs).
    Then `check` asserts what must hold, whether the operation happened or not; `problems(db)` must find nothing; and
    no marker of a transaction may remain.

    Raises: `NotCrashSafe`, with every crash point after which something is wrong; `AssertionError` if the operation
    or a check fails without a crash, or if the operation changes no document or does not end; `TypeError` and
    `ValueError` for unusable arguments.
    """
    modes = get_args(Mode)[1:] if callable(act) and takes_mode(act) else ("",)
    _require_usable(prepare, act, check, settle, problems, ways, mode=modes[0])
    require_collections(collections)
    schema.apply(db, collections)
    points: list[CrashPoint] = []
    for mode in modes:
        in_mode = partial(call, act, mode=mode)
        prepared = _require_completes(in_mode, prepare, db, socket)
        if wrong := _find_wrong(db, prepared, settle or recover, check, problems):
            raise AssertionError(f"the checks fail even without a crash: {wrong}")
        for way in ways:
            for point, prepared in crash_points(in_mode, prepare, way, db, socket):
                wrong = _find_wrong(db, prepared, settle or recover, check, problems)
                points.append(CrashPoint(point.write, point.what, way, mode, wrong))
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
    mode: str,
) -> None:
    """Refuse unusable arguments before anything runs."""
    require_function("prepare", prepare)
    require_function("act", act, mode=mode)
    require_function("check", check)
    require_functions(settle=settle, problems=problems)
    _pickled("act", act)
    if isinstance(ways, str) or not ways or set(ways) - set(WAYS):
        raise ValueError(f"ways must be a list of one or more of {', '.join(WAYS)}, not {ways!r}")


def _pickled(name: str, value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        kind = "a function at the top level of a module" if name == "act" else "ids and other plain values"
        raise ValueError(f"{name} is sent to another process, so it must be {kind}: {error}") from None


def _require_completes(act: Act, prepare: Act, db: Db, socket: Path) -> Any:
    """Run the operation once without a crash, since one that fails or never ends cannot be swept.

    Returns what `prepare` returned.
    """
    empty(db, collection_names(db))
    prepared = run_prepare(prepare, db)
    _run_child(act, "before", NEVER, db, socket, prepared)
    return prepared


def crash_points(
    act: Act,
    prepare: Act,
    way: Way,
    db: Db,
    socket: Path,
    *,
    every: int = 1,
) -> Iterator[tuple[CrashPoint, Any]]:
    """Crash at one write after the other, or at every n-th; yield each point after its crash, with what was prepared.

    Ends when the operation completes because it has fewer writes.
    """
    for at_write in count(1, every):
        empty(db, collection_names(db))
        prepared = run_prepare(prepare, db)
        what = _run_child(act, way, at_write, db, socket, prepared)
        if what is None:
            return
        yield CrashPoint(at_write, what, way), prepared


def _run_child(act: Act, way: Way, at_write: int, db: Db, socket: Path, prepared: Any) -> str | None:
    """Return the command at which the child died, or None if the operation completed with fewer writes."""
    app = f"crash-{secrets.token_hex(6)}"
    receiver, sender = multiprocessing.Pipe(duplex=False)
    arguments = (sender, socket, db.name, app, _pickled("act", act), _pickled("what prepare returns", prepared))
    process = children.Process(target=child.run, args=(*arguments, way, at_write), daemon=True)
    process.start()
    sender.close()
    process.join(CHILD_SECONDS)
    exit_code = process.exitcode
    if exit_code is None:
        process.kill()
    abort_open_transactions(db, app)
    messages = list(_messages(receiver))
    if exit_code not in (child.DIED, child.COMPLETED):
        expected = "" if at_write == NEVER else f"; it was to die {_moment(way, str(at_write))}"
        raise AssertionError("\n".join([f"{_failure(exit_code)}{expected}", *messages]))
    if exit_code == child.DIED:
        return messages[0]
    if messages:
        raise AssertionError(in_vain("the operation", messages, non_empty(db, messages)))
    return None


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
    sessions = [{"id": found["lsid"]["id"]} for found in admin.aggregate(idle)]
    if sessions:
        admin.command("killSessions", sessions, codec_options=db.codec_options)


def _find_wrong(
    db: Db, prepared: Any, settle: Act, check: Act, problems: Callable[[Db], Iterable[object]] | None
) -> str:
    """Settle and check the database after a crash; describe what is wrong, or return an empty string."""
    try:
        for _ in range(2):
            call(settle, db, prepared)
    except Exception as error:
        return f"settle failed: {one_line(error)}"
    if found := found_by(problems, db):
        return found
    if left := leftovers({name: list(db[name].find()) for name in collection_names(db)}):
        return "left behind: " + "; ".join(left)
    return failure_of(check, db, prepared)
