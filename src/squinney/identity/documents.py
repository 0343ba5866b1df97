"""The documents and collections of identity. Secrets are stored only as hashes, and never in a person's document."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index
from squinney.transactions import CHECKS_FIELD

WITHOUT_MARKERS = {CHECKS_FIELD: 0}


class Person(TypedDict):
    """A person who can sign in. `credential_id` identifies the current password; it is set by the first change.

    Somebody who only tries the demo is `tried`, and not stored but in the session.
    """

    _id: str
    login: str
    name: str
    role: str
    created_at: datetime
    credential_id: NotRequired[str]
    disabled_at: NotRequired[datetime]
    tried: NotRequired[bool]


class Session(TypedDict):
    """A signed-in browser. It is valid while its `credential_id` is the person's. `_id` is the SHA-256 of the token.

    `trial` is the person of a session that tries the demo.
    """

    _id: str
    person_id: str
    credential_id: NotRequired[str]
    trial: NotRequired[Person]
    started_at: datetime
    seen_at: datetime
    expires_at: datetime


class ApiKey(TypedDict):
    """A key for a trusted server. The secret itself is shown once and not stored."""

    _id: str
    name: str
    scopes: list[str]
    created_at: datetime
    created_by: str
    expires_at: NotRequired[datetime]
    revoked_at: NotRequired[datetime]
    used_at: NotRequired[datetime]


COLLECTIONS = [
    Collection(
        "identity.people",
        formerly="people",
        indexes=[Index([("role", 1)], why="is_there_an_admin()")],
        shard_key={"_id": "hashed"},
    ),
    # A login is unique because it is the `_id` of its own document, inserted in the same transaction as the person.
    Collection("identity.logins", formerly="logins", shard_key={"_id": "hashed"}),
    Collection(
        "identity.sessions",
        formerly="sessions",
        indexes=[
            Index([("expires_at", 1)], expire_after_seconds=0, why="deletes expired sessions"),
            Index([("person_id", 1)], why="end_all(person_id)"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection("identity.keys", formerly="api_keys", unsharded="one document per trusted server: a few dozen in total"),
    Collection(
        "identity.sign_in_tries",
        formerly="sign_in_tries",
        indexes=[Index([("expires_at", 1)], expire_after_seconds=0, why="deletes old counts")],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "identity.invitations",
        formerly="invitations",
        indexes=[Index([("expires_at", 1)], expire_after_seconds=0, why="deletes expired links")],
        unsharded="a handful of one-time links",
    ),
]
