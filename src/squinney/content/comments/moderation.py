"""`Moderation`: users flag comments, and moderators decide whether to remove them."""

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

    @operation()
    def flag(self, node: Node | str, slug: str, by: str, reason: str = "") -> Flag:
        """Put a comment in the moderators' queue. A second flag by the same person changes nothing.

        Atomic: one upsert.
        After a crash: the flag is stored, or nothing is.
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
        for _ in range(2):  # if two first flags collide, the second attempt updates the other's document
            try:
                after = ReturnDocument.AFTER
                return cast(Flag, self._db[FLAGS].find_one_and_update(new, update, upsert=True, return_document=after))
            except DuplicateKeyError:
                pass
        return cast(Flag, self._db[FLAGS].find_one({"_id": flag_id}))  # flagged by this person before, or by too many

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

        found = read(cursor) if viewer.trusted else filtered_page(read, keep, queries.QUEUE.sort, cursor, limit)
        return found.map(lambda flag: Flagged(flag, self._comment_of(flag)))

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
        flag_id = _flag_id(id_of(node), discussions.checked_slug(slug))
        if not viewer.trusted and not self._nodes.moderated([id_of(node)], viewer):
            raise UnknownNode(f"there is no node {id_of(node)}", node_id=id_of(node))
        if self._db[FLAGS].find_one({"_id": flag_id}, {"_id": 1}) is None:
            raise _not_flagged(slug)
        if verdict == "remove":
            with suppress(UnknownComment, UnknownNode):  # deleted by its author, or by an interrupted decision
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
