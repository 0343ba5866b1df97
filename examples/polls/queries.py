"""Every query of polls, with a name, so that the audit can prove that an index serves it."""

from __future__ import annotations

from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Document

POLL = Query("polls.poll", "polls", where=lambda poll_id: {"_id": poll_id}, example={"poll_id": "p"})
ALL = Query(
    "polls.all",
    "polls",
    where=dict,
    sort=[("opened_at", -1), ("_id", -1)],
    routing="broadcast",
    reason="polls are spread by their ids",
)


def _miscounted() -> list[Document]:
    """Find polls whose counts differ from their votes."""
    of_poll = {"$expr": {"$eq": ["$poll_id", "$$poll_id"]}}
    counted = [{"$match": of_poll}, {"$group": {"_id": "$option", "votes": {"$sum": 1}}}]
    of_option = {"$filter": {"input": "$counted", "cond": {"$eq": ["$$this._id", "$$option.name"]}}}
    votes = {"$ifNull": [{"$first": {"$map": {"input": of_option, "in": "$$this.votes"}}}, 0]}
    options = {
        "$map": {"input": "$options", "as": "option", "in": {"name": "$$option.name", "votes": votes}},
    }
    return [
        {"$lookup": {"from": "poll_votes", "let": {"poll_id": "$_id"}, "pipeline": counted, "as": "counted"}},
        {"$project": {"options": 1, "counted": options}},
        {"$match": {"$expr": {"$ne": ["$options", "$counted"]}}},
    ]


MISCOUNTED = Pipeline(
    "polls.miscounted",
    "polls",
    stages=_miscounted,
    routing="broadcast",
    reason="a check reads every poll",
)
QUERIES = [POLL, ALL]
