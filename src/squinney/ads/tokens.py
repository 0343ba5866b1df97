"""Serve ids: signed tokens that say what was served, so that nobody can invent one and nothing is stored for it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from pymongo.errors import DuplicateKeyError

from squinney.ads import queries
from squinney.ads.errors import BadServe
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document

LONGEST = 4_000
SIGNATURE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Token:
    """What a serve id says. `price` is what an impression or, where `per_click`, a click costs, in thousandths."""

    id: str
    campaign_id: str
    site: str
    zone: str
    unit: str
    lease_id: str
    price: int
    per_click: bool
    at_ms: int

    @property
    def at(self) -> datetime:
        """When the ad was chosen."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC)


class Tokens:
    """Makes and reads serve ids with one secret."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.sha512(b"squinney serve " + secret).digest()

    def sign(self, token: Token) -> str:
        """The serve id."""
        said = [
            *(token.id, token.campaign_id, token.site, token.zone, token.unit, token.lease_id),
            *(token.price, token.per_click, token.at_ms),
        ]
        packed = json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
        return base64.urlsafe_b64encode(self._signature(packed) + packed).rstrip(b"=").decode()

    def read(self, serve_id: str) -> Token:
        """What the serve id says.

        Raises: `BadServe`.
        """
        if not isinstance(serve_id, str) or len(serve_id) > LONGEST:
            raise BadServe
        try:
            raw = base64.b64decode(serve_id + "=" * (-len(serve_id) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise BadServe from None
        signature, packed = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(packed)):
            raise BadServe
        return Token(*json.loads(packed))

    def _signature(self, packed: bytes) -> bytes:
        return hashlib.blake2b(packed, key=self._key, digest_size=SIGNATURE_BYTES).digest()


def new_serve() -> str:
    """An id that nobody can guess."""
    return secrets.token_urlsafe(12)


@operation()
def stored_secret(db: Db) -> bytes:
    """The secret of this database, made the first time it is asked for."""
    fresh = {"$setOnInsert": {"secret": secrets.token_bytes(32)}}
    try:
        kept = db["ad_keys"].find_one_and_update(queries.SIGNING_KEY(), fresh, upsert=True, return_document=True)
    except DuplicateKeyError:  # another process was faster
        kept = db["ad_keys"].find_one(queries.SIGNING_KEY())
    return bytes(cast(Document, kept)["secret"])
