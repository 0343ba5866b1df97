"""`pinned`: a database with the guarantees that the systems need, whatever options the caller's client has."""

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

# All options, not only those of times: a client may set other document classes, or read dates as numbers.
CODEC: CodecOptions[Document] = CodecOptions(
    document_class=dict, tz_aware=True, tzinfo=UTC, uuid_representation=UuidRepresentation.STANDARD
)
MAJORITY_READ = ReadConcern("majority")
MAJORITY_WRITE = WriteConcern("majority", j=True)


class _Pinned(Database[Document]):
    """Creates each collection object once; the driver would create one for every operation."""

    def __init__(self, db: Db, codec: CodecOptions[Document]) -> None:
        super().__init__(
            db.client,
            db.name,
            codec_options=codec,
            read_preference=ReadPreference.PRIMARY,
            read_concern=MAJORITY_READ,
            write_concern=MAJORITY_WRITE,
        )
        self._collections: dict[str, Collection[Document]] = {}

    def __getitem__(self, name: str) -> Collection[Document]:
        if (found := self._collections.get(name)) is None:
            found = self._collections[name] = super().__getitem__(name)
        return found


def pinned(db: Db, codec: CodecOptions[Document] = CODEC) -> Db:
    """Return the same database with primary and majority reads, journaled majority writes and aware UTC times.

    Every public class and function that gets a database calls this, so that callers may use a plain `MongoClient(uri)`.

    Raises: `Invalid` if it is not a database.
    """
    require_database(db)
    return _Pinned(db, codec)


def require_database(db: object) -> None:
    """Refuse a connection, a client or an asynchronous database instead of a database.

    Raises: `Invalid`.
    """
    if not isinstance(db, Database):
        given = f"{type(db).__module__}.{type(db).__qualname__}"
        raise Invalid(f"a PyMongo Database is needed here, such as squinney.connect().db, not {given}", field="db")
