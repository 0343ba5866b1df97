"""Ask the server for a command's query plan, and report plans that do not use an index well."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bson.codec_options import CodecOptions

from squinney.mongo.queries import stages
from squinney.mongo.schema import Db

FEW_DOCUMENTS = 50
MAX_EXAMINED = 10
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
JOINS = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}  # by stage, the field with the collection
NOT_EXPLAINED = ("$changeStream", "$currentOp", "$collStats", "$indexStats", "$documents")
# The server truncates long index bounds, possibly in the middle of a UTF-8 character.
LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(unicode_decode_error_handler="replace")

Command = dict[str, Any]


def explainable(name: str, command: Mapping[str, Any]) -> Iterator[Command]:
    """Yield the parts of a command that the server can explain; nothing for a command that reads no collection."""
    collection = command.get(name)
    if name not in KEPT or not isinstance(collection, str):
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


def collections_read(command: Command) -> set[str]:
    """Return the names of the collections that an explainable command reads, also by `$lookup` and the like."""
    name = next(iter(command))
    return {command[name], *_joined(command.get("pipeline", ()))}


def _joined(value: Any) -> Iterator[str]:
    """Yield the collections that the stages of a pipeline, or of a pipeline inside it, join."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in JOINS:
                joined = inner if isinstance(inner, str) else inner.get(JOINS[key])
                yield from [joined] if isinstance(joined, str) else []
            yield from _joined(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _joined(inner)


def shape_of(name: str, command: Command) -> str:
    """Describe a command without its values, so that equal queries with different values have one shape."""
    statement = command[STATEMENTS[name]][0] if name in STATEMENTS else command
    query: Any = next((statement[key] for key in ("filter", "query", "q", "pipeline") if key in statement), {})
    sort = f" sort {json.dumps(_without_values(statement['sort']))}" if statement.get("sort") else ""
    return f"{name} {command[name]} {json.dumps(_without_values(query))}{sort}"


def _without_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_values(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list({json.dumps(inner): inner for inner in map(_without_values, value)}.values())
    return "?"


def plan_problem(db: Db, command: Command) -> str:
    """Explain the command on the current data and describe what is wrong with its plan; empty if nothing is."""
    plan = db.command({"explain": command, "verbosity": "executionStats"}, codec_options=LENIENT)
    used = stages(plan)
    if "COLLSCAN" in used:
        return "collection scan"
    if "SORT" in used:
        return "sort in memory"
    if "find" in command:
        execution = plan.get("executionStats", {})
        examined, returned = execution.get("totalDocsExamined", 0), execution.get("nReturned", 0)
        if examined > FEW_DOCUMENTS and examined > MAX_EXAMINED * max(returned, 1):
            return f"{examined} documents examined for {returned} returned"
    return ""
