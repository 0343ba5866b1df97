"""`Sessions`: the sessions of signed-in browsers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import cast

from squinney.clock import Clock, utcnow
from squinney.identity import queries
from squinney.identity.documents import WITHOUT_MARKERS, Person, Session
from squinney.identity.rules import digest
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

LASTS = timedelta(days=14)  # from its last use
# guard: a session ends even if it is used every day
LASTS_AT_MOST = timedelta(days=90)  # from its start, so that a stolen cookie expires
SEEN_EVERY = timedelta(hours=1)
MAX_TOKEN_LENGTH = 100
MAX_READ_TOGETHER = 1_000


def _is_valid(session: Session, person: Person) -> bool:
    """Return whether the person may still sign in, with the password that the session was started with."""
    # guard: a session of a disabled person is invalid
    # guard: a session started with an old password is invalid
    return not person.get("disabled_at") and person.get("credential_id") == session.get("credential_id")


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
        token, session = self._new(person)
        if "credential_id" in person:
            session["credential_id"] = person["credential_id"]
        self._db["identity.sessions"].insert_one(dict(session))
        return token

    @operation()
    def start_trial(self, person: Person) -> str:
        """Start a session of somebody who is not stored, to try the demo; return its token.

        The caller checks who may try. The person of the session is `tried`.

        Raises: `Unavailable`.
        """
        token, session = self._new(person)
        session["trial"] = {**person, "tried": True}
        self._db["identity.sessions"].insert_one(dict(session))
        return token

    def _new(self, person: Person) -> tuple[str, Session]:
        token, now = new_token(), self._clock()
        return token, {
            "_id": digest(token),
            "person_id": person["_id"],
            "started_at": now,
            "seen_at": now,
            "expires_at": now + LASTS,
        }

    @operation()
    def person(self, token: str) -> Person | None:
        """Return the person of a session, and extend the session at most once an hour.

        Return None if there is no such session, it has expired, it was started with an earlier password, or the person
        is disabled.

        Raises: `Unavailable`.
        """
        if not token or len(token) > MAX_TOKEN_LENGTH:
            return None
        now = self._clock()
        session = cast(Session | None, queries.SESSION.find_one(self._db, session_id=digest(token), now=now))
        if session is None or now >= session["started_at"] + LASTS_AT_MOST:
            return None
        # guard: using a session extends it
        if now - session["seen_at"] > SEEN_EVERY:
            end = min(now + LASTS, session["started_at"] + LASTS_AT_MOST)
            extension = {"$set": {"seen_at": now, "expires_at": end}}
            self._db["identity.sessions"].update_one(queries.SESSION(session_id=session["_id"], now=now), extension)
        if "trial" in session:
            return session["trial"]
        where = queries.PERSON(person_id=session["person_id"])
        person = cast(Person | None, self._db["identity.people"].find_one(where, WITHOUT_MARKERS))
        return person if person is not None and _is_valid(session, person) else None

    @operation(reads_only=True)
    def people(self, tokens: Iterable[str]) -> dict[str, Person]:
        """Return the people of those sessions that are still valid, by token, without extending the sessions.

        It takes two reads per thousand tokens, and serves to end live connections.

        Raises: `Unavailable`.
        """
        people: dict[str, Person] = {}
        given = sorted(set(tokens))
        for at in range(0, len(given), MAX_READ_TOGETHER):
            people.update(self._people({digest(token): token for token in given[at : at + MAX_READ_TOGETHER]}))
        return people

    def _people(self, tokens: Mapping[str, str]) -> Iterator[tuple[str, Person]]:
        now = self._clock()
        read = queries.OPEN_SESSIONS.find(self._db, session_ids=sorted(tokens), now=now)
        sessions = cast(list[Session], list(read))
        ids = sorted({session["person_id"] for session in sessions})
        stored = queries.PEOPLE_BY_ID.find(self._db, person_ids=ids, projection=WITHOUT_MARKERS)
        people = {person["_id"]: cast(Person, person) for person in stored}
        for session in sessions:
            trial = session.get("trial")
            person = trial or people.get(session["person_id"])
            if trial and now < session["started_at"] + LASTS_AT_MOST:
                yield tokens[session["_id"]], trial
            elif person and now < session["started_at"] + LASTS_AT_MOST and _is_valid(session, person):
                yield tokens[session["_id"]], person

    @operation()
    def end(self, token: str) -> None:
        """End a session, if it exists."""
        self._db["identity.sessions"].delete_one({"_id": digest(token)})

    @operation()
    def end_all(self, person_id: str) -> int:
        """End all sessions of a person; return their number.

        Atomic: each session separately.
        After a crash: some sessions may remain; call it again.
        """
        return self._db["identity.sessions"].delete_many(queries.SESSIONS_OF(person_id=person_id)).deleted_count
