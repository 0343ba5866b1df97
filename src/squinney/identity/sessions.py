"""`Sessions`: the sessions of signed-in browsers."""

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
LASTS_AT_MOST = timedelta(days=90)  # from its start, so that a stolen cookie expires
SEEN_EVERY = timedelta(hours=1)
LONGEST_TOKEN = 100


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(32)


class Sessions:
    """Sessions, identified by the token in the cookie, of which only the SHA-256 is stored.

    Tokens are always generated here and never accepted from outside, which prevents session fixation.
    """

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock

    @operation()
    def start(self, person: Person) -> str:
        """Start a session for a person returned by `sign_in`, `sign_up` or `set_password`; return its token.

        If the password has changed since that call, the session is invalid.

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
        """Return the person of a session, and extend the session at most once an hour.

        Return None if there is no such session, it has expired, it was started with an earlier password, or the person
        is disabled.

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
            extension = {"$set": {"seen_at": now, "expires_at": end}}
            self._db["sessions"].update_one(queries.SESSION(session_id=session["_id"], now=now), extension)
        where = queries.PERSON(person_id=session["person_id"])
        person = cast(Person | None, self._db["people"].find_one(where, WITHOUT_MARKERS))
        if person is None or person.get("disabled_at"):
            return None
        return person if person.get("credential_id") == session.get("credential_id") else None

    @operation()
    def end(self, token: str) -> None:
        """End a session, if it exists."""
        self._db["sessions"].delete_one({"_id": digest(token)})

    @operation()
    def end_all(self, person_id: str) -> int:
        """End all sessions of a person; return their number.

        Atomic: each session separately.
        After a crash: some sessions may remain; call it again.
        """
        return self._db["sessions"].delete_many(queries.SESSIONS_OF(person_id=person_id)).deleted_count
