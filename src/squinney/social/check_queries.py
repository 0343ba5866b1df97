"""What `find_problems` asks: each pipeline gives the documents that break one invariant."""

from __future__ import annotations

from datetime import UTC, datetime

from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Document
from squinney.social.documents import LAST_COMMENTS
from squinney.social.graph import SWAPPED
from squinney.social.queries import CLEARING

_ALL = "find_problems() reads everything"


def _one_sided() -> list[Document]:
    """Pairs of people of whom one side is missing, or says something else than the other. As one group for each pair: a
    look-up for each edge takes the server seven times as long."""
    is_first = {"$lt": ["$_id.owner", "$_id.other"]}
    pair = {"$cond": [is_first, "$_id", {"owner": "$_id.other", "other": "$_id.owner"}]}
    seen_by_first = {name: f"${name}" for name in SWAPPED}
    seen_by_second = {name: f"${other}" for name, other in SWAPPED.items()}
    sides = {"$push": {"$cond": [is_first, seen_by_first, seen_by_second]}}
    alike = {"$eq": [{"$arrayElemAt": ["$sides", 0]}, {"$arrayElemAt": ["$sides", 1]}]}
    return [
        {"$match": {"_id.owner": {"$gte": ""}}},
        {"$group": {"_id": pair, "sides": sides}},
        {"$match": {"$expr": {"$not": [alike]}}},
        {"$project": {"_id": 1}},
    ]


ONE_SIDED = Pipeline("social.one-sided", "social.edges", stages=_one_sided, routing="broadcast", reason=_ALL)


def _wrong_counts() -> list[Document]:
    """Members whose circles say other numbers than their edges."""
    counted = [
        {"$match": {"circled_at": {"$gte": datetime(1, 1, 1, tzinfo=UTC)}}},
        {"$project": {"_id": 0, "names": "$circles.name"}},
    ]
    edges = {"from": "social.edges", "localField": "_id", "foreignField": "_id.owner", "pipeline": counted}
    people = {"$filter": {"input": "$edges", "as": "edge", "cond": {"$in": ["$$circle.name", "$$edge.names"]}}}
    each = {"$map": {"input": "$circles", "as": "circle", "in": {"name": "$$circle.name", "count": {"$size": people}}}}
    return [
        {"$match": {"_id": {"$gte": ""}}},
        {"$project": {"circles": 1, "circled": 1}},
        {"$lookup": {**edges, "as": "edges"}},
        {"$set": {"true_circles": each, "true_circled": {"$size": "$edges"}}},
        {
            "$match": {
                "$expr": {
                    "$or": [{"$ne": ["$circles", "$true_circles"]}, {"$ne": ["$circled", "$true_circled"]}],
                }
            }
        },
        {"$unset": "edges"},
    ]


WRONG_COUNTS = Pipeline("social.wrong-counts", "social.users", stages=_wrong_counts, routing="broadcast", reason=_ALL)


def _wrong_comments() -> list[Document]:
    """Posts that show other comments, or another number of them, than there are."""
    shown = [
        {"$sort": {"ts": 1, "_id": 1}},
        {"$group": {"_id": None, "all": {"$push": "$_id"}, "count": {"$sum": 1}}},
        {"$project": {"count": 1, "last": {"$slice": ["$all", -LAST_COMMENTS]}}},
    ]
    comments = {"from": "social.comments", "localField": "_id", "foreignField": "post_id", "pipeline": shown}
    last = {"$ifNull": ["$found.last", []]}
    return [
        {"$match": {"_id": {"$gte": ""}}},
        {"$project": {"comment_count": 1, "shown": "$comments.id"}},
        {"$lookup": {**comments, "as": "found"}},
        {"$set": {"found": {"$first": "$found"}}},
        {"$set": {"count": {"$ifNull": ["$found.count", 0]}, "last": last}},
        {"$match": {"$expr": {"$or": [{"$ne": ["$count", "$comment_count"]}, {"$ne": ["$last", "$shown"]}]}}},
        {"$project": {"comment_count": 1, "count": 1}},
    ]


WRONG_COMMENTS = Pipeline(
    "social.wrong-comments", "social.posts", stages=_wrong_comments, routing="broadcast", reason=_ALL
)


def _lost_comments() -> list[Document]:
    """Comments whose post is gone, and which no task is about to remove."""
    post = {"from": "social.posts", "localField": "post_id", "foreignField": "_id", "as": "post"}
    return [
        {"$match": {"post_id": {"$gte": ""}}},
        {"$lookup": post},
        {"$match": {"post": []}},
        {"$set": {"task": {"$concat": [CLEARING, "$post_id"]}}},
        {"$lookup": {"from": "tasks", "localField": "task", "foreignField": "_id", "as": "tasks"}},
        {"$match": {"tasks": []}},
        {"$project": {"post_id": 1}},
    ]


LOST_COMMENTS = Pipeline(
    "social.lost-comments", "social.comments", stages=_lost_comments, routing="broadcast", reason=_ALL
)
