"""Limits attempts to sign in and sign up, across all processes."""

from __future__ import annotations

from squinney.identity import queries
from squinney.identity.errors import TooManyTries
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import after, server_now


class Throttle:
    """Allows `limit` attempts within `seconds`.

    An attempt is counted before its password is checked, so that simultaneous guesses cannot exceed the limit.
    """

    def __init__(self, db: Db, kind: str, *, limit: int, seconds: float) -> None:
        self._db = pinned(db)
        self._kind = kind
        self._limit = limit
        self._seconds = seconds

    @operation()
    def count(self, name: str, *, limit: int | None = None) -> None:
        """Count an attempt; `limit` may lower it.

        Raises: `TooManyTries`, with `retry_after_seconds` until the next attempt is allowed.
        """
        counted = self.increment(name)
        # guard: attempts are limited
        if counted and counted["tries"] > min(self._limit, self._limit if limit is None else limit):
            left = (counted["expires_at"] - server_now(self._db)).total_seconds()
            raise TooManyTries("too many attempts; try again later", retry_after_seconds=max(1, round(left)))

    @operation(reads_only=True)
    def is_used_up(self, name: str) -> bool:
        """Return whether more than `limit` attempts were counted."""
        now = server_now(self._db)
        counted = queries.TRIES.find_one(self._db, name=f"{self._kind}:{name}")
        return bool(counted and counted["tries"] > self._limit and counted["expires_at"] > now)

    @operation()
    def increment(self, name: str) -> Document | None:
        """Count an attempt without checking the limit; return the count and when it expires, by the server's clock."""
        is_expired = {"$lte": [{"$ifNull": ["$expires_at", "$$NOW"]}, "$$NOW"]}
        change: list[Document] = [
            {
                "$set": {
                    "tries": {"$cond": [is_expired, 1, {"$add": [{"$ifNull": ["$tries", 0]}, 1]}]},
                    "expires_at": {"$cond": [is_expired, after(self._seconds), "$expires_at"]},
                }
            }
        ]
        return self._db["identity.sign_in_tries"].find_one_and_update(
            queries.TRIES(name=f"{self._kind}:{name}"), change, upsert=True, return_document=True
        )

    @operation()
    def uncount(self, name: str) -> None:
        """Subtract one attempt, because its password was right."""
        where = {**queries.TRIES(name=f"{self._kind}:{name}"), "tries": {"$gt": 0}}
        self._db["identity.sign_in_tries"].update_one(where, {"$inc": {"tries": -1}})

    @operation()
    def reset(self, name: str) -> None:
        """Set the count to zero after a successful sign-in."""
        self._db["identity.sign_in_tries"].delete_one(queries.TRIES(name=f"{self._kind}:{name}"))
