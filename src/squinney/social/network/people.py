"""Joining and leaving, names and profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.clock import Clock
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.patterns.queue import Queue
from squinney.social import graph, members, queries, rules
from squinney.social.documents import Listed, Profile, User
from squinney.social.errors import UnknownUser
from squinney.social.members import member, relations
from squinney.social.network.export import everything_of
from squinney.social.network.shared import change_member, check_viewer, do

FOLLOWERS_COUNTED = 10_000
JOIN_TRIES = 5


class People:
    """What members do with themselves, and what others see of them."""

    _db: Db
    _clock: Clock
    _queue: Queue

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
                made = do(self._db, lambda session: members.join(self._db, user, name, self._clock(), session))
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
        check_viewer(viewer)
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

        Raises: `Invalid`, `UnknownUser`.
        """
        return change_member(self._db, me, {"$set": {"profile": rules.profile(profile)}})

    def rename(self, me: str, name: str) -> User:
        """Take another name. It is stored once, so that every post and comment shows it from now on.

        Raises: `Invalid`, `UnknownUser`.
        """
        return change_member(self._db, me, {"$set": {"name": rules.name(name)}})

    @operation()
    def leave(self, me: str) -> None:
        """Leave: from now on nobody sees anything of this member. What was written is kept until `erase`; the worker
        takes them out of everybody's circles, so that counts are of those who are here.

        Atomic: leaving and the worker's task are one transaction.
        After a crash: it happened or it did not; the worker goes on where it was.
        Raises: `UnknownUser`.
        """
        self._leave(me, {"do": "part", "user": me}, {"left_at": None})

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
        self._leave(me, {"do": "erase", "user": me}, {})

    def _leave(self, me: str, task: Document, only: Document) -> None:
        where = {**queries.USER(user=checks.identifier(me, "me")), **only}

        def work(session: ClientSession) -> None:
            change = {"$set": {"left_at": self._clock()}}
            if not self._db["social.users"].update_one(where, change, session=session).matched_count:
                raise UnknownUser(f"there is no member {me}", user=me)
            self._queue.put(task, key=f"{task['do']}-{me}", session=session)

        do(self._db, work)


def _listed(user: Document, relation: rules.Relation) -> Listed:
    return {
        "id": user["_id"],
        "name": user["name"],
        "handle": user["handle"],
        "about": user["profile"].get("about", ""),
        "circles": list(relation.my_circles),
    }
