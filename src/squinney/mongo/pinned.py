"""`pinned`: a database with the guarantees that the systems rest on, however the caller's client was made."""

from __future__ import annotations

from datetime import UTC

from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from pymongo import ReadPreference
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document

# All of them, not only the times: a client may ask for other document classes, or for dates as numbers.
CODEC: CodecOptions[Document] = CodecOptions(
    document_class=dict, tz_aware=True, tzinfo=UTC, uuid_representation=UuidRepresentation.STANDARD
)
MAJORITY_READ = ReadConcern("majority")
MAJORITY_WRITE = WriteConcern("majority", j=True)


class _Pinned(Database[Document]):
    """Makes each collection once: by the driver's way every operation would make its own anew."""

    def __init__(self, db: Db) -> None:
        super().__init__(
            db.client,
            db.name,
            codec_options=CODEC,
            read_preference=ReadPreference.PRIMARY,
            read_concern=MAJORITY_READ,
            write_concern=MAJORITY_WRITE,
        )
        self._collections: dict[str, Collection[Document]] = {}

    def __getitem__(self, name: str) -> Collection[Document]:
        if (found := self._collections.get(name)) is None:
            found = self._collections[name] = super().__getitem__(name)
        return found


def pinned(db: Db) -> Db:
    """The same database, read from the primary with aware UTC times, written to a majority and its journals.

    Every public class and function that is given a database passes it through here, so that a plain
    `MongoClient(uri)` will do.

    Raises: `Invalid` where it is no database.
    """
    require_database(db)
    return _Pinned(db)


def require_database(db: object) -> None:
    """Refuse a connection, a client or an asynchronous database in the place of a database.

    Raises: `Invalid`.
    """
    if not isinstance(db, Database):
        given = f"{type(db).__module__}.{type(db).__qualname__}"
        raise Invalid(f"a PyMongo Database is needed here, such as squinney.connect().db, not {given}", field="db")
