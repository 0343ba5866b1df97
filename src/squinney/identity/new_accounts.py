"""`NewAccounts`: limits for what new accounts publish, counted across all processes."""

from __future__ import annotations

from typing import Literal

from squinney.identity.throttle import Throttle
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db

Kind = Literal["minute", "hour", "links"]
# Texts of any kind in a minute and in an hour, and texts with links in an hour.
MAX_TEXTS: dict[Kind, tuple[int, float]] = {"minute": (6, 60.0), "hour": (30, 3_600.0), "links": (2, 3_600.0)}


class NewAccounts:
    """Counts the texts that a new account publishes. Which accounts are new, the caller decides."""

    def __init__(self, db: Db) -> None:
        self._throttles = {
            kind: Throttle(db, f"new-account-{kind}", limit=limit, seconds=seconds)
            for kind, (limit, seconds) in MAX_TEXTS.items()
        }

    @operation()
    def count(self, person_id: str, kind: Kind) -> None:
        """Count a text.

        Raises: `TooManyTries`, with `retry_after_seconds` until the next one is allowed; `Unavailable`.
        """
        self._throttles[kind].count(person_id)
