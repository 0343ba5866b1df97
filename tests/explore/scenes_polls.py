"""The polls of `examples/`: concurrent votes in one poll, and its end."""

from __future__ import annotations

from typing import Any

from polls import Polls, repair
from squinney.mongo.schema import Db
from tests.explore.scene import Act, Scene


def _poll(db: Db) -> str:
    polls = Polls(db)
    poll = polls.open("Tea or coffee?", ["tea", "coffee"])["_id"]
    polls.vote(poll, "cid", "coffee")
    return poll


def _vote(person: str, option: str) -> Act:
    def act(db: Db, poll: Any) -> None:
        Polls(db).vote(poll, person, option)

    return act


OPERATIONS: dict[str, Act] = {
    "ann votes tea": _vote("ann", "tea"),
    "ann votes coffee": _vote("ann", "coffee"),
    "bob votes tea": _vote("bob", "tea"),
    "close": lambda db, poll: Polls(db).close(poll),
}

SCENES = [
    Scene("polls", "polls", _poll, OPERATIONS),
    Scene(
        "polls, repaired",
        "polls",
        _poll,
        {name: OPERATIONS[name] for name in ("ann votes tea", "close")},
        between=[repair],
    ),
]
