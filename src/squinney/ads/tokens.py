"""Serve ids: sealed tokens that describe what was served. They can be neither forged nor read, and need no storage.

A token is a signature and the content, encrypted with a key stream that depends on the secret and the signature. So
nobody learns the price, and the same content never has two tokens. Numbers have a fixed width: the length of a token
says nothing about the price either.
"""

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
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document

MAX_LENGTH = 4_000
SIGNATURE_BYTES = 16
PRICE_DIGITS = 12  # of the highest bid for a click, in thousandths of a minor unit


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What many serves have in common: an ad, the lease that pays for it, and its price.

    `price` is the price of an impression or, if `per_click`, of a click, in thousandths of a minor unit. `encoded` is
    the offer as a token contains it.
    """

    campaign_id: str
    site: str
    zone: str
    unit: str
    lease_id: str
    price: int
    per_click: bool
    encoded: str

    @classmethod
    def of(cls, campaign_id: str, site: str, zone: str, unit: str, lease_id: str, price: int, per_click: bool) -> Offer:
        """Create an offer and encode it. No name contains NUL: `checks.text` ensures that."""
        # guard: the length of a serve id does not depend on the price
        number = f"{price:0{PRICE_DIGITS}d}"
        encoded = "\0".join((campaign_id, site, zone, unit, lease_id, number, "1" if per_click else "0"))
        return cls(campaign_id, site, zone, unit, lease_id, price, per_click, encoded)


class Token(NamedTuple):
    """The content of a serve id: the id of the serve, the time of the choice, and the offer."""

    id: str
    at_ms: int
    offer: Offer

    @property
    def at(self) -> datetime:
        """When the ad was chosen."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC)


class Tokens:
    """Creates and reads serve ids with one secret."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.sha512(b"squinney sealed serve " + secret).digest()
        self._stream_key = hashlib.sha512(b"squinney serve stream " + secret).digest()
        self._old_key = hashlib.sha512(b"squinney serve " + secret).digest()

    def sign(self, token: Token) -> str:
        """Return the serve id of a token."""
        packed = f"{token.id}\0{token.at_ms}\0{token.offer.encoded}".encode()
        signature = _signature(self._key, packed)
        return urlsafe_b64encode(signature + self._encrypted(signature, packed)).rstrip(b"=").decode()

    def read(self, serve_id: str) -> Token:
        """Check a serve id and return its token. Those that older versions signed without encryption are valid too.

        Raises: `BadServe`.
        """
        if not isinstance(serve_id, str) or len(serve_id) > MAX_LENGTH:
            raise BadServe
        try:
            raw = b64decode(serve_id + "=" * (-len(serve_id) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise BadServe from None
        signature, sealed = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
        packed = self._encrypted(signature, sealed)
        if not hmac.compare_digest(signature, _signature(self._key, packed)):
            packed = sealed
            # guard: forged serve ids are refused
            if not hmac.compare_digest(signature, _signature(self._old_key, packed)):
                raise BadServe
        serve, at_ms, offer = packed.decode().split("\0", 2)
        return Token(serve, int(at_ms), _decode_offer(offer))

    def digest(self, text: str) -> str:
        """Return a digest that cannot be computed without the secret."""
        return hashlib.blake2b(text.encode(), key=self._stream_key, digest_size=24).hexdigest()

    def _encrypted(self, signature: bytes, content: bytes) -> bytes:
        """Encrypt, or decrypt, with a key stream. The signature of a content is unique, so no stream is used twice."""
        size = len(content)
        # guard: no two serve ids use the same key stream
        stream = hashlib.shake_256(self._stream_key + signature).digest(size)
        # guard: a serve id cannot be read
        return (int.from_bytes(content) ^ int.from_bytes(stream)).to_bytes(size)


def _signature(key: bytes, packed: bytes) -> bytes:
    return hashlib.blake2b(packed, key=key, digest_size=SIGNATURE_BYTES).digest()


@lru_cache(maxsize=10_000)  # beacons that arrive at the same time share few offers
def _decode_offer(encoded: str) -> Offer:
    campaign_id, site, zone, unit, lease_id, price, per_click = encoded.split("\0")
    return Offer(campaign_id, site, zone, unit, lease_id, int(price), per_click == "1", encoded)


def new_serve_token(at_ms: int, offer: Offer) -> Token:
    """Create a token for a new serve. Its id begins with the time, so that recent ids are neighbours in the index."""
    return Token(b2a_base64(at_ms.to_bytes(6) + os.urandom(9), newline=False).decode(), at_ms, offer)


@operation()
def stored_secret(db: Db) -> bytes:
    """Return the secret stored in this database, and create it at the first call."""
    fresh = {"$setOnInsert": {"secret": secrets.token_bytes(32)}}
    try:
        kept = db["ads.keys"].find_one_and_update(queries.SIGNING_KEY(), fresh, upsert=True, return_document=True)
    except DuplicateKeyError:  # another process was faster
        kept = queries.SIGNING_KEY.find_one(db)
    return bytes(cast(Document, kept)["secret"])
