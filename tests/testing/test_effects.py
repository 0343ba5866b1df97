"""The replies of the server tell whether a write changed a document."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squinney.testing.effects import Effects

JARS = {"update": "jars"}
IN_BULK = {"bulkWrite": 1, "nsInfo": [{"ns": "shop.jars"}]}
NONE_IN_BULK = {"nInserted": 0, "nModified": 0, "nUpserted": 0, "nDeleted": 0}


@pytest.mark.parametrize(
    ("command", "reply", "changed"),
    [
        (JARS, {"n": 1, "nModified": 1}, True),
        (JARS, {"n": 1, "nModified": 0}, False),
        (JARS, {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": "a"}]}, True),
        (JARS, {"ok": 1}, True),  # not acknowledged
        ({"insert": "jars"}, {"n": 1}, True),
        ({"delete": "jars"}, {"n": 0}, False),
        ({"findAndModify": "jars"}, {"lastErrorObject": {"n": 0}, "value": None}, False),
        ({"findAndModify": "jars"}, {"lastErrorObject": {"n": 1}, "value": {}}, True),
        ({"aggregate": "lids", "pipeline": [{"$merge": {"into": "jars"}}]}, {"cursor": {}}, True),
        (IN_BULK, NONE_IN_BULK, False),
        (IN_BULK, {**NONE_IN_BULK, "nDeleted": 1}, True),
    ],
)
def test_what_a_reply_says(command: dict[str, Any], reply: dict[str, Any], changed: bool) -> None:
    effects = _effects(command, reply)
    assert (effects.collections, effects.changed) == ({"jars"}, changed)


def test_records_of_transactions_and_reads_do_not_count() -> None:
    for command in ({"insert": "squinney.keys"}, {"find": "jars"}, {"commitTransaction": 1}):
        effects = _effects(command, {"n": 1})
        assert (effects.collections, effects.changed) == (set(), False)


def _effects(command: dict[str, Any], reply: dict[str, Any]) -> Effects:
    effects, name = Effects(), next(iter(command))
    event: Any = SimpleNamespace(command_name=name, command=command, reply=reply, request_id=1)
    effects.started(event)
    effects.succeeded(event)
    return effects
