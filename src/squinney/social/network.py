"""`Network`: people, circles, posts, and what each of them sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.patterns.queue import Queue
from squinney.social import graph, members, posting, queries, reading, rules
from squinney.social.documents import Circled, Comment, Listed, Notice, Post, Profile, User
from squinney.social.errors import UnknownUser
from squinney.social.export import everything_of
from squinney.social.relations import member, relations
from squinney.social.tasks.worker import Worker
from squinney.transactions import Key, in_transaction, once

T = TypeVar("T")

MERGE_ABOVE = 10_000
SETTLE_SECONDS = 90  # longer than the server lets any transaction last
FOLLOWERS_COUNTED = 10_000
LIMIT = 20
MOST_UNSEEN = 100
LOADED_AT_ONCE = 500
JOIN_TRIES = 5


class Network:
    """People who put each other into circles and write to them.

    Every read shows what its reader may see at that moment: whoever is taken out of a circle, blocked or has left sees,
    or shows, nothing more from the moment at which that is acknowledged. News are complete when `deliver`, or the
    worker, has done what is queued; walls are at once.

    Every operation is one MongoDB transaction. Public posts of authors with more than `merge_above` followers are not
    delivered, but merged into news when those are read.
    """

    def __init__(
        self,
        db: Db,
        *,
        clock: Clock = utcnow,
        merge_above: int = MERGE_ABOVE,
        settle_seconds: float = SETTLE_SECONDS,
        visibility_seconds: float = 60,
    ) -> None:
        self._db = pinned(db)
        self._clock = clock
        self._queue = Queue(db, queries.QUEUE, visibility_seconds=visibility_seconds)
        self._worker = Worker(self._db, self._queue, merge_above=merge_above, settle_seconds=settle_seconds)

    # ---- people ----

    @operation()
    def join(self, name: str, *, user: str | None = None) -> User:
        """Become a member, under an id of one's own if `user` gives one. The handle for mentions follows the name.

        Atomic: the member and the handle are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `AlreadyJoined`.
        """
        name = rules.name(name)
        user = new_id() if user is None else checks.identifier(user, "user")
        for attempt in range(JOIN_TRIES):
            try:
                made = self._do(lambda session: members.join(self._db, user, name, self._clock(), session))
                break
            except DuplicateKeyError:  # another took the handle at the same moment
                if attempt == JOIN_TRIES - 1:
                    raise
        return members.as_user(made)

    @operation(reads_only=True)
    def get(self, me: str) -> User:
        """A member, as they see themselves.

        Raises: `UnknownUser`.
        """
        return members.as_user(member(self._db, checks.identifier(me, "me")))

    @operation(reads_only=True)
    def find(self, handle: str) -> str:
        """The id of the member with that handle.

        Raises: `UnknownUser`.
        """
        checks.text(handle, "handle", least=1, most=100)
        found = self._db["social.handles"].find_one(queries.HANDLE(handle=handle))
        if found is None:
            raise UnknownUser(f"there is no member @{handle}", handle=handle)
        return cast(str, found["user"])

    @operation(reads_only=True)
    def members(self, viewer: str | None, *, cursor: str | None = None, limit: int = 50) -> Page[Listed]:
        """Everybody, the newest first, but those who are hidden from the viewer.

        Raises: `UnknownUser`, `Invalid`.
        """
        self._viewer(viewer)
        found = page(self._db, queries.MEMBERS, cursor=cursor, limit=limit)
        people = relations(self._db, viewer, [one["_id"] for one in found.items])
        shown = [one for one in found.items if people[one["_id"]].shows]
        return Page([_listed(one, people[one["_id"]]) for one in shown], found.next)

    @operation(reads_only=True)
    def profile(self, viewer: str | None, user: str) -> Profile:
        """Somebody's profile, as a viewer sees it; None is a visitor who is no member.

        Raises: `UnknownUser`, also where they have blocked the viewer.
        """
        found = member(self._db, checks.identifier(user, "user"))
        edge = self._db["social.edges"].find_one(queries.EDGE(owner=viewer or "", other=user)) or {}
        if "blocked_by_at" in edge:
            raise UnknownUser(f"there is no member {user}", user=user)
        mine = member(self._db, viewer) if viewer is not None else {}
        followers = self._db["social.edges"].count_documents(queries.FOLLOWERS(owner=user), limit=FOLLOWERS_COUNTED)
        return {
            "id": user,
            "name": found["name"],
            "handle": found["handle"],
            "about": found["profile"].get("about", ""),
            "place": found["profile"].get("place", ""),
            "link": found["profile"].get("link", ""),
            "joined_at": found["joined_at"],
            "followers": followers,
            "circled": graph.names_in(edge),
            "follows_you": "follower_at" in edge,
            "muted": user in mine.get("muted", ()),
            "blocked": "blocked_at" in edge,
        }

    def edit_profile(self, me: str, profile: Mapping[str, Any]) -> User:
        """Say something about oneself: `about`, `place` and `link`.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`.
        """
        return self._change(me, {"$set": {"profile": rules.profile(profile)}})

    def rename(self, me: str, name: str) -> User:
        """Take another name. It is stored once, so that every post and comment shows it from now on.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`.
        """
        return self._change(me, {"$set": {"name": rules.name(name)}})

    def leave(self, me: str) -> None:
        """Leave: from now on nobody sees anything of this member. What was written is kept until `erase`.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `UnknownUser`.
        """
        self._change(me, {"$set": {"left_at": self._clock()}})

    def export(self, me: str) -> Iterator[dict[str, Any]]:
        """Everything that is kept of a person, one document after the other, each with what it is in `what`.

        Raises: `UnknownUser`.
        """
        user = checks.identifier(me, "me")
        self.get(user)
        return ({"what": what, **document} for what, document in everything_of(self._db, user))

    @operation()
    def erase(self, me: str) -> None:
        """Leave, and have everything removed: posts with their comments, comments, edges, notices, the member.

        Atomic: leaving and the worker's task are one transaction; nothing is seen from then on.
        After a crash: it happened or it did not; the worker goes on where it was.
        Raises: `UnknownUser`.
        """
        checks.identifier(me, "me")

        def work(session: ClientSession) -> None:
            change = {"$set": {"left_at": self._clock()}}
            if not self._db["social.users"].update_one(queries.USER(user=me), change, session=session).matched_count:
                raise UnknownUser(f"there is no member {me}", user=me)
            self._queue.put({"do": "erase", "user": me}, key=f"erase-{me}", session=session)

        self._do(work)

    @operation()
    def _change(self, me: str, change: Document) -> User:
        checks.identifier(me, "me")
        where = {**queries.USER(user=me), "left_at": None}
        found = self._db["social.users"].find_one_and_update(where, change, return_document=True)
        if found is None:
            raise UnknownUser(f"there is no member {me}", user=me)
        return members.as_user(found)

    # ---- circles and blocks ----

    @operation()
    def circle(self, me: str, other: str, circle: str) -> list[str]:
        """Put somebody into one of my circles; returns which of mine they are in. That is to follow them, and to let
        them see what I write to that circle.

        Atomic: both sides of the edge, the circle's count and the notice are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `SocialLimit`, `TooFast`, `Busy`.
        """
        name = rules.circle(circle)
        self._two(me, other)
        self._do(lambda session: graph.circle(self._db, me, other, name, self._clock, session))
        return self._circles_with(me, other)

    @operation()
    def uncircle(self, me: str, other: str, circle: str) -> list[str]:
        """Take somebody out of one of my circles; returns in which of mine they still are.

        Atomic: both sides of the edge and the circle's count are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        name = rules.circle(circle)
        self._two(me, other)
        self._do(lambda session: graph.uncircle(self._db, me, other, name, session))
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
        self._two(me, other)
        self._do(lambda session: graph.block(self._db, me, other, self._clock(), session))

    @operation()
    def unblock(self, me: str, other: str) -> None:
        """Lift my block.

        Atomic: both sides of the edge are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        self._two(me, other)
        self._do(lambda session: graph.unblock(self._db, me, other, session))

    @operation()
    def mute(self, me: str, other: str) -> None:
        """Have somebody's posts in no news of mine, and no notices of theirs. They are not told.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`, `SocialLimit`.
        """
        self._two(me, other)
        user = member(self._db, me)
        member(self._db, other)
        rules.at_most(len(user["muted"]), rules.MOST_MUTES, "muted people")
        self._change(me, {"$addToSet": {"muted": other}})

    @operation()
    def unmute(self, me: str, other: str) -> None:
        """Have somebody's posts in my news again.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownUser`.
        """
        self._two(me, other)
        self._change(me, {"$pull": {"muted": other}})

    def load(self, pairs: Iterable[tuple[str, str]], *, circle: str = "following") -> Iterator[int]:
        """Take over a graph: each first of a pair puts the second into a circle. Those who are no members become some.
        Yields after each batch how many edges were new, so that a caller can show how far it is.

        Atomic: batches of 500, each in one transaction.
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
        return self._do(lambda session: graph.load(self._db, batch, circle, self._clock(), session), seconds=60)

    # ---- posts ----

    @operation()
    def post(
        self,
        me: str,
        type: str,
        detail: Mapping[str, Any],
        circles: list[str],
        to: str | None = None,
        *,
        key: str | Key | None = None,
    ) -> Post:
        """Write a post for `["*public*"]`, `["*circles*"]` (everybody in mine) or circles by name; `to` puts it on
        somebody's wall. With a `key` it happens once.

        Atomic: the post, its delivery's task, its notices and the count of this minute are one transaction.
        After a crash: it happened or it did not; the worker delivers it.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checked = rules.detail(type, detail)
        circles = rules.audience(circles)
        if to is not None:
            self._two(me, to, "to")

        written: dict[str, Document] = {}

        def work(session: ClientSession) -> str:
            made = posting.write_post(self._db, self._queue, me, type, checked, circles, to, self._clock, session)
            written[made["_id"]] = made
            return cast(str, made["_id"])

        arguments = {"me": me, "type": type, "detail": checked, "circles": circles, "to": to}
        made = self._once("social.post", work, key, arguments)
        if made in written:  # not by asking again: whoever leaves meanwhile has written it all the same
            return reading.as_author(self._db, written[made])
        return reading.get_post(self._db, me, made)

    @operation()
    def comment(self, me: str, post: str, text: str, *, key: str | Key | None = None) -> str:
        """Write below a post that one may see; returns the comment's id. With a `key` it happens once.

        Atomic: the comment, the last three and the count on the post, and the notices are one transaction.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownPost`, `UnknownUser`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        checks.text(text, "text", least=1, most=rules.MOST_COMMENT)
        if not text.strip():
            raise Invalid("text must not be blank", field="text")

        def work(session: ClientSession) -> str:
            return cast(str, posting.write_comment(self._db, me, post, text, self._clock, session)["_id"])

        return self._once("social.comment", work, key, {"me": me, "post": post, "text": text})

    @operation()
    def delete_post(self, me: str, post: str) -> None:
        """Remove a post of mine. Nobody sees it from now on; the worker removes its comments.

        Atomic: the post and the worker's task are one transaction.
        After a crash: it happened or it did not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        self._do(lambda session: posting.delete_post(self._db, self._queue, me, post, session))

    @operation()
    def delete_comment(self, me: str, comment: str) -> None:
        """Remove a comment of mine, or one below a post of mine.

        Atomic: the comment, its notices, and the last three and the count on the post are one transaction.
        After a crash: it happened or it did not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(comment, "comment")
        self._do(lambda session: posting.delete_comment(self._db, me, comment, session))

    # ---- reading ----

    @operation(reads_only=True)
    def news(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """What those wrote whom I follow, or who have me in the circles that they wrote to; newest first, made since
        that is so.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.news(self._db, checks.identifier(me, "me"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def wall(self, viewer: str | None, owner: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Posts by and to somebody that the viewer may see, newest first. On one's own wall, only by people whom one
        follows. `viewer` None is a visitor who is no member.

        Raises: `UnknownUser`, `Invalid`.
        """
        self._viewer(viewer)
        return reading.wall(self._db, viewer, checks.identifier(owner, "owner"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def incoming(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Everything that is addressed to me, newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.incoming(self._db, checks.identifier(me, "me"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def get_post(self, viewer: str | None, post: str) -> Post:
        """One post.

        Raises: `UnknownPost`, also where it is not for this viewer; `UnknownUser`.
        """
        self._viewer(viewer)
        return reading.get_post(self._db, viewer, checks.identifier(post, "post"))

    @operation(reads_only=True)
    def comments(self, viewer: str | None, post: str, *, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
        """A post's comments, oldest first.

        Raises: `UnknownPost`, `UnknownUser`, `Invalid`.
        """
        self._viewer(viewer)
        return reading.comments(self._db, viewer, checks.identifier(post, "post"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def notices(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Notice]:
        """What I was told: comments on my posts, mentions, posts on my wall, and who follows me; newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return reading.notices(self._db, checks.identifier(me, "me"), cursor, reading.limited(limit))

    @operation(reads_only=True)
    def unseen(self, me: str) -> int:
        """How many notices came since I last looked; 100 stands for that many or more.

        Raises: `UnknownUser`.
        """
        found = reading.notices(self._db, checks.identifier(me, "me"), None, MOST_UNSEEN)
        return sum(not notice["seen"] for notice in found.items)

    def see_notices(self, me: str) -> None:
        """Have everything that I was told until now count as seen.

        Atomic: one update.
        After a crash: it happened or it did not.
        Raises: `UnknownUser`.
        """
        self._change(me, {"$max": {"seen_at": self._clock()}})

    # ---- the worker ----

    def deliver(self) -> dict[str, int]:
        """Work off what is queued until nothing is due; returns counts of tasks. Any number may do so at once.

        Atomic: each entry by itself; one that is there stays.
        After a crash: the task goes on where it was, when its time has run out.
        Raises: `Unavailable`.
        """
        done: dict[str, int] = {}
        while counts := self._worker.work():
            for outcome, count in counts.items():
                done[outcome] = done.get(outcome, 0) + count
        return done

    # ---- how ----

    def _do(self, work: Callable[[ClientSession], T], *, seconds: float = 10) -> T:
        return in_transaction(self._db, work, seconds=seconds)

    def _once(
        self,
        kind: str,
        work: Callable[[ClientSession], str],
        key: str | Key | None,
        arguments: Mapping[str, Any],
    ) -> str:
        return once(self._db, kind, work, key=key, arguments=arguments, seconds=10)

    @staticmethod
    def _two(me: str, other: str, field: str = "other") -> None:
        checks.identifier(me, "me")
        checks.identifier(other, field)
        if me == other:
            raise Invalid(f"{field} must be somebody else", field=field)

    @staticmethod
    def _viewer(viewer: str | None) -> None:
        if viewer is not None:
            checks.identifier(viewer, "viewer")


def _listed(user: Document, relation: rules.Relation) -> Listed:
    return {
        "id": user["_id"],
        "name": user["name"],
        "handle": user["handle"],
        "about": user["profile"].get("about", ""),
        "circles": list(relation.my_circles),
    }
