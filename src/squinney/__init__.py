"""Ready-made, crash-safe application back ends on MongoDB.

`connect` and `prepare` are all that a program needs besides the system it uses:

    import squinney
    from squinney import ledger

    with squinney.connect() as connection:
        squinney.prepare(connection.db, ledger)
        accounts = ledger.Accounts(connection.db)

Importing this package alone loads nothing heavy: neither PyMongo nor Pydantic nor a web framework.
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
    from squinney.transactions import Key  # not before it is asked for: PyMongo comes with it

    return Key


def connect(
    uri: str | None = None, *, database: str | None = None, data_folder: str | Path | None = None
) -> Connection:
    """Connect to the MongoDB at `uri`, else to the one `MONGODB_URI` names, else to an embedded one.

    The other arguments, too, win over the environment (`docs/settings.md`). Close what it returns, or use it in a
    `with`; its `db` is the PyMongo database that every system takes.

    Raises: `Invalid` for a URI or server that cannot be used, `Unavailable` where it does not answer, `NoServer` where
    the embedded one cannot run.
    """
    from squinney.mongo.connect import connect as connect_by
    from squinney.settings import Settings

    return connect_by(Settings.from_environment(uri=uri, database=database, data_folder=data_folder))


def prepare(db: Database[dict[str, Any]], *parts: ModuleType | Collection) -> None:
    """Create the collections, indexes and validators of systems (`squinney.ledger`) or of your own `Collection`s.

    The collection that multi-document operations need comes with them. Once it is done, doing it again changes nothing.

    Atomic: each collection and each index by itself.
    After a crash: run it again.
    Raises: `Invalid` where a part is neither or `db` no database, `Conflict` where an index exists with other options.
    """
    from squinney import transactions
    from squinney.mongo.pinned import require_database
    from squinney.mongo.schema import apply

    require_database(db)
    wanted = [*transactions.COLLECTIONS, *(one for part in parts for one in _collections_of(part))]
    apply(db, wanted)


def _collections_of(part: Any) -> list[Collection]:
    from squinney.mongo.schema import Collection

    if isinstance(part, Collection):
        return [part]
    if isinstance(part, ModuleType) and hasattr(part, "COLLECTIONS"):
        return list(part.COLLECTIONS)
    raise Invalid(f"prepare takes systems, such as squinney.ledger, and Collections, not {part!r}", field="parts")
