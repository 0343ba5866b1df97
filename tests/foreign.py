"""A database with an application of somebody else, some of whose collections have names of ours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from squinney.mongo.schema import Db

LONG_AGO = datetime.now(UTC) - timedelta(days=400)
VALIDATOR = {"$jsonSchema": {"required": ["customer_no"]}}
FOREIGN = (
    "commerce.orders",
    "commerce.payments",
    "commerce.products",
    "content.comments",
    "identity.people",
    "identity.sessions",
    "ledger.accounts",
    "squinney.demo",
    "squinney.keys",
)
BARE = (
    "accounts",
    "comments",
    "demo",
    "migrations",
    "orders",
    "payments",
    "people",
    "products",
    "sessions",
    "transactions",
)


def fill(db: Db) -> None:
    """Create the collections, with documents, unique and TTL indexes, a validator and a capped collection."""
    db.create_collection("commerce.orders", validator=VALIDATOR)
    db.create_collection("commerce.payments", capped=True, size=8_192)
    db["commerce.orders"].insert_many([{"customer_no": number} for number in range(3)])
    # Our TTL index on transactions would delete these within a minute.
    db["squinney.keys"].insert_many([{"amount": number, "expires_at": LONG_AGO} for number in range(5)])
    db["ledger.accounts"].insert_many([{"currency": code} for code in ("EUR", "USD")])
    db["ledger.accounts"].create_index("currency", unique=True)
    db["identity.people"].insert_one({"role": "clerk", "name": "Ada"})
    db["identity.people"].create_index("role")
    db["identity.sessions"].insert_one({"token": "a", "seen_at": datetime.now(UTC)})
    db["identity.sessions"].create_index("seen_at", expireAfterSeconds=86_400)
    db["commerce.products"].insert_one({"sku": "1"})
    db["commerce.products"].create_index("sku", unique=True, name="by_sku")
    for name in ("content.comments", "squinney.demo"):
        db[name].insert_one({"text": "hello"})


def fill_bare(db: Db) -> None:
    """Create collections with the bare names that ours had in older versions, some with an index that ours have."""
    for name in BARE:
        db[name].insert_one({"text": "hello", "expires_at": LONG_AGO})
    db["transactions"].create_index("expires_at")
    db["sessions"].create_index("expires_at", expireAfterSeconds=10**9)
    db["people"].create_index("role")
    db["orders"].create_index("customer_no", unique=True)
    db.command("collMod", "accounts", validator={"text": {"$type": "string"}})


def fill_alike(db: Db) -> None:
    """Create collections with bare names that ours had, with the indexes that anybody would make."""
    for name in ("invitations", "jobs", "logins", "migrations", "people", "sessions", "transactions"):
        db[name].insert_one({"text": "hello", "expires_at": datetime.now(UTC) + timedelta(days=400)})
    for name in ("invitations", "sessions", "transactions"):
        db[name].create_index("expires_at", expireAfterSeconds=0)
    db["people"].create_index("role")
    db["sessions"].create_index("person_id")


def state(db: Db) -> dict[str, Any]:
    """Return every collection with its options, indexes and documents."""
    infos = {info["name"]: (info["type"], info["options"], info["info"]["uuid"]) for info in db.list_collections()}
    return {name: (info, db[name].index_information(), list(db[name].find())) for name, info in infos.items()}
