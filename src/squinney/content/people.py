"""`People`: all comments of one person, to hand over or to erase, wherever they are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.content import conversion, queries
from squinney.content.comments import Comments
from squinney.content.discussions import plain
from squinney.content.documents import COMMENTS, FLAGS, NODES, PAGES, Comment
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns import checks

Leftover = tuple[str, Document]


class People:
    """What a person has the right to ask for."""

    def __init__(self, db: Db, comments: Comments) -> None:
        self._db = db
        self._comments = comments

    @operation(300, reads_only=True)
    def export(self, author_id: str) -> list[Comment]:
        """Every comment of a person, in all strategies.

        Raises: `Invalid`.
        """
        checks.identifier(author_id, "author")
        return [plain(comment) for comment, leftover in self._all(author_id) if leftover is None]

    def _all(self, author_id: str) -> Iterator[tuple[Document, Leftover | None]]:
        """Each comment; one that a conversion left behind, with where it is."""
        for comment in queries.BY_AUTHOR.find(self._db, author_id=author_id):
            own = {name: comment[name] for name in ("_id", "node_id", "slug", "epoch")}
            yield comment, self._leftover(COMMENTS, own)
        for node in queries.EMBEDDED_BY.find(self._db, author_id=author_id, projection={"metadata.comments": 1}):
            for comment in node["metadata"]["comments"]:
                if comment["author"]["_id"] == author_id:
                    yield comment, None
        for stored in queries.PAGED_BY.find(self._db, author_id=author_id):
            leftover = self._leftover(PAGES, {name: stored[name] for name in ("_id", "node_id", "page", "epoch")})
            for comment in stored["comments"]:
                if comment["author"]["_id"] == author_id:
                    yield comment, leftover

    def _leftover(self, collection: str, place: Document) -> Leftover | None:
        return None if self._epoch(place["node_id"]) == place["epoch"] else (collection, place)

    def _epoch(self, node_id: str) -> int | None:
        found = self._db[NODES].find_one(queries.NODE(node_id=node_id), {"metadata.discussion.epoch": 1})
        discussion = found["metadata"].get("discussion") if found else None
        return int(discussion["epoch"]) if discussion else None

    @operation(300)
    def erase(self, author_id: str) -> Counter[str]:
        """Delete every comment of a person: those with replies keep their place, without text and name.

        Atomic: each comment by itself.
        After a crash: run it again; it goes on with what is left.
        Raises: `Invalid`.
        """
        checks.identifier(author_id, "author")
        done: Counter[str] = Counter()
        for _ in range(2):  # a conversion may have left copies behind in the meantime
            for comment, leftover in list(self._all(author_id)):
                if leftover is None:
                    done["comments"] += self._erase(comment)
                else:
                    done["leftovers"] += self._drop(*leftover)
        flags = self._db[FLAGS].update_many(queries.FLAGGED_BY(author_id=author_id), _without_flag(author_id))
        done["flags"] += flags.modified_count
        return +done

    def _drop(self, collection: str, place: Document) -> int:
        """Nobody's any more: the document goes, a page whole. Unless a conversion has made it somebody's just now."""
        if not conversion.disown(self._db, place["node_id"], place["epoch"]):
            return 0
        return self._db[collection].delete_one(place).deleted_count

    def _erase(self, comment: Document) -> int:
        try:
            self._comments.delete(comment["node_id"], comment["slug"])
        except (UnknownComment, UnknownNode):
            return 0
        return 1


def _without_flag(author_id: str) -> list[Document]:
    """A flag's `by` and `reasons` go side by side."""
    pairs: Document = {"$zip": {"inputs": ["$by", "$reasons"]}}
    others: Document = {"$filter": {"input": pairs, "cond": {"$ne": [{"$first": "$$this"}, {"$literal": author_id}]}}}
    sides = {"by": {"$first": "$$this"}, "reasons": {"$last": "$$this"}}
    return [{"$set": {name: {"$map": {"input": others, "in": side}} for name, side in sides.items()}}]
