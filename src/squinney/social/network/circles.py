"""Circles, blocks and mutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock
from squinney.mongo.connect import operation
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, page
from squinney.social import graph, queries, rules
from squinney.social.documents import Circled
from squinney.social.members import get_member, relations
from squinney.social.network import loading
from squinney.social.network.shared import change_member, check_two_members
from squinney.transactions import in_transaction

LOADED_AT_ONCE = 1_000


class Circles:
    """Whom members follow and write to, and whom they block or mute."""

    _db: Db
    _clock: Clock

    @operation()
    def circle(self, me: str, other: str, circle: str) -> list[str]:
        """Put `other` into a circle of `me`, and return the circles of `me` that now contain `other`.

        From then on, `me` follows `other`, and `other` sees what `me` writes to that circle.

        Atomic: both sides of the edge, the circle's count and the notice are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `SocialLimit`, `TooFast`, `Busy`.
        """
        name = rules.check_circle(circle)
        check_two_members(me, other)
        in_transaction(self._db, lambda session: graph.circle(self._db, me, other, name, self._clock, session))
        return self._circles_with(me, other)

    @operation()
    def uncircle(self, me: str, other: str, circle: str) -> list[str]:
        """Take `other` out of a circle of `me`, and return the circles of `me` that still contain `other`.

        Atomic: both sides of the edge and the circle's count are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        name = rules.check_circle(circle)
        check_two_members(me, other)
        in_transaction(self._db, lambda session: graph.uncircle(self._db, me, other, name, session))
        return self._circles_with(me, other)

    def _circles_with(self, me: str, other: str) -> list[str]:
        return graph.circle_names(self._db["social.edges"].find_one(queries.EDGE(owner=me, other=other)) or {})

    @operation(reads_only=True)
    def circles(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Return the people in the circles of `me`, latest first.

        `get(me)["circles"]` has the names and sizes of the circles.

        Raises: `UnknownUser`, `Invalid`.
        """
        return self._people(queries.CIRCLED, "circled_at", me, cursor, limit)

    @operation(reads_only=True)
    def followers(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Return the members who have `me` in a circle, latest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return self._people(queries.FOLLOWERS, "follower_at", me, cursor, limit)

    @operation(reads_only=True)
    def blocked(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Return the members whom `me` has blocked, latest first.

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
            if other.is_member and (with_blocked or not other.is_blocked):
                shown = {"id": edge["_id"]["other"], "name": other.name, "handle": other.handle}
                items.append(cast(Circled, {**shown, "circles": graph.circle_names(edge), "at": edge[since]}))
        return Page(items, found.next)

    @operation()
    def block(self, me: str, other: str) -> None:
        """Hide `me` and `other` from each other until the block is lifted.

        Atomic: both sides of the edge are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `SocialLimit`, `Busy`.
        """
        check_two_members(me, other)
        in_transaction(self._db, lambda session: graph.block(self._db, me, other, self._clock(), session))

    @operation()
    def unblock(self, me: str, other: str) -> None:
        """Lift the block of `other` by `me`.

        Atomic: both sides of the edge are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        check_two_members(me, other)
        in_transaction(self._db, lambda session: graph.unblock(self._db, me, other, session))

    @operation()
    def mute(self, me: str, other: str) -> None:
        """Remove posts and notices by `other` from the lists of `me`. `other` is not notified.

        Raises: `Invalid`, `UnknownUser`, `SocialLimit`.
        """
        check_two_members(me, other)
        user = get_member(self._db, me)
        get_member(self._db, other)
        rules.check_limit(len(user["muted"]), rules.MOST_MUTES, "muted people")
        change_member(self._db, me, {"$addToSet": {"muted": other}})

    @operation()
    def unmute(self, me: str, other: str) -> None:
        """Show posts and notices by `other` in the lists of `me` again.

        Raises: `Invalid`, `UnknownUser`.
        """
        check_two_members(me, other)
        change_member(self._db, me, {"$pull": {"muted": other}})

    def load(self, pairs: Iterable[tuple[str, str]], *, circle: str = "following") -> Iterator[int]:
        """Import a graph: the first user of each pair puts the second into a circle. Unknown users become members.

        Yields the number of new edges after each batch, so that a caller can show progress.

        Atomic: each batch of 1,000 pairs is one transaction.
        After a crash: load the graph again; edges that exist are left as they are.
        Raises: `Invalid`, `SocialLimit`, `Busy`.
        """
        name = rules.check_circle(circle)
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

        def work(session: ClientSession) -> int:
            return loading.load(self._db, batch, circle, self._clock(), session)

        return in_transaction(self._db, work, seconds=60)
