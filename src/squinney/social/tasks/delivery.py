"""What the worker does: delivers posts, removes what a deletion left, erases people, and begins to merge an author.

Every task may be done twice, or by two at once: a delivery that is there is a duplicate key, and what is removed is
gone. A task keeps its place by being put again, so that after a crash it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import BulkWriteError

from squinney.mongo.queries import Query
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.patterns.paging import Page, page
from squinney.patterns.queue import Queue, Task
from squinney.social import queries
from squinney.social.documents import CIRCLES, PUBLIC
from squinney.social.tasks.erasing import erase_some

FAR = datetime(9999, 1, 1, tzinfo=UTC)
BATCH = 1_000
# So many batches, and then it is the others' turn: nobody waits for an account with a million followers.
BATCHES_A_TURN = 20


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
        cursor, delivered = body.get("cursor"), body.get("delivered", 0)
        for _ in range(BATCHES_A_TURN):
            receivers = _receivers(self._db, post, cursor)
            insert_entries(self._db, post, [one["_id"]["other"] for one in receivers.items])
            delivered += len(receivers.items)
            cursor = receivers.next
            if cursor is None:
                if delivered > self._merge_above and PUBLIC in post["circles"]:
                    self._begin_merging(post["by"])
                return None
        return {**body, "cursor": cursor, "delivered": delivered}

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
        author, cursor = body["author"], body.get("cursor")
        for _ in range(BATCHES_A_TURN):
            followers = _followers(self._db, author, FAR, cursor)
            readers = [one["_id"]["other"] for one in followers.items]
            if readers:
                self._db["social.users"].update_many(
                    queries.SOME_USERS(users=readers), {"$addToSet": {"merged": author}}
                )
            cursor = followers.next
            if cursor is None:
                self._db["social.users"].update_one(queries.USER(user=author), {"$set": {"merging": True}})
                return None
        return {**body, "cursor": cursor}

    # ---- removing ----

    def _clear(self, body: Document) -> Document | None:
        """Remove the comments of a post that is gone."""
        found = list(queries.COMMENTS.find(self._db, post=body["post"], limit=BATCH, projection={"_id": 1}))
        ids = [one["_id"] for one in found]
        if ids:
            self._db["social.comments"].delete_many({"post_id": body["post"], "_id": {"$in": ids}})
        return body if len(found) == BATCH else None

    def _erase(self, body: Document) -> Document | None:
        return body if erase_some(self._db, self._queue, body["user"], BATCH) else None


def _receivers(db: Db, post: Document, cursor: str | None) -> Page[Document]:
    """A batch of those whose news the post belongs in, longest related first."""
    until = post["ts"]
    if PUBLIC in post["circles"]:
        return _followers(db, post["by"], until, cursor)
    if CIRCLES in post["circles"]:
        return _batch(db, queries.CIRCLED_UNTIL, cursor, owner=post["by"], until=until)
    names = {"$elemMatch": {"name": {"$in": post["circles"]}, "at": {"$lte": until}}}
    return _batch(db, queries.CIRCLED_UNTIL, cursor, owner=post["by"], until=until, circles=names)


def _followers(db: Db, author: str, until: datetime, cursor: str | None) -> Page[Document]:
    return _batch(db, queries.FOLLOWERS_UNTIL, cursor, owner=author, until=until)


def _batch(db: Db, query: Query, cursor: str | None, **arguments: Any) -> Page[Document]:
    fields = {name: 1 for name, _ in query.sort}  # what the index has: for most posts the edges are not even read
    return page(db, query, cursor=cursor, limit=BATCH, most=BATCH, projection=fields, **arguments)


def insert_entries(db: Db, post: Document, readers: Sequence[str]) -> None:
    """One entry for each reader; those that are there already stay."""
    insert_new(
        db, "social.news", ({"_id": {"u": one, "t": post["ts"], "p": post["_id"]}, "b": post["by"]} for one in readers)
    )


def insert_new(db: Db, collection: str, documents: Iterable[Document]) -> None:
    """Insert those documents whose ids are not there yet."""
    new = list(documents)
    if not new:
        return
    try:
        db[collection].insert_many(new, ordered=False)
    except BulkWriteError as error:
        if any(one["code"] != DUPLICATE_KEY for one in (error.details or {}).get("writeErrors", ())):
            raise
