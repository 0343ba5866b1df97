"""Connecting: which server, with which guarantees, for how long."""

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
from squinney.mongo.prepared import ADVICE, lacks_an_index
from squinney.mongo.schema import Db, Document
from squinney.mongo.unreachable import NOT_INITIATED, why
from squinney.settings import VARIABLES, Settings

if TYPE_CHECKING:
    from squinney.mongo.embedded import Embedded

OLDEST_VERSION = (6, 0)
AUTHENTICATION_FAILED = 18
# A transaction longer than transactionLifetimeLimitSeconds, or larger than the cache has room for beside the others.
# The server does not label these as transient.
TRANSACTION_TOO_LONG, TRANSACTION_TOO_LARGE = 290, 388

# What correctness rests on: a URI cannot change these.
GUARANTEES: dict[str, Any] = {
    "w": "majority",
    "readConcernLevel": "majority",
    "retryWrites": True,
    "retryReads": True,
    "tz_aware": True,
    "uuidRepresentation": "standard",
}
# What a URI may set otherwise. There is no client-wide timeoutMS: it would kill idle change streams.
DEFAULTS: dict[str, Any] = {
    "appname": "squinney",
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "maxPoolSize": 100,
}

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)


@dataclass(slots=True)
class RequestClock:
    """When a request began. Operations that it calls one after another share their time limit: it counts from here.

    None leaves each operation its own limit, as for uploads and streams, which last as long as the caller's line does.
    """

    began: float | None


request_clock: ContextVar[RequestClock | None] = ContextVar("request_clock", default=None)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Connection:
    """A client, the database in it, and the embedded server if there is one; close it or use it in a `with`."""

    client: MongoClient[Document]
    db: Db
    embedded: Embedded | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client and stop using the embedded server, which ends with its last user."""
        self.client.close()
        if self.embedded:
            self.embedded.stop()


def connect(settings: Settings) -> Connection:
    """Connect to the server the settings name, or else to the embedded one, and check that it will do.

    Raises: Invalid for a URI or server that cannot be used, Unavailable where it does not answer, NoServer where the
    embedded one cannot run.
    """
    embedded: Embedded | None = None
    with ExitStack() as opened:
        if not (uri := settings.uri):
            embedded = opened.enter_context(_start_embedded(settings))
            uri = embedded.uri
        client = opened.enter_context(client_for(uri))
        check_server(client)
        opened.pop_all()  # they stay open
    return Connection(client, client[settings.database], embedded)


def _start_embedded(settings: Settings) -> Embedded:
    if os.name != "posix":
        raise NoServer("The embedded MongoDB runs on Linux and macOS only: set MONGODB_URI to a replica set")
    from squinney.mongo.embedded import Embedded, default_folder  # needs file locks, which other systems lack

    return Embedded.start(settings.data_folder or default_folder(), mongod=settings.mongod)


def client_for(uri: str, **options: Any) -> MongoClient[Document]:
    """A client with the house's guarantees; `options` are the driver's and win over the URI and the defaults.

    Raises: Invalid where the URI is not one.
    """
    if not uri.startswith(("mongodb://", "mongodb+srv://")):
        raise Invalid(f"{VARIABLES['uri']}: must begin with mongodb:// or mongodb+srv://", field="uri")
    query = uri.partition("?")[2].lower()
    defaults = {name: value for name, value in DEFAULTS.items() if f"{name.lower()}=" not in query}
    try:
        return MongoClient(uri, **{**defaults, **GUARANTEES, **options})
    except (ConfigurationError, ValueError) as error:  # the message may quote the URI, and with it a password
        raise Invalid(f"{VARIABLES['uri']}: not a MongoDB URI ({type(error).__name__})", field="uri") from None
    except OSError as error:
        raise Invalid(f"{VARIABLES['uri']}: {error.filename} cannot be read ({error.strerror})", field="uri") from None


def check_server(client: MongoClient[Document]) -> None:
    """Refuse a server without transactions or older than MongoDB 6.0.

    Raises: Invalid with the reason, Unavailable, with hosts and causes, where it does not answer.
    """
    try:
        # Inside a time limit the driver forgets its own for finding a server, and would wait the whole of ours.
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
        raise Unavailable(f"MongoDB refused a question about itself: {error.details}") from error
    if reason := refusal(hello, version):
        raise Invalid(f"{VARIABLES['uri']}: {reason}", field="uri")


def refusal(hello: Document, version: str) -> str | None:
    """Why a server with this greeting and version will not do, if it will not."""
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
        return f"MongoDB {version} is too old; 6.0 or newer is needed"
    if hello.get("isreplicaset"):
        return NOT_INITIATED
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        return (
            "the server stands alone and so has no transactions; start it as a replica set "
            "(--replSet, then rs.initiate()), of one member if need be"
        )
    return None


class operation:  # noqa: N801 - it reads as a statement
    """Bound everything inside by `seconds`, and turn the driver's connection and time-out errors into `Unavailable`.

    None seconds leave the bounds to the parts, for what may take days.
    For use in a `with` or as a decorator. One inside another cannot lengthen it, and inside a request the seconds count
    from the request's beginning. The error's `outcome_unknown` is
    true unless `reads_only`: whether a write got through before the connection was lost cannot be known here. Errors
    in which the server answered (a duplicate key, a failed validation) are the operation's own to interpret and pass
    through, as does every `SquinneyError`.

    Raises: Unavailable.
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
            error.outcome_unknown = True  # an inner reader failed, but this may have written before it
        elif isinstance(error, PyMongoError) and is_away(error):
            raise Unavailable(_reason(error), outcome_unknown=not self.reads_only) from error
        elif lacks_an_index(error):
            raise NotPrepared(f"an index is missing: {ADVICE}") from error

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function inside a bound of its own at each call."""

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
    """What the request around this call has left of so many seconds; all of them where there is none."""
    clock = request_clock.get()
    if seconds is None or clock is None or clock.began is None:
        return seconds
    left = clock.began + seconds - time.monotonic()
    if left <= 0:  # the driver would take 0 for no limit
        raise Unavailable("the request took too long")
    return left


def seconds_left() -> float:
    """How long the operation around this call may still take; infinite outside of one."""
    return _ends_at.get() - time.monotonic()


def is_away(error: PyMongoError) -> bool:
    """Whether the error says that the server was away, stepping down or too slow, rather than that it refused."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout) or error.timeout:
        return True
    if isinstance(error, WriteConcernError):  # it was done, but too few members said so
        return True
    if isinstance(error, BulkWriteError):
        return not (error.details or {}).get("writeErrors")
    if ended_by_the_server(error):
        return True
    if isinstance(error, InvalidOperation):  # the client was closed under a running operation
        return "after close" in str(error)
    if isinstance(error, ConfigurationError):  # while no member is known, the driver thinks that none has sessions
        return "Sessions are not supported" in str(error)
    return error.has_error_label("TransientTransactionError") or error.has_error_label("RetryableWriteError")


def ended_by_the_server(error: PyMongoError) -> bool:
    """Whether a transaction was too long or too large for the server: it ended it, and nothing of it happened."""
    return isinstance(error, OperationFailure) and error.code in (TRANSACTION_TOO_LONG, TRANSACTION_TOO_LARGE)


def server_now(db: Db) -> datetime:
    """The server's time, aware, in UTC, in whole milliseconds: the one clock that all machines share."""
    now: datetime = db.command("hello", codec_options=CODEC)["localTime"]
    return now


def after(seconds: float) -> Document:
    """So long from now, by the server's clock, as an expression."""
    return {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": round(seconds * 1000)}}
