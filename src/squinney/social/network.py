"""`Network`: members, circles, posts, and the lists that each member reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page
from squinney.patterns.queue import Queue
from squinney.social import queries, rules
from squinney.social.documents import Circled, Comment, Listed, Notice, Post, Profile, User
from squinney.social.errors import UnknownUser
from squinney.social.export import everything_of
from squinney.social.members import accounts, profiles
from squinney.social.members.accounts import change_member, check_two_members, check_viewer, get_member
from squinney.social.members.circles import (
    block_member,
    list_related,
    put_into_circle,
    take_out_of_circle,
    unblock_member,
)
from squinney.social.members.edges import circle_names
from squinney.social.members.graph_import import import_pairs
from squinney.social.news.lists import list_incoming, list_news, list_public, list_wall
from squinney.social.news.notices import count_unseen, list_notices
from squinney.social.posts import posts
from squinney.social.posts.comments import delete_comment, list_comments, write_comment
from squinney.social.tasks import TaskHandler
from squinney.transactions import Key, Step, once

T = TypeVar("T")

MERGE_ABOVE = 10_000
SETTLE_SECONDS = 90  # longer than the server's limit for a transaction
LIMIT = 20


class Network:
    """A social network: members put each other into circles and write posts for them.

    Every read shows only what its reader may see at that moment. When an uncircle, a block or a leave is acknowledged,
    the posts that it hides disappear from all lists at once. Walls are always complete. News are complete after
    `deliver`, or the worker, has processed the queue.

    Every operation is one MongoDB transaction. Public posts by authors with more than `merge_above` followers are not
    delivered, but merged into the news on reading.
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
        self._tasks = TaskHandler(self._db, self._queue, merge_above=merge_above, settle_seconds=settle_seconds)

    # ---- members ----

    @operation()
    def join(self, name: str, *, user: str | None = None, also: Sequence[Step] = ()) -> User:
        """Create a member, with the id `user` or a new one. The handle for mentions is derived from the name.

        Atomic: the member and the handle are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `AlreadyJoined`.
        """
        name = rules.check_name(name)
        user = new_id() if user is None else checks.identifier(user, "user")
        return accounts.join(self._db, user, name, self._clock, also)

    @operation(reads_only=True)
    def get(self, me: str) -> User:
        """Return a member's own account.

        Raises: `UnknownUser`.
        """
        return accounts.as_user(get_member(self._db, checks.identifier(me, "me")))

    @operation(reads_only=True)
    def find(self, handle: str) -> str:
        """Return the id of the member with this handle.

        Raises: `UnknownUser`.
        """
        checks.text(handle, "handle", min_length=1, max_length=100)
        stored = queries.HANDLE.find_one(self._db, handle=handle)
        if stored is None:
            raise UnknownUser(f"there is no member @{handle}", handle=handle)
        return cast(str, stored["user"])

    @operation(reads_only=True)
    def members(self, viewer: str | None, *, cursor: str | None = None, limit: int = 50) -> Page[Listed]:
        """Return all members who are visible to the viewer, newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return profiles.list_members(self._db, viewer, cursor, limit)

    @operation(reads_only=True)
    def profile(self, viewer: str | None, user: str) -> Profile:
        """Return a member's profile as the viewer sees it. `viewer` None is a visitor who is not a member.

        Raises: `UnknownUser`, also if the member has blocked the viewer; `Invalid`.
        """
        return profiles.read_profile(self._db, viewer, user)

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
    def leave(self, me: str, *, also: Sequence[Step] = ()) -> None:
        """Leave the network: from then on, nobody sees anything of this member. Posts are kept until `erase`.

        The worker then takes the member out of all circles, so that counts include current members only.

        Atomic: leaving and the worker's task are one transaction.
        After a crash: the transaction was committed or not; the worker continues its task.
        Raises: `UnknownUser`.
        """
        accounts.leave(
            self._db, self._queue, me, {"do": "disconnect", "user": me}, {"left_at": None}, self._clock, also
        )

    def export(self, me: str) -> Iterator[dict[str, Any]]:
        """Yield all stored documents about a member, each with its type in `what`.

        Raises: `UnknownUser`.
        """
        user = checks.identifier(me, "me")
        self.get(user)
        return ({"what": what, **document} for what, document in everything_of(self._db, user))

    @operation()
    def erase(self, me: str, *, also: Sequence[Step] = ()) -> None:
        """Leave the network, and delete the member's account, posts and all comments on them, comments, edges, notices.

        Atomic: leaving and the worker's task are one transaction; from then on, nothing of the member is visible.
        After a crash: the transaction was committed or not; the worker continues its task.
        Raises: `UnknownUser`.
        """
        accounts.leave(self._db, self._queue, me, {"do": "erase", "user": me}, {}, self._clock, also)

    # ---- circles ----

    @operation()
    def circle(self, me: str, other: str, circle: str, *, also: Sequence[Step] = ()) -> list[str]:
        """Put `other` into a circle of `me`, and return the circles of `me` that now contain `other`.

        From then on, `me` follows `other`, and `other` sees what `me` writes to that circle. The last 20 posts by
        `other` that `me` may see now come into the news of `me`.

        Atomic: both sides of the edge, the circle's count, the notice and a task are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `SocialLimit`, `TooFast`, `Busy`.
        """
        name = rules.check_circle(circle)
        check_two_members(me, other)
        self._run(
            "circle",
            lambda session: put_into_circle(self._db, self._queue, me, other, name, self._clock, session),
            also,
        )
        return self._circles_with(me, other)

    @operation()
    def uncircle(self, me: str, other: str, circle: str, *, also: Sequence[Step] = ()) -> list[str]:
        """Take `other` out of a circle of `me`, and return the circles of `me` that still contain `other`.

        Atomic: both sides of the edge and the circle's count are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        name = rules.check_circle(circle)
        check_two_members(me, other)
        self._run("uncircle", lambda session: take_out_of_circle(self._db, me, other, name, session), also)
        return self._circles_with(me, other)

    def _circles_with(self, me: str, other: str) -> list[str]:
        return circle_names(queries.EDGE.find_one(self._db, owner=me, other=other) or {})

    @operation(reads_only=True)
    def circles(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Return the people in the circles of `me`, latest first.

        `get(me)["circles"]` has the names and sizes of the circles.

        Raises: `UnknownUser`, `Invalid`.
        """
        return list_related(self._db, queries.CIRCLED, "circled_at", me, cursor, limit)

    @operation(reads_only=True)
    def followers(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Return the members who have `me` in a circle, latest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return list_related(self._db, queries.FOLLOWERS, "follower_at", me, cursor, limit)

    @operation(reads_only=True)
    def blocked(self, me: str, *, cursor: str | None = None, limit: int = 50) -> Page[Circled]:
        """Return the people whom `me` has blocked, latest first. Only those whom `me` can know have a name.

        Raises: `UnknownUser`, `Invalid`.
        """
        return list_related(self._db, queries.BLOCKED, "blocked_at", me, cursor, limit)

    @operation()
    def block(self, me: str, other: str, *, also: Sequence[Step] = ()) -> None:
        """Hide `me` and `other` from each other until the block is lifted, and take each out of the other's circles.

        `other` may be any id: the answer is the same for a member, for somebody who does not exist, and for somebody
        who has blocked `me`.

        Atomic: both sides of the edge, and the circles and counts of both, are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser` for `me`, `SocialLimit`, `Busy`.
        """
        check_two_members(me, other)
        self._run("block", lambda session: block_member(self._db, me, other, self._clock(), session), also)

    @operation()
    def unblock(self, me: str, other: str, *, also: Sequence[Step] = ()) -> None:
        """Lift the block of `other` by `me`.

        Atomic: both sides of the edge are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `Busy`.
        """
        check_two_members(me, other)
        self._run("unblock", lambda session: unblock_member(self._db, me, other, session), also)

    @operation()
    def mute(self, me: str, other: str) -> None:
        """Remove posts and notices by `other` from the lists of `me`. `other` is not notified.

        `other` may be any id, as for `block`.

        Raises: `Invalid`, `UnknownUser` for `me`, `SocialLimit`.
        """
        check_two_members(me, other)
        user = get_member(self._db, me)
        rules.check_limit(len(user["muted"]), rules.MAX_MUTES, "muted people")
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
        yield from import_pairs(self._db, self._queue, pairs, name, self._clock)

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
        also: Sequence[Step] = (),
    ) -> Post:
        """Write a post for `["*public*"]`, for `["*circles*"]` (everyone in the circles of `me`), or for named circles.

        `to` puts the post on that member's wall. With the same `key`, only one post is written.

        Atomic: the post, its delivery task, its notices and the count of this minute are one transaction.
        After a crash: the transaction was committed or not; the worker delivers the post.
        Raises: `Invalid`, `UnknownUser`, `Blocked`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checked = rules.check_detail(type, detail)
        circles = rules.check_audience(circles)
        if to is not None:
            check_two_members(me, to, "to")

        written: dict[str, Document] = {}

        def work(session: ClientSession) -> str:
            made = posts.write_post(self._db, self._queue, me, type, checked, circles, to, self._clock, session)
            written[made["_id"]] = made
            return cast(str, made["_id"])

        arguments = {"me": me, "type": type, "detail": checked, "circles": circles, "to": to}
        made = self._run("post", work, also, key=key, arguments=arguments)
        # guard: a written post is returned without reading it again
        if made in written:  # do not read the post again: it was written even if its author has left since
            return posts.as_author(self._db, written[made])
        return posts.read_post(self._db, me, made)

    @operation()
    def count_photo(self, me: str) -> None:
        """Count a photo against the limit per minute before it is decoded, because decoding costs more than a post.

        Atomic: one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownUser`, `TooFast`, `Busy`.
        """
        checks.identifier(me, "me")

        def work(session: ClientSession) -> None:
            accounts.count_action(self._db, get_member(self._db, me, session), "photos", self._clock(), session)

        self._run("count-photo", work)

    @operation()
    def comment(self, me: str, post: str, text: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> str:
        """Comment on a post that `me` may see, and return the comment's id.

        With the same `key`, only one comment is written.

        Atomic: the comment, the last three comments and the count on the post, and the notices are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `Invalid`, `UnknownPost`, `UnknownUser`, `TooFast`, `Busy`; with a key also `KeyReused`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        checks.text(text, "text", min_length=1, max_length=rules.MAX_COMMENT_LENGTH)
        if not text.strip():
            raise Invalid("text must not be blank", field="text")

        def work(session: ClientSession) -> str:
            return cast(str, write_comment(self._db, me, post, text, self._clock, session)["_id"])

        return self._run("comment", work, also, key=key, arguments={"me": me, "post": post, "text": text})

    @operation()
    def delete_post(self, me: str, post: str, *, also: Sequence[Step] = ()) -> None:
        """Delete a post by `me` or addressed to `me`. The post is invisible at once; the worker deletes its comments.

        Atomic: the deletion and the worker's task are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(post, "post")
        self._run("delete-post", lambda session: posts.delete_post(self._db, self._queue, me, post, session), also)

    @operation()
    def delete_comment(self, me: str, comment: str, *, also: Sequence[Step] = ()) -> None:
        """Delete a comment by `me`, or a comment on a post by `me`.

        Atomic: the comment, its notices, and the last three comments and the count on the post are one transaction.
        After a crash: the transaction was committed or not.
        Raises: `UnknownPost`, `UnknownUser`, `Busy`.
        """
        checks.identifier(me, "me")
        checks.identifier(comment, "comment")
        self._run("delete-comment", lambda session: delete_comment(self._db, me, comment, session), also)

    def _run(
        self,
        kind: str,
        work: Callable[[ClientSession], T],
        also: Sequence[Step] = (),
        *,
        key: str | Key | None = None,
        arguments: Mapping[str, Any] = MappingProxyType({}),
    ) -> T:
        return once(self._db, f"social.{kind}", work, key=key, arguments=arguments, also=also, own=accounts.OWN)

    # ---- lists ----

    @operation(reads_only=True)
    def news(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Return the news of `me`, newest first: public posts by the authors whom `me` follows, and posts to circles
        that contain `me`. Posts from before `me` followed the author, or was in the circle, are left out, except the
        last 20 when `me` began to follow the author.

        Raises: `UnknownUser`, `Invalid`.
        """
        return list_news(self._db, checks.identifier(me, "me"), cursor, rules.check_page_size(limit))

    @operation(reads_only=True)
    def wall(self, viewer: str | None, owner: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Return the posts by and to `owner` that the viewer may see, newest first. `viewer` None is a visitor who is
        not a member. If `owner` is the viewer, posts by people whom `owner` does not follow are left out.

        Raises: `UnknownUser`, `Invalid`.
        """
        check_viewer(viewer)
        return list_wall(self._db, viewer, checks.identifier(owner, "owner"), cursor, rules.check_page_size(limit))

    @operation(reads_only=True)
    def public(self, viewer: str | None, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Return the public posts of all members, newest first. `viewer` None is a visitor who is not a member.

        Raises: `Invalid`.
        """
        check_viewer(viewer)
        return list_public(self._db, viewer, cursor, rules.check_page_size(limit))

    @operation(reads_only=True)
    def incoming(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Post]:
        """Return all posts that are addressed to `me`, newest first.

        Raises: `UnknownUser`, `Invalid`.
        """
        return list_incoming(self._db, checks.identifier(me, "me"), cursor, rules.check_page_size(limit))

    @operation(reads_only=True)
    def get_post(self, viewer: str | None, post: str) -> Post:
        """Return one post.

        Raises: `UnknownPost`, also if the viewer may not see the post; `UnknownUser`.
        """
        check_viewer(viewer)
        return posts.read_post(self._db, viewer, checks.identifier(post, "post"))

    @operation(reads_only=True)
    def comments(self, viewer: str | None, post: str, *, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
        """Return a post's comments, oldest first.

        Raises: `UnknownPost`, `UnknownUser`, `Invalid`.
        """
        check_viewer(viewer)
        size = rules.check_page_size(limit)
        return list_comments(self._db, viewer, checks.identifier(post, "post"), cursor, size)

    @operation(reads_only=True)
    def notices(self, me: str, *, cursor: str | None = None, limit: int = LIMIT) -> Page[Notice]:
        """Return the notices of `me`, newest first: comments, mentions, posts on the wall of `me`, and new followers.

        Raises: `UnknownUser`, `Invalid`.
        """
        return list_notices(self._db, checks.identifier(me, "me"), cursor, rules.check_page_size(limit))

    @operation(reads_only=True)
    def unseen(self, me: str) -> int:
        """Return the number of notices since the last `see_notices`, at most 100.

        Raises: `UnknownUser`.
        """
        return count_unseen(self._db, me)

    def see_notices(self, me: str) -> None:
        """Mark all notices of `me` until now as seen.

        Raises: `UnknownUser`.
        """
        change_member(self._db, me, {"$max": {"seen_at": self._clock()}})

    def deliver(self) -> dict[str, int]:
        """Process queued tasks until none is due, and return counts of tasks by outcome. Calls may run concurrently.

        Atomic: each news entry by itself; an entry that exists is left as it is.
        After a crash: the task continues from its last position when its visibility time has expired.
        Raises: `Unavailable`.
        """
        done: Counter[str] = Counter()
        while counts := self._tasks.work():
            done += counts
        return dict(done)
