"""What can be wrong between people and logins, which are made together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.identity import queries
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, repair_problems
from squinney.mongo.schema import Db, Document


def find_problems(db: Db) -> Iterator[Problem]:
    """Logins without a person, which are in the way of whoever wants them, and people who cannot sign in or stay so."""
    return problems(pinned(db), CHECKS)


def repair(db: Db) -> Counter[str]:
    """Remove logins that belong to nobody, and give people the credential of their login.

    Atomic: each login by itself, only where it still names the missing person; each person by themselves, only where
    they still have the other credential.
    After a crash: run it again.
    """
    return +repair_problems(pinned(db), CHECKS)


def _remove_login(db: Db, login: Document) -> int:
    where = {"_id": login["_id"], "person_id": login.get("person_id"), "txn_stub": None}
    return db["logins"].delete_one(where).deleted_count


def _set_credential(db: Db, person: Document) -> int:
    where = {"_id": person["_id"], "credential_id": person["has"], "txn_lock": None}
    change = {"$set": {"credential_id": person["checked"]}} if person["checked"] else {"$unset": {"credential_id": ""}}
    return db["people"].update_one(where, change).modified_count


CHECKS = [
    Check(
        "login-without-person",
        queries.LOGINS_WITHOUT_PERSON,
        "the login {_id} belongs to nobody",
        repair=_remove_login,
        counted_as="logins removed",
    ),
    Check("person-without-login", queries.PEOPLE_WITHOUT_LOGIN, "{_id} cannot sign in: there is no login {login}"),
    Check(
        "other-credential",
        queries.OTHER_CREDENTIALS,
        "no session of {_id} counts: they have another credential than their login",
        repair=_set_credential,
        counted_as="credentials set",
    ),
]
