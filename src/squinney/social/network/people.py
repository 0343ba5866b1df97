"""Joining and leaving, names and profiles, export and erasure."""

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
from squinney.social.members import get_member, relations, unknown_user
from squinney.social.network.export import everything_of
from squinney.social.network.shared import change_member, check_viewer
from squinney.transactions import in_transaction

FOLLOWERS_COUNTED = 10_000
JOIN_TRIES = 5


class People:
    """Members' accounts, and what other members see of them."""

    _db: Db
    _clock: Clock
    _queue: Queue

    @operation()
    def join(self, name: str, *, user: str | None = None) -> User:
        """Create a member, with the id `user` or a new one. The handle for mentions is derived from the name.

        Atomic: the member and the handle are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `AlreadyJoined`.
        """
        name = rules.check_name(name)
        user = new_id() if user is None else checks.identifier(user, "user")
        for attempt in range(JOIN_TRIES):
            try:
                made = in_transaction(
                    self._db, lambda session: members.join(self._db, user, name, self._clock(), session)
                )
                break
            except DuplicateKeyError:  # a concurrent call took the handle
                if attempt == JOIN_TRIES - 1:
                    raise
        return members.as_user(made)

    @operation(reads_only=True)
    def get(self, me: str) -> User:
        """Return a member's own account.

        Raises: `UnknownUser`.
        """
        return members.as_user(get_member(self._db, checks.identifier(me, "me")))

    @operation(reads_only=True)
    def find(self, handle: str) -> str:
        """Return the id of the member with this handle.

        Raises: `UnknownUser`.
        """
        checks.text(handle, "handle", least=1, most=100)
        found = self._db["social.handles"].find_one(queries.HANDLE(handle=handle))
        if found is None:
            raise UnknownUser(f"there is no member @{handle}", handle=handle)
        return cast(str, found["user"])

    @operation(reads_only=True)
    def members(self, viewer: str | None, *, cursor: str | None = None, limit: int = 50) -> Page[Listed]:
        """Return all members who are visible to the viewer, newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        check_viewer(viewer)
        found = page(self._db, queries.MEMBERS, cursor=cursor, limit=limit)
        people = relations(self._db, viewer, [one["_id"] for one in found.items])
        shown = [one for one in found.items if people[one["_id"]].is_visible]
        return Page([_listed(one, people[one["_id"]]) for one in shown], found.next)

    @operation(reads_only=True)
    def profile(self, viewer: str | None, user: str) -> Profile:
        """Return a member's profile as the viewer sees it. `viewer` None is a visitor who is not a member.

        Raises: `UnknownUser`, also if the member has blocked the viewer; `Invalid`.
        """
        check_viewer(viewer)
        found = get_member(self._db, checks.identifier(user, "user"))
        edge = self._db["social.edges"].find_one(queries.EDGE(owner=viewer or members.VISITOR, other=user)) or {}
        if "blocked_by_at" in edge:
            raise unknown_user(user)
        mine = get_member(self._db, viewer) if viewer is not None else {}
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
            "circled": graph.circle_names(edge),
            "follows_you": "follower_at" in edge,
            "muted": user in mine.get("muted", ()),
            "blocked": "blocked_at" in edge,
        }

    def edit_profile(self, me: str, profile: Mapping[str, Any]) -> User:
        """Replace the member's profile: `about`, `place` and `link`.

        Raises: `Invalid`, `UnknownUser`.
        """
        return change_member(self._db, me, {"$set": {"profile": rules.check_profile(profile)}})

    def rename(self, me: str, name: str) -> User:
        """Change the member's name. The name is stored once, so all posts and comments show the new one at once.

        Raises: `Invalid`, `UnknownUser`.
        """
        return change_member(self._db, me, {"$set": {"name": rules.check_name(name)}})

    @operation()
    def leave(self, me: str) -> None:
        """Leave the network: from then on, nobody sees anything of this member. Posts are kept until `erase`.

        The worker then takes the member out of all circles, so that counts include current members only.

        Atomic: leaving and the worker's task are one transaction.
        After a crash: the transaction was committed or not; the worker continues its task.
        Raises: `UnknownUser`.
        """
        self._leave(me, {"do": "disconnect", "user": me}, {"left_at": None})

    def export(self, me: str) -> Iterator[dict[str, Any]]:
        """Yield all stored documents about a member, each with its type in `what`.

        Raises: `UnknownUser`.
        """
        user = checks.identifier(me, "me")
        self.get(user)
        return ({"what": what, **document} for what, document in everything_of(self._db, user))

    @operation()
    def erase(self, me: str) -> None:
        """Leave the network, and delete the member's account, posts and all comments on them, comments, edges, notices.

        Atomic: leaving and the worker's task are one transaction; from then on, nothing of the member is visible.
        After a crash: the transaction was committed or not; the worker continues its task.
        Raises: `UnknownUser`.
        """
        self._leave(me, {"do": "erase", "user": me}, {})

    def _leave(self, me: str, task: Document, condition: Document) -> None:
        where = {**queries.USER(user=checks.identifier(me, "me")), **condition}

        def work(session: ClientSession) -> None:
            change = {"$set": {"left_at": self._clock()}}
            if not self._db["social.users"].update_one(where, change, session=session).matched_count:
                raise unknown_user(me)
            self._queue.put(task, key=f"{task['do']}-{me}", session=session)

        in_transaction(self._db, work)


def _listed(user: Document, relation: rules.Relation) -> Listed:
    return {
        "id": user["_id"],
        "name": user["name"],
        "handle": user["handle"],
        "about": user["profile"].get("about", ""),
        "circles": list(relation.my_circles),
    }
