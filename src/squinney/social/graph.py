"""Circles and blocks. An edge between two members is stored once per side; both sides change in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pymongo.client_session import ClientSession

from squinney.clock import Clock
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.social import queries, rules
from squinney.social.errors import Blocked
from squinney.social.members import get_member

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
    rest = [one for one in edge.get("circles", ()) if one["name"] != circle]
    if rest:
        return {**edge, "circles": rest}
    return {name: value for name, value in edge.items() if name not in ("circles", "circled_at")}


def circle_names(edge: Document) -> list[str]:
    """Return the names of the owner's circles that contain the other member."""
    return [one["name"] for one in edge.get("circles", ())]


def resized(circles: Sequence[Document], name: str, change: int) -> list[Document]:
    """Return a member's circles with the size of one changed. An empty circle is removed; a new one is added."""
    if change > 0 and all(one["name"] != name for one in circles):
        rules.check_limit(len(circles), rules.MOST_CIRCLES, "circles")
        return [*circles, {"name": name, "count": 1}]
    changed = [{**one, "count": one["count"] + change} if one["name"] == name else one for one in circles]
    return [one for one in changed if one["count"] > 0]


# ---- one pair ----


class Pair:
    """The edge between two members inside a transaction: it is read once and written on both sides."""

    def __init__(self, db: Db, me: str, other: str, session: ClientSession) -> None:
        self._db, self._session = db, session
        found = db["social.edges"].find_one(queries.EDGE(owner=me, other=other), session=session)
        self._is_new = found is None
        self.edge: Document = found or {"_id": {"owner": me, "other": other}}

    @property
    def is_blocked(self) -> bool:
        """Whether one of the two has blocked the other."""
        return "blocked_at" in self.edge or "blocked_by_at" in self.edge

    def write(self, edge: Document) -> None:
        """Write both sides of the edge, or delete them if the edge has no fields left."""
        for one in (edge, mirrored(edge)):
            where = queries.EDGE(**one["_id"])
            if len(one) == 1:
                self._db["social.edges"].delete_one(where, session=self._session)
            elif self._is_new:
                self._db["social.edges"].insert_one(one, session=self._session)
            else:
                self._db["social.edges"].replace_one(where, one, session=self._session)


def circle(db: Db, me: str, other: str, name: str, clock: Clock, session: ClientSession) -> None:
    """Put `other` into a circle of `me`, and notify `other` if this is the first such circle."""
    user, theirs = get_member(db, me, session), get_member(db, other, session)
    pair = Pair(db, me, other, session)
    if pair.is_blocked:
        raise Blocked("one of you has blocked the other", user=other)
    if name in circle_names(pair.edge):
        return
    now = clock()
    first = "circled_at" not in pair.edge
    if first:
        rules.check_limit(user["circled"], rules.MOST_CIRCLED, "people in circles")
    change: Document = {
        "$set": {"circles": resized(user["circles"], name, 1), **rules.rate_update(user, "circles", now)},
        "$inc": {"circled": int(first)},
    }
    if "merging" in theirs:
        change["$addToSet"] = {"merged": other}
    # Concurrent changes by the same member conflict on this write, so the server runs them one after the other.
    db["social.users"].update_one(queries.USER(user=me), change, session=session)
    pair.write(with_circle(pair.edge, name, now))
    if first:
        notice = {"_id": {"u": other, "t": now, "n": new_id()}, "kind": "circled", "by": me}
        db["social.notices"].insert_one(notice, session=session)


def uncircle(db: Db, me: str, other: str, name: str, session: ClientSession) -> None:
    """Take `other` out of a circle of `me`. If it was the last one, delete the notice about the first."""
    user = get_member(db, me, session)
    pair = Pair(db, me, other, session)
    if name not in circle_names(pair.edge):
        return
    after = without_circle(pair.edge, name)
    last = "circled_at" not in after
    change: Document = {
        "$set": {"circles": resized(user["circles"], name, -1)},
        "$inc": {"circled": -int(last)},
    }
    if last:
        change["$pull"] = {"merged": other}
        # Otherwise a user who circles and uncircles someone repeatedly could push their other notices off the page.
        notice = queries.NOTICES_AT(user=other, at=pair.edge["circled_at"])
        db["social.notices"].delete_many({**notice, "kind": "circled", "by": me}, session=session)
    db["social.users"].update_one(queries.USER(user=me), change, session=session)
    pair.write(after)


def block(db: Db, me: str, other: str, now: datetime, session: ClientSession) -> None:
    """Hide both members from each other. Their circles stay, because a block can be lifted."""
    user = get_member(db, me, session)
    get_member(db, other, session)
    pair = Pair(db, me, other, session)
    if "blocked_at" in pair.edge:
        return
    rules.check_limit(user["blocks"], rules.MOST_BLOCKS, "blocked people")
    db["social.users"].update_one(queries.USER(user=me), {"$inc": {"blocks": 1}}, session=session)
    pair.write({**pair.edge, "blocked_at": now})


def unblock(db: Db, me: str, other: str, session: ClientSession) -> None:
    """Lift the block of `other` by `me`. A block of `me` by `other` stays."""
    get_member(db, me, session)
    pair = Pair(db, me, other, session)
    if "blocked_at" not in pair.edge:
        return
    db["social.users"].update_one(queries.USER(user=me), {"$inc": {"blocks": -1}}, session=session)
    pair.write({name: value for name, value in pair.edge.items() if name != "blocked_at"})


def disconnect(db: Db, me: str, other: str, session: ClientSession) -> None:
    """Delete the edge between two members, and update both members' counts: one of them has left."""
    pair = Pair(db, me, other, session)
    for edge in (pair.edge, mirrored(pair.edge)):
        _uncount(db, edge, session)
    pair.write({"_id": pair.edge["_id"]})


def _uncount(db: Db, edge: Document, session: ClientSession) -> None:
    """Remove the other member from the counts and lists in the owner's user document."""
    owner, other = edge["_id"]["owner"], edge["_id"]["other"]
    user = db["social.users"].find_one(queries.USER(user=owner), session=session)
    if user is None:
        return
    circles = user["circles"]
    for name in circle_names(edge):
        circles = resized(circles, name, -1)
    change: Document = {
        "$set": {"circles": circles},
        "$inc": {"circled": -int("circled_at" in edge), "blocks": -int("blocked_at" in edge)},
        "$pull": {"merged": other, "muted": other},
    }
    db["social.users"].update_one(queries.USER(user=owner), change, session=session)
