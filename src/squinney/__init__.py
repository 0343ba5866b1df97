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
    from squinney.system import System
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
    "prepare",
]


def __getattr__(name: str) -> Any:
    if name != "Key":
        raise AttributeError(f"module 'squinney' has no attribute {name!r}")
    from squinney.transactions import Key  # only when it is used, because it loads PyMongo

    return Key


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


def prepare(db: Database[dict[str, Any]], *parts: ModuleType | System | Collection) -> None:
    """Create the collections, indexes and validators of systems (`squinney.ledger`) and of your own `Collection`s.

    This includes the collection for multi-document operations. Running it again changes nothing.

    Atomic: each collection and each index by itself.
    After a crash: run it again.
    Raises: `Invalid` if a part is neither of these, `db` is not a database or its server is not a replica set;
    `Conflict` if an index exists with other options; `Unavailable` if the server does not respond.
    """
    from squinney import transactions
    from squinney.mongo.connect import check_server, operation
    from squinney.mongo.pinned import require_database
    from squinney.mongo.schema import apply

    require_database(db)
    check_server(db.client, "db")
    wanted = [*transactions.COLLECTIONS, *(one for part in parts for one in _collections_of(part))]
    with operation(None):  # an index of a large collection may take hours
        apply(db, wanted)


def _collections_of(part: Any) -> list[Collection]:
    from squinney.mongo.schema import Collection

    if isinstance(part, Collection):
        return [part]
    found = getattr(part, "COLLECTIONS" if isinstance(part, ModuleType) else "collections", None)
    if isinstance(found, list | tuple) and all(isinstance(one, Collection) for one in found):
        return list(found)
    name = f"{part.__name__}, which has no COLLECTIONS" if isinstance(part, ModuleType) else repr(part)
    raise Invalid(f"prepare takes systems, such as squinney.ledger, and Collections, not {name}", field="parts")
