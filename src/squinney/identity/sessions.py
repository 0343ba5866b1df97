"""`Sessions`: signed-in browsers."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import cast

from squinney.clock import Clock, utcnow
from squinney.identity import queries
from squinney.identity.documents import WITHOUT_MARKERS, Person, Session
from squinney.identity.rules import digest
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

LASTS = timedelta(days=14)  # from its last use
LASTS_AT_MOST = timedelta(days=90)  # from its start: a stolen cookie is not good for ever
SEEN_EVERY = timedelta(hours=1)
LONGEST_TOKEN = 100


def new_token() -> str:
    """256 random bits for a cookie."""
    return secrets.token_urlsafe(32)


class Sessions:
    """Sessions by their cookie's token, of which only the SHA-256 is stored.

    A token is always made here and never taken from outside, so that nobody can be handed a session beforehand.
    """

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock

    @operation()
    def start(self, person: Person) -> str:
        """Begin a session of a person, as signing in or up gave them; its new token.

        Where their password was changed since, the session counts for nothing.

        Atomic: one insert.
        After a crash: a session whose token nobody knows, until it runs out.
        Raises: `Unavailable`.
        """
        token, now = new_token(), self._clock()
        session: Session = {
            "_id": digest(token),
            "person_id": person["_id"],
            "started_at": now,
            "seen_at": now,
            "expires_at": now + LASTS,
        }
        if "credential_id" in person:
            session["credential_id"] = person["credential_id"]
        self._db["sessions"].insert_one(dict(session))
        return token

    @operation()
    def person(self, token: str) -> Person | None:
        """Who holds this token; None where it is no session's, ran out, was begun with a password that is not the
        person's any more, or the person is disabled.

        Atomic: one update, at most once an hour, moves the end of the session on.
        After a crash: it happened or it did not.
        Raises: `Unavailable`.
        """
        if not token or len(token) > LONGEST_TOKEN:
            return None
        now = self._clock()
        session = cast(
            Session | None, self._db["sessions"].find_one(queries.SESSION(session_id=digest(token), now=now))
        )
        if session is None or now >= session["started_at"] + LASTS_AT_MOST:
            return None
        if now - session["seen_at"] > SEEN_EVERY:
            end = min(now + LASTS, session["started_at"] + LASTS_AT_MOST)
            moved_on = {"$set": {"seen_at": now, "expires_at": end}}
            self._db["sessions"].update_one(queries.SESSION(session_id=session["_id"], now=now), moved_on)
        where = queries.PERSON(person_id=session["person_id"])
        person = cast(Person | None, self._db["people"].find_one(where, WITHOUT_MARKERS))
        if person is None or person.get("disabled_at"):
            return None
        return person if person.get("credential_id") == session.get("credential_id") else None

    @operation()
    def end(self, token: str) -> None:
        """End a session; nothing happens where there is none."""
        self._db["sessions"].delete_one({"_id": digest(token)})

    @operation()
    def end_all(self, person_id: str) -> int:
        """End every session of a person; how many there were.

        Atomic: each session by itself.
        After a crash: call it again.
        """
        return self._db["sessions"].delete_many(queries.SESSIONS_OF(person_id=person_id)).deleted_count
