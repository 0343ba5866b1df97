"""Indexes that nothing needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from pymongo.errors import OperationFailure

from squinney.mongo.failures import UNAUTHORIZED
from squinney.mongo.schema import Collection, Db
from squinney.mongo.server_time import server_now
from squinney.service.doctor.finding import Finding

MIN_DOCUMENTS = 10_000  # in fewer, an index that is not used costs little
MIN_AGE = timedelta(days=1)  # of the figures, which begin when the server starts


def unused_indexes(db: Db, declared: list[Collection]) -> Iterator[Finding]:
    """Report indexes of larger collections that no query has used since the server started, if that is long ago.

    Not those with another purpose: unique indexes refuse duplicates, TTL indexes delete documents, and sharding needs
    the index of the shard key.
    """
    try:
        for collection in declared:
            if db[collection.name].estimated_document_count() >= MIN_DOCUMENTS:
                yield from _unused(db, collection)
    except OperationFailure as error:
        if error.code != UNAUTHORIZED:
            raise
        message = "this user may not read how often indexes are used"
        yield Finding("notice", "indexes", message, "give it the role clusterMonitor")


def _unused(db: Db, collection: Collection) -> Iterator[Finding]:
    latest = server_now(db) - MIN_AGE
    for used in db[collection.name].aggregate([{"$indexStats": {}}]):
        since = used["accesses"]["since"]
        if since <= latest and not used["accesses"]["ops"] and not _is_needed(used["spec"], collection):
            message = f"{collection.name}.{used['name']} has not been used since {since:%Y-%m-%d}"
            yield Finding("notice", "indexes", message)


def _is_needed(index: Mapping[str, Any], collection: Collection) -> bool:
    """Return whether an index is needed even if no query uses it."""
    shard_key = list((collection.shard_key or {}).items())
    is_of_shard_key = bool(shard_key) and list(index["key"].items())[: len(shard_key)] == shard_key
    return index["name"] == "_id_" or bool(index.get("unique")) or "expireAfterSeconds" in index or is_of_shard_key
