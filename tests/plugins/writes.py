"""Count how many writes each public operation sends in one call."""

from __future__ import annotations

import concurrent.futures
import contextvars
import functools
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from pymongo.monitoring import CommandStartedEvent

from squinney.mongo.write_commands import is_write

DUPLICATE = {11000, 11001}
STATEMENTS = {"insert": "documents", "update": "updates", "delete": "deletes", "bulkWrite": "ops"}


def writes_of(name: str, command: Mapping[str, Any]) -> int:
    """Return 0, 1, or 2 for a command with several statements, which the driver may split into several commands."""
    if not is_write(name, command):
        return 0
    return min(2, max(1, len(command.get(STATEMENTS.get(name, ""), ()))))


class WriteCounts:
    """The largest number of writes seen in one call of each public operation, including the threads that it starts."""

    def __init__(self) -> None:
        self._most: Counter[str] = Counter()
        self._call: ContextVar[list[int] | None] = ContextVar("call", default=None)
        self._last = threading.local()

    def see(self, event: CommandStartedEvent) -> None:
        """Count the command for the outermost public operation in progress."""
        if (call := self._call.get()) is not None and not self._is_repeat(event.command):
            call[0] += writes_of(event.command_name, event.command)

    def _is_repeat(self, command: Mapping[str, Any]) -> bool:
        """Return True if the driver resends the command after a network error: the server executes it once."""
        if "txnNumber" not in command or "autocommit" in command:
            return False
        number = (bytes(command["lsid"]["id"]), command["txnNumber"])
        last, self._last.number = getattr(self._last, "number", None), number
        return number == last

    def refused(self, answer: Mapping[str, Any]) -> None:
        """Do not count a command that failed with a duplicate key: it has changed nothing."""
        codes = {answer.get("code"), *(error["code"] for error in answer.get("writeErrors", ()))}
        if codes & DUPLICATE and (call := self._call.get()) is not None:
            call[0] -= 1

    # ---- wrapping ----

    def wrap_everything(self) -> None:
        """Wrap every public operation of the product, and every job."""
        from squinney import assembly
        from tests.plugins.write_rules import packages

        tops = tuple({f"{package.__name__.partition('.')[0]}." for package in packages()})
        for package in packages():
            for name in getattr(package, "__all__", None) or [name for name in vars(package) if name[0] != "_"]:
                offered = getattr(package, name)
                if inspect.isclass(offered) and offered.__module__.startswith(tops):
                    self.wrap_class(offered)
                elif inspect.isfunction(offered) and offered.__module__.startswith(tops):
                    self.wrap_function(f"{package.__name__.rpartition('.')[2]}.{name}", offered)
        for job in assembly.jobs():
            object.__setattr__(job, "run", self.counted(f"job:{job.name}", job.run))
        carry_calls_into_threads()

    def wrap_class(self, service: type) -> None:
        """Wrap every public method of the class, also inherited and static ones, properties and generators."""
        ours = {"squinney", "tests", _top(service)}
        for name in dir(service):
            owner = next((one for one in service.__mro__ if name in vars(one)), None)
            if name.startswith("_") or owner is None or _top(owner) not in ours:
                continue
            held = vars(owner)[name]
            title = f"{service.__name__}.{name}"
            if inspect.isfunction(held):
                setattr(service, name, self.counted(title, held))
            elif isinstance(held, staticmethod | classmethod):
                setattr(service, name, type(held)(self.counted(title, held.__func__)))
            elif isinstance(held, property) and held.fget:
                setattr(service, name, held.getter(self.counted(title, held.fget)))

    def wrap_function(self, title: str, function: Callable[..., Any]) -> None:
        """Wrap the function in every module that has imported it, and in the systems' declarations."""
        from squinney import assembly

        wrapped = self.counted(title, function)
        ours = [module for name, module in sys.modules.items() if name.startswith(("squinney", "tests"))]
        for holder in [*ours, *assembly.SYSTEMS]:
            for name, value in list(vars(holder).items()):
                if value is function:
                    object.__setattr__(holder, name, wrapped)

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its writes counted under this name; for a generator, until it ends."""
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def counted(*args: Any, **kwargs: Any) -> Any:
                return self._counted_steps(name, function(*args, **kwargs))
        else:

            @functools.wraps(function)
            def counted(*args: Any, **kwargs: Any) -> Any:
                if self._call.get() is not None:
                    self._most[name] += 0  # record the call; its writes belong to the outermost operation
                    return function(*args, **kwargs)
                call = [0]
                token = self._call.set(call)
                try:
                    return function(*args, **kwargs)
                finally:
                    self._call.reset(token)
                    self._most[name] = max(self._most[name], call[0])

        return counted

    def _counted_steps(self, name: str, steps: Iterator[Any]) -> Iterator[Any]:
        """Count the generator's own writes, not those that its reader makes between two items."""
        call = [0]
        while True:
            outermost = self._call.get() is None
            token = self._call.set(call) if outermost else None
            try:
                item = next(steps)
            except StopIteration as end:
                return end.value
            finally:
                if token:
                    self._call.reset(token)
                self._most[name] = max(self._most[name], call[0])
            yield item

    # ---- results ----

    def result(self) -> dict[str, int]:
        """Return the counts in a form that can be sent between processes."""
        return dict(self._most)

    def add(self, other: Mapping[str, int]) -> None:
        """Add the counts of another process."""
        for name, writes in other.items():
            self._most[name] = max(self._most[name], writes)

    def failures(self, *, full: bool = False) -> list[str]:
        """Return operations that write more than once and have no case in the sweep.

        After a full run, add those that may write more than once by their source, and those that no test called.
        """
        from tests.crash.case import cases
        from tests.plugins import write_rules

        covered = cases().covered()
        found = write_rules.seen_twice(self._most, {*covered, *write_rules.excepted("swept")})
        return [*found, *write_rules.by_source(self._most, covered)] if full else found

    def summary(self) -> str:
        """Return a line with the number of operations."""
        several = sum(writes > 1 for writes in self._most.values())
        return f"{len(self._most)} public operations and jobs, {several} with several writes"


def _top(one: type) -> str:
    return one.__module__.partition(".")[0]


def carry_calls_into_threads() -> None:
    """Count the writes of threads and pools for the operation that started them."""
    start, submit = threading.Thread.start, concurrent.futures.ThreadPoolExecutor.submit

    def start_in_context(thread: threading.Thread) -> None:
        run = thread.run
        thread.run = functools.partial(contextvars.copy_context().run, run)  # type: ignore[method-assign]
        start(thread)

    def submit_in_context(pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(pool, contextvars.copy_context().run, function, *args, **kwargs)

    threading.Thread.start = start_in_context  # type: ignore[method-assign]
    concurrent.futures.ThreadPoolExecutor.submit = submit_in_context  # type: ignore[method-assign]
