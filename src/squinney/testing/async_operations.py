"""Call operations that are `async def`: on an `AsyncMongoClient`, in an event loop that runs nothing else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

from pymongo import AsyncMongoClient

from squinney.mongo.connect import DEFAULTS, GUARANTEES
from squinney.mongo.schema import Document

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
# The task that called the operation; None in the driver's own tasks.
DRIVER = "pymongo.network_layer"  # its tasks send and receive
operation_task: ContextVar[asyncio.Task[Any] | None] = ContextVar("operation_task", default=None)


def is_async(act: object) -> bool:
    """Return whether calling this returns a coroutine, as far as can be seen without calling it."""
    return inspect.iscoroutinefunction(act) or inspect.iscoroutinefunction(getattr(act, "__call__", None))  # noqa: B004


class AsyncCaller:
    """An `AsyncMongoClient` and its event loop, made at the first call. Only one thread at a time may use it."""

    def __init__(self, uri: str, **options: Any) -> None:
        self._uri = uri
        # guard: commands of an operation's tasks are sent one after the other
        self._options = {**DEFAULTS, **GUARANTEES, **options, "maxPoolSize": 1}
        self._runner: asyncio.Runner | None = None
        self._client: AsyncMongoClient[Document]
        self._tasks: set[asyncio.Task[Any]] = set()  # that the operation started

    def call(self, act: Callable[..., Any], database: str) -> Any:
        """Call `act(database)` and wait for its result, and for the tasks that it started."""
        runner = self._runner or self._start()
        return runner.run(self._call(act, database), context=copy_context())

    def close(self) -> None:
        """Close the client and the loop, unless an operation that never ends still runs in it."""
        if self._runner and not self._runner.get_loop().is_running():
            self._runner.run(self._client.close())
            self._runner.close()
            self._runner = None

    def _start(self) -> asyncio.Runner:
        self._runner = asyncio.Runner()
        self._runner.get_loop().set_task_factory(self._new_task)
        # The tasks that watch the server begin here, outside any operation.
        self._runner.run(self._open(), context=Context())
        return self._runner

    async def _open(self) -> None:
        self._client = AsyncMongoClient(self._uri, **self._options)
        await self._client.aconnect()

    async def _call(self, act: Callable[..., Awaitable[Any]], database: str) -> Any:
        operation_task.set(asyncio.current_task())
        self._tasks.clear()
        try:
            result = await act(self._client[database])
        except Exception as error:
            await self._end_tasks()
            if isinstance(error, ExceptionGroup):
                raise _first(error) from error
            raise
        except BaseException:  # it died, and its tasks with it
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise
        await self._end_tasks()
        return result

    async def _end_tasks(self) -> None:
        """Wait for the operation's tasks: in a server they would go on after it too."""
        while unfinished := [task for task in self._tasks if not task.done()]:
            await asyncio.wait(unfinished)

    def _new_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        if not operation_task.get():
            return asyncio.Task(work, loop=loop, **options)
        if _module_of(work) == DRIVER:
            options["context"] = copy_context()
            options["context"].run(operation_task.set, None)
            return asyncio.Task(work, loop=loop, **options)
        task = asyncio.Task(work, loop=loop, **options)
        # guard: tasks that an operation started belong to it
        self._tasks.add(task)
        return task


def _module_of(work: Any) -> str:
    frame = getattr(work, "cr_frame", None)
    return str(frame.f_globals["__name__"]) if frame else ""


def _first(error: Exception) -> Exception:
    """Return the first error of a group, such as that of an `asyncio.TaskGroup`."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
