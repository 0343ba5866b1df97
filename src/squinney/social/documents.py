"""The types, stored shapes and collections of the social network.

```
social.users    { _id, name, handle, profile: {about, place, link}, circles: [{name, count}],
                  circled: number of people in all circles, blocks: number of blocked people, muted: [ids],
                  merged: [authors whose posts are merged into this member's news on reading],
                  merging: true once this author's posts are merged on reading, false while that is prepared,
                  rates, seen_at, joined_at, left_at }
social.handles  { _id: handle, user }                                     resolves @mentions
social.edges    { _id: {owner, other}, circles: [{name, at}], circled_at: the owner's circles that contain the other,
                  in_circles: [{name, at}], follower_at: the other's circles that contain the owner,
                  blocked_at, blocked_by_at }                             each relation is stored once per side
social.posts    { _id, by, to, circles, type, ts, detail, mentions, merged, comments: the last 3, comment_count }
social.comments { _id, post_id, by, text, ts, mentions }
social.news     { _id: {u: reader, t: time, p: post}, b: author,          clustered: one small document per delivery
                  f: when the follow began that brought this older post }
social.notices  { _id: {u: reader, t: time, n: id}, kind, by, post, comment, text }                    clustered
social.sweeps   { _id: sweep, after: the last entry that the sweep has checked }
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
    """A member's own account, as the member sees it."""

    id: str
    name: str
    handle: str
    profile: dict[str, str]
    circles: list[dict[str, Any]]
    joined_at: datetime


class Person(TypedDict):
    """A member, as other members see them. `name` is the current name; None if the member has left or is blocked."""

    id: str
    name: str | None
    handle: str | None


class Listed(Person):
    """An entry in the list of all members. `circles` are the viewer's circles that contain this member."""

    about: str
    circles: list[str]


class Profile(Person):
    """A member's profile. `followers` is counted up to a bound. `circled`: the viewer's circles that contain them."""

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
    """A comment, as one viewer may see it."""

    id: str
    by: Person
    text: str
    ts: datetime


class Post(TypedDict):
    """A post, as one viewer may see it. `circles` is empty for everyone except the author."""

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
    """A notification: a comment, a mention, a post on the member's wall, or a new follower."""

    id: str
    kind: str
    by: Person
    ts: datetime
    seen: bool
    post: NotRequired[str]
    text: NotRequired[str]


class Circled(Person):
    """An entry in a list of related people. `circles`: the viewer's circles that contain them. `at`: since when."""

    circles: list[str]
    at: datetime


# A reader's list is one range of `_id`, newest first. There is no other index to maintain.
CLUSTERED = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}

COLLECTIONS = [
    Collection(
        "social.users",
        indexes=[Index([("joined_at", -1), ("_id", -1)], why="all members, newest first")],
        shard_key={"_id": "hashed"},
    ),
    Collection("social.handles", shard_key={"_id": "hashed"}),
    Collection(
        "social.edges",
        indexes=[
            Index([("_id.owner", 1), ("_id.other", 1)], why="the reader's relations to the authors on one screen"),
            Index(
                [("_id.owner", 1), ("circled_at", -1), ("_id.other", -1)],
                partial={"circled_at": {"$exists": True}},
                why="the people in a member's circles, and delivery to them",
            ),
            Index(
                [("_id.owner", 1), ("follower_at", -1), ("_id.other", -1)],
                partial={"follower_at": {"$exists": True}},
                why="a member's followers, and delivery to them",
            ),
            Index(
                [("_id.owner", 1), ("blocked_at", -1), ("_id.other", -1)],
                partial={"blocked_at": {"$exists": True}},
                why="the people whom a member has blocked",
            ),
        ],
        shard_key={"_id.owner": 1, "_id.other": 1},
    ),
    Collection(
        "social.posts",
        indexes=[
            Index([("by", 1), ("ts", -1), ("_id", -1)], why="a wall; posts merged into news"),
            Index([("to", 1), ("ts", -1), ("_id", -1)], why="a wall; posts addressed to a member"),
            Index([("ts", -1), ("_id", -1)], partial={"circles": PUBLIC}, why="the public posts of all members"),
            Index([("detail.file", 1)], sparse=True, why="whether a post still shows a photo"),
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
            Index([("by", 1), ("_id", 1)], why="all comments by one member: export and erasure"),
        ],
        shard_key={"post_id": 1, "ts": 1},
    ),
    Collection("social.news", shard_key={"_id": 1}, options=CLUSTERED),
    Collection("social.notices", shard_key={"_id": 1}, options=CLUSTERED),
    Collection("social.sweeps", unsharded="one small document per sweep"),
]
