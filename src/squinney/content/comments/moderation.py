"""`Moderation`: users flag comments, and moderators decide whether to remove them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.content.comments import discussions, queries
from squinney.content.comments.comments import Comments
from squinney.content.comments.documents import FLAGS, Flag
from squinney.content.documents import Comment
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.content.nodes.access import TRUSTED, Viewer
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.nodes.rules import id_of
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, filtered_page, page
from squinney.transactions import Plan, Stale, Step, Transactions

MAX_FLAGS = 100
Verdict = Literal["keep", "remove"]


@dataclass(frozen=True)
class Flagged:
    """An entry of the queue: the flag, and the current comment, or None if it was removed."""

    flag: Flag
    comment: Comment | None


class Moderation:
    """Flags on comments, and the moderators' queue.

    `viewer` is the moderator; the default is the application itself. Other viewers see and decide flags only on nodes
    that they may edit, or that they may read and are an editor or admin.
    """

    def __init__(self, db: Db, comments: Comments, *, nodes: Nodes | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._comments = comments
        self._nodes = nodes or Nodes(db)
        self._clock = clock
        self._transactions = Transactions(db)

    @operation()
    def flag(self, node: Node | str, slug: str, by: str, reason: str = "", *, also: Sequence[Step] = ()) -> Flag:
        """Put a comment in the moderators' queue. A second flag by the same person changes nothing.

        `also` are further steps, which happen with the flag or not at all.

        Atomic: one transaction stores the flag; for the first flag of a comment it requires that the node still exists.
        After a crash: the flag is stored, or nothing is.
        Raises: `UnknownComment`, `UnknownNode`, `Invalid`, `Busy`.
        """
        checks.identifier(by, "by")
        checks.text(reason, "reason", max_length=500)

        def build() -> Plan:
            comment = self._comments.get(node, slug)
            if comment.get("deleted"):
                raise UnknownComment(f"the comment {slug} was deleted", slug=slug)
            plan = self._flag_plan(comment["node_id"], slug, by, reason)
            return plan.also(also) if plan.steps else plan

        return cast(Flag, self._transactions.run("flag-comment", build).result)

    def _flag_plan(self, node_id: str, slug: str, by: str, reason: str) -> Plan:
        flag_id = _flag_id(node_id, slug)
        flag = self._db[FLAGS].find_one({"_id": flag_id})
        if flag and (by in flag["by"] or len(flag["by"]) >= MAX_FLAGS):
            return Plan([], result=flag)
        if flag is None:
            # A first flag that is stored after its node was removed and swept would stay forever.
            node_exists = self._comments.subjects.step(node_id, _changed)
            new = {"node_id": node_id, "slug": slug, "first_at": self._clock()}
            flag = {"_id": flag_id, **new, "by": [by], "reasons": [reason], "state": "open"}
            # guard: a comment is flagged only while its node exists
            return Plan([node_exists, Step(FLAGS, flag_id, insert=flag, refused=_changed)], result=flag)
        change = {"$push": {"by": by, "reasons": reason}, "$set": {"state": "open"}}
        added = Step(FLAGS, flag_id, guard={"by": flag["by"]}, update=change, refused=_changed)
        after = {**flag, "by": [*flag["by"], by], "reasons": [*flag["reasons"], reason], "state": "open"}
        return Plan([added], result=after)

    @operation(reads_only=True)
    def queue(self, *, cursor: str | None = None, limit: int = 20, viewer: Viewer = TRUSTED) -> Page[Flagged]:
        """Return a page of the flags that wait for a decision and that this viewer may decide, oldest first.

        Raises: `Invalid`.
        """

        def read(at: str | None) -> Page[Flag]:
            return cast(Page[Flag], page(self._db, queries.QUEUE, cursor=at, limit=limit))

        def keep(flags: list[Flag]) -> list[Flag]:
            moderated = self._nodes.moderated({flag["node_id"] for flag in flags}, viewer)
            return [flag for flag in flags if flag["node_id"] in moderated]

        waiting = read(cursor) if viewer.trusted else filtered_page(read, keep, queries.QUEUE.sort, cursor, limit)
        return waiting.map(lambda flag: Flagged(flag, self._comment_of(flag)))

    def _comment_of(self, flag: Flag) -> Comment | None:
        try:
            return self._comments.get(flag["node_id"], flag["slug"])
        except (UnknownComment, UnknownNode):
            return None

    @operation(30)
    def decide(self, node: Node | str, slug: str, verdict: Verdict, *, by: str, viewer: Viewer = TRUSTED) -> Flag:
        """Keep the flagged comment or remove it, and close the flag.

        Atomic: the comment's removal, then the flag's update; each separately.
        After a crash: the flag may still be open although the comment is removed; call `decide` again.
        Raises: `UnknownComment` if the comment was never flagged; `UnknownNode` if the viewer may not moderate it;
        `Invalid`.
        """
        if verdict not in ("keep", "remove"):
            raise Invalid("verdict must be keep or remove", field="verdict")
        checks.identifier(by, "by")
        flag_id = _flag_id(id_of(node), discussions.checked_comment_slug(slug))
        if not viewer.trusted and not self._nodes.moderated([id_of(node)], viewer):
            raise UnknownNode(f"there is no node {id_of(node)}", node_id=id_of(node))
        if self._db[FLAGS].find_one({"_id": flag_id}, {"_id": 1}) is None:
            raise _not_flagged(slug)
        if verdict == "remove":
            with suppress(UnknownComment, UnknownNode):  # deleted by its author, or by an interrupted decision
                self._comments.delete(node, slug)
        decided = {"$set": {"state": "kept" if verdict == "keep" else "removed", "decided_by": by, "at": self._clock()}}
        flag = self._db[FLAGS].find_one_and_update({"_id": flag_id}, decided, return_document=True)
        if flag is None:
            raise _not_flagged(slug)
        return cast(Flag, flag)


def _changed(_: Document | None) -> Stale:
    return Stale("the flag has changed, or the node was moved or removed")


def _not_flagged(slug: str) -> UnknownComment:
    return UnknownComment(f"the comment {slug} is not flagged", slug=slug)


def _flag_id(node_id: str, slug: str) -> str:
    return f"{node_id}/{slug}"
