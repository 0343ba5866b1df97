"""Find out which public operations the scenes call, by running each operation of each scene once."""

from __future__ import annotations

import importlib
import inspect
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from types import CodeType, FrameType
from typing import Any

from squinney import assembly
from squinney.errors import SquinneyError
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.testing.async_operations import AsyncCaller
from squinney.testing.emptying import collection_names, empty
from squinney.testing.explorer.operations import Act
from squinney.testing.explorer.prepared import PreparedDatabase
from squinney.testing.explorer.written_collections import WrittenCollections
from squinney.testing.writes import PublicOperation
from tests.explore.scene import Scene
from tests.plugins.write_rules import of_the_product


def codes() -> dict[CodeType, set[str]]:
    """Return the names of the public operations and the jobs, by the code that they run."""
    found: dict[CodeType, set[str]] = {}
    for operation in of_the_product().all.values():
        found.setdefault(_code(_function(operation)), set()).add(operation.name)
    for job in assembly.jobs():
        found.setdefault(_code(job.run), set()).add(f"job:{job.name}")
    return found


def _function(operation: PublicOperation) -> Any:
    """Import the function of an operation, which is known from its source."""
    *path, name = operation.function.name.split(".")
    owner = reduce(getattr, path, importlib.import_module(operation.function.module.name))
    held = inspect.getattr_static(owner, name)
    return held.fget if isinstance(held, property) else getattr(held, "__func__", held)


def _code(function: Any) -> CodeType:
    """Return the code below all decorators, so that a frame which runs it can be recognized."""
    code = inspect.unwrap(function).__code__
    assert isinstance(code, CodeType)
    return code


@contextmanager
def _noting(known: Mapping[CodeType, Iterable[str]]) -> Iterator[set[str]]:
    """In the `with` block, collect the names of all known code that new threads, and threads of those, run."""
    entered: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in known:
            entered.update(known[frame.f_code])

    before = threading.getprofile()
    threading.setprofile(note)
    try:
        yield entered
    finally:
        threading.setprofile(before)  # type: ignore[arg-type]


class SceneDatabases:
    """Prepared databases for scenes. Those of one system share a database, one after the other. Close it at the end."""

    def __init__(self, uri: str) -> None:
        self._written = WrittenCollections()
        self._client = client_for(uri, event_listeners=[self._written])
        self._asynchronous = AsyncCaller(uri, event_listeners=[self._written])
        self._databases: dict[str, Db] = {}

    def prepared(self, scene: Scene) -> PreparedDatabase:
        """Return the database of the scene's system, with the documents of this scene only."""
        if scene.system not in self._databases:
            self._databases[scene.system] = self._client[f"calls_{secrets.token_hex(6)}"]
            schema.apply(self._databases[scene.system], scene.collections)
        db = self._databases[scene.system]
        empty(db, collection_names(db))
        return PreparedDatabase(db, self._asynchronous, scene.prepare, lambda db: None, self._written)

    def close(self) -> None:
        """Drop the databases."""
        for db in self._databases.values():
            self._client.drop_database(db.name)
        self._asynchronous.close()
        self._client.close()


def calls_of(scenes: Iterable[Scene], databases: SceneDatabases) -> set[str]:
    """Run each operation of the scenes once, each on the prepared database; return the public operations they call.

    What a refused operation has called does not count: it may have ended before it changed anything.
    """
    found: set[str] = set()
    known = codes()
    for scene in scenes:
        database = databases.prepared(scene)
        for name, act in _acts(scene).items():
            with _noting(known) as entered:
                (outcome,), _ = database.run_serially([act], settled=False)
            if outcome.error and not isinstance(outcome.error, SquinneyError):
                raise AssertionError(f"{scene.name}: {name} failed alone") from outcome.error
            found |= set() if outcome.error else entered
    return found


def _acts(scene: Scene) -> dict[str, Act]:
    return {**scene.operations, **{f"between {number}": act for number, act in enumerate(scene.between, 1)}}
