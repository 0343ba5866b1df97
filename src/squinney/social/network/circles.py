"""Circles, blocks and mutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from squinney import checks
from squinney.clock import Clock
from squinney.mongo.connect import operation
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, page
from squinney.social import graph, queries, rules
from squinney.social.documents import Circled
from squinney.social.members import member, relations
from squinney.social.network import loading
from squinney.social.network.shared import change_member, check_two, do

LOADED_AT_ONCE = 1_000


class Circles:
    """Whom members follow and let see what they write, and whom they keep away."""

    _db: Db
    _clock: Clock

    @operation()
    def circle(self, me: str, other: str, circle: str) -> list[str]:
        """Put somebody into one of my circles; returns which of mine they are in. That is to follow them, and to let
        them see what I write to that circle.

        Atomic: both sides of the edge, the circle's count and the notice are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `SocialLimit`, `TooFast`, `Busy`.
        """
        name = rules.circle(circle)
        check_two(me, other)
        do(self._db, lambda session: graph.circle(self._db, me, other, name, self._clock, session))
        return self._circles_with(me, other)

    @operation()
    def uncircle(self, me: str, other: str, circle: str) -> list[str]:
        """Take somebody out of one of my circles; returns in which of mine they still are.

        Atomic: both sides of the edge and the circle's count are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        name = rules.circle(circle)
        check_two(me, other)
        do(self._db, lambda session: graph.uncircle(self._db, me, other, name, session))
        return self._circles_with(me, other)

    def _circles_with(self, me: str, other: str) -> list[str]:
        return graph.names_in(self._db["social.edges"].find_one(queries.EDGE(owner=me, other=other)) or {})

    @operation(reads_only=True)
    def circles(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Those in my circles, the latest first; their names and sizes are in `get(me)["circles"]`.

        Raises: `UnknownUser`, `Invalid`.
        """
        return self._people(queries.CIRCLED, "circled_at", me, cursor, limit)

    @operation(reads_only=True)
    def followers(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Those who have me in a circle, the latest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return self._people(queries.FOLLOWERS, "follower_at", me, cursor, limit)

    @operation(reads_only=True)
    def blocked(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Those whom I blocked, the latest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return self._people(queries.BLOCKED, "blocked_at", me, cursor, limit)

    def _people(self, query: Query, since: str, me: str, cursor: str | None, limit: int) -> Page[Circled]:
        checks.identifier(me, "me")
        found = page(self._db, query, cursor=cursor, limit=limit, owner=me)
        people = relations(self._db, me, [edge["_id"]["other"] for edge in found.items])
        with_blocked = since == "blocked_at"
        items: list[Circled] = []
        for edge in found.items:
            other = people[edge["_id"]["other"]]
            if other.here and (with_blocked or not other.blocked):
                shown = {"id": edge["_id"]["other"], "name": other.name, "handle": other.handle}
                items.append(cast(Circled, {**shown, "circles": graph.names_in(edge), "at": edge[since]}))
        return Page(items, found.next)

    @operation()
    def block(self, me: str, other: str) -> None:
        """Neither sees anything of the other from now on, until the block is lifted.

        Atomic: both sides of the edge are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `SocialLimit`, `Busy`.
        """
        check_two(me, other)
        do(self._db, lambda session: graph.block(self._db, me, other, self._clock(), session))

    @operation()
    def unblock(self, me: str, other: str) -> None:
        """Lift my block.

        Atomic: both sides of the edge are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        check_two(me, other)
        do(self._db, lambda session: graph.unblock(self._db, me, other, session))

    @operation()
    def mute(self, me: str, other: str) -> None:
        """Have somebody's posts in no news of mine, and no notices of theirs. They are not told.

        Raises: `Invalid`, `UnknownUser`, `SocialLimit`.
        """
        check_two(me, other)
        user = member(self._db, me)
        member(self._db, other)
        rules.at_most(len(user["muted"]), rules.MOST_MUTES, "muted people")
        change_member(self._db, me, {"$addToSet": {"muted": other}})

    @operation()
    def unmute(self, me: str, other: str) -> None:
        """Have somebody's posts in my news again.

        Raises: `Invalid`, `UnknownUser`.
        """
        check_two(me, other)
        change_member(self._db, me, {"$pull": {"muted": other}})

    def load(self, pairs: Iterable[tuple[str, str]], *, circle: str = "following") -> Iterator[int]:
        """Take over a graph: each first of a pair puts the second into a circle. Those who are no members become some.
        Yields after each batch how many edges were new, so that a caller can show how far it is.

        Atomic: batches of 1,000, each in one transaction.
        After a crash: load it again; what is there is left alone.
        Raises: `Invalid`, `SocialLimit`, `Busy`.
        """
        name = rules.circle(circle)
        batch: list[tuple[str, str]] = []
        for me, other in pairs:
            batch.append((checks.identifier(me, "me"), checks.identifier(other, "other")))
            if len(batch) == LOADED_AT_ONCE:
                yield self._load(batch, name)
                batch = []
        yield self._load(batch, name)

    def _load(self, batch: list[tuple[str, str]], circle: str) -> int:
        if not batch:
            return 0
        return do(self._db, lambda session: loading.load(self._db, batch, circle, self._clock(), session), seconds=60)
