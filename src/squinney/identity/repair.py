"""Checks that people and logins, which are created together, still match, and repairs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.identity import queries
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, repair_problems
from squinney.mongo.schema import Db, Document


def find_problems(db: Db) -> Iterator[Problem]:
    """Find logins without a person, people without a login, and people whose sessions are all invalid."""
    return problems(pinned(db), CHECKS)


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Delete logins without a person, and set each person's `credential_id` to that of the login.

    Atomic: each login separately, if it still names the missing person; each person separately, if the `credential_id`
    has not changed.
    After a crash: run it again.
    """
    return +repair_problems(pinned(db), CHECKS)


def _remove_login(db: Db, login: Document) -> int:
    # guard: a login is removed only if it still names the missing person
    where = {"_id": login["_id"], "person_id": login.get("person_id")}
    return db["identity.logins"].delete_one(where).deleted_count


def _set_credential(db: Db, person: Document) -> int:
    where = {"_id": person["_id"], "credential_id": person["has"]}
    change = {"$set": {"credential_id": person["checked"]}} if person["checked"] else {"$unset": {"credential_id": ""}}
    return db["identity.people"].update_one(where, change).modified_count


CHECKS = [
    Check(
        "login-without-person",
        queries.LOGINS_WITHOUT_PERSON,
        "login {_id} belongs to no person",
        repair=_remove_login,
        counted_as="logins removed",
    ),
    Check(
        "person-without-login", queries.PEOPLE_WITHOUT_LOGIN, "person {_id} cannot sign in: there is no login {login}"
    ),
    Check(
        "other-credential",
        queries.OTHER_CREDENTIALS,
        "all sessions of person {_id} are invalid: person and login have different credentials",
        repair=_set_credential,
        counted_as="credentials set",
    ),
]
