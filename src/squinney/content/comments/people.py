"""`People`: export and erasure of one person's comments, in all storage strategies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from pymongo.cursor import Cursor

from squinney import checks
from squinney.content.comments import conversion, queries
from squinney.content.comments.comments import ERASED, Comments
from squinney.content.comments.discussions import public
from squinney.content.comments.documents import COMMENTS, FLAGS, PAGES
from squinney.content.documents import Comment
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.content.nodes import queries as node_queries
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

BATCH = 20  # small, so that a cursor is used again before the server's timeout, even if the caller reads slowly
Leftover = tuple[str, Document]


class People:
    """Requests of a person about their own data, in the discussions of all subjects.

    `comments` must not be limited to nodes.
    """

    def __init__(self, db: Db, comments: Comments) -> None:
        self._db = pinned(db)
        self._comments = comments

    def export(self, author_id: str) -> Iterator[Comment]:
        """Return an iterator over every comment of a person, in all strategies; comments are read on demand.

        Comments of a discussion that is converted in the meantime may come twice or not at all.

        Raises: `Invalid` at once; `Unavailable` also during iteration.
        """
        return self._exported(checks.identifier(author_id, "author"))

    def _exported(self, author_id: str) -> Iterator[Comment]:
        comments = self._all(author_id)
        while True:
            with operation(60, reads_only=True):
                pair = next(comments, None)
            if pair is None:
                return
            comment, leftover = pair
            if leftover is None:
                yield public(comment)

    def _all(self, author_id: str) -> Iterator[tuple[Document, Leftover | None]]:
        """Yield each comment; for a leftover of a conversion, also its collection and filter."""
        yield from self._with_leftovers(COMMENTS, "slug", queries.BY_AUTHOR.find(self._db, author_id=author_id))
        for query in (queries.EMBEDDED_BY, queries.EMBEDDED_IN_SUBJECTS_BY):
            subjects = query.find(self._db, author_id=author_id, projection={"metadata.comments": 1})
            for subject in subjects.batch_size(BATCH):
                for comment in subject["metadata"]["comments"]:
                    if comment["author"]["_id"] == author_id:
                        yield comment, None
        pages = queries.PAGED_BY.find(self._db, author_id=author_id)
        for stored, leftover in self._with_leftovers(PAGES, "page", pages):
            for comment in stored["comments"]:
                if comment["author"]["_id"] == author_id:
                    yield comment, leftover

    def _with_leftovers(
        self, collection: str, name: str, comments: Cursor[Document]
    ) -> Iterator[tuple[Document, Leftover | None]]:
        """Yield each document; if its epoch is not the node's, also its collection and filter."""
        documents = comments.batch_size(BATCH)
        while batch := list(islice(documents, BATCH)):
            live = conversion.epochs_of(self._db, {stored["node_id"] for stored in batch})
            for stored in batch:
                where = {field: stored[field] for field in ("_id", "node_id", name, "epoch")}
                yield stored, None if live.get(stored["node_id"]) == stored["epoch"] else (collection, where)

    @operation(300)
    def erase(self, author_id: str) -> Counter[str]:
        """Delete every comment of a person; comments with replies stay as tombstones without text and name.

        Nodes that the person wrote, versions that they saved and flags that they decided are kept without their name.

        Atomic: each document separately.
        After a crash: call it again; it continues with the rest.
        Raises: `Invalid`.
        """
        checks.identifier(author_id, "author")
        done: Counter[str] = Counter()
        for _ in range(2):  # a conversion may have left copies in the meantime
            for comment, leftover in self._all(author_id):
                if leftover is None:
                    done["comments"] += self._delete(comment)
                else:
                    done["leftovers"] += self._delete_leftover(*leftover)
        done["names"] += self._erase_names(author_id)
        flags = self._db[FLAGS].update_many(queries.FLAGGED_BY(author_id=author_id), _without_flag(author_id))
        done["flags"] += flags.modified_count
        return +done

    def _erase_names(self, author_id: str) -> int:
        """Erase the name in nodes, then in versions, so that no edit copies it into a new version.

        All of it is done twice, because of edits that began before.
        """
        erasures = [
            (node_queries.WRITTEN_BY, {"metadata.author": ERASED}),
            # guard, 2 lines: erasing a person removes the name from revisions
            (node_queries.VERSIONS_WRITTEN_BY, {"metadata.author": ERASED}),
            (node_queries.SAVED_BY, {"author": ERASED}),
            # guard: erasing a person removes the name from decisions
            (queries.DECIDED_BY, {"decided_by": ""}),
        ]
        changes = [
            self._db[query.collection].update_many(query(author_id=author_id), {"$set": fields})
            for query, fields in (*erasures, *erasures)
        ]
        return sum(change.modified_count for change in changes)

    def _delete_leftover(self, collection: str, where: Document) -> int:
        """Delete a comment or page that a conversion left, unless a conversion has just made its epoch current."""
        if not conversion.retire_epoch(self._db, where["node_id"], where["epoch"]):
            return 0
        return self._db[collection].delete_one(where).deleted_count

    def _delete(self, comment: Document) -> int:
        try:
            self._comments.delete(comment["node_id"], comment["slug"])
        except (UnknownComment, UnknownNode):
            return 0
        return 1


def _without_flag(author_id: str) -> list[Document]:
    """Return a pipeline update that removes the person from `by`, and the reason at the same index from `reasons`."""
    pairs: Document = {"$zip": {"inputs": ["$by", "$reasons"]}}
    others: Document = {"$filter": {"input": pairs, "cond": {"$ne": [{"$first": "$$this"}, {"$literal": author_id}]}}}
    parts = {"by": {"$first": "$$this"}, "reasons": {"$last": "$$this"}}
    return [{"$set": {name: {"$map": {"input": others, "in": part}} for name, part in parts.items()}}]
