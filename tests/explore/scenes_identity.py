"""Concurrent operations on one person's credentials, and on the links for the first admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squinney import identity
from squinney.identity import Invitations, People, Sessions
from squinney.mongo.schema import Db
from tests.explore.scene import Act, Scene

OLD, NEW, NEWER = "correct horse battery", "another password", "a third password"
ADDRESS = "192.0.2.1"


def _on_people(change: Callable[[People, Any], object]) -> Act:
    return lambda db, state: change(People(db), state)


# ---- credentials ----


def _ada(db: Db) -> Any:
    """Sign Ada up, change her password once, and start a session."""
    people = People(db)
    ada = people.set_password(people.sign_up("ada", NEW)["_id"], OLD)
    return {"ada": ada["_id"], "credential": ada["credential_id"], "token": Sessions(db).start(ada)}


def _sessions_are_of_the_password(db: Db, state: Any) -> None:
    """Sessions of the old password are invalid once it has changed, also one that was started meanwhile."""
    login = db["identity.logins"].find_one({"_id": "ada"})
    assert login
    if login["credential_id"] != state["credential"]:
        assert Sessions(db).person(state["token"]) is None
        assert People(db).get(state["ada"])["credential_id"] == login["credential_id"]


CREDENTIALS: dict[str, Act] = {
    "set password": _on_people(lambda people, state: people.set_password(state["ada"], NEW)),
    "set another": _on_people(lambda people, state: people.set_password(state["ada"], NEWER)),
    "sign in": _on_people(lambda people, state: people.sign_in("ada", OLD, address=ADDRESS)),
    "disable": _on_people(lambda people, state: people.disable(state["ada"])),
    "sign in and stay": lambda db, state: Sessions(db).start(People(db).sign_in("ada", OLD, address=ADDRESS)),
}

# ---- attempts ----

ATTEMPTS: dict[str, Act] = {
    "sign in": CREDENTIALS["sign in"],
    "guess": _on_people(lambda people, state: people.sign_in("ada", "a wrong password", address=ADDRESS)),
    "sign in from elsewhere": _on_people(lambda people, state: people.sign_in("ada", OLD, address="198.51.100.1")),
    "sign up": _on_people(lambda people, state: people.sign_up("bob", OLD, address=ADDRESS)),
}

# ---- links ----


def _links(db: Db) -> dict[str, str | None]:
    """Create two links for the first admin, and one for a member."""
    invitations = Invitations(db)
    return {
        "one": invitations.first_admin(),
        "other": invitations.first_admin(),
        "member": invitations.create("member"),
    }


def _accept(which: str, login: str) -> Act:
    def act(db: Db, state: Any) -> None:
        Invitations(db).accept(state[which], login, OLD)

    return act


def _at_most_one_admin(db: Db, state: Any) -> None:
    assert db["identity.people"].count_documents({"role": "admin"}) <= 1


LINKS: dict[str, Act] = {
    "accept": _accept("one", "boss"),
    "accept as chief": _accept("one", "chief"),
    "accept other": _accept("other", "chief"),
    "join": _accept("member", "boss"),
    "sign up": _on_people(lambda people, state: people.sign_up("boss", OLD)),
}

SCENES = [
    Scene(
        "credentials",
        "identity",
        _ada,
        CREDENTIALS,
        composed=["sign in and stay"],
        # A sign-in that dies has counted its attempt; a change of the password leaves documents of invalid sessions.
        ignored=["identity.sign_in_tries", "identity.sessions"],
        check=_sessions_are_of_the_password,
    ),
    Scene("attempts", "identity", _ada, ATTEMPTS, crashes=0),
    Scene("links", "identity", _links, LINKS, check=_at_most_one_admin),
    Scene(
        "people, repaired",
        "identity",
        _ada,
        {"set password": CREDENTIALS["set password"], "sign up": LINKS["sign up"]},
        ignored=["identity.sessions"],  # as above
        between=[identity.repair],
    ),
]
