"""The polls of `examples/` under the sweep."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from polls import AlreadyVoted, Polls
from squinney.mongo.schema import Db
from squinney.transactions import Mode
from tests.crash.case import Case, transactions


def _one_poll(db: Db) -> Any:
    return Polls(db).open("Tea or coffee?", ["tea", "coffee"])["_id"]


def _vote(db: Db, mode: Mode, poll_id: Any) -> None:
    Polls(db, transactions=transactions(db, mode)).vote(poll_id, "ann", "tea")


def _votes_once(db: Db, poll_id: Any) -> None:
    """Whatever became of the first try, a second one leaves one vote, and it is counted."""
    for mode in ("native", "two-phase"):
        with suppress(AlreadyVoted):
            _vote(db, mode, poll_id)
    assert Polls(db).get(poll_id)["options"] == [{"name": "tea", "votes": 1}, {"name": "coffee", "votes": 0}]
    assert db["poll_votes"].count_documents({}) == 1


CASES = [Case("Polls.vote", system="polls", prepare=_one_poll, act=_vote, check=_votes_once)]
