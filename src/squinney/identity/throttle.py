"""Counts attempts to sign in and up, for all processes together."""

from __future__ import annotations

from squinney.identity import queries
from squinney.identity.errors import TooManyTries
from squinney.mongo.connect import after, operation, server_now
from squinney.mongo.pinned import pinned
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
    def count(self, name: str, *, most: int | None = None) -> None:
        """Count an attempt; `most` may be fewer than usual.

        Atomic: one update, decided by the server's clock.
        After a crash: it is counted or not.
        Raises: `TooManyTries`, which says in `retry_after_seconds` when the next one is let through.
        """
        found = self.note(name)
        if found and found["tries"] > min(self._most, self._most if most is None else most):
            left = (found["expires_at"] - server_now(self._db)).total_seconds()
            raise TooManyTries("too many attempts; try again later", retry_after_seconds=max(1, round(left)))

    @operation(reads_only=True)
    def is_used_up(self, name: str) -> bool:
        """Whether more than `most` attempts were counted."""
        now = server_now(self._db)
        found = self._db["sign_in_tries"].find_one(queries.TRIES(name=f"{self._kind}:{name}"))
        return bool(found and found["tries"] > self._most and found["expires_at"] > now)

    @operation()
    def note(self, name: str) -> Document | None:
        """Count an attempt that is refused in no case; the count, and when it ends.

        Atomic: one update, decided by the server's clock.
        After a crash: it is counted or not.
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
        return self._db["sign_in_tries"].find_one_and_update(
            queries.TRIES(name=f"{self._kind}:{name}"), change, upsert=True, return_document=True
        )

    @operation()
    def take_back(self, name: str) -> None:
        """Count one attempt less: it was none to guess.

        Atomic: one update.
        After a crash: the attempt counts until it runs out.
        """
        where = {**queries.TRIES(name=f"{self._kind}:{name}"), "tries": {"$gt": 0}}
        self._db["sign_in_tries"].update_one(where, {"$inc": {"tries": -1}})

    @operation()
    def forget(self, name: str) -> None:
        """Count from nought again: this one signed in.

        Atomic: one delete.
        After a crash: old failures count until they run out.
        """
        self._db["sign_in_tries"].delete_one(queries.TRIES(name=f"{self._kind}:{name}"))
