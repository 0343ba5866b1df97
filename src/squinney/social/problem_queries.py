"""The queries of `find_problems`: each pipeline returns what breaks one invariant in a range of the documents.

Each range is read in one snapshot. Reading everything at once would take several times as long, because the server
would sort on disk or look up each document separately; and the server keeps old snapshots for some minutes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from squinney.mongo.queries import Query, declared, problem_query
from squinney.mongo.schema import Db, Document
from squinney.social.documents import LAST_COMMENTS
from squinney.social.members.edges import MIRRORED
from squinney.social.queries import CLEAR_TASK

AT_ONCE = 1_000
Part = Document  # a range of ids
_PART = {"part": {"$gt": "a", "$lte": "b"}}
_ALL = "find_problems() reads everything"


def _every(what: str) -> Query:
    return Query(
        f"social.every-{what}",
        f"social.{what}",
        where=lambda part: {"_id": part},
        example=_PART,
        sort=[("_id", 1)],
        routing="broadcast",
        reason=_ALL,
    )


EVERY_USER, EVERY_POST = _every("users"), _every("posts")
EVERY_EDGE = Query(
    "social.every-edge",
    "social.edges",
    where=lambda: {"_id.owner": {"$gte": ""}},
    sort=[("_id.owner", 1), ("_id.other", 1)],
    routing="broadcast",
    reason=_ALL,
)


def parts(db: Db, every: Query) -> Iterator[Part]:
    """Yield consecutive ranges of ids with `AT_ONCE` documents each; together they cover all possible ids."""
    part: Document = {"$gte": ""}
    while last := next(every.find(db, part=part, projection={"_id": 1}).skip(AT_ONCE - 1).limit(1), None):
        yield {**part, "$lte": last["_id"]}
        part = {"$gt": last["_id"]}
    # guard: the last range is checked too
    yield part


# ---- edges ----


def _one_sided(ids: Sequence[Document]) -> list[Document]:
    """Return pairs of members whose edge is missing on one side, or differs between the sides."""
    is_first = {"$lt": ["$_id.owner", "$_id.other"]}
    pair = {"$cond": [is_first, "$_id", {"owner": "$_id.other", "other": "$_id.owner"}]}
    seen_by_first = {name: f"${name}" for name in MIRRORED}
    seen_by_second = {name: f"${other}" for name, other in MIRRORED.items()}
    sides = {"$push": {"$cond": [is_first, seen_by_first, seen_by_second]}}
    equal = {"$eq": [{"$arrayElemAt": ["$sides", 0]}, {"$arrayElemAt": ["$sides", 1]}]}
    return [
        {"$match": {"_id": {"$in": ids}}},
        {"$group": {"_id": pair, "sides": sides}},
        {"$match": {"$expr": {"$not": [equal]}}},
        {"$project": {"_id": 1}},
    ]


_IDS = [{"owner": "a", "other": "b"}, {"owner": "b", "other": "a"}]
ONE_SIDED = problem_query("social.one-sided", "social.edges", _one_sided, {"ids": _IDS})


def _wrong_counts(part: Part) -> list[Document]:
    """Return members whose circles have other sizes than their edges say."""
    edges = [
        {"$match": {"_id.owner": part, "circled_at": {"$gte": datetime(1, 1, 1, tzinfo=UTC)}}},
        {"$project": {"_id": "$_id.owner", "names": {"$ifNull": ["$circles.name", []]}}},
    ]
    people = {"$filter": {"input": "$edges", "as": "names", "cond": {"$in": ["$$circle.name", "$$names"]}}}
    each = {"$map": {"input": "$circles", "as": "circle", "in": {"name": "$$circle.name", "count": {"$size": people}}}}
    return [
        {"$match": {"_id": part}},
        {"$project": {"kept": {"circles": "$circles", "circled": "$circled"}}},
        {"$unionWith": {"coll": "social.edges", "pipeline": edges}},
        {"$group": {"_id": "$_id", "kept": {"$max": "$kept"}, "edges": {"$push": "$names"}}},
        {"$match": {"kept": {"$ne": None}}},
        {"$project": {"circles": "$kept.circles", "circled": "$kept.circled", "edges": 1}},
        {"$set": {"true_circles": each, "true_circled": {"$size": "$edges"}}},
        _where_unequal(("$circles", "$true_circles"), ("$circled", "$true_circled")),
        {"$unset": "edges"},
    ]


WRONG_COUNTS = problem_query("social.wrong-counts", "social.users", _wrong_counts, _PART)


def _circles_across_blocks(part: Part) -> list[Document]:
    """Return edges of which one side has blocked the other, and that still have circles, from older versions."""
    circles = [{name: {"$exists": True}} for name in ("circled_at", "follower_at")]
    return [
        {"$match": {"_id.owner": part, "blocked_at": {"$gte": datetime(1, 1, 1, tzinfo=UTC)}, "$or": circles}},
        {"$project": {"_id": 1}},
    ]


CIRCLES_ACROSS_BLOCKS = problem_query("social.circles-across-blocks", "social.edges", _circles_across_blocks, _PART)


# ---- comments ----


def _wrong_comments(part: Part) -> list[Document]:
    """Return posts whose last comments or comment count differ from the stored comments."""
    last = {"$lastN": {"input": "$_id", "n": LAST_COMMENTS}}
    comments = [
        {"$match": {"post_id": part}},
        {"$sort": {"post_id": 1, "ts": 1, "_id": 1}},
        {"$group": {"_id": "$post_id", "count": {"$sum": 1}, "last": last}},
    ]
    return [
        {"$match": {"_id": part}},
        {"$project": {"kept": {"comment_count": "$comment_count", "shown": "$comments.id"}}},
        {"$unionWith": {"coll": "social.comments", "pipeline": comments}},
        {"$group": {"_id": "$_id", **{name: {"$max": f"${name}"} for name in ("kept", "count", "last")}}},
        {"$match": {"kept": {"$ne": None}}},
        {"$set": {"count": {"$ifNull": ["$count", 0]}, "last": {"$ifNull": ["$last", []]}}},
        _where_unequal(("$count", "$kept.comment_count"), ("$last", "$kept.shown")),
        {"$project": {"comment_count": "$kept.comment_count", "count": 1}},
    ]


WRONG_COMMENTS = problem_query("social.wrong-comments", "social.posts", _wrong_comments, _PART)


def _lost_comments(part: Part) -> list[Document]:
    """Return comments whose post does not exist, unless a task that deletes them is queued."""
    posts = [{"$match": {"_id": part}}, {"$project": {"exists": {"$literal": True}}}]
    return [
        {"$match": {"post_id": part}},
        {"$group": {"_id": "$post_id"}},
        {"$unionWith": {"coll": "social.posts", "pipeline": posts}},
        {"$group": {"_id": "$_id", "exists": {"$max": "$exists"}}},
        {"$match": {"exists": None}},
        {"$set": {"task": {"$concat": [CLEAR_TASK, "$_id"]}}},
        {"$lookup": {"from": "squinney.tasks", "localField": "task", "foreignField": "_id", "as": "tasks"}},
        {"$match": {"tasks": []}},
        {"$lookup": {"from": "social.comments", "localField": "_id", "foreignField": "post_id", "as": "comments"}},
        {"$unwind": "$comments"},
        {"$project": {"_id": "$comments._id", "post_id": "$_id"}},
    ]


LOST_COMMENTS = problem_query("social.lost-comments", "social.comments", _lost_comments, _PART)


def _where_unequal(*pairs: tuple[Any, Any]) -> Document:
    return {"$match": {"$expr": {"$or": [{"$ne": list(pair)} for pair in pairs]}}}


QUERIES = declared(globals())
