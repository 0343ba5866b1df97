"""The network's shapes and collections.

```
social.users    { _id, name, handle, profile: {about, place, link}, circles: [{name, count}], circled: people in them,
                  blocks, muted: [ids], merged: [authors whose posts are merged in at reading], merging, rates, seen_at,
                  joined_at, left_at }
social.handles  { _id: handle, user }                                     what @mentions name
social.edges    { _id: {owner, other}, circles: [{name, at}], circled_at: other is in these circles of the owner's,
                  in_circles: [{name, at}], follower_at: the owner is in these circles of the other's,
                  blocked_at, blocked_by_at }                             the same facts twice, once for each of the two
social.posts    { _id, by, to, circles, type, ts, detail, mentions, merged, comments: the last 3, comment_count }
social.comments { _id, post_id, by, text, ts }
social.news     { _id: {u: reader, t: time, p: post}, b: author }         clustered: one small document a delivery
social.notices  { _id: {u: reader, t: time, n: id}, kind, by, post, comment }                          clustered
social.places   { _id: sweep, after }                                     how far a sweep has come
```
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

PUBLIC = "*public*"
CIRCLES = "*circles*"
LAST_COMMENTS = 3


class User(TypedDict):
    """A member, as they see themselves."""

    id: str
    name: str
    handle: str
    profile: dict[str, str]
    circles: list[dict[str, Any]]
    joined_at: datetime


class Person(TypedDict):
    """Somebody, as others see them. The name is as it is now; None where they have left."""

    id: str
    name: str | None
    handle: str | None


class Listed(Person):
    """Somebody in the list of all members, with the viewer's own circles that they are in."""

    about: str
    circles: list[str]


class Profile(Person):
    """A profile page. `followers` stops counting at a bound. `circled` are circles of the viewer's."""

    about: str
    place: str
    link: str
    joined_at: datetime
    followers: int
    circled: list[str]
    follows_you: bool
    muted: bool
    blocked: bool


class Comment(TypedDict):
    """A comment, as a viewer may see it."""

    id: str
    by: Person
    text: str
    ts: datetime


class Post(TypedDict):
    """A post, as a viewer may see it. Only its author sees the names of `circles`."""

    id: str
    by: Person
    to: Person | None
    audience: str
    circles: list[str]
    type: str
    ts: datetime
    detail: dict[str, Any]
    mentions: list[Person]
    comments: list[Comment]
    comment_count: int


class Notice(TypedDict):
    """Something that a member is told: a comment, a mention, or that somebody put them into a circle."""

    id: str
    kind: str
    by: Person
    ts: datetime
    seen: bool
    post: NotRequired[str]
    text: NotRequired[str]


class Circled(Person):
    """Somebody in a list of people, with the viewer's own circles that they are in, and since when."""

    circles: list[str]
    at: datetime


# A range of `_id` is a reader's list, newest first, and there is no other index to keep.
CLUSTERED = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}

COLLECTIONS = [
    Collection(
        "social.users",
        indexes=[Index([("joined_at", -1), ("_id", -1)], why="everybody, the newest first")],
        shard_key={"_id": "hashed"},
    ),
    Collection("social.handles", shard_key={"_id": "hashed"}),
    Collection(
        "social.edges",
        indexes=[
            Index([("_id.owner", 1), ("_id.other", 1)], why="what a reader is to the authors of a screen"),
            Index(
                [("_id.owner", 1), ("circled_at", -1), ("_id.other", -1)],
                partial={"circled_at": {"$exists": True}},
                why="those in somebody's circles, and delivery to them",
            ),
            Index(
                [("_id.owner", 1), ("follower_at", -1), ("_id.other", -1)],
                partial={"follower_at": {"$exists": True}},
                why="somebody's followers, and delivery to them",
            ),
            Index(
                [("_id.owner", 1), ("blocked_at", -1), ("_id.other", -1)],
                partial={"blocked_at": {"$exists": True}},
                why="those whom somebody blocked",
            ),
        ],
        shard_key={"_id.owner": 1, "_id.other": 1},
    ),
    Collection(
        "social.posts",
        indexes=[
            Index([("by", 1), ("ts", -1), ("_id", -1)], why="a wall; posts merged into news"),
            Index([("to", 1), ("ts", -1), ("_id", -1)], why="a wall; what is addressed to somebody"),
            Index([("detail.file", 1)], sparse=True, why="whether a photo is still shown"),
        ],
        shard_key={"_id": "hashed"},
        validator={
            "$jsonSchema": {
                "required": ["by", "ts", "comments", "comment_count"],
                "properties": {
                    "comments": {"bsonType": "array", "maxItems": LAST_COMMENTS},
                    "comment_count": {"bsonType": ["int", "long"], "minimum": 0},
                },
            }
        },
    ),
    Collection(
        "social.comments",
        indexes=[
            Index([("post_id", 1), ("ts", 1), ("_id", 1)], why="a post's comments, oldest first"),
            Index([("by", 1), ("_id", 1)], why="what one person wrote: export and erasure"),
        ],
        shard_key={"post_id": 1, "ts": 1},
    ),
    Collection("social.news", shard_key={"_id": 1}, options=CLUSTERED),
    Collection("social.notices", shard_key={"_id": 1}, options=CLUSTERED),
    Collection("social.places", unsharded="one small document per sweep"),
]
