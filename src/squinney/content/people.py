"""`People`: all comments of one person, to hand over or to erase, wherever they are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.content import queries
from squinney.content.comments import Comments
from squinney.content.discussions import plain
from squinney.content.documents import COMMENTS, FLAGS, NODES, PAGES, Comment
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns import checks


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
        return [plain(comment) for comment, live in self._all(author_id) if live]

    def _all(self, author_id: str) -> Iterator[tuple[Document, bool]]:
        """Each comment and whether it is live; what a conversion left behind is not."""
        for comment in queries.BY_AUTHOR.find(self._db, author_id=author_id):
            yield comment, self._epoch(comment["node_id"]) == comment["epoch"]
        for node in queries.EMBEDDED_BY.find(self._db, author_id=author_id, projection={"metadata.comments": 1}):
            for comment in node["metadata"]["comments"]:
                if comment["author"]["_id"] == author_id:
                    yield comment, True
        for stored in queries.PAGED_BY.find(self._db, author_id=author_id):
            live = self._epoch(stored["node_id"]) == stored["epoch"]
            for comment in stored["comments"]:
                if comment["author"]["_id"] == author_id:
                    yield comment, live

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
        for comment, live in list(self._all(author_id)):
            done["comments" if live else "leftovers"] += self._erase(comment) if live else self._drop(comment)
        flags = self._db[FLAGS].update_many(queries.FLAGGED_BY(author_id=author_id), {"$pull": {"by": author_id}})
        done["flags"] += flags.modified_count
        return +done

    def _drop(self, comment: Document) -> int:
        """What a conversion left behind is nobody's any more: the document goes, a page whole."""
        single = self._db[COMMENTS].delete_one({"_id": comment["_id"], "node_id": comment["node_id"]}).deleted_count
        where = {"node_id": comment["node_id"], "comments.slug": comment["slug"]}
        return int(single or self._db[PAGES].delete_many(where).deleted_count)

    def _erase(self, comment: Document) -> int:
        try:
            self._comments.delete(comment["node_id"], comment["slug"])
        except (UnknownComment, UnknownNode):
            return 0
        return 1
