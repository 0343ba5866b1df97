"""Concurrent operations of the social network: circles, blocks, posts, comments and leaving."""

from __future__ import annotations

from datetime import UTC, datetime

from squinney.clock import utcnow
from squinney.mongo.schema import Db
from squinney.social import Network
from tests.actions import method_of
from tests.explore.scene import Act, Scene

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NOW = utcnow()


def _network(db: Db) -> Network:
    """Return a network with a fixed clock, because posts are counted per minute."""
    return Network(db, clock=lambda: NOW)


def _let_tasks_be_due(db: Db) -> None:
    db["squinney.tasks"].update_many({}, {"$set": {"due_at": LONG_AGO}})


def _people(db: Db) -> dict[str, str]:
    """Create ann and bob, who have each other in a circle, cid, who follows ann, and a post with a comment."""
    network = _network(db)
    for one in ("ann", "bob", "cid"):
        network.join(one, user=one)
    for me, other in (("ann", "bob"), ("bob", "ann"), ("cid", "ann")):
        network.circle(me, other, "friends")
    post = network.post("ann", "status", {"text": "hello"}, ["friends"])["id"]
    return {"post": post, "comment": network.comment("bob", post, "well")}


_do = method_of(_network)


OPERATIONS: dict[str, Act] = {
    "circle": _do("circle", "ann", "cid", "friends"),
    "uncircle": _do("uncircle", "ann", "bob", "friends"),
    "block": _do("block", "ann", "bob"),
    "bob blocks": _do("block", "bob", "ann"),
    "post by key": _do("post", "ann", "status", {"text": "more"}, ["friends"], key="k"),
    "comment": _do("comment", "bob", "{post}", "again"),
    "comment by key": _do("comment", "bob", "{post}", "once", key="k"),
    "delete post": _do("delete_post", "ann", "{post}"),
    "delete comment": _do("delete_comment", "ann", "{comment}"),
    "leave": _do("leave", "ann"),
    "erase": _do("erase", "bob"),
}

SCENES = [Scene("social", "social", _people, OPERATIONS, age=_let_tasks_be_due)]
