"""Queries as declared data, so that a check can prove that each one has an index and a route to its shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pymongo.client_session import ClientSession
from pymongo.command_cursor import CommandCursor
from pymongo.cursor import Cursor

from squinney.mongo.schema import Db, Document

Routing = Literal["one", "few", "broadcast"]


@dataclass(frozen=True)
class Query:
    """A named filter with its sort; calling it returns the filter.

    `example` has arguments for `explain`. `routing` tells how many shards the query reaches; any value but "one" needs
    a `reason`. `hint` names the index if the server may choose a wrong one.
    """

    name: str
    collection: str
    where: Callable[..., Document]
    example: Mapping[str, Any] = field(default_factory=dict)
    sort: Sequence[tuple[str, int]] = ()
    routing: Routing = "one"
    reason: str = ""
    hint: str = ""

    def __call__(self, **arguments: Any) -> Document:
        return self.where(**arguments)

    def find(
        self,
        db: Db,
        *,
        limit: int = 0,
        projection: Any = None,
        session: ClientSession | None = None,
        **arguments: Any,
    ) -> Cursor[Document]:
        """Return a cursor over the matching documents, in the query's order."""
        cursor = db[self.collection].find(self.where(**arguments), projection, limit=limit, session=session)
        if self.hint:
            cursor = cursor.hint(self.hint)
        return cursor.sort(list(self.sort)) if self.sort else cursor

    def find_one(
        self, db: Db, *, projection: Any = None, session: ClientSession | None = None, **arguments: Any
    ) -> Document | None:
        """Return the first matching document in the query's order, or None."""
        return next(self.find(db, limit=1, projection=projection, session=session, **arguments), None)

    def explain(self, db: Db) -> Document:
        """The server's plan for the example, with execution figures."""
        command: Document = {"find": self.collection, "filter": self.where(**self.example)}
        if self.sort:
            command["sort"] = dict(self.sort)
        if self.hint:
            command["hint"] = self.hint
        return _explain(db, command)


@dataclass(frozen=True)
class Pipeline:
    """A named aggregation, otherwise like `Query`."""

    name: str
    collection: str
    stages: Callable[..., list[Document]]
    example: Mapping[str, Any] = field(default_factory=dict)
    routing: Routing = "one"
    reason: str = ""

    def __call__(self, **arguments: Any) -> list[Document]:
        return self.stages(**arguments)

    def run(self, db: Db, *, session: ClientSession | None = None, **arguments: Any) -> CommandCursor[Document]:
        """Return a cursor over the results."""
        return db[self.collection].aggregate(self.stages(**arguments), session=session)

    def explain(self, db: Db) -> Document:
        """The server's plan for the example, with execution figures."""
        command: Document = {"aggregate": self.collection, "pipeline": self.stages(**self.example), "cursor": {}}
        return _explain(db, command)


def problem_query(
    name: str, collection: str, stages: Callable[..., list[Document]], example: Mapping[str, Any] | None = None
) -> Pipeline:
    """Return a pipeline for `find_problems`, which reads whole collections on every shard."""
    why = "find_problems() reads everything"
    return Pipeline(name, collection, stages, example or {}, routing="broadcast", reason=why)


def declared(names: Mapping[str, Any]) -> list[Query | Pipeline]:
    """Return the queries that a module defines, from its `globals()`, so that none can be left out."""
    return [value for value in names.values() if isinstance(value, Query | Pipeline)]


def _explain(db: Db, command: Document) -> Document:
    return db.command({"explain": command, "verbosity": "executionStats"})


def stages(plan: Any) -> set[str]:
    """Return the names of all stages of an explained plan, on every shard."""
    if isinstance(plan, dict):
        names = {plan["stage"]} if isinstance(plan.get("stage"), str) else set()
        relevant = (value for name, value in plan.items() if name != "rejectedPlans")
        return names.union(*(stages(value) for value in relevant))
    if isinstance(plan, list):
        return set().union(*(stages(value) for value in plan))
    return set()
