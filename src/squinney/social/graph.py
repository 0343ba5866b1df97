"""Circles and blocks. What two people are to each other is kept once for each; both change in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pymongo.client_session import ClientSession

from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.social import queries, rules
from squinney.social.errors import Blocked
from squinney.social.members import member

# What the owner's side calls one thing, the other's side calls the other.
SIDES = [("circles", "in_circles"), ("circled_at", "follower_at"), ("blocked_at", "blocked_by_at")]
SWAPPED = {**dict(SIDES), **{theirs: mine for mine, theirs in SIDES}}


def twin(edge: Document) -> Document:
    """The same edge as the other side keeps it."""
    swapped = {SWAPPED[name]: value for name, value in edge.items() if name != "_id"}
    return {"_id": {"owner": edge["_id"]["other"], "other": edge["_id"]["owner"]}, **swapped}


def own_part(edge: Document) -> Document:
    """What the owner of the edge decides: the record, of which the other side keeps a copy."""
    return {name: edge[name] for name in ("_id", *(mine for mine, _ in SIDES)) if name in edge}


def put_in(edge: Document, circle: str, now: datetime) -> Document:
    """The edge with the other in one more of the owner's circles."""
    circles = [*edge.get("circles", ()), {"name": circle, "at": now}]
    return {**edge, "circles": circles, "circled_at": edge.get("circled_at", now)}


def taken_out(edge: Document, circle: str) -> Document:
    """The edge with the other in one less of the owner's circles."""
    rest = [one for one in edge.get("circles", ()) if one["name"] != circle]
    if rest:
        return {**edge, "circles": rest}
    return {name: value for name, value in edge.items() if name not in ("circles", "circled_at")}


def names_in(edge: Document) -> list[str]:
    """The owner's circles that the other is in."""
    return [one["name"] for one in edge.get("circles", ())]


def counted(circles: Sequence[Document], name: str, more: int) -> list[Document]:
    """A member's circles with one more or one less in one of them; a circle without people is none."""
    if more > 0 and all(one["name"] != name for one in circles):
        rules.at_most(len(circles), rules.MOST_CIRCLES, "circles")
        return [*circles, {"name": name, "count": 1}]
    changed = [{**one, "count": one["count"] + more} if one["name"] == name else one for one in circles]
    return [one for one in changed if one["count"] > 0]


# ---- one pair ----


class Pair:
    """Two people in a transaction: read, changed, and written on both sides."""

    def __init__(self, db: Db, me: str, other: str, session: ClientSession) -> None:
        self._db, self._session = db, session
        found = db["social.edges"].find_one(queries.EDGE(owner=me, other=other), session=session)
        self._is_new = found is None
        self.edge: Document = found or {"_id": {"owner": me, "other": other}}

    @property
    def is_blocked(self) -> bool:
        """Whether one of them has blocked the other."""
        return "blocked_at" in self.edge or "blocked_by_at" in self.edge

    def write(self, edge: Document) -> None:
        """Both sides; an edge that says nothing more is removed."""
        for one in (edge, twin(edge)):
            where = queries.EDGE(**one["_id"])
            if len(one) == 1:
                self._db["social.edges"].delete_one(where, session=self._session)
            elif self._is_new:
                self._db["social.edges"].insert_one(one, session=self._session)
            else:
                self._db["social.edges"].replace_one(where, one, session=self._session)


def circle(db: Db, me: str, other: str, name: str, clock: Callable[[], datetime], session: ClientSession) -> None:
    """Put somebody into one of my circles; they are told when it is the first."""
    user, theirs = member(db, me, session), member(db, other, session)
    pair = Pair(db, me, other, session)
    if pair.is_blocked:
        raise Blocked("one of you has blocked the other", user=other)
    if name in names_in(pair.edge):
        return
    now = clock()
    first = "circled_at" not in pair.edge
    if first:
        rules.at_most(user["circled"], rules.MOST_CIRCLED, "people in circles")
    change: Document = {
        "$set": {"circles": counted(user["circles"], name, 1), **rules.counted(user, "circles", now)},
        "$inc": {"circled": int(first)},
    }
    if "merging" in theirs:
        change["$addToSet"] = {"merged": other}
    # This write also keeps apart what one member does at once.
    db["social.users"].update_one(queries.USER(user=me), change, session=session)
    pair.write(put_in(pair.edge, name, now))
    if first:
        notice = {"_id": {"u": other, "t": now, "n": new_id()}, "kind": "circled", "by": me}
        db["social.notices"].insert_one(notice, session=session)


def uncircle(db: Db, me: str, other: str, name: str, session: ClientSession) -> None:
    """Take somebody out of one of my circles; with the last one goes what they were told of it."""
    user = member(db, me, session)
    pair = Pair(db, me, other, session)
    if name not in names_in(pair.edge):
        return
    after = taken_out(pair.edge, name)
    last = "circled_at" not in after
    change: Document = {
        "$set": {"circles": counted(user["circles"], name, -1)},
        "$inc": {"circled": -int(last)},
    }
    if last:
        change["$pull"] = {"merged": other}
        # Who circles and uncircles somebody all day long must not bury what they are told.
        notice = queries.NOTICES_AT(user=other, at=pair.edge["circled_at"])
        db["social.notices"].delete_many({**notice, "kind": "circled", "by": me}, session=session)
    db["social.users"].update_one(queries.USER(user=me), change, session=session)
    pair.write(after)


def block(db: Db, me: str, other: str, now: datetime, session: ClientSession) -> None:
    """From now on neither sees anything of the other. Circles stay, for a block may be lifted."""
    user = member(db, me, session)
    member(db, other, session)
    pair = Pair(db, me, other, session)
    if "blocked_at" in pair.edge:
        return
    rules.at_most(user["blocks"], rules.MOST_BLOCKS, "blocked people")
    db["social.users"].update_one(queries.USER(user=me), {"$inc": {"blocks": 1}}, session=session)
    pair.write({**pair.edge, "blocked_at": now})


def unblock(db: Db, me: str, other: str, session: ClientSession) -> None:
    """Lift a block of mine; the other's own, if there is one, stays."""
    member(db, me, session)
    pair = Pair(db, me, other, session)
    if "blocked_at" not in pair.edge:
        return
    db["social.users"].update_one(queries.USER(user=me), {"$inc": {"blocks": -1}}, session=session)
    pair.write({name: value for name, value in pair.edge.items() if name != "blocked_at"})


def sever(db: Db, me: str, other: str, session: ClientSession) -> None:
    """Remove everything between two people, also from their circles: one of them has left."""
    pair = Pair(db, me, other, session)
    for edge in (pair.edge, twin(pair.edge)):
        _let_go(db, edge, session)
    pair.write({"_id": pair.edge["_id"]})


def _let_go(db: Db, edge: Document, session: ClientSession) -> None:
    """Count the other no more among the owner's people."""
    owner, other = edge["_id"]["owner"], edge["_id"]["other"]
    user = db["social.users"].find_one(queries.USER(user=owner), session=session)
    if user is None:
        return
    circles = user["circles"]
    for name in names_in(edge):
        circles = counted(circles, name, -1)
    change: Document = {
        "$set": {"circles": circles},
        "$inc": {"circled": -int("circled_at" in edge), "blocks": -int("blocked_at" in edge)},
        "$pull": {"merged": other, "muted": other},
    }
    db["social.users"].update_one(queries.USER(user=owner), change, session=session)
