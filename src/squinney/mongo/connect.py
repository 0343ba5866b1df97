"""Connecting to the server, with fixed guarantees."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pymongo import MongoClient
from pymongo.errors import ConfigurationError, OperationFailure, ServerSelectionTimeoutError

from squinney.errors import Invalid, NoServer, Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document
from squinney.mongo.unreachable import NOT_INITIATED, why_unreachable
from squinney.settings import VARIABLES, Settings

if TYPE_CHECKING:
    from squinney.mongo.embedded import Embedded

OLDEST_VERSION = (6, 0)
AUTHENTICATION_FAILED = 18

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


@dataclass
class Connection:
    """A client, its database, and the embedded server if there is one; close it or use it in a `with`.

    `uri` connects other clients, such as an `AsyncMongoClient`. It may contain a password, so it is not printed.
    """

    client: MongoClient[Document]
    db: Db
    embedded: Embedded | None = None
    uri: str = field(default="", repr=False)

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
    return Connection(client, client[settings.database], embedded, uri)


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
        cause = why_unreachable(client.topology_description)
        raise Unavailable(f"MongoDB cannot be reached: {cause}") from error.__cause__
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
