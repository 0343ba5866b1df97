"""Limiting the time of operations: each has a deadline, and all operations of a request share one."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import ParamSpec, Protocol, TypeVar

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from squinney.errors import NotPrepared, Unavailable
from squinney.mongo.failures import INDEX_NOT_FOUND, is_away, why_away
from squinney.mongo.prepared import ADVICE

P = ParamSpec("P")
R = TypeVar("R")

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)


@dataclass(slots=True)
class RequestClock:
    """The start of a request. All operations of the request share one time limit, which counts from here.

    None gives each operation its own limit, as for uploads and streams, whose duration depends on the caller's network.
    """

    began: float | None


request_clock: ContextVar[RequestClock | None] = ContextVar("request_clock", default=None)


class Observer(Protocol):
    """Sees each operation of this process begin and end, inner ones too."""

    def entered(self, name: str) -> None:
        """An operation begins; its name is that of the method, such as `Carts.add`, or what its code calls it."""

    def left(self, error: BaseException | None) -> None:
        """An operation ends."""


_observer: Observer | None = None


def observe_operations(observer: Observer | None) -> None:
    """Let an observer, or none, see all operations of this process from now on."""
    global _observer
    _observer = observer


class operation:  # noqa: N801 - it reads as a statement
    """Limit the time of everything inside, and turn the driver's connection and time-out errors into `Unavailable`.

    Use it in a `with` or as a decorator. `seconds` None sets no limit, for work that may take days. An inner operation
    cannot extend the limit of an outer one, and inside a request the time counts from the start of the request.

    `outcome_unknown` of the error is true unless `reads_only`, because a write may have succeeded before the connection
    was lost. Errors that the server reported (a duplicate key, a failed validation) and every `SquinneyError` pass
    through unchanged.

    Raises: `Unavailable`; `NotPrepared` if an index is missing.
    """

    __slots__ = ("_bound", "_ends", "name", "reads_only", "seconds")

    def __init__(self, seconds: float | None = 10, *, reads_only: bool = False, name: str = "operation") -> None:
        self.seconds = seconds
        self.reads_only = reads_only
        self.name = name

    def __enter__(self) -> None:
        seconds = _seconds_in_request(self.seconds)
        self._bound = pymongo.timeout(seconds)
        self._bound.__enter__()
        ends_at = time.monotonic() + (math.inf if seconds is None else seconds)
        self._ends = _ends_at.set(min(_ends_at.get(), ends_at))
        if _observer:
            _observer.entered(self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _observer:
            _observer.left(error)
        _ends_at.reset(self._ends)
        self._bound.__exit__(kind, error, trace)
        if error is None:
            return
        if type(error) is Unavailable and not self.reads_only:
            error.outcome_unknown = True  # an inner read failed, but this operation may have written before
        elif isinstance(error, PyMongoError) and is_away(error):
            raise Unavailable(why_away(error), outcome_unknown=not self.reads_only) from error
        elif isinstance(error, OperationFailure) and error.code == INDEX_NOT_FOUND:
            raise NotPrepared(f"an index is missing: {ADVICE}") from error

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function, so that each call is an operation."""

        @functools.wraps(function)
        def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
            with operation(self.seconds, reads_only=self.reads_only, name=function.__qualname__):
                return function(*args, **kwargs)

        return bounded


def _seconds_in_request(seconds: float | None) -> float | None:
    """Return how much of `seconds` the current request has left; all of it outside a request."""
    clock = request_clock.get()
    if seconds is None or clock is None or clock.began is None:
        return seconds
    left = clock.began + seconds - time.monotonic()
    if left <= 0:  # to the driver 0 means no limit
        raise Unavailable("the request took too long")
    return left


def seconds_left() -> float:
    """Return how long the current operation may still take; infinite outside an operation."""
    return _ends_at.get() - time.monotonic()
