"""The queries of identity, each declared once."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.queries import Query, declared, problem_query
from squinney.mongo.schema import Document
from squinney.transactions import UNLOCKED, visible

PERSON = Query(
    "identity.person", "people", where=lambda person_id: visible({"_id": person_id}), example={"person_id": "p"}
)
PEOPLE = Query(
    "identity.people",
    "people",
    where=lambda: visible({}),
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists people from all shards, a page at a time",
)
LOGIN = Query("identity.login", "logins", where=lambda login: visible({"_id": login}), example={"login": "ada"})
SESSION = Query(
    "identity.session",
    "sessions",
    where=lambda session_id, now: {"_id": session_id, "expires_at": {"$gt": now}},
    example={"session_id": "s", "now": datetime(2026, 1, 1)},  # noqa: DTZ001 - a sample value
)
SESSIONS_OF = Query(
    "identity.sessions-of",
    "sessions",
    where=lambda person_id: {"person_id": person_id},
    example={"person_id": "p"},
    routing="broadcast",
    reason="a person's sessions are on all shards; a password change ends them together",
)
KEY = Query("identity.key", "api_keys", where=lambda key_id: {"_id": key_id}, example={"key_id": "k"})
KEYS = Query("identity.keys", "api_keys", where=dict, sort=[("_id", 1)])
TRIES = Query("identity.tries", "sign_in_tries", where=lambda name: {"_id": name}, example={"name": "login:ada"})
INVITATION = Query(
    "identity.invitation",
    "invitations",
    where=lambda digest, now: visible({"_id": digest, "expires_at": {"$gt": now}}),
    example={"digest": "d", "now": datetime(2026, 1, 1)},  # noqa: DTZ001 - a sample value
)
FIRST_ADMIN = Query(
    "identity.first-admin",
    "invitations",
    where=lambda counter: visible({"_id": counter}),
    example={"counter": "first-admin"},
)
ADMINS = Query(
    "identity.admins",
    "people",
    where=lambda: visible({"role": "admin"}),
    routing="broadcast",
    reason="runs once, when a service starts",
)

ADMINS_TO_BE = Query(
    "identity.admins-to-be",
    "people",
    where=lambda: {"role": "admin"},  # includes people whose sign-up is not committed yet
    routing="broadcast",
    reason="runs only when a link for the first admin is used",
)


def _unmatched(other: str, local_field: str, foreign_field: str) -> list[Document]:
    return [
        {"$match": visible({})},
        {"$lookup": {"from": other, "localField": local_field, "foreignField": foreign_field, "as": "found"}},
        {"$match": {"found": []}},
        {"$project": {"found": 0, "password": 0}},
    ]


PEOPLE_WITHOUT_LOGIN = problem_query(
    "identity.people-without-login", "people", lambda: _unmatched("logins", "login", "_id")
)
LOGINS_WITHOUT_PERSON = problem_query(
    "identity.logins-without-person", "logins", lambda: _unmatched("people", "person_id", "_id")
)
OTHER_CREDENTIALS = problem_query(
    "identity.other-credentials",
    "people",
    lambda: [
        {"$match": UNLOCKED},
        {
            "$lookup": {
                "from": "logins",
                "localField": "login",
                "foreignField": "_id",
                "pipeline": [{"$match": UNLOCKED}, {"$project": {"credential_id": 1}}],
                "as": "found",
            }
        },
        {"$unwind": "$found"},
        {
            "$project": {
                "has": {"$ifNull": ["$credential_id", None]},
                "checked": {"$ifNull": ["$found.credential_id", None]},
            }
        },
        {"$match": {"$expr": {"$ne": ["$has", "$checked"]}}},
    ],
)

QUERIES = [
    query for query in declared(globals()) if isinstance(query, Query)
]  # the problem queries read whole collections
