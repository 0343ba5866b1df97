"""People and their logins under the sweep."""

from __future__ import annotations

from functools import wraps
from typing import Any
from unittest.mock import patch

from argon2 import PasswordHasher

from squinney.identity import Invitations, LoginTaken, People, Sessions, passwords
from squinney.mongo.schema import Db
from squinney.patterns.transactions import Mode
from tests.crash.case import Case, transactions

HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

LOGIN, PASSWORD, OTHER = "ada", "correct horse battery", "staple correct horse"


def _quickly(function: Any) -> Any:
    """A good password hash takes its time, which is not what is looked at here."""

    @wraps(function)
    def quick(*args: Any) -> Any:
        with patch.object(passwords, "_HASHER", HASHER):
            return function(*args)

    return quick


def _people(db: Db, mode: Mode = "auto") -> People:
    return People(db, transactions=transactions(db, mode))


def _invitations(db: Db, mode: Mode = "auto") -> Invitations:
    return Invitations(db, transactions=transactions(db, mode))


@_quickly
def _sign_up(db: Db, mode: Mode, state: Any) -> None:
    _people(db, mode).sign_up(LOGIN, PASSWORD)


@_quickly
def _one_can_sign_in(db: Db, state: Any) -> None:
    """Whether it happened or not, the login is that of one whole person, or free."""
    try:
        _people(db).sign_up(LOGIN, PASSWORD)
    except LoginTaken:
        assert len(_people(db).all().items) == 1
    assert _people(db).sign_in(LOGIN, PASSWORD)["login"] == LOGIN


@_quickly
def _accept(db: Db, mode: Mode, token: Any) -> None:
    _invitations(db, mode).accept(token, LOGIN, PASSWORD)


@_quickly
def _accepted_once(db: Db, token: Any) -> None:
    """The link is used up exactly when its person is there."""
    if not _people(db).all().items:
        _accept(db, "auto", token)
    assert db["invitations"].count_documents({}) == 0
    assert _people(db).sign_in(LOGIN, PASSWORD)["role"] == "admin"


@_quickly
def _person(db: Db) -> Any:
    person_id = _people(db).sign_up(LOGIN, PASSWORD)["_id"]
    Sessions(db).start(person_id)
    return person_id


@_quickly
def _set_password(db: Db, mode: Mode, person_id: Any) -> None:
    _people(db, mode).set_password(person_id, OTHER)


@_quickly
def _repeat_sets_it(db: Db, person_id: Any) -> None:
    _set_password(db, "auto", person_id)
    assert _people(db).sign_in(LOGIN, OTHER)["_id"] == person_id
    assert db["sessions"].count_documents({}) == 0


@_quickly
def _sign_in(db: Db, mode: Mode, person_id: Any) -> None:
    _people(db, mode).sign_in(LOGIN, PASSWORD, address="192.0.2.1")


@_quickly
def _can_sign_in(db: Db, person_id: Any) -> None:
    assert _people(db).sign_in(LOGIN, PASSWORD, address="192.0.2.1")["_id"] == person_id


CASES = [
    Case("People.sign_up", "identity", lambda db: None, _sign_up, _one_can_sign_in),
    Case("Invitations.accept", "identity", lambda db: _invitations(db).create("admin"), _accept, _accepted_once),
    Case("People.set_password", "identity", _person, _set_password, _repeat_sets_it, modes=["native"]),
    Case("People.sign_in", "identity", _person, _sign_in, _can_sign_in, modes=["native"]),
]
