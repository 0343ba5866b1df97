"""Counts attempts to sign in, by login and by address, for all processes together."""

from __future__ import annotations

from squinney.identity import queries
from squinney.identity.errors import TooManyTries
from squinney.mongo.connect import operation, server_now
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import after
from squinney.mongo.schema import Db, Document


class Throttle:
    """Lets `most` attempts through within `seconds`. An attempt counts before its password is looked at, so that a
    crowd of simultaneous guesses gets no further than a patient one."""

    def __init__(self, db: Db, kind: str, *, most: int, seconds: float) -> None:
        self._db = pinned(db)
        self._kind = kind
        self._most = most
        self._seconds = seconds

    @operation()
    def count(self, name: str) -> None:
        """Count an attempt.

        Atomic: one update, decided by the server's clock.
        After a crash: it is counted or not.
        Raises: `TooManyTries`, which says in `retry_after_seconds` when the next one is let through.
        """
        fresh = {"$lte": [{"$ifNull": ["$expires_at", "$$NOW"]}, "$$NOW"]}
        change: list[Document] = [
            {
                "$set": {
                    "tries": {"$cond": [fresh, 1, {"$add": [{"$ifNull": ["$tries", 0]}, 1]}]},
                    "expires_at": {"$cond": [fresh, after(self._seconds), "$expires_at"]},
                }
            }
        ]
        found = self._db["sign_in_tries"].find_one_and_update(
            queries.TRIES(name=f"{self._kind}:{name}"), change, upsert=True, return_document=True
        )
        if found and found["tries"] > self._most:
            left = (found["expires_at"] - server_now(self._db)).total_seconds()
            raise TooManyTries("too many attempts to sign in; try again later", retry_after_seconds=max(1, round(left)))

    @operation()
    def forget(self, name: str) -> None:
        """Count from nought again: this one signed in.

        Atomic: one delete.
        After a crash: old failures count until they run out.
        """
        self._db["sign_in_tries"].delete_one(queries.TRIES(name=f"{self._kind}:{name}"))
