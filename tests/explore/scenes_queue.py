"""The task queue: two workers with the same tasks, and a client that puts one of these once more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squinney.mongo.schema import Db
from squinney.patterns.queue import Queue
from tests.explore.scene import Act, Scene


def _queue(db: Db) -> Queue:
    """Return a queue whose taken tasks are due again at once, as if their worker had been away for long."""
    return Queue(db, "explored", visibility_seconds=0, backoff_seconds=0)


def _taken(db: Db) -> Any:
    """Put two tasks and take both."""
    queue = _queue(db)
    for key in ("k", "l"):
        queue.put({"n": 1}, key=key)
    return queue.take_some(2)


def _put_again(db: Db) -> Any:
    """Take two tasks, and put one of them once more."""
    tasks = _taken(db)
    _queue(db).put({"n": 2}, key="k")
    return tasks


def _on(change: Callable[[Queue, Any], object]) -> Act:
    return lambda db, tasks: change(_queue(db), tasks)


OPERATIONS: dict[str, Act] = {
    "put": _on(lambda queue, tasks: queue.put({"n": 3}, key="k")),
    "take": _on(lambda queue, tasks: queue.take()),
    "take some": _on(lambda queue, tasks: queue.take_some(2)),
    "done": _on(lambda queue, tasks: queue.done(tasks[0])),
    "done all": _on(lambda queue, tasks: queue.done_all(tasks[:1])),
    "fail": _on(lambda queue, tasks: queue.fail(tasks[0], "broken")),
    "work": _on(lambda queue, tasks: queue.work(lambda task: None, limit=1)),
}

SCENES = [
    Scene(
        "queue",
        "identity",
        _taken,
        {name: OPERATIONS[name] for name in ("put", "take some", "done", "done all", "work")},
        composed=["work"],
    ),
    Scene(
        "queue, put again",
        "identity",
        _put_again,
        {name: OPERATIONS[name] for name in ("put", "take", "done", "done all", "fail")},
    ),
]
