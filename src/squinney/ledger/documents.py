"""The documents and collections of the ledger. Amounts are integers in minor units (cents), with a currency code."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index
from squinney.mongo.shapes import Shape

# Far below the limit of int64, so that concurrent transfers cannot overflow it when they finish together.
MOST_AMOUNT = 10**15
MOST_BALANCE = 10**18


class Account(TypedDict):
    """An account. `txns` has the markers of unfinished two-phase transfers; `owner` is the id of the owner, if any."""

    _id: str
    name: str
    currency: str
    balance: int
    txns: list[Any]
    opened_at: datetime
    owner: NotRequired[str]
    closed_at: NotRequired[datetime]


class Entry(TypedDict):
    """One line of a statement. In the entry of an opening, `transfer_id` is None."""

    _id: str
    account_id: str
    transfer_id: str | None
    other_id: NotRequired[str]
    amount: int
    currency: str
    at: datetime
    memo: str


class Transfer(TypedDict):
    """A completed transfer."""

    _id: str
    src: str
    dst: str
    amount: int
    currency: str
    at: datetime
    memo: str


# The fields that a stored document must have to be shown on a page.
ACCOUNT: Shape = {"name": str, "currency": str, "balance": int, "opened_at": datetime}
ENTRY: Shape = {"amount": int, "currency": str, "at": datetime, "memo": str}

_MONEY = {"bsonType": ["int", "long"]}

ACCOUNTS = Collection(
    "accounts",
    indexes=[
        Index([("currency", 1)], why="total(currency)"),
        Index([("owner", 1), ("_id", 1)], why="owned_by(owner), oldest first"),
    ],
    shard_key={"_id": "hashed"},
    validator={
        "$jsonSchema": {
            "required": ["currency", "balance"],
            "properties": {"balance": {**_MONEY, "minimum": 0}, "currency": {"bsonType": "string"}},
        }
    },
    escrow={"balance": "floor"},
)
COLLECTIONS = [
    ACCOUNTS,
    Collection(
        "entries",
        indexes=[Index([("account_id", 1), ("at", -1), ("_id", -1)], why="statement(), newest first")],
        shard_key={"account_id": 1, "at": 1},
        validator={
            "$jsonSchema": {
                "required": ["account_id", "amount", "at"],
                "properties": {"account_id": {"bsonType": "string"}, "amount": _MONEY, "at": {"bsonType": "date"}},
            }
        },
    ),
]
