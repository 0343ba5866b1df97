"""What can be wrong between people and logins, which are made together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.identity import queries
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem, found, told
from squinney.mongo.schema import Db, Document


def find_problems(db: Db) -> Iterator[Problem]:
    """Logins without a person, which are in the way of whoever wants them, and people who cannot sign in or stay so."""
    db = pinned(db)
    yield from told(db, queries.LOGINS_WITHOUT_PERSON, _nobodys)
    yield from told(db, queries.PEOPLE_WITHOUT_LOGIN, _without_login)
    yield from told(db, queries.OTHER_CREDENTIALS, _other_credential)


def _nobodys(login: Document) -> Problem:
    return Problem(
        "login-without-person",
        f"the login {login['_id']} belongs to nobody",
        documents={"logins": login["_id"]},
        repairable=True,
    )


def _without_login(person: Document) -> Problem:
    return Problem(
        "person-without-login",
        f"{person['_id']} cannot sign in: there is no login {person['login']}",
        documents={"people": person["_id"]},
    )


def _other_credential(person: Document) -> Problem:
    return Problem(
        "other-credential",
        f"no session of {person['_id']} counts: they have another credential than their login",
        documents={"people": person["_id"]},
        repairable=True,
    )


def repair(db: Db) -> Counter[str]:
    """Remove logins that belong to nobody, and give people the credential of their login.

    Atomic: each login by itself, only where it still names the missing person; each person by themselves, only where
    they still have the other credential.
    After a crash: run it again.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    for login in found(db, queries.LOGINS_WITHOUT_PERSON):
        where = {"_id": login["_id"], "person_id": login.get("person_id"), "txn_stub": None}
        done["logins removed"] += db["logins"].delete_one(where).deleted_count
    for person in found(db, queries.OTHER_CREDENTIALS):
        where = {"_id": person["_id"], "credential_id": person["has"], "txn_lock": None}
        change = (
            {"$set": {"credential_id": person["checked"]}} if person["checked"] else {"$unset": {"credential_id": ""}}
        )
        done["credentials set"] += db["people"].update_one(where, change).modified_count
    return +done
