"""The polls of `examples/` under the sweep."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from polls import AlreadyVoted, PollClosed, Polls, repair
from squinney.mongo.schema import Db
from squinney.testing import Case


def _one_poll(db: Db) -> Any:
    return Polls(db).open("Tea or coffee?", ["tea", "coffee"])["_id"]


def _vote(db: Db, poll_id: Any) -> None:
    Polls(db).vote(poll_id, "ann", "tea")


def _votes_once(db: Db, poll_id: Any) -> None:
    """Vote again: whether the first vote was stored or not, exactly one vote is stored and counted."""
    with suppress(AlreadyVoted):
        _vote(db, poll_id)
    assert Polls(db).get(poll_id)["options"] == [{"name": "tea", "votes": 1}, {"name": "coffee", "votes": 0}]
    assert db["poll_votes"].count_documents({}) == 1


def _close(db: Db, poll_id: Any) -> None:
    Polls(db).close(poll_id)


def _accepts_votes_unless_closed(db: Db, poll_id: Any) -> None:
    closed = "closed_at" in Polls(db).get(poll_id)
    try:
        _vote(db, poll_id)
    except PollClosed:
        assert closed
    except AlreadyVoted:
        pass  # this check has voted before
    else:
        assert not closed


def _miscounted(db: Db) -> None:
    for _ in range(2):
        _one_poll(db)
    db["polls"].update_many({}, {"$set": {"options.0.votes": 7}})


def _nothing_to_repair(db: Db, state: Any) -> None:
    assert not repair(db)


CASES = [
    Case("Polls.vote", system="polls", prepare=_one_poll, act=_vote, check=_votes_once),
    Case("Polls.close", system="polls", prepare=_one_poll, act=_close, check=_accepts_votes_unless_closed),
    Case(
        "polls.repair",
        system="polls",
        prepare=_miscounted,
        act=repair,
        check=_nothing_to_repair,
        age=repair,  # the next run repairs what the crashed one did not
    ),
]
