"""Which commands write, and how many of them a public method sends in one call."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from pymongo import MongoClient
from pymongo.monitoring import CommandStartedEvent

WRITES = {"insert", "update", "delete", "findAndModify", "bulkWrite", "commitTransaction"}


def is_write(name: str, command: Mapping[str, Any]) -> bool:
    """Whether the command may change documents. An abort changes none."""
    if name == "aggregate":
        return any(stage in ("$out", "$merge") for step in command.get("pipeline", ())[-1:] for stage in step)
    return name in WRITES


class WriteCounts:
    """The most writes that one call of each public method and job was seen to send."""

    def __init__(self) -> None:
        self._most: Counter[str] = Counter()
        self._call: ContextVar[list[int] | None] = ContextVar("call", default=None)

    def see(self, event: CommandStartedEvent) -> None:
        """Count the command for the outermost public method that is under way in this thread."""
        call = self._call.get()
        if call is not None and is_write(event.command_name, event.command):
            call[0] += 1

    def wrap_everything(self) -> None:
        """Count in every public method of every system's nouns, and in every job."""
        from squinney import assembly
        from squinney.transactions import Transactions

        nowhere: Any = MongoClient("mongodb://localhost:1", connect=False)["nowhere"]
        nouns = {
            type(noun) for system in assembly.SYSTEMS for noun in system.build(nowhere, Transactions(nowhere)).values()
        }
        for noun in sorted(nouns, key=lambda noun: noun.__qualname__):
            self._wrap_methods(noun)
        for job in assembly.jobs():
            object.__setattr__(job, "run", self._counted(f"job:{job.name}", job.run))

    def _wrap_methods(self, noun: type) -> None:
        for name, method in list(vars(noun).items()):
            if not name.startswith("_") and inspect.isfunction(method):
                setattr(noun, name, self._counted(f"{noun.__name__}.{name}", method))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self._call.get() is not None:
                return function(*args, **kwargs)
            call = [0]
            token = self._call.set(call)
            try:
                return function(*args, **kwargs)
            finally:
                self._call.reset(token)
                self._most[name] = max(self._most[name], call[0])

        return counted

    def result(self) -> dict[str, int]:
        """In a form that travels between processes."""
        return dict(self._most)

    def add(self, other: Mapping[str, int]) -> None:
        """Take another process's counts in."""
        for name, writes in other.items():
            self._most[name] = max(self._most[name], writes)

    def failures(self) -> list[str]:
        """Methods that write more than once and are no case of the sweep."""
        from tests.crash.case import covered

        missing = sorted(name for name, writes in self._most.items() if writes > 1 and name not in covered())
        return [
            f"{name} sent {self._most[name]} writes in one call; tests/crash has no case for it" for name in missing
        ]

    def summary(self) -> str:
        """How much was seen."""
        return (
            f"{len(self._most)} public methods and jobs, {sum(n > 1 for n in self._most.values())} with several writes"
        )
