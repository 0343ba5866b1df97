"""`pinned`: a database with the guarantees that the systems need, whatever options the caller's client has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

import bson
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient, ReadPreference
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document

# All options, not only those of times: a client may set other document classes, or read dates as numbers.
CODEC: CodecOptions[Document] = CodecOptions(
    document_class=dict,
    # guard, 2 lines: times are timezone-aware with every client
    tz_aware=True,
    tzinfo=UTC,
    uuid_representation=UuidRepresentation.STANDARD,
)
ASYNC_HINT = (
    ": use a MongoClient beside it, and call operations by `await squinney.in_thread(accounts.transfer, ...)`"
    " (docs/async.md)"
)
MAJORITY_READ = ReadConcern("majority")
MAJORITY_WRITE = WriteConcern("majority", j=True)


class _Reply(RawBSONDocument):
    """A reply whose stored documents are not decoded yet. The driver adds labels to an error that a reply contains."""

    _added: Mapping[str, Any] = {}

    def update(self, added: Mapping[str, Any]) -> None:
        self._added = {**self._added, **added}

    def __getitem__(self, name: str) -> Any:
        return self._added[name] if name in self._added else super().__getitem__(name)


class _PinnedCollection(Collection[Document]):
    """Reads the server's error messages even if the server has cut them inside a character, as it does with long ids.

    The driver does so for all writes but these. Stored documents are decoded as strictly as ever.
    """

    def __init__(self, db: Db, name: str) -> None:
        super().__init__(db, name)
        # guard: an error message that was cut is readable
        codec = db.codec_options.with_options(document_class=_Reply, unicode_decode_error_handler="replace")
        self._lenient: Collection[Any] = Collection(db, name, codec_options=codec)

    def find_one_and_update(self, *args: Any, **kwargs: Any) -> Any:
        return self._decoded(self._lenient.find_one_and_update(*args, **kwargs))

    def find_one_and_replace(self, *args: Any, **kwargs: Any) -> Any:
        return self._decoded(self._lenient.find_one_and_replace(*args, **kwargs))

    def find_one_and_delete(self, *args: Any, **kwargs: Any) -> Any:
        return self._decoded(self._lenient.find_one_and_delete(*args, **kwargs))

    def _decoded(self, reply: RawBSONDocument | None) -> Document | None:
        return None if reply is None else bson.decode(reply.raw, self.codec_options)


class _Pinned(Database[Document]):
    """Creates each collection object once; the driver would create one for every operation."""

    def __init__(self, db: Db, codec: CodecOptions[Document]) -> None:
        super().__init__(
            db.client,
            db.name,
            codec_options=codec,
            read_preference=ReadPreference.PRIMARY,
            # guard, 2 lines: reads and writes use majority concern with every client
            read_concern=MAJORITY_READ,
            write_concern=MAJORITY_WRITE,
        )
        self._collections: dict[str, Collection[Document]] = {}

    def __getitem__(self, name: str) -> Collection[Document]:
        if (collection := self._collections.get(name)) is None:
            collection = self._collections[name] = _PinnedCollection(self, name)
        return collection


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
        hint = ASYNC_HINT if isinstance(db, AsyncDatabase | AsyncMongoClient) else ""
        needed = "a PyMongo Database is needed here, such as squinney.connect().db"
        raise Invalid(f"{needed}, not {given}{hint}", field="db")
