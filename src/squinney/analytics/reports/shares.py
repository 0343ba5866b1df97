"""`Shares`: links by which anybody who has one reads the reports of a site, and nothing else."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Any, cast

from squinney import checks
from squinney.analytics.reports import queries
from squinney.analytics.reports.documents import SHARES, Share
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid, LimitReached, NotFound
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

TOKEN_BYTES = 32
MAX_TOKEN_LENGTH = 100
MAX_SHARES = 100
MAX_NAME_LENGTH = 100


class Shares:
    """Links to share the reports of one site. Of a link's token, 256 random bits, only the SHA-256 is stored."""

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock

    @operation()
    def create(
        self, site: str, *, name: str = "", expires_at: datetime | None = None, created_by: str = ""
    ) -> tuple[Share, str]:
        """Create a link; return its document and its token, which is not stored and cannot be shown again.

        Raises: `Invalid`; `LimitReached` beyond about a hundred links of a site.
        """
        now, token = self._clock(), secrets.token_urlsafe(TOKEN_BYTES)
        share: Share = {
            "_id": _digest(token),
            "site": checks.text(site, "site", max_length=MAX_SITE_LENGTH),
            "name": checks.text(name, "name", max_length=MAX_NAME_LENGTH),
            "created_at": now,
            "created_by": created_by,
        }
        if expires_at is not None:
            share["expires_at"] = checks.time(expires_at, "expires_at")
            if share["expires_at"] <= now:
                raise Invalid("expires_at must be in the future", field="expires_at")
        if len(self.of(site)) >= MAX_SHARES:
            raise LimitReached(f"a site can have at most {MAX_SHARES} links", limit=MAX_SHARES)
        self._db[SHARES].insert_one(cast(Any, dict(share)))
        return share, token

    @operation(reads_only=True)
    def site_of(self, token: str) -> str:
        """Return the site whose reports the token shows.

        Raises: `NotFound` for every token that shows nothing, with the same message.
        """
        share: Any = self._db[SHARES].find_one({"_id": _digest(token)}) if len(token) <= MAX_TOKEN_LENGTH else None
        # guard: an expired link shows nothing, even before MongoDB has deleted it
        if share is None or ("expires_at" in share and share["expires_at"] <= self._clock()):
            raise NotFound("this link was revoked, has expired, or never existed")
        return str(share["site"])

    @operation(reads_only=True)
    def of(self, site: str) -> list[Share]:
        """Return the links of a site, the oldest first."""
        return [cast(Share, share) for share in queries.SHARES_OF_SITE.find(self._db, site=site)]

    @operation()
    def revoke(self, share_id: str) -> None:
        """Revoke a link; from then on it shows nothing.

        Raises: `NotFound`.
        """
        if not self._db[SHARES].delete_one({"_id": checks.identifier(share_id, "share")}).deleted_count:
            raise NotFound("there is no such link", share=share_id)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
