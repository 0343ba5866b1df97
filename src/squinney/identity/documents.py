"""The shapes and collections of identity. Secrets are stored as hashes only, and never in the people's documents."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index
from squinney.transactions import PROTOCOL_FIELDS

WITHOUT_MARKERS = dict.fromkeys(PROTOCOL_FIELDS, 0)


class Person(TypedDict):
    """Somebody who can sign in. `credential_id` names the password they have, from the first that was changed on."""

    _id: str
    login: str
    name: str
    role: str
    created_at: datetime
    credential_id: NotRequired[str]
    disabled_at: NotRequired[datetime]


class Session(TypedDict):
    """A signed-in browser, while its credential is the person's. `_id` is the SHA-256 of the cookie's token."""

    _id: str
    person_id: str
    credential_id: NotRequired[str]
    started_at: datetime
    seen_at: datetime
    expires_at: datetime


class ApiKey(TypedDict):
    """A key for a trusted server. The secret itself is shown once and not kept."""

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
        "people",
        indexes=[Index([("role", 1)], why="is there an admin yet?")],
        shard_key={"_id": "hashed"},
    ),
    # A login is unique because it is the key of a document of its own, made in the same transaction as the person.
    Collection("logins", shard_key={"_id": "hashed"}),
    Collection(
        "sessions",
        indexes=[
            Index([("expires_at", 1)], expire_after_seconds=0, why="forgets sessions that ran out"),
            Index([("person_id", 1)], why="ends all sessions of a person"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection("api_keys", unsharded="one document per trusted server: some dozens in all"),
    Collection(
        "sign_in_tries",
        indexes=[Index([("expires_at", 1)], expire_after_seconds=0, why="forgets old failures")],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "invitations",
        indexes=[Index([("expires_at", 1)], expire_after_seconds=0, why="forgets links that ran out")],
        unsharded="a handful of one-time links",
    ),
]
