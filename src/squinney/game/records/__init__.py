"""The records that decide: characters, things and rooms, read from the database or from this process's cache."""

from squinney.game.records.cache import CACHE_SIZE, CachedRecords, DocumentCache
from squinney.game.records.records import Records, Upgraded

__all__ = [
    "CACHE_SIZE",
    "CachedRecords",
    "DocumentCache",
    "Records",
    "Upgraded",
]
