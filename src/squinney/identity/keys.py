"""`Keys`: API keys for trusted servers."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.identity import queries
from squinney.identity.documents import ApiKey
from squinney.identity.errors import KeyRefused, UnknownKey
from squinney.identity.rules import checked_scopes, digest, is_live
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page

PREFIX = "sqy"
_NO_DIGEST = "0" * 64
_PUBLIC = {"digest": 0}
CACHED_SECONDS = 5.0
MOST_CACHED = 10_000
USE_NOTED_EVERY_SECONDS = 60.0


class Keys:
    """API keys: 256 random bits, shown once, stored as SHA-256.

    `find` remembers a key for 5 seconds: one that is revoked by another process is refused everywhere after that.
    """

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[float, Document | None]] = {}  # by id, until when; None where there is no such key
        self._noted: dict[str, float] = {}

    @operation()
    def create(
        self, name: str, scopes: Iterable[str], *, expires_at: datetime | None = None, created_by: str = ""
    ) -> tuple[ApiKey, str]:
        """Make a key: its document, and the key itself, which is shown this once and not stored.

        Atomic: one insert.
        After a crash: a key that nobody knows; revoke it.
        Raises: `Invalid`, `Unavailable`.
        """
        key_id, secret, now = new_id(), secrets.token_urlsafe(32), self._clock()
        key: ApiKey = {
            "_id": key_id,
            "name": checks.text(name, "name", least=1, most=100),
            "scopes": checked_scopes(scopes),
            "created_at": now,
            "created_by": created_by,
        }
        if expires_at is not None:
            key["expires_at"] = _checked_end(expires_at, now)
        self._db["api_keys"].insert_one({**key, "digest": digest(secret)})
        return key, f"{PREFIX}_{key_id}_{secret}"

    @operation()
    def find(self, presented: str) -> ApiKey:
        """The key that was presented.

        Atomic: its last use is noted by one update, at most once a minute.
        After a crash: a use may not be noted.
        Raises: `KeyRefused`, whatever is wrong with it; `Unavailable`.
        """
        key_id, secret = _parts(presented)
        key = _checked(self._stored(key_id) if key_id else None, secret, self._clock)
        if key is None:
            raise KeyRefused("the API key is unknown, expired or revoked")
        self._note_use(key_id)
        return key

    def remembered(self, presented: str) -> ApiKey | None:
        """The key, where it is known to be good without asking MongoDB; None says nothing about it."""
        key_id, secret = _parts(presented)
        known, stored = self._cached(key_id)
        return _checked(stored, secret, self._clock) if known and self._is_noted(key_id) else None

    def _stored(self, key_id: str) -> Document | None:
        known, stored = self._cached(key_id)
        if not known:
            stored = self._db["api_keys"].find_one(queries.KEY(key_id=key_id))
            with self._lock:
                if len(self._cache) >= MOST_CACHED:
                    self._cache.clear()
                self._cache[key_id] = (time.monotonic() + CACHED_SECONDS, stored)
        return stored

    def _cached(self, key_id: str) -> tuple[bool, Document | None]:
        until, stored = self._cache.get(key_id, (0.0, None))
        return time.monotonic() < until, stored

    def _note_use(self, key_id: str) -> None:
        """Once a minute, by one thread."""
        with self._lock:
            if self._is_noted(key_id):
                return
            self._noted[key_id] = time.monotonic() + USE_NOTED_EVERY_SECONDS
        self._db["api_keys"].update_one(queries.KEY(key_id=key_id), {"$max": {"used_at": self._clock()}})

    def _is_noted(self, key_id: str) -> bool:
        return time.monotonic() < self._noted.get(key_id, 0.0)

    @operation()
    def revoke(self, key_id: str) -> ApiKey:
        """Refuse a key from now on; in other processes within 5 seconds.

        Raises: `UnknownKey`.
        """
        change: list[Any] = [{"$set": {"revoked_at": {"$ifNull": ["$revoked_at", self._clock()]}}}]
        where = queries.KEY(key_id=checks.identifier(key_id, "key"))
        revoked = self._db["api_keys"].find_one_and_update(where, change, projection=_PUBLIC, return_document=True)
        if revoked is None:
            raise UnknownKey(f"there is no API key {key_id}", key_id=key_id)
        self._cache.pop(key_id, None)
        return cast(ApiKey, revoked)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[ApiKey]:
        """Every key, oldest first, without their digests."""
        return cast(Page[ApiKey], page(self._db, queries.KEYS, cursor=cursor, limit=limit, projection=_PUBLIC))


def _parts(presented: str) -> tuple[str, str]:
    """The key's id, empty where it cannot be one, and its secret."""
    if not isinstance(presented, str) or not presented.isascii():
        return "", ""
    prefix, _, rest = presented.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if prefix == PREFIX and len(key_id) == 26 and len(secret) < 100 else ("", "")


def _checked(stored: Document | None, secret: str, clock: Clock) -> ApiKey | None:
    """Compared in constant time, and compared even where there is no such key."""
    same = hmac.compare_digest(digest(secret), stored["digest"] if stored else _NO_DIGEST)
    if stored is None or not same or not is_live(cast(ApiKey, stored), clock):
        return None
    return cast(ApiKey, {name: value for name, value in stored.items() if name != "digest"})


def _checked_end(expires_at: datetime, now: datetime) -> datetime:
    if not isinstance(expires_at, datetime) or expires_at.utcoffset() is None:
        raise Invalid("expires_at must have a time zone", field="expires_at")
    if expires_at <= now:
        raise Invalid("expires_at must lie in the future", field="expires_at")
    if expires_at > now + timedelta(days=3650):
        raise Invalid("expires_at must lie within ten years", field="expires_at")
    return expires_at
