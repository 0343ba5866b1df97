"""Connecting to the server, with fixed guarantees, and limiting the time of operations."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import pymongo
from pymongo import MongoClient
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from squinney.errors import Invalid, NoServer, NotPrepared, Unavailable
from squinney.mongo.pinned import CODEC
from squinney.mongo.prepared import ADVICE
from squinney.mongo.schema import Db, Document
from squinney.mongo.unreachable import NOT_INITIATED, why
from squinney.settings import VARIABLES, Settings

if TYPE_CHECKING:
    from squinney.mongo.embedded import Embedded

OLDEST_VERSION = (6, 0)
AUTHENTICATION_FAILED = 18
INDEX_NOT_FOUND = 27
# A transaction that exceeds transactionLifetimeLimitSeconds, or the part of the cache that other transactions leave.
# The server does not label these errors as transient.
TRANSACTION_TOO_LONG, TRANSACTION_TOO_LARGE = 290, 388

# Correctness depends on these options: a URI cannot change them.
GUARANTEES: dict[str, Any] = {
    "w": "majority",
    "readConcernLevel": "majority",
    "retryWrites": True,
    "retryReads": True,
    "tz_aware": True,
    "uuidRepresentation": "standard",
}
# A URI may change these options. There is no client-wide timeoutMS: it would end idle change streams.
DEFAULTS: dict[str, Any] = {
    "appname": "squinney",
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "maxPoolSize": 100,
}

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)


@dataclass(slots=True)
class RequestClock:
    """The start of a request. All operations of the request share one time limit, which counts from here.

    None gives each operation its own limit, as for uploads and streams, whose duration depends on the caller's network.
    """

    began: float | None


request_clock: ContextVar[RequestClock | None] = ContextVar("request_clock", default=None)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Connection:
    """A client, its database, and the embedded server if there is one; close it or use it in a `with`."""

    client: MongoClient[Document]
    db: Db
    embedded: Embedded | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client and stop using the embedded server, which the last process stops."""
        self.client.close()
        if self.embedded:
            self.embedded.stop()


def connect(settings: Settings) -> Connection:
    """Connect to the server that the settings name, or to the embedded one, and check that it is suitable.

    Raises: `Invalid` for a URI or server that cannot be used, `Unavailable` if the server does not respond, `NoServer`
    if the embedded server cannot run.
    """
    embedded: Embedded | None = None
    with ExitStack() as opened:
        if not (uri := settings.uri):
            embedded = opened.enter_context(_start_embedded(settings))
            uri = embedded.uri
        client = opened.enter_context(client_for(uri))
        check_server(client)
        opened.pop_all()  # client and server stay open
    return Connection(client, client[settings.database], embedded)


def _start_embedded(settings: Settings) -> Embedded:
    if os.name != "posix":
        raise NoServer("The embedded MongoDB runs on Linux and macOS only: set MONGODB_URI to a replica set")
    from squinney.mongo.embedded import Embedded, default_folder  # needs file locks, which other systems lack

    return Embedded.start(settings.data_folder or default_folder(), mongod=settings.mongod)


def client_for(uri: str, **options: Any) -> MongoClient[Document]:
    """Return a client with our guarantees; `options` of the driver override the URI and the defaults.

    Raises: `Invalid` if the URI is not a MongoDB URI.
    """
    if not uri.startswith(("mongodb://", "mongodb+srv://")):
        raise Invalid(f"{VARIABLES['uri']}: must begin with mongodb:// or mongodb+srv://", field="uri")
    query = uri.partition("?")[2].lower()
    defaults = {name: value for name, value in DEFAULTS.items() if f"{name.lower()}=" not in query}
    try:
        return MongoClient(uri, **{**defaults, **GUARANTEES, **options})
    except (ConfigurationError, ValueError) as error:  # its message may contain the URI, and so a password
        raise Invalid(f"{VARIABLES['uri']}: not a MongoDB URI ({type(error).__name__})", field="uri") from None
    except OSError as error:
        raise Invalid(f"{VARIABLES['uri']}: {error.filename} cannot be read ({error.strerror})", field="uri") from None


def check_server(client: MongoClient[Document], field: str = "uri") -> None:
    """Refuse a server without transactions or older than MongoDB 6.0; `field` names what the caller gave.

    Raises: `Invalid` with the reason; `Unavailable` with hosts and causes, if the server does not respond.
    """
    try:
        # Inside a time limit the driver ignores serverSelectionTimeoutMS, and would wait until our limit.
        with operation(client.options.server_selection_timeout, reads_only=True):
            hello = client.admin.command("hello")
            version = client.admin.command("buildInfo")["version"]
    except Unavailable as error:
        if not isinstance(error.__cause__, ServerSelectionTimeoutError):
            raise
        raise Unavailable(f"MongoDB cannot be reached: {why(client.topology_description)}") from error.__cause__
    except OperationFailure as error:
        if error.code == AUTHENTICATION_FAILED:
            raise Invalid(f"{VARIABLES['uri']}: the server refuses this user or password", field="uri") from error
        raise Unavailable(f"MongoDB rejected hello or buildInfo: {error.details}") from error
    if reason := refusal(hello, version):
        raise Invalid(f"{VARIABLES.get(field, field)}: {reason}", field=field)


def refusal(hello: Document, version: str) -> str | None:
    """Return why a server with this `hello` reply and version cannot be used, or None."""
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
        return f"MongoDB {version} is too old; 6.0 or newer is needed"
    if hello.get("isreplicaset"):
        return NOT_INITIATED
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        return (
            "the server is a standalone, which has no transactions; start it as a replica set "
            "(--replSet, then rs.initiate()); one member is enough"
        )
    return None


class operation:  # noqa: N801 - it reads as a statement
    """Limit the time of everything inside, and turn the driver's connection and time-out errors into `Unavailable`.

    Use it in a `with` or as a decorator. `seconds` None sets no limit, for work that may take days. An inner operation
    cannot extend the limit of an outer one, and inside a request the time counts from the start of the request.

    `outcome_unknown` of the error is true unless `reads_only`, because a write may have succeeded before the connection
    was lost. Errors that the server reported (a duplicate key, a failed validation) and every `SquinneyError` pass
    through unchanged.

    Raises: `Unavailable`; `NotPrepared` if an index is missing.
    """

    __slots__ = ("_bound", "_ends", "reads_only", "seconds")

    def __init__(self, seconds: float | None = 10, *, reads_only: bool = False) -> None:
        self.seconds = seconds
        self.reads_only = reads_only

    def __enter__(self) -> None:
        seconds = _seconds_in_request(self.seconds)
        self._bound = pymongo.timeout(seconds)
        self._bound.__enter__()
        ends_at = time.monotonic() + (math.inf if seconds is None else seconds)
        self._ends = _ends_at.set(min(_ends_at.get(), ends_at))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ends_at.reset(self._ends)
        self._bound.__exit__(kind, error, trace)
        if error is None:
            return
        if type(error) is Unavailable and not self.reads_only:
            error.outcome_unknown = True  # an inner read failed, but this operation may have written before
        elif isinstance(error, PyMongoError) and is_away(error):
            raise Unavailable(_reason(error), outcome_unknown=not self.reads_only) from error
        elif isinstance(error, OperationFailure) and error.code == INDEX_NOT_FOUND:
            raise NotPrepared(f"an index is missing: {ADVICE}") from error

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function, so that each call is an operation."""

        @functools.wraps(function)
        def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
            with operation(self.seconds, reads_only=self.reads_only):
                return function(*args, **kwargs)

        return bounded


def _reason(error: PyMongoError) -> str:
    if ended_by_the_server(error):
        return "MongoDB ended the transaction, which was too long or too large for it"
    slow = error.timeout and not isinstance(error, ServerSelectionTimeoutError)
    return "MongoDB took too long to answer" if slow else "MongoDB cannot be reached"


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


def is_away(error: PyMongoError) -> bool:
    """Return whether the error means that the server was unreachable, stepping down or too slow; not a rejection."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout) or error.timeout:
        return True
    if isinstance(error, WriteConcernError):  # the write happened, but too few members confirmed it
        return True
    if isinstance(error, BulkWriteError):
        return not (error.details or {}).get("writeErrors")
    if ended_by_the_server(error):
        return True
    if isinstance(error, InvalidOperation):  # the client was closed during an operation
        return "after close" in str(error)
    if isinstance(error, ConfigurationError):  # while no member is known, the driver assumes that none has sessions
        return "Sessions are not supported" in str(error)
    return error.has_error_label("TransientTransactionError") or error.has_error_label("RetryableWriteError")


def ended_by_the_server(error: PyMongoError) -> bool:
    """Return whether the server aborted a transaction that was too long or too large; nothing was written."""
    return isinstance(error, OperationFailure) and error.code in (TRANSACTION_TOO_LONG, TRANSACTION_TOO_LARGE)


def server_now(db: Db) -> datetime:
    """Return the server's time, aware, in UTC, in milliseconds: the one clock that all machines share."""
    now: datetime = db.command("hello", codec_options=CODEC)["localTime"]
    return now


def after(seconds: float) -> Document:
    """Return the expression for the time `seconds` from now, by the server's clock."""
    return {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": round(seconds * 1000)}}
