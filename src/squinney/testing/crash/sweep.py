"""The parent's side: a child dies, what mends is run, and everything is checked."""

from __future__ import annotations

import inspect
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
from squinney.testing.calls import call, failure_of, in_a_line, require_collections, require_function
from squinney.testing.children import children
from squinney.testing.crash import deaths
from squinney.testing.crash.deaths import WAYS, Way
from squinney.testing.emptying import empty
from squinney.testing.protocol import left_behind, recover
from squinney.transactions import Mode

__tracebackhide__ = True  # pytest shows the line of the test, then what is wrong; `--full-trace` shows all
CHILD_SECONDS = 60
NEVER = 1_000_000_000  # a write that no operation comes to
TOLD = {"before": "before", "after": "after", "reply-lost": "after, with its reply lost,"}

Act = Callable[..., object]


@dataclass(frozen=True)
class CrashPoint:
    """Where an operation died: at which write, in which way, in which mode; and what was wrong then, if anything."""

    write: int
    what: str
    way: Way
    mode: str = ""
    wrong: str = ""

    def __str__(self) -> str:
        where = f"died {TOLD[self.way]} write {self.write} ({self.what})" + (f", {self.mode}" if self.mode else "")
        return f"{where}: {self.wrong}" if self.wrong else where


@dataclass(frozen=True)
class Swept:
    """Every crash point of an operation."""

    points: Sequence[CrashPoint]

    def __len__(self) -> int:
        return len(self.points)


class NotCrashSafe(AssertionError):
    """Some crash points leave something wrong; `points` are those."""

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
    """Let the operation die at each of its writes, in each way, and check what is left.

    `prepare(db)` fills a database with the `collections`. `act` is the operation: a function at the top of a module,
    since it runs in a process of its own. It gets the database and, if it has a second parameter, what `prepare`
    returned; if it has one called `mode`, it is swept in both transaction modes. After each death `settle(db)` runs
    twice (by default `Transactions(db).recover()`, after all deadlines). Then `check` asserts what must hold, whether
    the operation happened or not; `problems(db)` must find nothing; and no marker of a transaction may be left.

    Raises: `NotCrashSafe`, with every crash point that leaves something wrong; `AssertionError` where the operation
    fails by itself, writes nothing or never ends; `TypeError` and `ValueError` for what cannot be swept.
    """
    modes = get_args(Mode)[1:] if callable(act) and "mode" in inspect.signature(act).parameters else ("",)
    _require_usable(prepare, act, check, settle, problems, ways, given=["mode"] if modes[0] else ())
    require_collections(collections)
    schema.apply(db, collections)
    found: list[CrashPoint] = []
    for mode in modes:
        in_mode = partial(act, mode=mode) if mode else act
        _require_to_end(in_mode, prepare, db, socket)
        for way in ways:
            for point, prepared in crash_points(in_mode, prepare, way, db, socket):
                wrong = _wrong(db, prepared, settle or recover, check, problems)
                found.append(CrashPoint(point.write, point.what, way, mode, wrong))
    if not found:
        raise AssertionError("the operation wrote nothing: there was nothing to sweep")
    if bad := [point for point in found if point.wrong]:
        raise NotCrashSafe(bad, len(found))
    return Swept(found)


def _require_usable(
    prepare: Act,
    act: Act,
    check: Act,
    settle: Act | None,
    problems: Act | None,
    ways: Sequence[str],
    given: Sequence[str],
) -> None:
    """Refuse what cannot be swept, before anything runs."""
    require_function("prepare", prepare, arguments=1)
    require_function("act", act, given=given)
    require_function("check", check)
    if settle is not None:
        require_function("settle", settle)
    if problems is not None:
        require_function("problems", problems, arguments=1)
    _packed("act", act)
    if isinstance(ways, str) or not ways or set(ways) - set(WAYS):
        raise ValueError(f"ways must be some of {', '.join(WAYS)} in a list, not {ways!r}")


def _packed(what: str, value: object) -> bytes:
    """As it is sent to another process."""
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        told = "a function at the top of a module" if what == "act" else "of ids and plain values"
        raise ValueError(f"{what} goes to another process, so make it {told}: {error}") from None


def _require_to_end(act: Act, prepare: Act, db: Db, socket: Path) -> None:
    """Let nobody die once: what fails by itself, or never ends, cannot be swept."""
    _empty(db)
    _run_child(act, "before", NEVER, db, socket, prepare(db))


def crash_points(
    act: Act,
    prepare: Act,
    way: Way,
    db: Db,
    socket: Path,
    *,
    every: int = 1,
    empty: Callable[[Db], object] | None = None,
) -> Iterator[tuple[CrashPoint, Any]]:
    """Die at one write after the other, or at every n-th; gives each point when it is dead, with what was prepared.

    The last run, which has fewer writes, is not given: nobody died.
    """
    for at_write in count(1, every):
        (empty or _empty)(db)
        prepared = prepare(db)
        what = _run_child(act, way, at_write, db, socket, prepared)
        if what is None:
            return
        yield CrashPoint(at_write, what, way), prepared


def _empty(db: Db) -> None:
    empty(db, _collections(db))


def _collections(db: Db) -> list[str]:
    return db.list_collection_names(filter={"name": {"$not": {"$regex": r"^system\."}}})


def _run_child(act: Act, way: Way, at_write: int, db: Db, socket: Path, prepared: Any) -> str | None:
    """The command at which it died; None where it had fewer writes."""
    app = f"crash-{secrets.token_hex(6)}"
    ours, theirs = multiprocessing.Pipe(duplex=False)
    arguments = (theirs, socket, db.name, app, _packed("act", act), _packed("what prepare returns", prepared))
    child = children.Process(target=deaths.run, args=(*arguments, way, at_write), daemon=True)
    child.start()
    theirs.close()
    child.join(CHILD_SECONDS)
    ended = child.exitcode
    if ended is None:
        child.kill()
    forget_open_transactions(db, app)
    said = list(_said(ours))
    if ended not in (deaths.DIED, deaths.COMPLETED):
        where = "" if at_write == NEVER else f", where it was to die {TOLD[way]} write {at_write}"
        raise AssertionError("\n".join([f"{_how(ended)}{where}", *said]))
    return said[0] if ended == deaths.DIED else None


def _how(ended: int | None) -> str:
    """How an operation ended that neither died where it was to die nor came to its end."""
    return {
        None: f"the operation did not end in {CHILD_SECONDS} seconds",
        deaths.BROKE: "the operation failed by itself",
        deaths.NOT_FOUND: "another process cannot import the operation; its module must be on sys.path",
    }.get(ended, f"the operation's process ended with {ended}")


def _said(pipe: Any) -> Iterator[str]:
    try:
        while pipe.poll():
            yield pipe.recv()
    except EOFError:
        return


def forget_open_transactions(db: Db, app: str) -> None:
    """What the server does by itself after `transactionLifetimeLimitSeconds`: a minute, as it comes."""
    idle: list[dict[str, Any]] = [
        {"$currentOp": {"idleSessions": True, "allUsers": True}},
        {"$match": {"appName": app, "type": "idleSession"}},
    ]
    admin = db.client.get_database("admin", read_concern=ReadConcern("local"))
    sessions = [{"id": found["lsid"]["id"]} for found in admin.aggregate(idle)]
    if sessions:
        admin.command("killSessions", sessions, codec_options=db.codec_options)


def _wrong(db: Db, prepared: Any, settle: Act, check: Act, problems: Callable[[Db], Iterable[object]] | None) -> str:
    """What is wrong after the operation died; empty where nothing is."""
    try:
        for _ in range(2):
            call(settle, db, prepared)
    except Exception as error:
        return f"settle failed: {in_a_line(error)}"
    try:
        found = [str(problem) for problem in problems(db)] if problems else []
    except Exception as error:
        return f"problems failed: {in_a_line(error)}"
    if found:
        return "problems: " + "; ".join(found)
    if left := left_behind({name: list(db[name].find()) for name in _collections(db)}):
        return "left behind: " + "; ".join(left)
    return failure_of(check, db, prepared)
