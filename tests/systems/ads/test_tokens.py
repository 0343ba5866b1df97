"""Serve ids: what a visitor can learn from them, and those of older versions."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

import pytest
from tests.systems.ads.conftest import Turned

from squinney.ads import AdNetwork, BadServe
from squinney.ads.tokens import Tokens
from squinney.mongo.schema import Db


def _raw(serve_id: str) -> bytes:
    return urlsafe_b64decode(serve_id + "=" * (-len(serve_id) % 4))


def test_a_serve_id_tells_nobody_the_bid(network: AdNetwork, campaign: Callable[..., str]) -> None:
    campaign("cheap", bid=7)
    campaign("costly", bid=31_415_926)
    serves = network.choose("news", "top", count=2)
    assert {one.price for one in serves} == {7, 31_415_926}
    for serve in serves:
        raw = _raw(serve.serve_id)
        assert not any(readable in raw for readable in (b"cheap", b"costly", b"news", b"31415926"))
    costly, cheap = (len(_raw(one.serve_id)) for one in serves)
    names = 2 * (len("costly") - len("cheap"))  # the campaign and the unit
    assert costly - cheap == names, "the length does not depend on the price"


def test_equal_offers_have_different_serve_ids(network: AdNetwork, campaign: Callable[..., str]) -> None:
    campaign("a")
    first, second = (_raw(network.choose("news", "top")[0].serve_id)[16:] for _ in range(2))
    assert sum(one == other for one, other in zip(first, second, strict=True)) < len(first) / 4


@pytest.mark.parametrize("position", [0, 15, 16, 40, -1])
def test_a_serve_id_with_one_changed_bit_is_refused(
    network: AdNetwork, campaign: Callable[..., str], position: int
) -> None:
    campaign("a")
    raw = bytearray(_raw(network.choose("news", "top")[0].serve_id))
    raw[position] ^= 1
    with pytest.raises(BadServe):
        network.impression(urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode())


@pytest.mark.parametrize(("model", "flag"), [("cpm", ""), ("cpc", "1")])
def test_a_serve_id_of_an_older_version_still_counts(
    network: AdNetwork, campaign: Callable[..., str], ads_db: Db, clock: Turned, model: str, flag: str
) -> None:
    campaign("a", model=model, bid=250)
    token = Tokens(b"test").read(network.choose("news", "top")[0].serve_id)
    price = 250 if model == "cpm" else 250_000
    parts = [token.id, str(token.at_ms), "a", "news", "top", "a", token.offer.lease_id, str(price), flag]
    packed = "\0".join(parts).encode()
    key = hashlib.sha512(b"squinney serve test").digest()
    signed = hashlib.blake2b(packed, key=key, digest_size=16).digest() + packed
    old = urlsafe_b64encode(signed).rstrip(b"=").decode()
    assert network.click(old).first
    assert not network.click(old).first
    assert network.money(["a"])["a"]["spent"] == price
