"""Every filter, sort and pipeline of the network, each named once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from bson.max_key import MaxKey
from bson.min_key import MinKey

from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document
from squinney.social.documents import PUBLIC

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
QUEUE = "social"
CLEAR_TASK = f"{QUEUE}/clear-"  # and the id of a deleted post: the task that deletes the post's comments
MAX_PASSED = 200  # hidden posts that one read passes over
Position = tuple[datetime, str]  # the time and the id of the last item seen, in a list by time

USER = Query("social.user", "social.users", where=lambda user: {"_id": user}, example={"user": "u"})
SOME_USERS = Query(
    "social.some-users",
    "social.users",
    where=lambda users: {"_id": {"$in": users}},
    example={"users": ["a", "b"]},
    routing="few",
    reason="the people on one screen, or in one batch of deliveries",
)
MEMBERS = Query(
    "social.members",
    "social.users",
    where=dict,
    sort=[("joined_at", -1), ("_id", -1)],
    routing="broadcast",
    reason="lists the members of all shards, one page at a time",
)
HANDLE = Query("social.handle", "social.handles", where=lambda handle: {"_id": handle}, example={"handle": "h"})
SOME_HANDLES = Query(
    "social.some-handles",
    "social.handles",
    where=lambda handles: {"_id": {"$in": handles}},
    example={"handles": ["a", "b"]},
    routing="few",
    reason="the members whom one text mentions",
)
EDGE = Query(
    "social.edge",
    "social.edges",
    where=lambda owner, other: {"_id.owner": owner, "_id.other": other},
    example={"owner": "a", "other": "b"},
)
EDGES_OF = Query(
    "social.edges-of",
    "social.edges",
    where=lambda owner: {"_id.owner": owner},
    example={"owner": "a"},
    sort=[("_id.owner", 1), ("_id.other", 1)],
)
EDGES_TO = Query(
    "social.edges-to",
    "social.edges",
    where=lambda owner, others: {"_id.owner": owner, "_id.other": {"$in": others}},
    example={"owner": "a", "others": ["b", "c"]},
)
SOME_EDGES = Query(
    "social.some-edges",
    "social.edges",
    where=lambda ids: {"_id": {"$in": ids}},
    example={"ids": [{"owner": "a", "other": "b"}, {"owner": "b", "other": "a"}]},
    routing="few",
    reason="the edges of one batch of an imported graph, or of swept entries",
)


def _edges_with(what: str, field: str) -> Query:
    return Query(
        f"social.{what}",
        "social.edges",
        # `$gte` with a date instead of `$exists`: only then does the server use the partial index.
        where=lambda owner: {"_id.owner": owner, field: {"$gte": datetime(1, 1, 1, tzinfo=UTC)}},
        example={"owner": "a"},
        sort=[(field, -1), ("_id.other", -1)],
    )


CIRCLED = _edges_with("circled", "circled_at")
FOLLOWERS = _edges_with("followers", "follower_at")
BLOCKED = _edges_with("blocked", "blocked_at")
RELATED_SINCE = {"followers": "follower_at", "circled": "circled_at"}


def _readers(field: str) -> Callable[..., list[Document]]:
    def stages(
        owner: str, until: datetime, limit: int, position: Position | None = None, circles: Sequence[str] | None = None
    ) -> list[Document]:
        """Return one list of ids: decoding edge by edge would cost more than inserting the entries."""
        where: Document = {"_id.owner": owner, field: {"$lte": until}}
        if position is not None:
            same_moment = {field: position[0], "_id.other": {"$gt": position[1]}}
            where = {"_id.owner": owner, "$or": [same_moment, {field: {"$gt": position[0], "$lte": until}}]}
        if circles is not None:
            where["circles"] = {"$elemMatch": {"name": {"$in": circles}, "at": {"$lte": until}}}
        as_list = {"_id": None, "readers": {"$push": "$_id.other"}, "at": {"$last": f"${field}"}}
        return [{"$match": where}, {"$sort": {field: 1, "_id.other": 1}}, {"$limit": limit}, {"$group": as_list}]

    return stages


def _readers_of_some(field: str) -> Callable[..., list[Document]]:
    def stages(owners: Sequence[str], limit: int) -> list[Document]:
        """Sort by owner, so that `limit` can cut or omit only the lists of the last owners."""
        where = {"_id.owner": {"$in": owners}, field: {"$gte": datetime(1, 1, 1, tzinfo=UTC)}}
        in_order = {"_id.owner": 1, field: -1, "_id.other": -1}
        by_owner = {"_id": "$_id.owner", "readers": {"$push": "$_id.other"}, "latest": {"$max": f"${field}"}}
        return [{"$match": where}, {"$sort": in_order}, {"$limit": limit}, {"$group": by_owner}]

    return stages


READERS = {
    what: Pipeline(
        f"social.{what}-until",
        "social.edges",
        stages=_readers(field),
        example={"owner": "a", "until": _DAY, "limit": 100, "position": (_DAY, "b")},
    )
    for what, field in RELATED_SINCE.items()
}
READERS_OF_SOME = {
    what: Pipeline(
        f"social.{what}-of-some",
        "social.edges",
        stages=_readers_of_some(field),
        example={"owners": ["a", "b"], "limit": 100},
        routing="few",
        reason="the readers of posts that are delivered together",
    )
    for what, field in RELATED_SINCE.items()
}
POST = Query("social.post", "social.posts", where=lambda post: {"_id": post}, example={"post": "p"})
SOME_POSTS = Query(
    "social.some-posts",
    "social.posts",
    where=lambda posts: {"_id": {"$in": posts}},
    example={"posts": ["a", "b"]},
    routing="few",
    reason="the posts of one batch of deliveries or of swept entries",
)


def _after(position: Position | None) -> Document:
    """Match posts after a position. One range with an exception: with an `$or`, the server would sort in memory."""
    if position is None:
        return {}
    return {"ts": {"$lte": position[0]}, "$nor": [{"ts": position[0], "_id": {"$gte": position[1]}}]}


def _except_by(authors: Collection[str]) -> Document:
    """Match comments that are not by these authors.

    An expression, because otherwise the server may use the index by author to exclude these authors, and then sort all
    other documents in memory.
    """
    return {"$nor": [{"$expr": {"$in": ["$by", {"$literal": sorted(authors)}]}}]} if authors else {}


WALL = Query(
    "social.wall",
    "social.posts",
    where=lambda owner, position=None: {"$or": [{"by": owner, **_after(position)}, {"to": owner, **_after(position)}]},
    example={"owner": "u"},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="posts are sharded by their id; each shard gives the newest of two short ranges",
)
INCOMING = Query(
    "social.incoming",
    "social.posts",
    where=lambda owner, position=None: {"to": owner, **_after(position)},
    example={"owner": "u"},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="posts are sharded by their id; each shard gives its newest",
)
PUBLIC_POSTS = Query(
    "social.public-posts",
    "social.posts",
    where=lambda position=None: {"circles": PUBLIC, **_after(position)},
    example={},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="posts are sharded by their id; each shard gives its newest",
)


def _not_hidden(where: Document, hidden: Sequence[Document], limit: int) -> list[Document]:
    """Return the newest posts that are not hidden among the next `MAX_PASSED`, and the last of these if all exist.

    The bound is needed because an author may have written any number of posts that a viewer may not see.
    """
    shown: list[Document] = [{"$match": {"$nor": list(hidden)}}, {"$limit": limit}]
    last: list[Document] = [{"$skip": MAX_PASSED - 1}, {"$project": {"ts": 1}}]
    return [
        {"$match": where},
        {"$sort": {"ts": -1, "_id": -1}},
        # guard: a bounded number of hidden posts is passed over at once
        {"$limit": MAX_PASSED},
        {"$facet": {"shown": shown, "last": last}},
    ]


NOT_HIDDEN = Pipeline(
    "social.not-hidden",
    "social.posts",
    stages=_not_hidden,
    example={"where": WALL(owner="u"), "hidden": [{"by": "a"}], "limit": 21},
    routing="broadcast",
    reason="posts are sharded by their id; each shard gives its newest",
)
POSTS_BY = Query(
    "social.posts-by",
    "social.posts",
    where=lambda user: {"by": user},
    example={"user": "u"},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="export and erasure of a member",
)
POSTS_SINCE = Query(
    "social.posts-since",
    "social.posts",
    where=lambda authors, since: {"by": {"$in": authors}, "ts": {"$gte": since}},
    example={"authors": ["a", "b"], "since": _DAY},
    sort=[("ts", 1)],
    routing="broadcast",
    reason="the few posts that were written while a reader began to follow their author",
)
OLDER_POSTS = Query(
    "social.older-posts",
    "social.posts",
    # A double negation, because with `$or` the server may read the public posts of everybody to find these.
    where=lambda author, reader, audiences, before: {
        "by": author,
        "ts": {"$lt": before},
        "$nor": [{"circles": {"$nin": audiences}, "to": {"$ne": reader}}],
    },
    example={"author": "a", "reader": "b", "audiences": [PUBLIC], "before": _DAY},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="the last posts of an author, once for each new follower",
)
PHOTO_POSTS = Query(
    "social.photo-posts",
    "social.posts",
    where=lambda photos: {"detail.file": {"$in": photos}},
    example={"photos": ["f", "g"]},
    routing="broadcast",
    reason="which of some stored photos a post still shows",
)
COMMENT = Query(
    "social.comment",
    "social.comments",
    where=lambda comment: {"_id": comment},
    example={"comment": "c"},
    routing="broadcast",
    reason="a caller that deletes a comment knows its id only",
)
COMMENTS = Query(
    "social.comments",
    "social.comments",
    where=lambda post, without=(): {"post_id": post, **_except_by(without)},
    example={"post": "p"},
    sort=[("ts", 1), ("_id", 1)],
)
LATEST_COMMENTS = Query(
    "social.latest-comments",
    "social.comments",
    where=lambda post: {"post_id": post},
    example={"post": "p"},
    sort=[("ts", -1), ("_id", -1)],
)
COMMENTS_BY = Query(
    "social.comments-by",
    "social.comments",
    where=lambda user: {"by": user},
    example={"user": "u"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="export and erasure of a member",
)


# ---- entries of news and notices, clustered by reader and time ----


def _not_by(people: Collection[str], field: str) -> Document:
    return {field: {"$nin": sorted(people)}} if people else {}


def _entries(user: str, name: str, position: Position | None, since: datetime | None = None) -> Document:
    """Match a user's entries after a position in the list, and not older than `since`."""
    end = {"u": user, "t": position[0], name: position[1]} if position else {"u": user, "t": MaxKey()}
    return {"_id": {"$gt": {"u": user, "t": since or MinKey()}, "$lt": end}}


NOTICES = Query(
    "social.notices",
    "social.notices",
    where=lambda user, position=None, since=None, without=(): {
        **_entries(user, "n", position, since),
        **_not_by(without, "by"),
    },
    example={"user": "u"},
    sort=[("_id", -1)],
)
NOTICES_AT = Query(
    "social.notices-at",
    "social.notices",
    where=lambda user, at: {"_id": {"$gt": {"u": user, "t": at}, "$lt": {"u": user, "t": at, "n": MaxKey()}}},
    example={"user": "u", "at": _DAY},
)
NEWS_OF = Query(
    "social.news-of",
    "social.news",
    where=lambda user, position=None, without=(): {
        **_entries(user, "p", position),
        **_not_by(without, "b"),
    },
    example={"user": "u", "without": ["a"]},
    sort=[("_id", -1)],
)
ENTRIES_AFTER = {
    what: Query(
        f"social.{what}-after",
        f"social.{what}",
        where=lambda after: {"_id": {"$gt": after}},
        example={"after": {"u": ""}},
        sort=[("_id", 1)],
        routing="broadcast",
        reason="a sweep reads the whole collection, one batch at a time",
    )
    for what in ("news", "notices")
}
SWEEP = Query("social.sweep", "social.sweeps", where=lambda sweep: {"_id": sweep}, example={"sweep": "news"})


def _news(user: str, limit: int, position: Position | None = None, without: Collection[str] = ()) -> list[Document]:
    """Return a member with the newest entries of their news, the newest posts to merge in, and the full posts of both.

    Entries by the authors in `without` are left out. Posts to merge in are those by authors with very many followers.
    """
    of_user = NEWS_OF(user=user, position=position, without=without)
    entries = [{"$match": of_user}, {"$sort": {"_id": -1}}, {"$limit": limit}]
    newest: list[Document] = [{"$sort": {"ts": -1, "_id": -1}}, {"$limit": limit}]
    of_author = [{"$match": {"merged": True, **_after(position)}}, *newest, {"$project": {"ts": 1}}]
    posts = {"from": "social.posts", "localField": "_id", "foreignField": "by", "pipeline": of_author, "as": "posts"}
    # This stage returns the newest posts of all authors only: the posts of 5,000 authors would not fit into a document.
    of_all = [{"$unwind": "$posts"}, {"$replaceWith": "$posts"}, *newest]
    merged = [{"$project": {"_id": 1}}, {"$lookup": posts}, *of_all]
    authors = {"from": "social.users", "localField": "merged", "foreignField": "_id", "pipeline": merged}
    return [
        {"$match": {"_id": user}},
        {"$project": {"muted": 1, "merged": 1, "left_at": 1}},
        {"$lookup": {"from": "social.news", "pipeline": entries, "as": "entries"}},
        {"$lookup": {**authors, "as": "newest"}},
        {"$set": {"ids": {"$concatArrays": ["$entries._id.p", "$newest._id"]}, "merged": "$$REMOVE"}},
        # One lookup for all posts: joining each entry separately would be one query per entry.
        {"$lookup": {"from": "social.posts", "localField": "ids", "foreignField": "_id", "as": "posts"}},
    ]


def _notices(
    user: str,
    limit: int,
    position: Position | None = None,
    since: datetime | None = None,
    without: Collection[str] = (),
) -> list[Document]:
    """Return a member with their newest notices and the posts of these, without notices by the people in `without`."""
    of_user = NOTICES(user=user, position=position, since=since, without=without)
    entries = [{"$match": of_user}, {"$sort": {"_id": -1}}, {"$limit": limit}]
    return [
        {"$match": {"_id": user}},
        {"$project": {"muted": 1, "seen_at": 1, "left_at": 1}},
        {"$lookup": {"from": "social.notices", "pipeline": entries, "as": "entries"}},
        {"$lookup": {"from": "social.posts", "localField": "entries.post", "foreignField": "_id", "as": "posts"}},
    ]


NEWS = Pipeline("social.news", "social.users", stages=_news, example={"user": "u", "limit": 20})
NOTICES_WITH_POSTS = Pipeline(
    "social.notices-with-posts", "social.users", stages=_notices, example={"user": "u", "limit": 20}
)


def _people(viewer: str, people: list[str]) -> list[Document]:
    """Return the users, followed by the viewer's edges to them: two kinds of documents."""
    edges = EDGES_TO(owner=viewer, others=people)
    return [
        {"$match": {"_id": {"$in": people}}},
        {"$project": {"name": 1, "handle": 1, "left_at": 1}},
        {"$unionWith": {"coll": "social.edges", "pipeline": [{"$match": edges}]}},
    ]


PEOPLE = Pipeline(
    "social.people",
    "social.users",
    stages=_people,
    example={"viewer": "v", "people": ["a", "b"]},
    routing="few",
    reason="the people on one screen",
)

QUERIES = [*declared(globals()), *READERS.values(), *READERS_OF_SOME.values(), *ENTRIES_AFTER.values()]
