"""How passwords are stored, and what hashing costs."""

from __future__ import annotations

from typing import Any

import pytest
from argon2 import PasswordHasher

from squinney.identity import People, SignInRefused, passwords
from squinney.mongo.schema import Db

PASSWORD = "correct horse battery"


def test_only_an_argon2_hash_is_stored_and_not_with_the_person(people: People, ready: Db) -> None:
    ada = people.sign_up("ada", PASSWORD)
    stored = ready["identity.logins"].find_one() or {}
    assert stored["password"].startswith("$argon2id$")
    assert ",p=1$" in stored["password"], "a flood of sign-ups is to take one core, not all"
    assert "password" not in str(ada) + str(ready["identity.people"].find_one())
    everything = str([list(ready[name].find()) for name in ready.list_collection_names()])
    assert PASSWORD not in everything


def test_a_wrong_login_costs_as_much_hashing_as_a_wrong_password(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.sign_up("ada", PASSWORD)
    verified = []
    monkeypatch.setattr(passwords, "_hasher", lambda: Counting(verified))
    for login in ("ada", "nobody"):
        with pytest.raises(SignInRefused):
            people.sign_in(login, "wrong password")
    assert len(verified) == 2


class Counting(PasswordHasher):
    """Counts the passwords that it verifies."""

    def __init__(self, verified: list[str]) -> None:
        super().__init__()
        self._verified = verified

    def verify(self, hash: Any, password: Any) -> Any:
        self._verified.append(hash)
        return super().verify(hash, password)


def test_an_old_hash_is_replaced_at_sign_in(people: People, ready: Db) -> None:
    people.sign_up("ada", PASSWORD)
    weak = PasswordHasher(time_cost=1, memory_cost=1024).hash(PASSWORD)
    ready["identity.logins"].update_one({}, {"$set": {"password": weak}})
    assert people.sign_in("ada", PASSWORD)
    assert (ready["identity.logins"].find_one() or {})["password"] != weak
    assert people.sign_in("ada", PASSWORD)
