"""How the server answers what the product asks: each shape of command, explained."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote_plus

from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandStartedEvent

from squinney import assembly
from squinney.mongo.queries import stages
from tests.plugins.plan_exceptions import EXCEPTIONS, READS_EVERYTHING

TIMES_EACH = 3
FEW_DOCUMENTS = 50
MOST_EXAMINED = 10
KEPT = {
    "find": ("filter", "sort", "skip", "limit", "projection", "hint", "collation", "let"),
    "aggregate": ("pipeline", "hint", "collation", "let"),
    "count": ("query", "hint", "collation"),
    "distinct": ("key", "query", "collation"),
    "findAndModify": ("query", "sort", "update", "remove", "upsert", "arrayFilters", "hint", "collation"),
    "update": (),
    "delete": (),
}
STATEMENTS = {"update": "updates", "delete": "deletes"}
NOT_EXPLAINED = ("$changeStream", "$currentOp", "$collStats", "$indexStats", "$documents")
# Bounds that the server shortens may end within a character.
LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(unicode_decode_error_handler="replace")

Command = dict[str, Any]


class Plans:
    """Shapes seen, those still to be explained, and what was found."""

    def __init__(self) -> None:
        self._explained: Counter[str] = Counter()
        self._pending: dict[str, tuple[Any, str, Command]] = {}
        self._findings: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._clients: dict[Any, MongoClient[Any]] = {}

    def see(self, event: CommandStartedEvent) -> None:
        """Keep one command of each shape that the product sends."""
        if event.command_name not in KEPT or not _is_the_products():
            return
        for command in _explainable(event.command_name, event.command):
            shape = _shape(event.command_name, command)
            if self._explained[shape] < TIMES_EACH:
                self._pending[shape] = (event.connection_id, event.database_name, command)

    def explain(self) -> None:
        """Explain what this test was the first to send."""
        pending, self._pending = self._pending, {}
        for shape, (address, database, command) in pending.items():
            try:
                explain = {"explain": command, "verbosity": "executionStats"}
                plan = self._client(address)[database].command(explain, codec_options=LENIENT)
            except PyMongoError as error:
                self._lost[shape] = str(error)[:200]
                continue
            self._explained[shape] += 1
            if fault := _fault(command, plan):
                self._findings[shape] = fault

    def _client(self, address: Any) -> MongoClient[Any]:
        if address not in self._clients:
            host, port = address
            place = quote_plus(host) if port is None else f"{host}:{port}"
            uri = f"mongodb://{place}/?directConnection=true&serverSelectionTimeoutMS=1000"
            self._clients[address] = MongoClient(uri)
        return self._clients[address]

    def result(self) -> dict[str, Any]:
        """In a form that travels between processes."""
        for client in self._clients.values():
            client.close()
        return {"explained": dict(self._explained), "findings": self._findings, "lost": self._lost}

    def add(self, other: Mapping[str, Any]) -> None:
        """Take another process's findings in."""
        self._explained.update(other["explained"])
        self._findings.update(other["findings"])
        self._lost.update(other["lost"])

    def failures(self) -> list[str]:
        """Shapes without a good plan, and those that nobody could explain."""
        bad = [f"{fault}: {shape}" for shape, fault in sorted(self._findings.items()) if not _excepted(shape)]
        lost = {shape: why for shape, why in self._lost.items() if not self._explained[shape]}
        return bad + [f"not explained ({why}): {shape}" for shape, why in sorted(lost.items())]

    def summary(self) -> str:
        """How much was seen."""
        return f"{sum(times > 0 for times in self._explained.values())} shapes of commands explained"


def _is_the_products() -> bool:
    """Whether the product sends this, and not one of its checks, which read everything."""
    frame = sys._getframe(2)
    found = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("squinney."):
            if frame.f_code.co_name in READS_EVERYTHING or module.endswith((".proof", ".proof_checks")):
                return False
            found = True
        elif not found and module.startswith("tests") and not module.startswith("tests.plugins"):
            return False  # a callback of a test's, which the product only calls
        frame = frame.f_back  # type: ignore[assignment]
    return found


@cache
def _declared() -> set[str]:
    """The collections of the systems; those that the tests of patterns make up have no indexes to speak of."""
    return {collection.name for collection in assembly.collections()}


def _explainable(name: str, command: Mapping[str, Any]) -> Iterator[Command]:
    collection = command[name]
    if collection not in _declared():
        return
    if name in STATEMENTS:
        for statement in command.get(STATEMENTS[name], ()):
            yield {name: collection, STATEMENTS[name]: [statement]}
        return
    kept = {key: command[key] for key in KEPT[name] if key in command}
    if name == "aggregate":
        pipeline = [stage for stage in kept["pipeline"] if not {"$out", "$merge"} & set(stage)]
        if pipeline and set(pipeline[0]) & set(NOT_EXPLAINED):
            return
        kept |= {"pipeline": pipeline, "cursor": {}}
    yield {name: collection, **kept}


def _shape(name: str, command: Command) -> str:
    statement = command[STATEMENTS[name]][0] if name in STATEMENTS else command
    asked = [statement.get(key) for key in ("filter", "query", "q", "pipeline") if key in statement]
    sort = json.dumps(_keys(statement.get("sort")))
    return f"{name} {command[name]} {json.dumps([_keys(one) for one in asked])} sort {sort}"


def _keys(value: Any) -> Any:
    """The value with its leaves dropped."""
    if isinstance(value, Mapping):
        return {str(key): _keys(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list({json.dumps(_keys(inner)): _keys(inner) for inner in value}.values())
    return "?"


def _fault(command: Command, plan: Any) -> str:
    found = stages(plan)
    if "COLLSCAN" in found:
        return "collection scan"
    if "SORT" in found:
        return "sort in memory"
    if "find" in command:
        execution = plan.get("executionStats", {})
        examined, returned = execution.get("totalDocsExamined", 0), execution.get("nReturned", 0)
        if examined > FEW_DOCUMENTS and examined > MOST_EXAMINED * max(returned, 1):
            return f"{examined} documents examined for {returned}"
    return ""


def _excepted(shape: str) -> bool:
    return any(shape.startswith(begins) for begins, _ in EXCEPTIONS)
