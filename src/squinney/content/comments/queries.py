"""All queries on comments and flags."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.content.comments.documents import COMMENTS, FLAGS, PAGES, SUBJECTS
from squinney.content.nodes.documents import NODES
from squinney.content.nodes.queries import person_query
from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

_SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_A_COMMENT = "2026.01.01.00.00.00.000000:aaaa"


COMMENT = Query(
    "comments.comment",
    COMMENTS,
    where=lambda node_id, epoch, slug: {"node_id": node_id, "slug": slug, "epoch": epoch},
    example={"node_id": "n", "epoch": 1, "slug": "s"},
)
# `bounds` limit the range of a page or thread. An `_id` begins with the exact time of which `posted` has milliseconds,
# so a bound on each of them is one position in the index.
CHRONOLOGICAL = Query(
    "comments.chronological",
    COMMENTS,
    where=lambda node_id, epoch, bounds: {"node_id": node_id, "epoch": epoch, **bounds},
    example={"node_id": "n", "epoch": 1, "bounds": {"posted": {"$gte": _SOME_TIME}, "_id": {"$gt": _A_COMMENT}}},
    sort=[("posted", 1), ("_id", 1)],
)
THREADED = Query(
    "comments.threaded",
    COMMENTS,
    where=lambda node_id, epoch, bounds: {"node_id": node_id, "epoch": epoch, **bounds},
    example={"node_id": "n", "epoch": 1, "bounds": {"full_slug": {"$gte": _A_COMMENT, "$lt": f"{_A_COMMENT}0"}}},
    sort=[("full_slug", 1)],
)
BY_AUTHOR = Query(
    "comments.by-author",
    COMMENTS,
    where=lambda author_id: {"author._id": author_id},
    example={"author_id": "a"},
    sort=[("posted", -1), ("_id", -1)],
    routing="broadcast",
    reason="a person comments on nodes of every shard",
)


def _embedded_page(node: Document, sort: str, limit: int, bounds: Mapping[str, Any]) -> list[Document]:
    """Return a pipeline that sorts and cuts a node's comments on the server; `bounds` limit the value of `sort`."""
    items: Any = {"$sortArray": {"input": {"$ifNull": ["$metadata.comments", []]}, "sortBy": {sort: 1}}}
    for operator, bound in bounds.items():
        items = {"$filter": {"input": items, "as": "c", "cond": {operator: [f"$$c.{sort}", {"$literal": bound}]}}}
    return [
        {"$match": node},
        {"$project": {"items": {"$slice": [items, limit]}}},
    ]


EMBEDDED_PAGE = Pipeline(
    "comments.embedded-page",
    NODES,
    stages=_embedded_page,
    example={
        "node": {"_id": "n", "metadata.parent_id": "p", "metadata.slug": "s"},
        "sort": "_id",
        "limit": 51,
        "bounds": {"$gt": _A_COMMENT},
    },
)
EMBEDDED_PAGE_OF_SUBJECT = Pipeline(
    "comments.embedded-page-of-subject",
    SUBJECTS,
    stages=_embedded_page,
    example={"node": {"_id": "article-5"}, "sort": "_id", "limit": 51, "bounds": {"$gt": _A_COMMENT}},
)
EMBEDDED_BY = person_query("comments.embedded-by", NODES, "metadata.comments.author._id")
EMBEDDED_IN_SUBJECTS_BY = person_query("comments.embedded-in-subjects-by", SUBJECTS, "metadata.comments.author._id")
SUBJECT = Query("comments.subject", SUBJECTS, where=lambda subject: {"_id": subject}, example={"subject": "article-5"})
SOME_SUBJECTS = Query(
    "comments.some-subjects",
    SUBJECTS,
    where=lambda subjects: {"_id": {"$in": subjects}},
    example={"subjects": ["article-5", "article-6"]},
    routing="few",
    reason="the subjects of one page of comments",
)


PAGE_OF = Query(
    "comments.page-of",
    PAGES,
    where=lambda node_id, epoch, slug: {"node_id": node_id, "comments.slug": slug, "epoch": epoch},
    example={"node_id": "n", "epoch": 1, "slug": "s"},
)
PAGES_FROM = Query(
    "comments.pages-from",
    PAGES,
    where=lambda node_id, epoch, number: {"node_id": node_id, "page": {"$gte": number}, "epoch": epoch},
    example={"node_id": "n", "epoch": 1, "number": 1},
    sort=[("page", 1)],
)
PAGED_BY = Query(
    "comments.paged-by",
    PAGES,
    where=lambda author_id: {"comments.author._id": author_id},
    example={"author_id": "a"},
    routing="broadcast",
    reason="a person comments on nodes of every shard",
)


QUEUE = Query(
    "comments.queue",
    FLAGS,
    where=lambda: {"state": "open"},
    sort=[("first_at", 1), ("_id", 1)],
    routing="broadcast",
    reason="moderators see the flags of every shard in one list",
)
FLAGGED_BY = person_query("comments.flagged-by", FLAGS, "by")
DECIDED_BY = person_query("comments.decided-by", FLAGS, "decided_by")

QUERIES = declared(globals())
