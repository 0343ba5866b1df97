"""What the worker does: delivers posts, removes what a deletion left, erases people, and begins to merge an author.

Every task may be done twice, or by two at once: a delivery that is there is a duplicate key, and what is removed is
gone. A task keeps its place by being put again, so that after a crash it goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from squinney.mongo.schema import Db, Document
from squinney.patterns.queue import Queue, Task
from squinney.social import queries
from squinney.social.documents import PUBLIC
from squinney.social.tasks import delivery
from squinney.social.tasks.delivery import Turn
from squinney.social.tasks.erasing import erase_some, part_some

# Most posts have few receivers: together they wait for the journal once, and not once each.
TAKEN_AT_ONCE = 250
CLEARED_A_TURN = 10_000
ERASED_A_TURN = 100  # each is a transaction of its own


class Worker:
    """Handles the tasks of the queue."""

    def __init__(self, db: Db, queue: Queue, *, merge_above: int, settle_seconds: float) -> None:
        self._db = db
        self._queue = queue
        self._merge_above = merge_above
        self._settle_seconds = settle_seconds

    def work(self) -> Counter[str]:
        """Take some tasks and do one turn of each: deliveries together, and then the others."""
        tasks = self._queue.take_some(TAKEN_AT_ONCE)
        deliveries = [task for task in tasks if task["body"]["do"] == "deliver"]
        return self._deliver(deliveries) + self._alone(task for task in tasks if task not in deliveries)

    def _alone(self, tasks: Iterable[Task]) -> Counter[str]:
        return Counter(self._queue.handle(self.handle, task) for task in tasks)

    def handle(self, task: Task) -> None:
        """Do one turn of a task; where there is more to do it is put again."""
        body = task["body"]
        if body["do"] == "deliver":
            self._insert(delivery.turns_of(self._db, [task]))
        else:
            do = {"clear": self._clear, "merge": self._merge, "erase": self._erase, "part": self._part}[body["do"]]
            self._put_again(task, do(body))

    def _put_again(self, task: Task, rest: Document | None) -> None:
        if rest is not None:
            # While it is handed out, this renews what it says and lets it run again.
            self._queue.put(rest, key=task["_id"].removeprefix(f"{self._queue.name}/"))

    # ---- posts ----

    def _deliver(self, tasks: Sequence[Task]) -> Counter[str]:
        """What goes wrong together is tried one by one, where it fails its own task only."""
        try:
            turns = delivery.turns_of(self._db, tasks)
        except Exception:
            return self._alone(tasks)
        counts: Counter[str] = Counter()
        for some in delivery.in_batches(turns):
            counts += self._deliver_batch(some)
        return counts

    def _deliver_batch(self, turns: Sequence[Turn]) -> Counter[str]:
        tasks = [turn.task for turn in turns]
        try:
            self._insert(turns)
        except Exception:
            return self._alone(tasks)
        done = self._queue.done_all(tasks)
        return +Counter({"done": done, "late": len(tasks) - done})

    def _insert(self, turns: Sequence[Turn]) -> None:
        """Insert the entries, and only then note how far each post has come."""
        delivery.insert_entries(self._db, turns)
        for turn in turns:
            self._put_again(turn.task, turn.rest)
            if turn.rest is None and turn.delivered > self._merge_above and PUBLIC in turn.post["circles"]:
                self._begin_merging(turn.post["by"])

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
        readers, place = delivery.followers_from(self._db, author, body.get("place"))
        if readers:
            self._db["social.users"].update_many(queries.SOME_USERS(users=readers), {"$addToSet": {"merged": author}})
        if place is not None:
            return {**body, "place": place}
        self._db["social.users"].update_one(queries.USER(user=author), {"$set": {"merging": True}})
        return None

    # ---- removing ----

    def _clear(self, body: Document) -> Document | None:
        """Remove the comments of a post that is gone."""
        found = list(queries.COMMENTS.find(self._db, post=body["post"], limit=CLEARED_A_TURN, projection={"_id": 1}))
        ids = [one["_id"] for one in found]
        if ids:
            self._db["social.comments"].delete_many({"post_id": body["post"], "_id": {"$in": ids}})
        return body if len(found) == CLEARED_A_TURN else None

    def _erase(self, body: Document) -> Document | None:
        if erase_some(self._db, self._queue, body["user"], ERASED_A_TURN):
            return body
        self._part_later(body["user"])
        return None

    def _part(self, body: Document) -> Document | None:
        if part_some(self._db, body["user"], ERASED_A_TURN):
            return body
        if not body.get("last"):
            self._part_later(body["user"])
        return None

    def _part_later(self, user: str) -> None:
        """Once more, when those are done who had begun to circle them before they left."""
        body = {"do": "part", "user": user, "last": True}
        self._queue.put(body, key=f"part-last-{user}", delay_seconds=self._settle_seconds)
