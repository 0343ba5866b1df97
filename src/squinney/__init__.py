"""Ready-made, crash-safe application back ends on MongoDB.

Besides the system that it uses, a program needs only `connect` and `prepare`:

    import squinney
    from squinney import ledger

    with squinney.connect() as connection:
        squinney.prepare(connection.db, ledger)
        accounts = ledger.Accounts(connection.db)

Importing only this package is fast: it loads neither PyMongo nor Pydantic nor a web framework.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from squinney.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    SquinneyError,
    Unavailable,
)

if TYPE_CHECKING:
    from pymongo.database import Database

    from squinney.mongo.connect import Connection
    from squinney.mongo.schema import Collection
    from squinney.service.jobs.own_scheduler import jobs
    from squinney.service.mounting import mount
    from squinney.system import System
    from squinney.threads import in_thread
    from squinney.transactions import Key

__version__ = "0.1.0"
__all__ = [
    "Conflict",
    "Forbidden",
    "Invalid",
    "Key",
    "LimitReached",
    "NotFound",
    "SquinneyError",
    "Unavailable",
    "connect",
    "in_thread",
    "jobs",
    "mount",
    "prepare",
]


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name == "Key":
            from squinney.transactions import Key  # only when it is used, because it loads PyMongo

            return Key
        if name == "in_thread":
            from squinney.threads import in_thread  # only when it is used, because it loads asyncio

            return in_thread
        if name == "jobs":
            from squinney.service.jobs.own_scheduler import jobs  # only when it is used, because it loads PyMongo

            return jobs
        if name == "mount":
            try:
                from squinney.service.mounting import mount  # only when it is used, because it loads FastAPI
            except ModuleNotFoundError as error:
                missing = (error.name or "").partition(".")[0]
                raise ImportError(f"squinney.mount needs {missing}: pip install 'squinney[server]'") from error
            return mount
        raise AttributeError(f"module 'squinney' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def connect(
    uri: str | None = None, *, database: str | None = None, data_folder: str | Path | None = None
) -> Connection:
    """Connect to the MongoDB at `uri`, else to that of `MONGODB_URI`, else to an embedded one.

    All arguments override the environment (`docs/settings.md`). Close the returned connection, or use it in a `with`.
    Its `db` is the PyMongo database that every system needs.

    Raises: `Invalid` for a URI or server that cannot be used, `Unavailable` if the server does not respond, `NoServer`
    if the embedded server cannot run.
    """
    from squinney.mongo import connect as connecting
    from squinney.settings import Settings

    return connecting.connect(Settings.from_environment(uri=uri, database=database, data_folder=data_folder))


def prepare(db: Database[dict[str, Any]], *parts: ModuleType | System | Collection, adopt: Iterable[str] = ()) -> None:
    """Create the collections, indexes and validators of systems (`squinney.ledger`) and of your own `Collection`s.

    This includes the collection for multi-document operations. Running it again changes nothing. The collection
    `squinney.schema` records what was made. A collection of the same name that somebody else made is refused before
    anything is changed, unless `adopt` names it.

    Atomic: each collection and each index by itself.
    After a crash: run it again.
    Raises: `NotOurs` for collections that somebody else made; `Invalid` if a part is neither of these, `db` is not a
    database, its server is not a replica set, or `adopt` names none of the collections; `Conflict` if an index exists
    with other options; `Unavailable` if the server does not respond.
    """
    from squinney import transactions
    from squinney.mongo.connect import check_server
    from squinney.mongo.deadlines import operation
    from squinney.mongo.pinned import require_database
    from squinney.mongo.schema import apply

    require_database(db)
    # guard: prepare refuses a server without transactions
    check_server(db.client, "db")
    wanted = [*transactions.COLLECTIONS, *(collection for part in parts for collection in _collections_of(part))]
    with operation(None):  # an index of a large collection may take hours
        apply(db, wanted, adopt=adopt)


def _collections_of(part: Any) -> list[Collection]:
    from squinney.mongo.schema import Collection

    if isinstance(part, Collection):
        return [part]
    collections = getattr(part, "COLLECTIONS" if isinstance(part, ModuleType) else "collections", None)
    if isinstance(collections, list | tuple) and all(isinstance(collection, Collection) for collection in collections):
        return list(collections)
    name = f"{part.__name__}, which has no COLLECTIONS" if isinstance(part, ModuleType) else repr(part)
    raise Invalid(f"prepare takes systems, such as squinney.ledger, and Collections, not {name}", field="parts")
