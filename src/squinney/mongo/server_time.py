"""The server's clock: the one that all machines share."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.pinned import CODEC
from squinney.mongo.schema import Db, Document


def server_now(db: Db) -> datetime:
    """Return the server's time, aware, in UTC, in milliseconds."""
    now: datetime = db.command("hello", codec_options=CODEC)["localTime"]
    return now


def after(seconds: float) -> Document:
    """Return the expression for the time `seconds` from now, by the server's clock."""
    # guard: the server's clock sets a lease's deadline
    return {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": round(seconds * 1000)}}
