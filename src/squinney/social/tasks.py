"""Handles the network's tasks: delivers posts, deletes leftovers, erases members, and starts to merge authors' posts.

Every task may run twice, or in two processes at once: a delivered entry is a duplicate key, and deletes are idempotent.
A task saves its position by being put into the queue again, so that it continues from there after a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from squinney.mongo.schema import Db, Document
from squinney.patterns.queue import Queue, Task
from squinney.social import queries
from squinney.social.documents import PUBLIC
from squinney.social.erasing import disconnect_some, erase_some
from squinney.social.news import delivery
from squinney.social.news.delivery import ReaderChunk

# Most posts have few readers: delivered together, they wait for the journal once instead of once per post.
TAKEN_AT_ONCE = 250
CLEARED_AT_ONCE = 10_000
ERASED_AT_ONCE = 100  # each is one transaction


class TaskHandler:
    """Handles the tasks of the queue."""

    def __init__(self, db: Db, queue: Queue, *, merge_above: int, settle_seconds: float) -> None:
        self._db = db
        self._queue = queue
        self._merge_above = merge_above
        self._settle_seconds = settle_seconds

    def work(self) -> Counter[str]:
        """Take some tasks and do one step of each, and return counts by outcome. Deliveries run together and first."""
        tasks = self._queue.take_some(TAKEN_AT_ONCE)
        deliveries = [task for task in tasks if task["body"]["do"] == "deliver"]
        return self._deliver(deliveries) + self._handle_each(task for task in tasks if task not in deliveries)

    def _handle_each(self, tasks: Iterable[Task]) -> Counter[str]:
        return Counter(self._queue.handle(self._handle, task) for task in tasks)

    def _handle(self, task: Task) -> None:
        body = task["body"]
        if body["do"] == "deliver":
            self._insert(delivery.next_chunks(self._db, [task]))
            return
        if body["do"] == "catch-up":
            delivery.catch_up(self._db, body["pairs"], body["since"], body.get("older", ()))
            return
        steps = {"clear": self._clear, "merge": self._merge, "erase": self._erase, "disconnect": self._disconnect}
        self._put_again(task, steps[body["do"]](body))

    def _put_again(self, task: Task, rest: Document | None) -> None:
        if rest is not None:
            # The task is handed out now, so this replaces its body and makes it run once more.
            self._queue.put(rest, key=task["_id"].removeprefix(f"{self._queue.name}/"))

    # ---- posts ----

    def _deliver(self, tasks: Sequence[Task]) -> Counter[str]:
        """Deliver a chunk of each post together. If that fails, deliver one by one, so that one task fails alone."""
        try:
            chunks = delivery.next_chunks(self._db, tasks)
        # guard: a post that cannot be delivered fails alone
        except Exception:
            return self._handle_each(tasks)
        counts: Counter[str] = Counter()
        for some in delivery.in_batches(chunks):
            counts += self._deliver_batch(some)
        return counts

    def _deliver_batch(self, chunks: Sequence[ReaderChunk]) -> Counter[str]:
        tasks = [chunk.task for chunk in chunks]
        try:
            self._insert(chunks)
        except Exception:
            return self._handle_each(tasks)
        done = self._queue.done_all(tasks)
        return +Counter({"done": done, "late": len(tasks) - done})

    def _insert(self, chunks: Sequence[ReaderChunk]) -> None:
        """Insert the entries, and save the position of each task only afterwards."""
        delivery.insert_entries(self._db, chunks)
        for chunk in chunks:
            self._put_again(chunk.task, chunk.rest)
            if chunk.rest is None and chunk.delivered > self._merge_above and PUBLIC in chunk.post["circles"]:
                self._begin_merging(chunk.post["by"])

    # ---- merging instead of delivering ----

    def _begin_merging(self, author: str) -> None:
        """Start to merge the author's posts into their followers' news on reading.

        From now on, new followers add the author to their `merged` list. After `settle_seconds`, when transactions
        that began before have ended, `_merge` adds the author for all other followers. Then posts are merged.
        """
        where = queries.USER(user=author)
        unmarked = {**where, "merging": {"$exists": False}}
        self._db["social.users"].update_one(unmarked, {"$set": {"merging": False}})
        user = self._db["social.users"].find_one(where, {"merging": 1})
        if user and user.get("merging") is False:
            body = {"do": "merge", "author": author}
            self._queue.put(body, key=f"merge-{author}", delay_seconds=self._settle_seconds)

    def _merge(self, body: Document) -> Document | None:
        author = body["author"]
        readers, position = delivery.next_followers(self._db, author, body.get("position"))
        if readers:
            self._db["social.users"].update_many(queries.SOME_USERS(users=readers), {"$addToSet": {"merged": author}})
        if position is not None:
            return {**body, "position": position}
        self._db["social.users"].update_one(queries.USER(user=author), {"$set": {"merging": True}})
        return None

    # ---- deleting ----

    def _clear(self, body: Document) -> Document | None:
        """Delete the comments of a deleted post."""
        comments = list(
            queries.COMMENTS.find(self._db, post=body["post"], limit=CLEARED_AT_ONCE, projection={"_id": 1})
        )
        ids = [comment["_id"] for comment in comments]
        if ids:
            self._db["social.comments"].delete_many({"post_id": body["post"], "_id": {"$in": ids}})
        return body if len(comments) == CLEARED_AT_ONCE else None

    def _erase(self, body: Document) -> Document | None:
        if erase_some(self._db, self._queue, body["user"], ERASED_AT_ONCE):
            return body
        self._disconnect_later(body["user"])
        return None

    def _disconnect(self, body: Document) -> Document | None:
        if disconnect_some(self._db, body["user"], ERASED_AT_ONCE):
            return body
        if not body.get("last"):
            self._disconnect_later(body["user"])
        return None

    def _disconnect_later(self, user: str) -> None:
        """Disconnect once more, after transactions have ended that began to circle the user before they left."""
        body = {"do": "disconnect", "user": user, "last": True}
        # guard: a member circled while leaving is disconnected later
        self._queue.put(body, key=f"disconnect-last-{user}", delay_seconds=self._settle_seconds)
