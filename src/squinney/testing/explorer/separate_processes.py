"""Make operations in threads of one process behave as if each had a process of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from pymongo import AsyncMongoClient, MongoClient

from squinney.mongo.schema import Db
from squinney.patterns.fair_locks import FairLocks
from squinney.testing.async_operations import operation_task
from squinney.testing.bulk_writes import statements_apart
from squinney.testing.explorer.actor import OWN_CLIENT, current_actor
from squinney.testing.lost_replies import losing_replies
from squinney.transactions import group_commit

real_sleep, real_async_sleep, real_start = time.sleep, asyncio.sleep, threading.Thread.start
real_client, real_async_client = MongoClient.__init__, AsyncMongoClient.__init__
real_runs_of = group_commit.pending_runs_of


@contextmanager
def as_separate_processes(*, threads_in_turn: bool) -> Iterator[None]:
    """In the `with` block, make operations under the scheduler behave as if each had its own process.

    They neither wait for each other's in-process locks nor share commits, and a sleep lets the others continue. With
    `threads_in_turn`, what an operation gives to a thread pool runs in its own thread at once, so that its commands are
    held too; so does what others give to pools, such as the operations that run one after the other.
    """
    fair_lock = FairLocks.hold

    @contextmanager
    def lock_unless_scheduled(self: FairLocks, name: Hashable) -> Iterator[bool]:
        if current_actor():
            yield False
        else:
            with fair_lock(self, name) as crowded:
                yield crowded

    with (
        losing_replies(_note_client),
        statements_apart(lambda: current_actor() is not None),
        patch.object(time, "sleep", _scheduled_sleep),
        patch.object(threading.Thread, "start", _noted_start),
        patch.object(MongoClient, "__init__", _noted_client),
        patch.object(AsyncMongoClient, "__init__", _noted_async_client),
        patch.object(asyncio, "sleep", _scheduled_async_sleep),
        patch.object(FairLocks, "hold", lock_unless_scheduled),
        patch.object(group_commit, "pending_runs_of", _own_runs_of),
        _running_pools_in_turn() if threads_in_turn else nullcontext(),
    ):
        yield


def _note_client(name: str) -> None:
    if actor := current_actor():
        actor.note_client(name)


def _own_runs_of(db: Db) -> group_commit.PendingRuns:
    """Return a queue of the operation alone, which knows nothing of what earlier schedules were refused."""
    actor = current_actor()
    return real_runs_of(db) if actor is None else actor.runs.setdefault(db.name, group_commit.PendingRuns(db))


def _running_pools_in_turn() -> AbstractContextManager[object]:
    def run(pool: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if actor := current_actor():
            actor.gave_work_away = True
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done

    return patch.object(ThreadPoolExecutor, "submit", run)


def _scheduled_sleep(seconds: float) -> None:
    actor = current_actor()
    if actor is None:
        real_sleep(seconds)
    else:
        actor.sleep()


def _noted_start(thread: threading.Thread) -> None:
    actor = current_actor()
    if actor and not thread.name.startswith("pymongo"):  # those of the client never end
        actor.threads.append(thread)
    real_start(thread)


def _noted_client(client: MongoClient[Any], *args: Any, **kwargs: Any) -> None:
    if actor := current_actor():
        # guard: a client of an operation's own is noticed
        actor.strays.append(OWN_CLIENT)
    real_client(client, *args, **kwargs)


def _noted_async_client(client: AsyncMongoClient[Any], *args: Any, **kwargs: Any) -> None:
    if operation_task.get() and (actor := current_actor()):
        # guard: an asynchronous client of an operation's own is noticed
        actor.strays.append(OWN_CLIENT)
    real_async_client(client, *args, **kwargs)


async def _scheduled_async_sleep(delay: float, result: Any = None) -> Any:
    actor = current_actor()
    if actor is None or delay <= 0 or not operation_task.get():  # the driver's own tasks sleep too
        return await real_async_sleep(delay, result)
    actor.sleep()
    return await real_async_sleep(0, result)
