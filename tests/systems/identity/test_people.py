"""Signing up and in."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from pymongo import MongoClient
from tests.patterns.interrupt import meanwhile
from tests.racing import at_once

from squinney.clock import utcnow
from squinney.errors import Invalid, NotFound, SquinneyError
from squinney.identity import (
    Invitations,
    Keys,
    LoginTaken,
    People,
    Sessions,
    SignInRefused,
    TooManyTries,
    UnknownPerson,
    find_problems,
    passwords,
    repair,
)
from squinney.mongo.problems import SnapshotTooOld
from squinney.mongo.schema import Db, Document

PASSWORD = "correct horse battery"
pytestmark = pytest.mark.usefixtures("quick_passwords")


def test_a_person_signs_up_and_in(people: People) -> None:
    ada = people.sign_up(" Ada@Example.org ", PASSWORD, name="Ada")
    assert (ada["login"], ada["name"], ada["role"]) == ("ada@example.org", "Ada", "member")
    assert people.sign_in("ADA@example.org", PASSWORD)["_id"] == ada["_id"]
    assert people.get(ada["_id"]) == people.by_login("ada@example.org") == ada


def test_a_login_is_given_once_even_in_a_race(people: People, ready: Db) -> None:
    def attempt(number: int) -> Any:
        try:
            return people.sign_up("ada", PASSWORD, name=str(number))["_id"]
        except LoginTaken:
            return None

    with ThreadPoolExecutor(6) as pool:
        made = [person_id for person_id in pool.map(attempt, range(6)) if person_id]
    assert len(made) == 1
    assert ready["identity.people"].count_documents({}) == 1
    assert list(find_problems(ready)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"login": "a"},
        {"login": "a b"},
        {"login": "-ada"},
        {"login": "x" * 101},
        {"login": {"$gt": ""}},
        {"login": "ada\r\nSet-Cookie: x"},
        {"password": "short"},
        {"password": "x" * 201},
        {"password": {"$ne": None}},
        {"password": "has a \0 in it, you see"},
        {"name": "x" * 101},
        {"name": ["x"]},
        {"name": "Ada\nLovelace"},
        {"role": "king"},
        {"role": "visitor"},
    ],
)
def test_bad_input_is_refused_with_its_field(people: People, ready: Db, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        people.sign_up(**{"login": "ada", "password": PASSWORD, **wrong})
    assert caught.value.details["field"] == next(iter(wrong))
    assert ready["identity.people"].count_documents({}) == ready["identity.logins"].count_documents({}) == 0


def test_a_wrong_login_and_a_wrong_password_give_the_same_error(people: People) -> None:
    people.sign_up("ada", PASSWORD)
    told = []
    for login, password in [("ada", "wrong password"), ("ben", PASSWORD)]:
        with pytest.raises(SignInRefused) as caught:
            people.sign_in(login, password)
        told.append((caught.value.message, caught.value.details))
    assert told[0] == told[1]


def test_guessing_a_password_is_stopped(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.sign_up("ada", PASSWORD)
    monkeypatch.setattr(people._by_login, "_limit", 3)

    def guess(number: int) -> type[SquinneyError]:
        with pytest.raises(SquinneyError) as caught:
            people.sign_in("ada", f"guess number {number}")
        return caught.type

    with ThreadPoolExecutor(6) as pool:
        told = list(pool.map(guess, range(6)))
    assert told.count(SignInRefused) == 3, "a crowd gets no further than a patient guesser"
    with pytest.raises(TooManyTries) as caught:
        people.sign_in("ada", PASSWORD)
    assert 0 < caught.value.details["retry_after_seconds"] <= 900


def test_an_address_that_tries_many_logins_is_stopped(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.sign_up("ada", PASSWORD)
    monkeypatch.setattr(people._by_address, "_limit", 2)
    for login in ("ben", "cid"):
        with pytest.raises(SignInRefused):
            people.sign_in(login, "wrong password", address="192.0.2.1")
    with pytest.raises(TooManyTries):
        people.sign_in("ada", PASSWORD, address="192.0.2.1")
    assert people.sign_in("ada", PASSWORD, address="192.0.2.2")


def test_another_address_cannot_lock_a_person_out(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.sign_up("ada", PASSWORD)
    monkeypatch.setattr(passwords, "matches", lambda stored, password: password == PASSWORD)
    for number in range(60):  # from many addresses, and from one with all its tries
        for _ in range(11 if number == 0 else 1):
            with pytest.raises((SignInRefused, TooManyTries)):
                people.sign_in("ada", "wrong password", address=f"192.0.2.{number}")
    assert people.sign_in("ada", PASSWORD, address="198.51.100.1")
    told = [_guess(people, "198.51.100.2") for _ in range(5)]
    assert told == [SignInRefused] * 3 + [TooManyTries] * 2, "while many guess, each has fewer tries"


def _guess(people: People, address: str) -> type[SquinneyError]:
    with pytest.raises(SquinneyError) as caught:
        people.sign_in("ada", "wrong password", address=address)
    return caught.type


def test_a_successful_sign_in_is_not_counted(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.sign_up("ada", PASSWORD)
    monkeypatch.setattr(passwords, "matches", lambda stored, password: password == PASSWORD)
    monkeypatch.setattr(people._by_address, "_limit", 3)
    for _ in range(10):
        assert people.sign_in("ada", PASSWORD, address="192.0.2.1")
    assert [_guess(people, "192.0.2.1") for _ in range(4)] == [SignInRefused] * 3 + [TooManyTries]


def test_an_ipv6_network_counts_as_one_address(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "matches", lambda stored, password: False)
    told = [_guess(people, f"2001:db8::{number:x}") for number in range(1, 12)]
    assert told == [SignInRefused] * 10 + [TooManyTries]
    assert _guess(people, "2001:db8:0:1::1") is SignInRefused


def test_signing_up_from_one_address_is_stopped(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people._sign_ups, "_limit", 1)
    assert people.sign_up("ada", PASSWORD, address="192.0.2.1")
    with pytest.raises(TooManyTries):
        people.sign_up("ben", PASSWORD, address="192.0.2.1")
    assert people.sign_up("ben", PASSWORD), "a program's own calls are free"


def test_signing_in_resets_the_count(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    people.sign_up("ada", PASSWORD)
    monkeypatch.setattr(people._by_login, "_limit", 2)
    for _ in range(3):
        with pytest.raises(SignInRefused):
            people.sign_in("ada", "wrong password")
        assert people.sign_in("ada", PASSWORD)


def test_a_disabled_person_cannot_sign_in_until_enabled(people: People, sessions: Sessions) -> None:
    ada = people.sign_up("ada", PASSWORD)
    token = sessions.start(ada)
    people.disable(ada["_id"])
    assert sessions.person(token) is None
    with pytest.raises(SignInRefused):
        people.sign_in("ada", PASSWORD)
    people.enable(ada["_id"])
    assert people.sign_in("ada", PASSWORD)


def test_a_new_password_ends_all_sessions(people: People, sessions: Sessions) -> None:
    ada = people.sign_up("ada", PASSWORD)
    tokens = [sessions.start(ada) for _ in range(2)]
    people.set_password(ada["_id"], "another password")
    assert [sessions.person(token) for token in tokens] == [None, None]
    assert people.sign_in("ada", "another password")
    with pytest.raises(SignInRefused):
        people.sign_in("ada", PASSWORD)


def test_a_session_started_with_an_old_password_is_invalid(people: People, sessions: Sessions) -> None:
    ada = people.sign_up("ada", PASSWORD)
    for old, new in ((PASSWORD, "another password"), ("another password", "a third password")):
        checked = people.sign_in("ada", old)
        changed = people.set_password(ada["_id"], new)
        assert sessions.person(sessions.start(checked)) is None
        assert sessions.person(sessions.start(changed)) == people.sign_in("ada", new) == people.get(ada["_id"])


def test_a_session_gets_the_credential_of_the_checked_password(
    people: People, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = people.sign_up("ada", PASSWORD)

    def changed_meanwhile(stored: str | None, password: str) -> bool:
        monkeypatch.undo()
        people.set_password(ada["_id"], "another password")
        return passwords.matches(stored, password)

    monkeypatch.setattr(passwords, "matches", changed_meanwhile)
    assert sessions.person(sessions.start(people.sign_in("ada", PASSWORD))) is None


def test_people_are_returned_without_the_count_of_checks(ready: Db, sessions: Sessions) -> None:
    people = People(ready)
    ada = people.set_password(people.sign_up("ada", PASSWORD)["_id"], "another password")
    found = [people.get(ada["_id"]), people.all().items[0], people.set_role(ada["_id"], "member")]
    assert found == [ada, ada, ada]
    assert sessions.person(sessions.start(ada)) == ada


def test_rehashing_does_not_restore_an_old_password(people: People, ready: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = people.sign_up("ada", PASSWORD)

    def changed_meanwhile(stored: str) -> bool:
        people.set_password(ada["_id"], "another password")
        return True

    monkeypatch.setattr(passwords, "is_outdated", changed_meanwhile)
    people.sign_in("ada", PASSWORD)
    monkeypatch.undo()
    assert people.sign_in("ada", "another password")["_id"] == ada["_id"]


def test_the_whole_password_is_compared(people: People) -> None:
    people.sign_up("ada", "x" * passwords.MAX_LENGTH)
    with pytest.raises(SignInRefused):
        people.sign_in("ada", "x" * passwords.MAX_LENGTH + "y")


def test_a_password_without_a_login_is_refused(people: People, ready: Db) -> None:
    ada = people.sign_up("ada", PASSWORD)
    ready["identity.logins"].delete_one({"_id": "ada"})
    with pytest.raises(UnknownPerson):
        people.set_password(ada["_id"], "another password")


def test_roles_and_lists(people: People) -> None:
    ids = [people.sign_up(f"person-{number}", PASSWORD)["_id"] for number in range(3)]
    assert not people.is_there_an_admin()
    assert people.set_role(ids[0], "admin")["role"] == "admin"
    assert people.is_there_an_admin()
    first = people.all(limit=2)
    assert [person["_id"] for person in [*first.items, *people.all(cursor=first.next).items]] == ids
    with pytest.raises(UnknownPerson):
        people.set_role("nobody", "admin")
    with pytest.raises(UnknownPerson):
        people.by_login("nobody")


def test_the_first_admins_link_works_once(invitations: Invitations, people: People, ready: Db) -> None:
    token, printed_before = invitations.first_admin(), invitations.first_admin()
    assert token
    assert printed_before
    assert token not in str(list(ready["identity.invitations"].find()))
    assert invitations.role_of(token) == "admin"

    def accept(number: int) -> Any:
        try:
            return invitations.accept(token, f"admin{number}", PASSWORD)["role"]
        except NotFound:
            return None

    with ThreadPoolExecutor(4) as pool:
        assert [role for role in pool.map(accept, range(4)) if role] == ["admin"]
    assert ready["identity.people"].count_documents({}) == 1
    assert invitations.first_admin() is None
    with pytest.raises(NotFound):
        invitations.accept(printed_before, "late", PASSWORD)
    with pytest.raises(NotFound):
        invitations.role_of("something else")


def test_of_concurrent_links_for_the_first_admin_one_succeeds(ready: Db) -> None:
    invitations = Invitations(ready)
    tokens = [invitations.first_admin() or "" for _ in range(3)]

    def accept(number: int) -> bool:
        try:
            return bool(invitations.accept(tokens[number], f"admin-{number}", PASSWORD))
        except NotFound:
            return False

    assert sum(at_once(3, accept)) == 1
    assert ready["identity.people"].count_documents({"role": "admin"}) == 1


def test_a_link_expires_and_survives_a_taken_login(ready: Db, people: People, clock: Any) -> None:
    people.sign_up("ada", PASSWORD)
    invitations = Invitations(ready, clock=clock)
    token = invitations.create("editor")
    with pytest.raises(LoginTaken):
        invitations.accept(token, "ada", PASSWORD)
    assert invitations.role_of(token) == "editor"
    clock.advance(hours=25)
    with pytest.raises(NotFound):
        invitations.accept(token, "ben", PASSWORD)


def test_a_link_can_be_used_once(ready: Db) -> None:
    invitations = Invitations(ready)
    token = invitations.create("editor")
    assert invitations.accept(token, "ada", PASSWORD)["role"] == "editor"
    with pytest.raises(NotFound):
        invitations.accept(token, "ben", PASSWORD)


def test_problems_are_found_and_repaired(people: People, ready: Db) -> None:
    ada, ben = people.sign_up("ada", PASSWORD), people.sign_up("ben", PASSWORD)
    ready["identity.people"].delete_one({"_id": ada["_id"]})
    ready["identity.logins"].delete_one({"_id": "ben"})
    found = {problem.code: problem for problem in find_problems(ready)}
    assert found.keys() == {"login-without-person", "person-without-login"}
    assert found["person-without-login"].documents == {"identity.people": ben["_id"]}
    assert "argon2" not in str(found)
    assert repair(ready) == {"logins removed": 1}
    assert [problem.code for problem in find_problems(ready)] == ["person-without-login"]


def test_a_reassigned_login_is_not_removed(people: People, ready: Db, mongod: Any) -> None:
    people.sign_up("ada", PASSWORD)
    ready["identity.people"].delete_many({})

    def give_anew() -> None:
        ready["identity.logins"].delete_one({"_id": "ada"})
        people.sign_up("ada", PASSWORD)

    with meanwhile(mongod, ready, give_anew, "delete", "identity.logins") as db:
        assert not repair(db)
    assert people.by_login("ada")


def test_a_credential_that_differs_from_the_logins_is_repaired(people: People, sessions: Sessions, ready: Db) -> None:
    ada = people.set_password(people.sign_up("ada", PASSWORD)["_id"], "another password")
    ben = people.sign_up("ben", PASSWORD)
    ready["identity.people"].update_one({"_id": ada["_id"]}, {"$unset": {"credential_id": ""}})
    ready["identity.people"].update_one({"_id": ben["_id"]}, {"$set": {"credential_id": "some other"}})
    assert [problem.code for problem in find_problems(ready)] == ["other-credential"] * 2
    assert repair(ready) == {"credentials set": 2}
    assert list(find_problems(ready)) == []
    assert sessions.person(sessions.start(people.sign_in("ada", "another password"))) == ada
    assert sessions.person(sessions.start(people.sign_in("ben", PASSWORD))) == ben


def test_a_client_with_naive_times_works(ready: Db, mongod: Any) -> None:
    with MongoClient[Document](mongod.uri) as client:
        db = client[ready.name]
        people, sessions, keys = People(db), Sessions(db), Keys(db)
        ada = people.sign_up("ada", PASSWORD)
        assert sessions.person(sessions.start(ada)) == people.sign_in("ada", PASSWORD, address="192.0.2.1") == ada
        assert keys.find(keys.create("shop", ["ledger:read"], expires_at=utcnow() + timedelta(days=1))[1])
        people._by_login._limit = 0
        with pytest.raises(TooManyTries):
            people.sign_in("ada", PASSWORD)


def test_nothing_secret_is_logged(people: People, sessions: Sessions, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("squinney").setLevel(logging.DEBUG)
    ada = people.sign_up("ada", PASSWORD)
    token = sessions.start(ada)
    with pytest.raises(SignInRefused):
        people.sign_in("ada", "a wrong password")
    sessions.person(token)
    assert not [secret for secret in (PASSWORD, "a wrong password", token, "argon2") if secret in caplog.text]


def test_a_check_that_reads_for_too_long_says_what_to_do(own_db: Db, failing: Any) -> None:
    with failing(["aggregate"], errorCode=239), pytest.raises(SnapshotTooOld, match="minSnapshotHistoryWindow"):
        list(find_problems(own_db))
