"""A sweep that cannot prove anything fails, with one line that says why."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from squinney.errors import Conflict
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing import NotCrashSafe


class Empty(Conflict):
    """There is nothing in the jar."""


def _nothing(db: Db) -> None:
    pass


def _read(db: Db) -> None:
    db["jars"].find_one({})


def _take(db: Db) -> None:
    if not db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": -1}}).matched_count:
        raise Empty


def test_an_operation_that_writes_nothing(sweep: Callable[..., object]) -> None:
    with pytest.raises(AssertionError, match="wrote nothing"):
        sweep(_nothing, _read, _nothing)


def _add(db: Db) -> None:
    db["jars"].insert_one({"_id": "a"})


def _kill_itself(db: Db, note: str) -> None:
    if proxy := re.search(r"[^']+/s\.sock", repr(db.client)):
        Path(note).write_text(proxy[0])
        os.kill(os.getpid(), signal.SIGKILL)
    _add(db)


def test_a_child_that_is_killed_leaves_no_folder(sweep: Callable[..., object], tmp_path: Path) -> None:
    """It is killed while its client uses a proxy, whose socket is in a temporary folder."""
    note = tmp_path / "note"
    with pytest.raises(AssertionError, match="exit code -9"):
        sweep(lambda db: str(note), _kill_itself, _nothing, ways=["reply-lost"])
    socket = Path(note.read_text())
    assert socket.name == "s.sock"
    assert not socket.parent.exists()


def _add_elsewhere(db: Db) -> None:
    _add(db)
    db.client[f"{db.name}_other"]["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})


def _add_by_another_client(db: Db, uri: str) -> None:
    _add(db)
    with client_for(uri) as client:
        client[db.name]["jars"].insert_one({"_id": "b"})


def test_writes_that_no_crash_meets(sweep: Callable[..., object], mongod: Embedded) -> None:
    with pytest.raises(AssertionError, match=r"it wrote to the database 'test_\w+_other'.*: use the one that"):
        sweep(_nothing, _add_elsewhere, _nothing)
    with pytest.raises(AssertionError, match=r"it used another client.*: use the database that"):
        sweep(lambda db: mongod.uri, _add_by_another_client, _nothing)


async def _asynchronously(db: Db) -> None:
    _add(db)


async def _piecewise(db: Db) -> AsyncIterator[None]:
    _add(db)
    yield


def _lazily(db: Db) -> Iterator[None]:
    _add(db)
    yield


def _three(db: Db, prepared: object, more: object) -> None:
    _add(db)


def _for_ever(db: Db) -> None:
    while True:
        time.sleep(0.05)


def _false(db: Db) -> bool:
    return False


def _bare(db: Db) -> None:
    raise AssertionError


def _broken(db: Db) -> None:
    raise Empty


def _finding(db: Db) -> Iterator[str]:
    yield "a jar is empty"


class Jars:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def add(self, db: Db) -> None:
        _add(db)


def _a_lock(db: Db) -> object:
    return threading.Lock()


def _jar(db: Db) -> None:
    db["jars"].insert_one({"_id": "a", "beans": 5})


def _misspelt(db: Db) -> None:
    db["jasr"].update_one({"_id": "a"}, {"$inc": {"beans": -1}})
    db["jasr"].update_one({"_id": "b"}, {"$inc": {"beans": 1}})


def _another_id(db: Db) -> None:
    db["jars"].find_one_and_update({"_id": "c"}, {"$inc": {"beans": 1}})
    db["jars"].delete_one({"_id": "c"})
    _misspelt(db)


def _borrow(db: Db) -> None:
    db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": -1}})
    db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})


def test_an_operation_that_changes_nothing(sweep: Callable[..., object]) -> None:
    with pytest.raises(
        AssertionError, match=r"^the operation changed no document: the writes went to jasr, which is empty$"
    ):
        sweep(_jar, _misspelt, _nothing)
    with pytest.raises(AssertionError, match=r"the writes went to jars and to jasr, which is empty$"):
        sweep(_jar, _another_id, _nothing)
    sweep(_jar, _borrow, _nothing, ways=["after"])  # what is undone later was a change


def test_an_error_of_prepare_is_told_from_one_of_the_operation(sweep: Callable[..., object]) -> None:
    with pytest.raises(Empty) as found:
        sweep(_broken, _add, _nothing)
    assert found.value.__notes__ == ["while prepare ran"]


def test_an_operation_that_fails_without_a_crash(sweep: Callable[..., object]) -> None:
    with pytest.raises(AssertionError) as found:
        sweep(_nothing, _take, _nothing)
    message = str(found.value).splitlines()
    assert message[0] == "the operation failed without a crash"
    assert message[2].endswith("in _take")  # where it begins: nothing of ours is between
    assert message[-1].endswith("Empty: There is nothing in the jar.")


def test_an_operation_that_never_ends(sweep: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("squinney.testing.crash.sweep"), "CHILD_SECONDS", 0.5)
    with pytest.raises(AssertionError, match=r"did not end in 0\.5 seconds"):
        sweep(_nothing, _for_ever, _nothing)


def test_an_operation_that_another_process_cannot_import(
    sweep: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = ModuleType("nowhere")
    exec("def act(db): pass", nowhere.__dict__)
    monkeypatch.setitem(sys.modules, "nowhere", nowhere)
    with pytest.raises(AssertionError, match="cannot import the operation") as found:
        sweep(_nothing, nowhere.act, _nothing)
    assert "No module named 'nowhere'" in str(found.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"act": [_add]}, "act must be a function that takes the database, not"),
        ({"act": _piecewise}, "act must not be a generator function"),
        ({"act": _lazily}, "act must not be a generator function"),
        ({"act": _three}, "act is called with the database and.* missing a required argument: 'more'"),
        (
            {"act": lambda db: _add(db)},
            "act is sent to another process, so it must be a function at the top level",
        ),
        ({"act": Jars().add}, "act is sent to another process.*cannot pickle"),
        ({"prepare": _a_lock}, "what prepare returns is sent to another process"),
        ({"prepare": _three}, "prepare is called with the database:"),
        ({"check": None}, "check must be a function that takes the database, not None"),
        ({"check": _asynchronously}, "check must not be async"),
        ({"settle": "repair"}, "settle must be a function that takes the database, not 'repair'"),
        ({"problems": []}, r"problems must be a function that takes the database, not \[\]"),
        ({"ways": "before"}, "ways must be a list of one or more of before, after, reply-lost"),
        ({"ways": ["sideways"]}, "ways must be a list of one or more of before, after, reply-lost"),
        ({"collections": ["jars"]}, "collections must hold .*Collection objects, not 'jars'"),
    ],
)
def test_what_cannot_be_swept(sweep: Callable[..., object], given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        sweep(**{"prepare": _nothing, "act": _add, "check": _nothing, **given})


def _add_two(db: Db) -> None:
    _add(db)
    db["jars"].insert_one({"_id": "b"})


def _one_is_missing(db: Db) -> bool:
    return db["jars"].count_documents({}) == 1


FAILURES: list[tuple[str, Callable[[Db], object], str]] = [
    ("check", _false, "the check returned False"),
    ("check", _bare, ": raise AssertionError"),
    ("settle", _broken, "settle failed: Empty: There is nothing in the jar."),
    ("problems", _broken, "problems failed: Empty: There is nothing in the jar."),
    ("problems", _finding, "problems: a jar is empty"),
]


@pytest.mark.parametrize(("name", "fail", "message"), FAILURES)
def test_a_failure_after_a_crash_is_reported_with_its_crash_point(
    sweep: Callable[..., object], name: str, fail: Callable[[Db], object], message: str
) -> None:
    given = {name: lambda db: fail(db) if _one_is_missing(db) else []}
    with pytest.raises(NotCrashSafe) as found:
        sweep(**{"prepare": _nothing, "act": _add_two, "check": _nothing, "ways": ["after"], **given})
    (point,) = found.value.points
    assert message in point.wrong


@pytest.mark.parametrize(("name", "fail", "message"), FAILURES)
def test_a_failure_without_a_crash_is_not_counted_as_one_after_each_crash(
    sweep: Callable[..., object], name: str, fail: Callable[[Db], object], message: str
) -> None:
    with pytest.raises(AssertionError, match=r"^the checks fail even without a crash: ") as found:
        sweep(**{"prepare": _nothing, "act": _add, "check": _nothing, name: fail})
    assert message in str(found.value)
