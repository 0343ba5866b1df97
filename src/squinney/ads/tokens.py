"""Serve ids: signed tokens that say what was served, so that nobody can invent one and nothing is stored for it."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
import secrets
from base64 import b64decode, urlsafe_b64encode
from binascii import b2a_base64
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, cast

from pymongo.errors import DuplicateKeyError

from squinney.ads import queries
from squinney.ads.errors import BadServe
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document

LONGEST = 4_000
SIGNATURE_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What many serves have in common: an ad, the lease that pays for it, and what it costs, in thousandths.

    `price` is that of an impression or, where `per_click`, of a click. `said` is all of it as it stands in a token.
    """

    campaign_id: str
    site: str
    zone: str
    unit: str
    lease_id: str
    price: int
    per_click: bool
    said: str

    @classmethod
    def of(cls, campaign_id: str, site: str, zone: str, unit: str, lease_id: str, price: int, per_click: bool) -> Offer:
        """The offer, with what a token says of it. No name holds a NUL: `checks.text` sees to it."""
        said = "\0".join((campaign_id, site, zone, unit, lease_id, str(price), "1" if per_click else ""))
        return cls(campaign_id, site, zone, unit, lease_id, price, per_click, said)


class Token(NamedTuple):
    """What a serve id says: which serve, when it was chosen, and of what."""

    id: str
    at_ms: int
    offer: Offer

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
        packed = f"{token.id}\0{token.at_ms}\0{token.offer.said}".encode()
        return urlsafe_b64encode(self._signature(packed) + packed).rstrip(b"=").decode()

    def read(self, serve_id: str) -> Token:
        """What the serve id says.

        Raises: `BadServe`.
        """
        if not isinstance(serve_id, str) or len(serve_id) > LONGEST:
            raise BadServe
        try:
            raw = b64decode(serve_id + "=" * (-len(serve_id) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise BadServe from None
        signature, packed = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(packed)):
            raise BadServe
        serve, at_ms, said = packed.decode().split("\0", 2)
        return Token(serve, int(at_ms), _offer(said))

    def _signature(self, packed: bytes) -> bytes:
        return hashlib.blake2b(packed, key=self._key, digest_size=SIGNATURE_BYTES).digest()


@lru_cache(maxsize=10_000)  # beacons of one time have few offers between them
def _offer(said: str) -> Offer:
    campaign_id, site, zone, unit, lease_id, price, per_click = said.split("\0")
    return Offer(campaign_id, site, zone, unit, lease_id, int(price), bool(per_click), said)


def new_token(at_ms: int, offer: Offer) -> Token:
    """A new serve of the offer. Its id begins with the time, so that those of one time lie together in the index."""
    return Token(b2a_base64(at_ms.to_bytes(6) + os.urandom(9), newline=False).decode(), at_ms, offer)


@operation()
def stored_secret(db: Db) -> bytes:
    """The secret of this database, made the first time it is asked for."""
    fresh = {"$setOnInsert": {"secret": secrets.token_bytes(32)}}
    try:
        kept = db["ad_keys"].find_one_and_update(queries.SIGNING_KEY(), fresh, upsert=True, return_document=True)
    except DuplicateKeyError:  # another process was faster
        kept = db["ad_keys"].find_one(queries.SIGNING_KEY())
    return bytes(cast(Document, kept)["secret"])
