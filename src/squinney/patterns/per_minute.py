"""Limits per minute, counted in the document of the person who acts, by the transaction of the action itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from squinney.errors import TooFast
from squinney.mongo.schema import Document

MINUTE = timedelta(minutes=1)


def counted(
    counted_before: Mapping[str, Any] | None, *, limit: int, now: datetime, says: Callable[[int], str], actions: int = 1
) -> Document:
    """Return the count of the current minute after so many more actions, to store in place of the one before.

    `says` makes the message of a refusal from the seconds to wait.

    Raises: `TooFast`.
    """
    if counted_before is None or not counted_before["from"] <= now < counted_before["from"] + MINUTE:
        return {"from": now, "count": actions}
    count = counted_before["count"] + actions
    # guard: actions per minute are limited
    if count > limit:
        wait = max(1, round((counted_before["from"] + MINUTE - now).total_seconds()))
        raise TooFast(says(wait), limit=limit, retry_after_seconds=wait)
    return {"from": counted_before["from"], "count": count}
