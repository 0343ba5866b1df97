"""`VisitorIds`: recognizes a visitor during a day, without storing who it was."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from bson.binary import Binary

from squinney.analytics.rules import checked_moment
from squinney.analytics.visits.documents import SALTS
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

SALT_BYTES = 32
KEPT = timedelta(days=2)


class VisitorIds:
    """Gives visitors ids that are valid for one day (UTC), and that nobody can trace back once the day's salt is gone.

    All processes share a day's random salt. MongoDB deletes it two days after the day has begun.
    """

    def __init__(self, db: Db) -> None:
        self._db = pinned(db)
        self._day, self._salt = "", b""

    @operation()
    def id_of(self, address: str, user_agent: str, at: datetime) -> str:
        """Return the visitor's id for the day of `at`: an HMAC of address and user agent under the day's salt.

        Atomic: the first call of a day inserts its salt.
        After a crash: nothing, or a salt that the next call uses.
        Raises: `Invalid`.
        """
        salt = self._salt_of(checked_moment(at, "at").astimezone(UTC))
        return hmac.digest(salt, f"{address}\n{user_agent}".encode("utf-8", "replace"), hashlib.sha256).hex()[:24]

    def _salt_of(self, at: datetime) -> bytes:
        day, known, salt = f"{at:%Y-%m-%d}", self._day, self._salt
        if day == known:
            return salt
        begun = at.replace(hour=0, minute=0, second=0, microsecond=0)
        fresh = {"salt": Binary(secrets.token_bytes(SALT_BYTES)), "delete_at": begun + KEPT}
        insert = {"$setOnInsert": fresh}
        # guard: all processes use the same salt of a day
        stored: Any = self._db[SALTS].find_one_and_update({"_id": day}, insert, upsert=True, return_document=True)
        self._salt, self._day = stored["salt"], day
        return bytes(stored["salt"])
