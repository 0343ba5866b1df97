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
from squinney.identity.rules import checked_scopes, digest, is_live, require_scope
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.bounded import Bounded
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page

PREFIX = "sqy"
_NO_DIGEST = "0" * 64
_PUBLIC = {"digest": 0}
CACHED_SECONDS = 5.0
MAX_CACHED = 10_000
USE_NOTED_EVERY_SECONDS = 60.0


class Keys:
    """API keys: 256 random bits, shown once, stored as SHA-256.

    `find` caches a key for 5 seconds: a key that another process revokes is refused everywhere after that time.
    """

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock
        self._lock = threading.Lock()
        # By id: the expiry, and the key or None if it is unknown.
        self._cache = Bounded[str, tuple[float, Document | None]](MAX_CACHED)
        self._use_noted_until: dict[str, float] = {}

    @operation()
    def create(
        self, name: str, scopes: Iterable[str], *, expires_at: datetime | None = None, created_by: str = ""
    ) -> tuple[ApiKey, str]:
        """Create a key; return its document and the key itself, which is not stored and cannot be shown again.

        Raises: `Invalid`, `Unavailable`.
        """
        key_id, secret, now = new_id(), secrets.token_urlsafe(32), self._clock()
        key: ApiKey = {
            "_id": key_id,
            "name": checks.text(name, "name", min_length=1, max_length=100),
            "scopes": checked_scopes(scopes),
            "created_at": now,
            "created_by": created_by,
        }
        if expires_at is not None:
            key["expires_at"] = _checked_end(expires_at, now)
        self._db["identity.keys"].insert_one({**key, "digest": digest(secret)})
        return key, f"{PREFIX}_{key_id}_{secret}"

    @operation()
    def find(self, presented: str) -> ApiKey:
        """Return the document of a presented key, and store the time of its use at most once a minute.

        Raises: `KeyRefused` for every invalid key, with the same message; `Unavailable`.
        """
        key_id, secret = _parts(presented)
        key = _checked(self._stored(key_id) if key_id else None, secret, self._clock)
        if key is None:
            raise KeyRefused("the API key is unknown, expired or revoked")
        self._note_use(key_id)
        return key

    @operation()
    def authorize(self, presented: str, needed: str) -> ApiKey:
        """Return the document of a presented key that has the needed scope, such as `ledger:read`.

        Raises: `KeyRefused`, `Forbidden`, `Unavailable`.
        """
        key = self.find(presented)
        require_scope(key, needed)
        return key

    def find_cached(self, presented: str) -> ApiKey | None:
        """Return the key if the cache shows that it is valid; None means only that `find` must be called."""
        key_id, secret = _parts(presented)
        known, stored = self._cached(key_id)
        return _checked(stored, secret, self._clock) if known and self._is_use_noted(key_id) else None

    def _stored(self, key_id: str) -> Document | None:
        known, stored = self._cached(key_id)
        if not known:
            stored = queries.KEY.find_one(self._db, key_id=key_id)
            self._cache[key_id] = (time.monotonic() + CACHED_SECONDS, stored)
        return stored

    def _cached(self, key_id: str) -> tuple[bool, Document | None]:
        until, stored = self._cache.get(key_id, (0.0, None))
        return time.monotonic() < until, stored

    def _note_use(self, key_id: str) -> None:
        with self._lock:
            if self._is_use_noted(key_id):
                return
            self._use_noted_until[key_id] = time.monotonic() + USE_NOTED_EVERY_SECONDS
        self._db["identity.keys"].update_one(queries.KEY(key_id=key_id), {"$max": {"used_at": self._clock()}})

    def _is_use_noted(self, key_id: str) -> bool:
        return time.monotonic() < self._use_noted_until.get(key_id, 0.0)

    @operation()
    def revoke(self, key_id: str) -> ApiKey:
        """Revoke a key. Other processes refuse it within 5 seconds.

        Raises: `UnknownKey`.
        """
        change: list[Any] = [{"$set": {"revoked_at": {"$ifNull": ["$revoked_at", self._clock()]}}}]
        where = queries.KEY(key_id=checks.identifier(key_id, "key"))
        revoked = self._db["identity.keys"].find_one_and_update(where, change, projection=_PUBLIC, return_document=True)
        if revoked is None:
            raise UnknownKey(f"there is no API key {key_id}", key_id=key_id)
        # guard: a revoked key is removed from the cache
        self._cache.pop(key_id, None)
        return cast(ApiKey, revoked)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[ApiKey]:
        """List all keys without their digests, oldest first."""
        return cast(Page[ApiKey], page(self._db, queries.KEYS, cursor=cursor, limit=limit, projection=_PUBLIC))


def _parts(presented: str) -> tuple[str, str]:
    """Split a presented key into its id and secret; both are empty if the format is wrong."""
    if not isinstance(presented, str) or not presented.isascii():
        return "", ""
    prefix, _, rest = presented.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if prefix == PREFIX and len(key_id) == 26 and len(secret) < 100 else ("", "")


def _checked(stored: Document | None, secret: str, clock: Clock) -> ApiKey | None:
    """Return the key if the secret is right and the key is live. Unknown keys take the same time to compare."""
    same = hmac.compare_digest(digest(secret), stored["digest"] if stored else _NO_DIGEST)
    # guard: an expired or revoked key is refused
    # guard: a wrong secret is refused
    if stored is None or not same or not is_live(cast(ApiKey, stored), clock):
        return None
    return cast(ApiKey, {name: value for name, value in stored.items() if name != "digest"})


def _checked_end(expires_at: datetime, now: datetime) -> datetime:
    end = checks.time(expires_at, "expires_at")
    if not now < end <= now + timedelta(days=3650):
        raise Invalid("expires_at must be in the future, within ten years", field="expires_at")
    return end
