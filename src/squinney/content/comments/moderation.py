"""`Moderation`: readers flag comments, moderators decide."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, cast

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.content.comments import discussions, queries
from squinney.content.comments.comments import Comments
from squinney.content.comments.documents import FLAGS, Comment, Flag
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.content.nodes.access import TRUSTED, Viewer
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.nodes.rules import id_of
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, filtered_page, page

MOST_FLAGS = 100
Verdict = Literal["keep", "remove"]


@dataclass(frozen=True)
class Flagged:
    """An entry of the queue: the flag, and the comment as it is now; None where it is gone."""

    flag: Flag
    comment: Comment | None


class Moderation:
    """Flags on comments, and the queue in which moderators find them.

    `viewer` is who judges: left out, it is the application itself. Anybody else sees and decides only what is flagged
    on nodes that they may edit, or read as an editor or admin.
    """

    def __init__(self, db: Db, comments: Comments, *, nodes: Nodes | None = None, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._comments = comments
        self._nodes = nodes or Nodes(db)
        self._clock = clock

    @operation()
    def flag(self, node: Node | str, slug: str, by: str, reason: str = "") -> Flag:
        """Put a comment in the moderators' queue. A person's second flag on it changes nothing.

        Atomic: one upsert.
        After a crash: it happened or it did not.
        Raises: `UnknownComment`, `UnknownNode`, `Invalid`.
        """
        checks.identifier(by, "by")
        checks.text(reason, "reason", most=500)
        comment = self._comments.get(node, slug)
        if comment.get("deleted"):
            raise UnknownComment(f"the comment {slug} was deleted", slug=slug)
        flag_id = _flag_id(comment["node_id"], slug)
        new = {"_id": flag_id, "by": {"$ne": by}, f"by.{MOST_FLAGS - 1}": {"$exists": False}}
        update = {
            "$push": {"by": by, "reasons": reason},
            "$set": {"state": "open"},
            "$setOnInsert": {"node_id": comment["node_id"], "slug": slug, "first_at": self._clock()},
        }
        for _ in range(2):  # two people's first flags may meet; the second try then finds the other's
            try:
                after = ReturnDocument.AFTER
                return cast(Flag, self._db[FLAGS].find_one_and_update(new, update, upsert=True, return_document=after))
            except DuplicateKeyError:
                pass
        return cast(Flag, self._db[FLAGS].find_one({"_id": flag_id}))  # flagged by them before, or by many

    @operation(reads_only=True)
    def queue(self, *, cursor: str | None = None, limit: int = 20, viewer: Viewer = TRUSTED) -> Page[Flagged]:
        """What waits for a decision of this viewer, longest waiting first.

        Raises: `Invalid`.
        """

        def read(at: str | None) -> Page[Flag]:
            return cast(Page[Flag], page(self._db, queries.QUEUE, cursor=at, limit=limit))

        def keep(flags: list[Flag]) -> list[Flag]:
            theirs = self._nodes.moderated({flag["node_id"] for flag in flags}, viewer)
            return [flag for flag in flags if flag["node_id"] in theirs]

        found = read(cursor) if viewer.trusted else filtered_page(read, keep, queries.QUEUE.sort, cursor, limit)
        return found.map(lambda flag: Flagged(flag, self._comment_of(flag)))

    def _comment_of(self, flag: Flag) -> Comment | None:
        try:
            return self._comments.get(flag["node_id"], flag["slug"])
        except (UnknownComment, UnknownNode):
            return None

    @operation(30)
    def decide(self, node: Node | str, slug: str, verdict: Verdict, *, by: str, viewer: Viewer = TRUSTED) -> Flag:
        """Keep the comment or remove it, and take it out of the queue.

        Atomic: the comment's removal, then the flag's state; each by itself.
        After a crash: the flag may stay open on a comment that is gone; decide again.
        Raises: `UnknownComment` where it was never flagged; `UnknownNode` where the viewer may not judge; `Invalid`.
        """
        if verdict not in ("keep", "remove"):
            raise Invalid("verdict must be keep or remove", field="verdict")
        checks.identifier(by, "by")
        flag_id = _flag_id(id_of(node), discussions.checked_slug(slug))
        if not viewer.trusted and not self._nodes.moderated([id_of(node)], viewer):
            raise UnknownNode(f"there is no node {id_of(node)}", node_id=id_of(node))
        if self._db[FLAGS].find_one({"_id": flag_id}, {"_id": 1}) is None:
            raise _not_flagged(slug)
        if verdict == "remove":
            with suppress(UnknownComment, UnknownNode):  # gone: by its author, or by a decision that was cut short
                self._comments.delete(node, slug)
        decided = {"$set": {"state": "kept" if verdict == "keep" else "removed", "decided_by": by, "at": self._clock()}}
        found = self._db[FLAGS].find_one_and_update({"_id": flag_id}, decided, return_document=True)
        if found is None:
            raise _not_flagged(slug)
        return cast(Flag, found)


def _not_flagged(slug: str) -> UnknownComment:
    return UnknownComment(f"the comment {slug} is not flagged", slug=slug)


def _flag_id(node_id: str, slug: str) -> str:
    return f"{node_id}/{slug}"
