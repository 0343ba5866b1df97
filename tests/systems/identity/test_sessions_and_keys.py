"""Sessions and API keys."""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import Any, cast

import pytest

from squinney.clock import utcnow
from squinney.errors import Invalid
from squinney.identity import KeyRefused, Keys, People, Sessions, UnknownKey, allows, may_act_as
from squinney.identity import keys as module
from squinney.mongo.schema import Db

PASSWORD = "correct horse battery"
pytestmark = pytest.mark.usefixtures("quick_passwords")


def test_a_session_names_its_person_until_it_ends(people: People, sessions: Sessions, ready: Db) -> None:
    ada = people.sign_up("ada", PASSWORD)
    token = sessions.start(ada)
    assert (sessions.person(token) or {})["_id"] == ada["_id"]
    assert token not in str(list(ready["identity.sessions"].find())), "only its digest is stored"
    sessions.end(token)
    assert sessions.person(token) is None
    for nonsense in ("", "x", "x" * 5000, "\0", "\ud800"):
        assert sessions.person(nonsense) is None


def test_each_session_gets_a_new_token(people: People, sessions: Sessions) -> None:
    ada = people.sign_up("ada", PASSWORD)
    brought = "a-token-that-somebody-planted-before"
    tokens = {sessions.start(ada) for _ in range(3)}
    assert len(tokens) == 3
    assert sessions.person(brought) is None
    assert sessions.end_all(ada["_id"]) == 3


def test_a_session_expires_unless_it_is_used(people: People, ready: Db, clock: Any) -> None:
    ada = people.sign_up("ada", PASSWORD)
    sessions = Sessions(ready, clock=clock)
    clock.now = utcnow()
    used, unused = sessions.start(ada), sessions.start(ada)
    clock.advance(days=10)
    assert sessions.person(used)
    clock.advance(days=5)
    assert sessions.person(used)
    assert sessions.person(unused) is None


def test_a_session_that_is_used_every_day_still_ends(people: People, ready: Db, clock: Any) -> None:
    ada = people.sign_up("ada", PASSWORD)
    sessions = Sessions(ready, clock=clock)
    clock.now = utcnow()
    token = sessions.start(ada)
    for _ in range(9):
        clock.advance(days=9, hours=23)
        assert sessions.person(token)
    clock.advance(days=1)
    assert sessions.person(token) is None


def test_a_new_role_applies_immediately(people: People, sessions: Sessions) -> None:
    ada = people.sign_up("ada", PASSWORD)
    token = sessions.start(ada)
    people.set_role(ada["_id"], "editor")
    assert (sessions.person(token) or {})["role"] == "editor"


def test_a_key_is_found_by_its_secret(keys: Keys, ready: Db) -> None:
    key, shown = keys.create("shop", ["commerce:write", "ledger:read"])
    assert len(shown) >= 26 + 43
    found = keys.find(shown)
    assert found["scopes"] == ["commerce:write", "ledger:read"]
    assert "digest" not in found
    stored = ready["identity.keys"].find_one() or {}
    assert shown.split("_", 2)[2] not in str(stored)
    assert stored["used_at"]
    assert "digest" not in str(keys.all().items)
    assert keys.all().items[0]["_id"] == key["_id"]


def test_wrong_expired_and_revoked_keys_are_refused_alike(keys: Keys, ready: Db, clock: Any) -> None:
    _, shown = keys.create("good", ["*:read"])
    prefix, key_id, _ = shown.split("_", 2)
    wrong = ["", "x", shown[:-1], shown + "x", f"{prefix}_{key_id}_", f"x_{key_id}_{shown[-43:]}", "\0", "é" * 30]
    told = {_refusal(keys, presented) for presented in wrong}

    clocked = Keys(ready, clock=clock)
    clock.now = utcnow()
    _, short = clocked.create("short", ["*:read"], expires_at=clock.now + timedelta(hours=1))
    assert clocked.find(short)
    clock.advance(hours=2)
    told.add(_refusal(clocked, short))

    revoked, gone = keys.create("gone", ["*:read"])
    assert keys.find(gone)
    keys.revoke(revoked["_id"])
    told.add(_refusal(keys, gone))
    assert len(told) == 1
    with pytest.raises(UnknownKey):
        keys.revoke("nothing")


def _refusal(keys: Keys, presented: str) -> str:
    with pytest.raises(KeyRefused) as caught:
        keys.find(presented)
    return caught.value.message


def test_a_key_is_cached_for_five_seconds(keys: Keys, ready: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("squinney.identity.keys.time.monotonic", lambda: now[0])
    key, shown = keys.create("shop", ["*:read"])
    elsewhere = Keys(ready)
    assert elsewhere.find(shown)
    keys.revoke(key["_id"])
    now[0] += 4.9
    assert elsewhere.find(shown)
    now[0] += 0.2
    _refusal(elsewhere, shown)


def test_malformed_keys_are_refused(keys: Keys) -> None:
    for nonsense in ("", "sqy", "sqy__", f"sqy_{'0' * 26}", f"sqy_{chr(0xD800) * 26}_x", f"sqy_{chr(0) * 26}_x", None):
        _refusal(keys, cast(str, nonsense))


def test_secrets_are_compared_in_constant_time(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    _, shown = keys.create("shop", ["*:read"])
    compared = []
    compare = hmac.compare_digest

    def watched(left: str, right: str) -> bool:
        compared.append((left, right))
        return compare(left, right)

    monkeypatch.setattr(module.hmac, "compare_digest", watched)
    keys.find(shown)
    _refusal(keys, shown[:-1] + "!")
    _refusal(keys, "sqy_" + "0" * 26 + "_" + "x" * 43)
    assert len(compared) == 3, "compared even where there is no such key"
    assert {len(side) for pair in compared for side in pair} == {64}, "digests of one length, never the secrets"


@pytest.mark.parametrize(
    "scopes",
    [[], ["ledger"], ["ledger:own"], ["ledger:admin"], ["*"], ["Ledger:read"], ["a.b:read"], [1], ["ledger:read"] * 51],
)
def test_scopes_are_checked(keys: Keys, scopes: Any) -> None:
    with pytest.raises(Invalid):
        keys.create("shop", scopes)


def test_expiry_times_are_checked(keys: Keys) -> None:
    naive, past, far = utcnow().replace(tzinfo=None), utcnow() - timedelta(hours=1), utcnow() + timedelta(days=4000)
    for wrong in (naive, past, far, "tomorrow"):
        with pytest.raises(Invalid):
            keys.create("shop", ["*:read"], expires_at=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("has", "needs", "allowed"),
    [
        (["ledger:read"], "ledger:read", True),
        (["ledger:write"], "ledger:read", True),
        (["ledger:read"], "ledger:write", False),
        (["ledger:admin"], "commerce:read", False),
        (["ledger:admin"], "ledger:write", True),
        (["*:read"], "commerce:read", True),
        (["*:read", "ledger:write"], "ledger:write", True),
        ([], "ledger:read", False),
    ],
)
def test_scopes_allow_what_they_say(has: list[str], needs: str, allowed: bool) -> None:
    assert allows(has, needs) is allowed


def test_roles_include_those_below() -> None:
    assert may_act_as("admin", "editor")
    assert may_act_as("member", "member")
    assert not may_act_as("visitor", "member")
