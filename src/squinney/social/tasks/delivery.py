"""What the worker does: delivers posts, removes what a deletion left, erases people, and begins to merge an author.

Every task may be done twice, or by two at once: a delivery that is there is a duplicate key, and what is removed is
gone. A task keeps its place by being put again, so that after a crash it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import BulkWriteError

from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.patterns.queue import Queue, Task
from squinney.social import queries
from squinney.social.documents import CIRCLES, PUBLIC
from squinney.social.tasks.erasing import erase_some

FAR = datetime(9999, 1, 1, tzinfo=UTC)
# So many, and then it is the others' turn: nobody waits for an account with a million followers. Fewer would wait for
# the journal more often than for the entries.
BATCH = 10_000
ERASED_A_TURN = 100  # each is a transaction of its own


class Delivery:
    """Handles the tasks of the queue."""

    def __init__(self, db: Db, queue: Queue, *, merge_above: int, settle_seconds: float) -> None:
        self._db = db
        self._queue = queue
        self._merge_above = merge_above
        self._settle_seconds = settle_seconds

    def handle(self, task: Task) -> None:
        """Do one turn of a task; where there is more to do it is put again."""
        body = task["body"]
        do = {"deliver": self._deliver, "clear": self._clear, "merge": self._merge, "erase": self._erase}[body["do"]]
        rest = do(body)
        if rest is not None:
            # While it is handed out, this renews what it says and lets it run again.
            self._queue.put(rest, key=task["_id"].removeprefix(f"{self._queue.name}/"))

    # ---- posts ----

    def _deliver(self, body: Document) -> Document | None:
        post = self._db["social.posts"].find_one(queries.POST(post=body["post"]))
        if post is None:
            return None
        readers, place = _receivers(self._db, post, body.get("place"))
        insert_entries(self._db, post, readers)
        delivered = body.get("delivered", 0) + len(readers)
        if place is not None:
            return {**body, "place": place, "delivered": delivered}
        if delivered > self._merge_above and PUBLIC in post["circles"]:
            self._begin_merging(post["by"])
        return None

    # ---- merging instead of delivering ----

    def _begin_merging(self, author: str) -> None:
        """Two steps: who follows from now on notes the author; when those are done that had begun before, so do the
        followers there are. Only then are posts merged."""
        begun = self._db["social.users"].update_one(
            {**queries.USER(user=author), "merging": {"$exists": False}}, {"$set": {"merging": False}}
        )
        user = self._db["social.users"].find_one(queries.USER(user=author), {"merging": 1})
        if begun.modified_count or (user and user.get("merging") is False):
            body = {"do": "merge", "author": author}
            self._queue.put(body, key=f"merge-{author}", delay_seconds=self._settle_seconds)

    def _merge(self, body: Document) -> Document | None:
        author = body["author"]
        readers, place = _batch(self._db, queries.FOLLOWERS_UNTIL, body.get("place"), owner=author, until=FAR)
        if readers:
            self._db["social.users"].update_many(queries.SOME_USERS(users=readers), {"$addToSet": {"merged": author}})
        if place is not None:
            return {**body, "place": place}
        self._db["social.users"].update_one(queries.USER(user=author), {"$set": {"merging": True}})
        return None

    # ---- removing ----

    def _clear(self, body: Document) -> Document | None:
        """Remove the comments of a post that is gone."""
        found = list(queries.COMMENTS.find(self._db, post=body["post"], limit=BATCH, projection={"_id": 1}))
        ids = [one["_id"] for one in found]
        if ids:
            self._db["social.comments"].delete_many({"post_id": body["post"], "_id": {"$in": ids}})
        return body if len(found) == BATCH else None

    def _erase(self, body: Document) -> Document | None:
        return body if erase_some(self._db, self._queue, body["user"], ERASED_A_TURN) else None


def _receivers(db: Db, post: Document, place: Document | None) -> tuple[list[str], Document | None]:
    """A batch of those whose news the post belongs in, longest related first, and the place behind them."""
    related = {"owner": post["by"], "until": post["ts"]}
    if PUBLIC in post["circles"]:
        return _batch(db, queries.FOLLOWERS_UNTIL, place, **related)
    named = None if CIRCLES in post["circles"] else post["circles"]
    return _batch(db, queries.CIRCLED_UNTIL, place, **related, circles=named)


def _batch(db: Db, query: Pipeline, place: Document | None, **arguments: Any) -> tuple[list[str], Document | None]:
    """Up to a batch of people behind a place, and the place behind these; None where there are no more."""
    behind = (place["at"], place["other"]) if place else None
    found = next(db[query.collection].aggregate(query(limit=BATCH, place=behind, **arguments)), None)
    if found is None:
        return [], None
    readers: list[str] = found["readers"]
    return readers, {"at": found["at"], "other": readers[-1]} if len(readers) == BATCH else None


def insert_entries(db: Db, post: Document, readers: Sequence[str]) -> None:
    """One entry for each reader; those that are there already stay."""
    at, post_id, author = post["ts"], post["_id"], post["by"]
    # In the order in which they are stored: the server needs less than half as long.
    insert_new(db, "social.news", [{"_id": {"u": one, "t": at, "p": post_id}, "b": author} for one in sorted(readers)])


def insert_new(db: Db, collection: str, new: Sequence[Document]) -> None:
    """Insert those documents whose ids are not there yet."""
    if not new:
        return
    try:
        db[collection].insert_many(new, ordered=False)
    except BulkWriteError as error:
        if any(one["code"] != DUPLICATE_KEY for one in (error.details or {}).get("writeErrors", ())):
            raise
