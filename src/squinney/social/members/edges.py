"""Edges between members. An edge is stored once per side; both sides change in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules
from squinney.social.errors import Blocked
from squinney.social.members.accounts import unknown_user

# A field of the owner's side, and the field of the other side that stores the same value.
SIDES = [("circles", "in_circles"), ("circled_at", "follower_at"), ("blocked_at", "blocked_by_at")]
MIRRORED = {**dict(SIDES), **{theirs: mine for mine, theirs in SIDES}}


def mirrored(edge: Document) -> Document:
    """Return the edge as the other side stores it."""
    swapped = {MIRRORED[name]: value for name, value in edge.items() if name != "_id"}
    return {"_id": {"owner": edge["_id"]["other"], "other": edge["_id"]["owner"]}, **swapped}


def owner_part(edge: Document) -> Document:
    """Return the fields that the edge's owner decides. They are authoritative; the other side has a copy."""
    return {name: edge[name] for name in ("_id", *(mine for mine, _ in SIDES)) if name in edge}


def with_circle(edge: Document, circle: str, now: datetime) -> Document:
    """Return the edge after the owner puts the other member into one more circle."""
    circles = [*edge.get("circles", ()), {"name": circle, "at": now}]
    return {**edge, "circles": circles, "circled_at": edge.get("circled_at", now)}


def without_circle(edge: Document, circle: str) -> Document:
    """Return the edge after the owner takes the other member out of a circle."""
    rest = [kept for kept in edge.get("circles", ()) if kept["name"] != circle]
    if rest:
        return {**edge, "circles": rest}
    return {name: value for name, value in edge.items() if name not in ("circles", "circled_at")}


def only_blocks(edge: Document) -> Document:
    """Return the edge without the circles of either side."""
    return {name: value for name, value in edge.items() if name in ("_id", "blocked_at", "blocked_by_at")}


def circle_names(edge: Document) -> list[str]:
    """Return the names of the owner's circles that contain the other member."""
    return [circle["name"] for circle in edge.get("circles", ())]


def resized(circles: Sequence[Document], name: str, change: int) -> list[Document]:
    """Return a member's circles with the size of one changed. An empty circle is removed; a new one is added."""
    if change > 0 and all(circle["name"] != name for circle in circles):
        rules.check_limit(len(circles), rules.MAX_CIRCLES, "circles")
        return [*circles, {"name": name, "count": 1}]
    changed = [
        {**circle, "count": circle["count"] + change} if circle["name"] == name else circle for circle in circles
    ]
    return [circle for circle in changed if circle["count"] > 0]


class Pair:
    """The edge between two members inside a transaction: it is read once and written on both sides."""

    def __init__(self, db: Db, me: str, other: str, session: ClientSession) -> None:
        self._db, self._session = db, session
        edge = queries.EDGE.find_one(db, owner=me, other=other, session=session)
        self._is_new = edge is None
        self.edge: Document = edge or {"_id": {"owner": me, "other": other}}

    def require_unblocked(self) -> None:
        """Refuse if one of the two has blocked the other. A member who was blocked must not learn it.

        Raises: `Blocked` if the owner has blocked the other; `UnknownUser`, as if the other did not exist.
        """
        other = self.edge["_id"]["other"]
        if rules.is_hidden(self.edge):
            raise unknown_user(other)
        if "blocked_at" in self.edge:
            raise Blocked("you have blocked this member", user=other)

    def write(self, edge: Document) -> None:
        """Write both sides of the edge, or delete them if the edge has no fields left."""
        for side in (edge, mirrored(edge)):
            where = queries.EDGE(**side["_id"])
            if len(side) == 1:
                self._db["social.edges"].delete_one(where, session=self._session)
            elif self._is_new:
                self._db["social.edges"].insert_one(side, session=self._session)
            else:
                self._db["social.edges"].replace_one(where, side, session=self._session)
