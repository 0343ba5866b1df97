"""The queries of identity, each declared once."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.queries import Query, declared, problem_query
from squinney.mongo.schema import Document

PERSON = Query(
    "identity.person", "identity.people", where=lambda person_id: {"_id": person_id}, example={"person_id": "p"}
)
PEOPLE = Query(
    "identity.people",
    "identity.people",
    where=dict,
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists people from all shards, a page at a time",
)
LOGIN = Query("identity.login", "identity.logins", where=lambda login: {"_id": login}, example={"login": "ada"})
SESSION = Query(
    "identity.session",
    "identity.sessions",
    where=lambda session_id, now: {"_id": session_id, "expires_at": {"$gt": now}},
    example={"session_id": "s", "now": datetime(2026, 1, 1)},  # noqa: DTZ001 - a sample value
)
OPEN_SESSIONS = Query(
    "identity.open-sessions",
    "identity.sessions",
    where=lambda session_ids, now: {"_id": {"$in": session_ids}, "expires_at": {"$gt": now}},
    example={"session_ids": ["s", "t"], "now": datetime(2026, 1, 1)},  # noqa: DTZ001 - a sample value
    routing="few",
    reason="the sessions of all live connections of a process are checked together",
)
PEOPLE_BY_ID = Query(
    "identity.people-by-id",
    "identity.people",
    where=lambda person_ids: {"_id": {"$in": person_ids}},
    example={"person_ids": ["p", "q"]},
    routing="few",
    reason="the people of all live connections of a process are checked together",
)
SESSIONS_OF = Query(
    "identity.sessions-of",
    "identity.sessions",
    where=lambda person_id: {"person_id": person_id},
    example={"person_id": "p"},
    routing="broadcast",
    reason="a person's sessions are on all shards; a password change ends them together",
)
KEY = Query("identity.key", "identity.keys", where=lambda key_id: {"_id": key_id}, example={"key_id": "k"})
KEYS = Query("identity.keys", "identity.keys", where=dict, sort=[("_id", 1)])
TRIES = Query(
    "identity.tries", "identity.sign_in_tries", where=lambda name: {"_id": name}, example={"name": "login:ada"}
)
INVITATION = Query(
    "identity.invitation",
    "identity.invitations",
    where=lambda digest, now: {"_id": digest, "expires_at": {"$gt": now}},
    example={"digest": "d", "now": datetime(2026, 1, 1)},  # noqa: DTZ001 - a sample value
)
FIRST_ADMIN = Query(
    "identity.first-admin",
    "identity.invitations",
    where=lambda counter: {"_id": counter},
    example={"counter": "first-admin"},
)
ADMINS = Query(
    "identity.admins",
    "identity.people",
    where=lambda: {"role": "admin"},
    routing="broadcast",
    reason="runs when a service starts, and when a link for the first admin is used",
)


def _unmatched(other: str, local_field: str, foreign_field: str) -> list[Document]:
    return [
        {"$lookup": {"from": other, "localField": local_field, "foreignField": foreign_field, "as": "found"}},
        {"$match": {"found": []}},
        {"$project": {"found": 0, "password": 0}},
    ]


PEOPLE_WITHOUT_LOGIN = problem_query(
    "identity.people-without-login", "identity.people", lambda: _unmatched("identity.logins", "login", "_id")
)
LOGINS_WITHOUT_PERSON = problem_query(
    "identity.logins-without-person", "identity.logins", lambda: _unmatched("identity.people", "person_id", "_id")
)
OTHER_CREDENTIALS = problem_query(
    "identity.other-credentials",
    "identity.people",
    lambda: [
        {
            "$lookup": {
                "from": "identity.logins",
                "localField": "login",
                "foreignField": "_id",
                "pipeline": [{"$project": {"credential_id": 1}}],
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
