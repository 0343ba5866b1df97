"""A task queue for work that outlives a request; each task is delivered at least once.

```
squinney.tasks { _id: "<queue>/<key or id>", queue, state: ready | dead, due_at, body, tries, put_at, error, failed_at,
        receipt: the token of the worker that took the task, again: it was put once more while a worker had it }
```
A taken task stays in the collection and is due again after `visibility_seconds`, unless its worker calls `done` before.
A crash therefore delays a task and repeats it, but never loses it: handlers must be idempotent. All times are the
server's.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict, cast

import bson
from pymongo import ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.errors import Invalid, LimitReached
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Document, Index
from squinney.mongo.server_time import after, server_now
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Step

log = logging.getLogger(__name__)

NAME = "squinney.tasks"
MAX_BODY_BYTES = 1_000_000
MAX_ERROR_LENGTH = 500
MAX_PAUSE_SECONDS = 600
MAX_COUNTED = 10_000

COLLECTIONS = [
    Collection(
        NAME,
        formerly="tasks",
        indexes=[Index([("queue", 1), ("state", 1), ("due_at", 1), ("_id", 1)], why="take() and the lists, in order")],
        unsharded="`take` changes the next task of all, so it needs one shard; tasks that are done are gone",
    )
]

DUE = Query(
    "tasks.due",
    NAME,
    # guard: a queue delivers only its own tasks
    # guard: a dead letter is not delivered
    # guard: a task is not delivered before it is due
    where=lambda queue: {"queue": queue, "state": "ready", "$expr": {"$lte": ["$due_at", "$$NOW"]}},
    example={"queue": "q"},
    sort=[("due_at", 1), ("_id", 1)],
)
TASK = Query(
    "tasks.task",
    NAME,
    where=lambda queue, task_id: {"queue": queue, "_id": task_id},
    example={"queue": "q", "task_id": "q/1"},
)
HANDED_OUT = Query(
    "tasks.handed-out",
    NAME,
    # guard: only the worker with the receipt can end a task
    where=lambda queue, task_id, receipt: {"queue": queue, "_id": task_id, "receipt": receipt},
    example={"queue": "q", "task_id": "q/1", "receipt": "r"},
)
SOME_TASKS = Query(
    "tasks.some",
    NAME,
    where=lambda queue, task_ids: {"queue": queue, "_id": {"$in": task_ids}},
    example={"queue": "q", "task_ids": ["q/1", "q/2"]},
)
DEAD = Query(
    "tasks.dead",
    NAME,
    where=lambda queue: {"queue": queue, "state": "dead"},
    example={"queue": "q"},
    sort=[("due_at", 1), ("_id", 1)],
)


COUNTS = Pipeline(
    "tasks.counts",
    NAME,
    stages=lambda queue: [{"$match": {"queue": queue}}, {"$group": {"_id": "$state", "count": {"$sum": 1}}}],
    example={"queue": "q"},
)
QUERIES: list[Query | Pipeline] = [DUE, TASK, HANDED_OUT, SOME_TASKS, DEAD, COUNTS]
# The fields of a task that was put once more while a worker had it.
_WAITING: Document = {"due_at": "$$NOW", "put_at": "$$NOW", "tries": 0, "receipt": None, "again": False}


@dataclass(frozen=True)
class Backlog:
    """What waits in a queue: due tasks, up to `MAX_COUNTED`, how long the oldest has been due, and dead letters."""

    due: int
    oldest_seconds: float
    dead: int


@operation(reads_only=True)
def backlogs(db: Db) -> dict[str, Backlog]:
    """Return what waits in each queue, at a cost that does not grow with it.

    Raises: `Unavailable`.
    """
    db = pinned(db)
    now = server_now(db)
    return {name: _backlog(db, name, now) for name in db[NAME].distinct("queue")}


def _backlog(db: Db, queue: str, now: datetime) -> Backlog:
    oldest = DUE.find_one(db, queue=queue, projection={"due_at": 1})
    due = db[NAME].count_documents(DUE(queue=queue), limit=MAX_COUNTED)
    dead = db[NAME].count_documents(DEAD(queue=queue), limit=MAX_COUNTED)
    return Backlog(due, max(0.0, (now - oldest["due_at"]).total_seconds()) if oldest else 0.0, dead)


class Task(TypedDict):
    """A task that a worker has taken."""

    _id: str
    queue: str
    state: str
    body: dict[str, Any]
    tries: int
    due_at: datetime
    put_at: datetime
    receipt: NotRequired[str]
    error: NotRequired[str]


class Queue:
    """A named queue. Any number of processes may put and take tasks."""

    def __init__(
        self,
        db: Db,
        name: str,
        *,
        visibility_seconds: float = 60,
        max_tries: int = 8,
        backoff_seconds: float = 1,
    ) -> None:
        self._db = pinned(db)
        self._tasks = self._db[NAME]
        self.name = checks.text(name, "name", min_length=1, max_length=50, pattern=r"[a-z][a-z0-9-]*")
        self._visibility_seconds = visibility_seconds
        self._max_tries = max_tries
        self._backoff_seconds = backoff_seconds

    # ---- putting ----

    @operation()
    def put(
        self,
        body: Mapping[str, Any],
        *,
        key: str | None = None,
        delay_seconds: float = 0,
        session: ClientSession | None = None,
    ) -> str:
        """Add a task and return its id.

        A task with a `key` exists once. Putting it again replaces its body; if a worker has it, it runs once more
        afterwards; if it is dead, it becomes ready again. With a `session` the task is part of its transaction.

        Raises: `Invalid`, `LimitReached` for a body over 1 MB, `Unavailable`.
        """
        task_id = self._id_for(key)
        checks.seconds(delay_seconds, "delay_seconds")
        # guard: a body is not evaluated as an expression
        content = {"queue": self.name, "state": "ready", "body": {"$literal": _checked(body)}}
        fresh = {"tries": 0, "due_at": after(delay_seconds), "put_at": "$$NOW", "receipt": None}
        is_handed_out = {"$ne": [{"$ifNull": ["$receipt", None]}, None]}
        # guard: putting a taken task does not deliver it a second time
        # guard: putting a taken task schedules another run
        change = {"$cond": [{"$ne": ["$state", "ready"]}, fresh, {"again": is_handed_out}]}
        update: list[Document] = [{"$replaceWith": {"$mergeObjects": ["$$ROOT", content, change]}}]
        try:
            self._upsert(task_id, update, session)
        # guard: two processes may put a new key concurrently
        except DuplicateKeyError:  # another process inserted the same key concurrently: now it exists
            self._upsert(task_id, update, session)
        return task_id

    def _upsert(self, task_id: str, update: list[Document], session: ClientSession | None) -> None:
        self._tasks.update_one(TASK(queue=self.name, task_id=task_id), update, upsert=True, session=session)

    @operation(reads_only=True)
    def step(self, body: Mapping[str, Any]) -> Step:
        """Return a guarded step that adds a task, so that the task exists exactly if the operation commits.

        Raises: `Invalid`, `LimitReached` for a body over 1 MB, `Unavailable`.
        """
        task_id = self._id_for(None)
        now = server_now(self._db)  # a wrong local clock would put the task before all others, or in the far future
        task = {
            "_id": task_id,
            "queue": self.name,
            "state": "ready",
            "body": _checked(body),
            "tries": 0,
            "due_at": now,
            "put_at": now,
        }
        return Step(NAME, task_id, insert=task, route={"queue": self.name})

    def _id_for(self, key: str | None) -> str:
        return f"{self.name}/{new_id() if key is None else checks.text(key, 'key', min_length=1, max_length=150)}"

    # ---- working ----

    @operation()
    def take(self) -> Task | None:
        """Take the task that has been due longest, for `visibility_seconds`; return None if none is due.

        A task that was already taken `max_tries` times becomes a dead letter instead.

        Atomic: each task by one find-and-modify.
        After a crash: the task is due again after `visibility_seconds`.
        Raises: `Unavailable`.
        """
        while True:
            receipt = secrets.token_hex(12)
            due = self._tasks.find_one_and_update(
                DUE(queue=self.name), self._hand_out(receipt), sort=list(DUE.sort), return_document=ReturnDocument.AFTER
            )
            if due is None or due["state"] == "ready":
                return cast(Task | None, due)
            log.warning("task %s is dead after %d tries", due["_id"], due["tries"])

    @operation()
    def take_some(self, limit: int) -> list[Task]:
        """Take up to `limit` tasks, those that have been due longest, for workers that handle many at once.

        Atomic: each task by itself, by the server's clock.
        After a crash: the tasks are due again after `visibility_seconds`.
        Raises: `Unavailable`.
        """
        due = DUE.find(self._db, queue=self.name, limit=limit, projection={"_id": 1})
        ids = [task["_id"] for task in due]
        if not ids:
            return []
        some = SOME_TASKS(queue=self.name, task_ids=ids)
        receipt = secrets.token_hex(12)
        # guard: a task of a batch goes to one worker
        self._tasks.update_many({**DUE(queue=self.name), **some}, self._hand_out(receipt))
        by_id = {task["_id"]: task for task in self._tasks.find(some)}
        for task in by_id.values():
            if task["state"] == "dead":
                log.warning("task %s is dead after %d tries", task["_id"], task["tries"])
        taken = (by_id.get(task_id, {}) for task_id in ids)
        return [cast(Task, task) for task in taken if task.get("receipt") == receipt]

    def _hand_out(self, receipt: str) -> list[Document]:
        # guard: a task put again has all its tries when it is taken
        tries = {"$cond": ["$again", 0, "$tries"]}  # it was put once more while a worker had it that then died
        out = {
            "receipt": receipt,
            "tries": {"$add": [tries, 1]},
            # guard: a taken task is due again after the visibility time
            "due_at": after(self._visibility_seconds),
            "again": False,
        }
        dead = {
            "state": "dead",
            "receipt": None,
            "due_at": "$$NOW",
            "failed_at": "$$NOW",
            "error": {"$ifNull": ["$error", "it was taken and never finished"]},
        }
        # guard: a task that kills its workers becomes a dead letter
        spent = {"$gte": [tries, self._max_tries]}
        return [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$cond": [spent, dead, out]}]}}]

    @operation()
    def extend(self, task: Task, seconds: float | None = None) -> bool:
        """Keep a taken task for `seconds` from now; return False if this worker no longer has it.

        Raises: `Invalid`, `Unavailable`.
        """
        span = self._visibility_seconds if seconds is None else checks.seconds(seconds, "seconds")
        longer = [{"$set": {"due_at": after(span)}}]
        return self._tasks.update_one(self._mine(task), longer).matched_count > 0

    @operation()
    def done(self, task: Task) -> bool:
        """Delete a finished task, or make it due again if it was put once more; return False if this worker lost it.

        Atomic: one delete, or one update.
        After a crash: the task is due again after `visibility_seconds`.
        """
        # guard: a task that was put once more is not deleted
        if self._tasks.delete_one({**self._mine(task), "again": {"$ne": True}}).deleted_count:
            return True
        return self._tasks.update_one(self._mine(task), [{"$set": _WAITING}]).matched_count > 0

    @operation()
    def done_all(self, tasks: Sequence[Task]) -> int:
        """End several tasks as `done` ends one; return how many this worker still had.

        Atomic: each task by itself.
        After a crash: the remaining tasks are due again after `visibility_seconds`.
        """
        mine = SOME_TASKS(queue=self.name, task_ids=[task["_id"] for task in tasks])
        # guard: only the worker that took a batch can end it
        mine["receipt"] = {"$in": sorted({task.get("receipt", "") for task in tasks})}
        settled = self._tasks.delete_many({**mine, "again": {"$ne": True}}).deleted_count
        if settled < len(tasks):
            settled += self._tasks.update_many({**mine, "again": True}, [{"$set": _WAITING}]).matched_count
        return settled

    @operation()
    def fail(self, task: Task, error: str) -> bool:
        """Return a failed task to the queue, or to the dead letters after its last try.

        The delay doubles with each try. Returns False if this worker no longer has the task.
        """
        outcome = {
            "error": {"$literal": checks.storable(error, max_length=MAX_ERROR_LENGTH)},
            "failed_at": "$$NOW",
            "receipt": None,
            "again": False,
        }
        later: Document = {"due_at": after(self._pause(task))}
        dead: Document = {"state": "dead", "due_at": "$$NOW"}
        renewed: Document = {"tries": 0, **later}  # it was put once more meanwhile, which restores all its tries
        spent = task["tries"] >= self._max_tries
        # guard: a task put again has all its tries when it fails
        # guard: a task that fails each time becomes a dead letter
        change = {"$cond": ["$again", renewed, dead if spent else later]}
        update: list[Document] = [{"$replaceWith": {"$mergeObjects": ["$$ROOT", outcome, change]}}]
        return self._tasks.update_one(self._mine(task), update).matched_count > 0

    def _pause(self, task: Task) -> float:
        longest = min(self._backoff_seconds * 2 ** (task["tries"] - 1), MAX_PAUSE_SECONDS)
        return random.uniform(longest / 2, longest)

    def _mine(self, task: Task) -> Document:
        return HANDED_OUT(queue=self.name, task_id=task["_id"], receipt=task.get("receipt", ""))

    def work(self, handle: Callable[[Task], object], *, limit: int = 100) -> Counter[str]:
        """Take and handle up to `limit` due tasks, as a job; an error in the handler fails only its task.

        Atomic: each task by itself.
        After a crash: the current task is due again after `visibility_seconds`.
        Raises: `Unavailable`.
        """
        counts: Counter[str] = Counter()
        for _ in range(limit):
            task = self.take()
            if task is None:
                break
            counts[self.handle(handle, task)] += 1
        return counts

    def handle(self, handle: Callable[[Task], object], task: Task) -> str:
        """Handle and end one taken task; return `done`, `failed`, or `late` if another worker has it by now."""
        try:
            handle(task)
        # guard: an error in a handler fails only its task
        except Exception as error:
            log.exception("task %s failed, try %d", task["_id"], task["tries"])
            self.fail(task, f"{type(error).__name__}: {error}")
            return "failed"
        return "done" if self.done(task) else "late"

    # ---- administration ----

    @operation(reads_only=True)
    def counts(self) -> dict[str, int]:
        """Return the number of tasks that are ready (waiting or taken) and dead."""
        numbers = {group["_id"]: group["count"] for group in self._tasks.aggregate(COUNTS(queue=self.name))}
        return {"ready": numbers.get("ready", 0), "dead": numbers.get("dead", 0)}

    @operation(reads_only=True)
    def dead(self, *, cursor: str | None = None, limit: int = 50) -> Page[Task]:
        """Return a page of the dead letters, the oldest first."""
        return cast(Page[Task], page(self._db, DEAD, cursor=cursor, limit=limit, queue=self.name))

    @operation()
    def revive(self, task_id: str) -> bool:
        """Make a dead letter ready again, with all its tries; return False if it does not exist."""
        # guard: only dead letters are revived
        where = {**TASK(queue=self.name, task_id=checks.identifier(task_id, "task")), "state": "dead"}
        alive: Document = {"state": "ready", "tries": 0, "due_at": "$$NOW", "again": False}
        return self._tasks.update_one(where, [{"$set": alive}]).matched_count > 0

    @operation()
    def drop(self, task_id: str) -> bool:
        """Delete a dead letter; return False if it does not exist."""
        # guard: only dead letters are dropped
        where = {**TASK(queue=self.name, task_id=checks.identifier(task_id, "task")), "state": "dead"}
        return self._tasks.delete_one(where).deleted_count > 0


def _checked(body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        size = len(bson.encode(dict(body)))
    except (bson.errors.BSONError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid(f"body cannot be stored: {error}", field="body") from error
    # guard: a body has a maximum size
    if size > MAX_BODY_BYTES:
        raise LimitReached(f"body must have at most {MAX_BODY_BYTES} bytes, not {size}", field="body")
    return dict(body)
