"""Identity, the queue and the jobs' record under the sweep."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from squinney.errors import NotFound
from squinney.identity import Invitations, LoginTaken, People, Sessions, SignInRefused, find_problems
from squinney.mongo.schema import Db
from squinney.patterns.queue import Queue
from squinney.testing import Case

PASSWORD = "correct horse battery"


def _sign_up(db: Db, state: Any) -> None:
    People(db).sign_up("ada", PASSWORD)


def _is_whole_or_not_there(db: Db, state: Any) -> None:
    """Check that the login can be used or is still free, whether or not the sign-up succeeded."""
    with suppress(LoginTaken):
        People(db).sign_up("ada", PASSWORD)
    assert People(db).sign_in("ada", PASSWORD)["login"] == "ada"
    assert len(People(db).all().items) == 1
    assert list(find_problems(db)) == []


def _accept(db: Db, token: Any) -> None:
    Invitations(db).accept(token, "boss", PASSWORD)


def _used_up_exactly_with_its_person(db: Db, token: Any) -> None:
    try:
        Invitations(db).role_of(token)
        there = False
    except NotFound:
        there = True
    assert People(db).is_there_an_admin() == there
    assert list(find_problems(db)) == []


def _signed_up(db: Db) -> Any:
    return People(db).sign_up("ada", PASSWORD)["_id"]


def _sign_in(db: Db, person_id: Any) -> None:
    People(db).sign_in("ada", PASSWORD, address="192.0.2.1")


def _can_sign_in(db: Db, person_id: Any) -> None:
    assert People(db).sign_in("ada", PASSWORD, address="192.0.2.1")["_id"] == person_id


def _with_a_session(db: Db) -> Any:
    person = People(db).sign_up("ada", PASSWORD)
    return person["_id"], Sessions(db).start(person)


def _set_password(db: Db, state: Any) -> None:
    People(db).set_password(state[0], "another password")


def _the_old_with_its_session_or_the_new_without(db: Db, state: Any) -> None:
    works = [password for password in (PASSWORD, "another password") if _works(db, password)]
    assert works == ([PASSWORD] if Sessions(db).person(state[1]) else ["another password"])


def _works(db: Db, password: str) -> bool:
    try:
        return bool(People(db).sign_in("ada", password))
    except SignInRefused:
        return False


def _put_twice(db: Db) -> Any:
    queue = Queue(db, "sweep", visibility_seconds=0)
    queue.put({"n": 1}, key="k")
    task = queue.take()
    queue.put({"n": 2}, key="k")
    return task


def _done(db: Db, task: Any) -> None:
    Queue(db, "sweep").done(task)


def _done_all(db: Db, task: Any) -> None:
    Queue(db, "sweep").done_all([task])


def _the_second_put_is_not_lost(db: Db, task: Any) -> None:
    again = Queue(db, "sweep", visibility_seconds=0, max_tries=99).take()  # asked more than once
    assert again
    assert again["body"] == {"n": 2}


CASES = [
    Case("People.sign_up", "identity", lambda db: None, _sign_up, _is_whole_or_not_there),
    Case("People.sign_in", "identity", _signed_up, _sign_in, _can_sign_in),
    Case(
        "People.set_password", "identity", _with_a_session, _set_password, _the_old_with_its_session_or_the_new_without
    ),
    Case(
        "Invitations.accept",
        "identity",
        lambda db: Invitations(db).create("admin"),
        _accept,
        _used_up_exactly_with_its_person,
    ),
    Case(
        "Invitations.accept for the first admin",
        "identity",
        lambda db: Invitations(db).first_admin(),
        _accept,
        _used_up_exactly_with_its_person,
    ),
    Case("Queue.done", "identity", _put_twice, _done, _the_second_put_is_not_lost),
    Case("Queue.done_all", "identity", _put_twice, _done_all, _the_second_put_is_not_lost),
]
