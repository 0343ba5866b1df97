"""Every query of the network, named once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from bson.max_key import MaxKey
from bson.min_key import MinKey

from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Document

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
QUEUE = "social"
CLEARING = f"{QUEUE}/clear-"  # the beginning of the ids of tasks that remove a deleted post's comments
Place = tuple[datetime, str]  # of the last one seen, in a list by time

USER = Query("social.user", "social.users", where=lambda user: {"_id": user}, example={"user": "u"})
SOME_USERS = Query(
    "social.some-users",
    "social.users",
    where=lambda users: {"_id": {"$in": users}},
    example={"users": ["a", "b"]},
    routing="few",
    reason="the people of one screen, or of one batch of deliveries",
)
MEMBERS = Query(
    "social.members",
    "social.users",
    where=dict,
    sort=[("joined_at", -1), ("_id", -1)],
    routing="broadcast",
    reason="lists the members of all shards, a page at a time",
)
HANDLE = Query("social.handle", "social.handles", where=lambda handle: {"_id": handle}, example={"handle": "h"})
SOME_HANDLES = Query(
    "social.some-handles",
    "social.handles",
    where=lambda handles: {"_id": {"$in": handles}},
    example={"handles": ["a", "b"]},
    routing="few",
    reason="those who are mentioned in one text",
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
    reason="those of one batch of a graph that is loaded, or of entries that are swept",
)


def _list_of(what: str, field: str) -> Query:
    return Query(
        f"social.{what}",
        "social.edges",
        # The range names a type: only then does the server know that the partial index has all of them.
        where=lambda owner: {"_id.owner": owner, field: {"$gte": datetime(1, 1, 1, tzinfo=UTC)}},
        example={"owner": "a"},
        sort=[(field, -1), ("_id.other", -1)],
    )


CIRCLED = _list_of("circled", "circled_at")
FOLLOWERS = _list_of("followers", "follower_at")
BLOCKED = _list_of("blocked", "blocked_at")


RELATED_SINCE = {"followers": "follower_at", "circled": "circled_at"}


def _receivers(field: str) -> Callable[..., list[Document]]:
    def stages(
        owner: str, until: datetime, limit: int, place: Place | None = None, circles: Sequence[str] | None = None
    ) -> list[Document]:
        """As one list of ids: edge by edge, to decode them would cost more than to insert the entries."""
        where: Document = {"_id.owner": owner, field: {"$lte": until}}
        if place is not None:
            same_moment = {field: place[0], "_id.other": {"$gt": place[1]}}
            where = {"_id.owner": owner, "$or": [same_moment, {field: {"$gt": place[0], "$lte": until}}]}
        if circles is not None:
            where["circles"] = {"$elemMatch": {"name": {"$in": circles}, "at": {"$lte": until}}}
        found = {"_id": None, "readers": {"$push": "$_id.other"}, "at": {"$last": f"${field}"}}
        return [{"$match": where}, {"$sort": {field: 1, "_id.other": 1}}, {"$limit": limit}, {"$group": found}]

    return stages


def _receivers_of_some(field: str) -> Callable[..., list[Document]]:
    def stages(owners: Sequence[str], limit: int) -> list[Document]:
        """In the order of the owners, so that at a limit only the last one's are cut, or missing."""
        where = {"_id.owner": {"$in": owners}, field: {"$gte": datetime(1, 1, 1, tzinfo=UTC)}}
        in_order = {"_id.owner": 1, field: -1, "_id.other": -1}
        found = {"_id": "$_id.owner", "readers": {"$push": "$_id.other"}, "latest": {"$max": f"${field}"}}
        return [{"$match": where}, {"$sort": in_order}, {"$limit": limit}, {"$group": found}]

    return stages


RECEIVERS = {
    what: Pipeline(
        f"social.{what}-until",
        "social.edges",
        stages=_receivers(field),
        example={"owner": "a", "until": _DAY, "limit": 100, "place": (_DAY, "b")},
    )
    for what, field in RELATED_SINCE.items()
}
RECEIVERS_OF_SOME = {
    what: Pipeline(
        f"social.{what}-of-some",
        "social.edges",
        stages=_receivers_of_some(field),
        example={"owners": ["a", "b"], "limit": 100},
        routing="few",
        reason="whom the posts reach that are delivered together",
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
    reason="those of one batch of entries that are swept",
)


def _behind(place: Place | None) -> Document:
    """Posts behind a place. As one range with an exception: an `$or` would hide from the server that it is in order."""
    if place is None:
        return {}
    return {"ts": {"$lte": place[0]}, "$nor": [{"ts": place[0], "_id": {"$gte": place[1]}}]}


def by(people: Collection[str]) -> Document:
    """Those of some people. As an expression: else the server may take the index by author to leave them out, and then
    sort all others in memory."""
    return {"$expr": {"$in": ["$by", {"$literal": sorted(people)}]}}


def _without(hidden: Collection[Document]) -> Document:
    return {"$and": [{"$nor": list(hidden)}]} if hidden else {}  # beside the `$nor` of a place


WALL = Query(
    "social.wall",
    "social.posts",
    where=lambda owner, place=None, hidden=(): {
        "$or": [{"by": owner, **_behind(place)}, {"to": owner, **_behind(place)}],
        **_without(hidden),
    },
    example={"owner": "u"},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="posts live by their own id; each shard gives its newest of two short ranges",
)
INCOMING = Query(
    "social.incoming",
    "social.posts",
    where=lambda owner, place=None, hidden=(): {"to": owner, **_behind(place), **_without(hidden)},
    example={"owner": "u"},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="posts live by their own id; each shard gives its newest",
)
POSTS_BY = Query(
    "social.posts-by",
    "social.posts",
    where=lambda user: {"by": user},
    example={"user": "u"},
    sort=[("ts", -1), ("_id", -1)],
    routing="broadcast",
    reason="export and erasure of a person",
)
PHOTO_POSTS = Query(
    "social.photo-posts",
    "social.posts",
    where=lambda photos: {"detail.file": {"$in": photos}},
    example={"photos": ["f", "g"]},
    routing="broadcast",
    reason="which of some kept photos a post still shows",
)
COMMENT = Query(
    "social.comment",
    "social.comments",
    where=lambda comment: {"_id": comment},
    example={"comment": "c"},
    routing="broadcast",
    reason="who deletes a comment knows its id only",
)
COMMENTS = Query(
    "social.comments",
    "social.comments",
    where=lambda post, without=(): {"post_id": post, **_without([by(without)] if without else [])},
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
    reason="export and erasure of a person",
)


def _by_others(people: Collection[str], field: str) -> Document:
    return {field: {"$nin": sorted(people)}} if people else {}


# ---- lists of small documents under ids in order ----


def _before(user: str, name: str, place: Place | None, since: datetime | None = None) -> Document:
    """A user's entries, or those behind a place; none from before a time."""
    end = {"u": user, "t": place[0], name: place[1]} if place else {"u": user, "t": MaxKey()}
    return {"_id": {"$gt": {"u": user, "t": since or MinKey()}, "$lt": end}}


NOTICES = Query(
    "social.notices",
    "social.notices",
    where=lambda user, place=None, since=None, without=(): {
        **_before(user, "n", place, since),
        **_by_others(without, "by"),
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
    where=lambda user, place=None, without=(): {
        **_before(user, "p", place),
        **_by_others(without, "b"),
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
        reason="the sweep goes through everything, a batch at a time",
    )
    for what in ("news", "notices")
}
PLACE = Query("social.place", "social.places", where=lambda sweep: {"_id": sweep}, example={"sweep": "news"})


def _news(user: str, limit: int, place: Place | None = None, without: Collection[str] = ()) -> list[Document]:
    """A member with the newest entries of their news but those of some authors, the newest posts of those authors whose
    posts are not delivered but merged in, both without what they say, and then the posts."""
    of_user = NEWS_OF(user=user, place=place, without=without)
    entries = [{"$match": of_user}, {"$sort": {"_id": -1}}, {"$limit": limit}]
    newest: list[Document] = [{"$sort": {"ts": -1, "_id": -1}}, {"$limit": limit}]
    of_author = [{"$match": {"merged": True, **_behind(place)}}, *newest, {"$project": {"ts": 1}}]
    posts = {"from": "social.posts", "localField": "_id", "foreignField": "by", "pipeline": of_author, "as": "posts"}
    # Only the newest of all authors' leave this stage: five thousand authors' would be no document any more.
    of_all = [{"$unwind": "$posts"}, {"$replaceWith": "$posts"}, *newest]
    merged = [{"$project": {"_id": 1}}, {"$lookup": posts}, *of_all]
    authors = {"from": "social.users", "localField": "merged", "foreignField": "_id", "pipeline": merged}
    return [
        {"$match": {"_id": user}},
        {"$project": {"muted": 1, "merged": 1, "left_at": 1}},
        {"$lookup": {"from": "social.news", "pipeline": entries, "as": "entries"}},
        {"$lookup": {**authors, "as": "newest"}},
        {"$set": {"ids": {"$concatArrays": ["$entries._id.p", "$newest._id"]}, "merged": "$$REMOVE"}},
        # Once for all of them: one by one it would be a query for each.
        {"$lookup": {"from": "social.posts", "localField": "ids", "foreignField": "_id", "as": "posts"}},
    ]


def _notices(
    user: str, limit: int, place: Place | None = None, since: datetime | None = None, without: Collection[str] = ()
) -> list[Document]:
    """A member with their newest notices but those of some people, and the posts that these are about."""
    of_user = NOTICES(user=user, place=place, since=since, without=without)
    entries = [{"$match": of_user}, {"$sort": {"_id": -1}}, {"$limit": limit}]
    return [
        {"$match": {"_id": user}},
        {"$project": {"muted": 1, "seen_at": 1, "left_at": 1}},
        {"$lookup": {"from": "social.notices", "pipeline": entries, "as": "entries"}},
        {"$lookup": {"from": "social.posts", "localField": "entries.post", "foreignField": "_id", "as": "posts"}},
    ]


NEWS = Pipeline("social.news", "social.users", stages=_news, example={"user": "u", "limit": 20})
TOLD = Pipeline("social.told", "social.users", stages=_notices, example={"user": "u", "limit": 20})


def _people(viewer: str, people: list[str]) -> list[Document]:
    """Those people, and behind them the viewer's edges to them: two kinds of documents."""
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
    reason="the people of one screen",
)


QUERIES: list[Query | Pipeline] = [
    USER,
    SOME_USERS,
    MEMBERS,
    HANDLE,
    SOME_HANDLES,
    EDGE,
    EDGES_OF,
    EDGES_TO,
    SOME_EDGES,
    CIRCLED,
    FOLLOWERS,
    BLOCKED,
    *RECEIVERS.values(),
    *RECEIVERS_OF_SOME.values(),
    POST,
    SOME_POSTS,
    WALL,
    INCOMING,
    POSTS_BY,
    PHOTO_POSTS,
    COMMENT,
    COMMENTS,
    LATEST_COMMENTS,
    COMMENTS_BY,
    NOTICES,
    NOTICES_AT,
    NEWS_OF,
    *ENTRIES_AFTER.values(),
    PLACE,
    NEWS,
    TOLD,
    PEOPLE,
]
