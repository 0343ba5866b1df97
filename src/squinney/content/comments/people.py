"""`People`: all comments of one person, to hand over or to erase, wherever they are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from pymongo.cursor import Cursor

from squinney import checks
from squinney.content.comments import conversion, queries
from squinney.content.comments.comments import ERASED, Comments
from squinney.content.comments.discussions import plain
from squinney.content.comments.documents import COMMENTS, FLAGS, PAGES, Comment
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.content.nodes import queries as node_queries
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

BATCH = 20  # few, so that a cursor is asked again before the server forgets it, however slowly somebody reads
Leftover = tuple[str, Document]


class People:
    """What a person has the right to ask for."""

    def __init__(self, db: Db, comments: Comments) -> None:
        self._db = pinned(db)
        self._comments = comments

    def export(self, author_id: str) -> Iterator[Comment]:
        """Every comment of a person, in all strategies, read as it is asked for: there may be any number.

        Those of a discussion that is converted meanwhile may come twice or not at all.

        Raises: `Invalid` at once; `Unavailable` also while it is read.
        """
        return self._exported(checks.identifier(author_id, "author"))

    def _exported(self, author_id: str) -> Iterator[Comment]:
        everything = self._all(author_id)
        while True:
            with operation(60, reads_only=True):
                found = next(everything, None)
            if found is None:
                return
            comment, leftover = found
            if leftover is None:
                yield plain(comment)

    def _all(self, author_id: str) -> Iterator[tuple[Document, Leftover | None]]:
        """Each comment; one that a conversion left behind, with where it is."""
        yield from self._with_leftovers(COMMENTS, "slug", queries.BY_AUTHOR.find(self._db, author_id=author_id))
        nodes = queries.EMBEDDED_BY.find(self._db, author_id=author_id, projection={"metadata.comments": 1})
        for node in nodes.batch_size(BATCH):
            for comment in node["metadata"]["comments"]:
                if comment["author"]["_id"] == author_id:
                    yield comment, None
        pages = queries.PAGED_BY.find(self._db, author_id=author_id)
        for stored, leftover in self._with_leftovers(PAGES, "page", pages):
            for comment in stored["comments"]:
                if comment["author"]["_id"] == author_id:
                    yield comment, leftover

    def _with_leftovers(
        self, collection: str, name: str, found: Cursor[Document]
    ) -> Iterator[tuple[Document, Leftover | None]]:
        """Each document, and where it is if it is of no live discussion: one question for some of them together."""
        some = found.batch_size(BATCH)
        while batch := list(islice(some, BATCH)):
            live = conversion.epochs_of(self._db, {stored["node_id"] for stored in batch})
            for stored in batch:
                where = {field: stored[field] for field in ("_id", "node_id", name, "epoch")}
                yield stored, None if live.get(stored["node_id"]) == stored["epoch"] else (collection, where)

    @operation(300)
    def erase(self, author_id: str) -> Counter[str]:
        """Delete every comment of a person: those with replies keep their place, without text and name.

        Pages that they wrote, and versions that they saved, stay, as nobody's; so do their decisions on flags.

        Atomic: each document by itself.
        After a crash: run it again; it goes on with what is left.
        Raises: `Invalid`.
        """
        checks.identifier(author_id, "author")
        done: Counter[str] = Counter()
        for _ in range(2):  # a conversion may have left copies behind in the meantime
            for comment, leftover in self._all(author_id):
                if leftover is None:
                    done["comments"] += self._erase(comment)
                else:
                    done["leftovers"] += self._drop(*leftover)
        done["names"] += self._erase_names(author_id)
        flags = self._db[FLAGS].update_many(queries.FLAGGED_BY(author_id=author_id), _without_flag(author_id))
        done["flags"] += flags.modified_count
        return +done

    def _erase_names(self, author_id: str) -> int:
        """Nodes first, so that no edit copies the name into a new version; all twice, for edits under way."""
        nobody = [
            (node_queries.WRITTEN_BY, {"metadata.author": ERASED}),
            (node_queries.VERSIONS_WRITTEN_BY, {"metadata.author": ERASED}),
            (node_queries.SAVED_BY, {"author": ERASED}),
            (queries.DECIDED_BY, {"decided_by": ""}),
        ]
        changes = [
            self._db[query.collection].update_many(query(author_id=author_id), {"$set": fields})
            for query, fields in (*nobody, *nobody)
        ]
        return sum(change.modified_count for change in changes)

    def _drop(self, collection: str, where: Document) -> int:
        """Nobody's any more: the document goes, a page whole. Unless a conversion has made it somebody's just now."""
        if not conversion.disown(self._db, where["node_id"], where["epoch"]):
            return 0
        return self._db[collection].delete_one(where).deleted_count

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
