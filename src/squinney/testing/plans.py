"""How the server answers a command: by an index, or by reading everything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bson.codec_options import CodecOptions

from squinney.mongo.queries import stages
from squinney.mongo.schema import Db

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


def explainable(name: str, command: Mapping[str, Any]) -> Iterator[Command]:
    """The parts of a command that the server can explain; none for what reads no collection."""
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


def shape_of(name: str, command: Command) -> str:
    """The command without its values."""
    statement = command[STATEMENTS[name]][0] if name in STATEMENTS else command
    asked: Any = next((statement[key] for key in ("filter", "query", "q", "pipeline") if key in statement), {})
    sort = f" sort {json.dumps(_keys(statement['sort']))}" if statement.get("sort") else ""
    return f"{name} {command[name]} {json.dumps(_keys(asked))}{sort}"


def _keys(value: Any) -> Any:
    """The value with its leaves dropped."""
    if isinstance(value, Mapping):
        return {str(key): _keys(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list({json.dumps(keys): keys for keys in map(_keys, value)}.values())
    return "?"


def fault_of(command: Command, plan: Any) -> str:
    """What is wrong with the server's plan for the command; empty where nothing is."""
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


def explain(db: Db, command: Command) -> Any:
    """The server's plan, with what it read when it tried."""
    return db.command({"explain": command, "verbosity": "executionStats"}, codec_options=LENIENT)


def explained_fault(db: Db, command: Command) -> str:
    """What is wrong with the way in which the server answers the command now."""
    return fault_of(command, explain(db, command))
