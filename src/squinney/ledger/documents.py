"""The documents and collections of the ledger. Amounts are integers in minor units (cents), with a currency code."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index
from squinney.mongo.shapes import Shape
from squinney.transactions import two_phase

# Far below the limit of int64, so that concurrent transfers cannot overflow it when they finish together.
MAX_AMOUNT = 10**15
MAX_BALANCE = 10**18


class Account(TypedDict):
    """An account. `owner` is the id of the owner, if any."""

    _id: str
    name: str
    currency: str
    balance: int
    opened_at: datetime
    owner: NotRequired[str]
    closed_at: NotRequired[datetime]


class Entry(TypedDict):
    """One line of a statement. In the entry of an opening, `transfer_id` is None.

    `balance` is that of the account after the line; a statement computes it. A stored entry has no `balance`, but an
    `order`, a Timestamp by which statements are sorted. `about` is the path of the page that shows what the money was
    for.
    """

    _id: str
    account_id: str
    transfer_id: str | None
    other_id: NotRequired[str]
    amount: int
    currency: str
    at: datetime
    memo: str
    about: NotRequired[str]
    balance: NotRequired[int]


class Transfer(TypedDict):
    """A completed transfer."""

    _id: str
    src: str
    dst: str
    amount: int
    currency: str
    at: datetime
    memo: str
    about: NotRequired[str]


class NewTransfer(TypedDict):
    """A transfer to be made by `transfer_many`."""

    src: str
    dst: str
    amount: int
    memo: NotRequired[str]


class Refused(TypedDict):
    """The error that refused one transfer of many."""

    code: str
    message: str
    details: dict[str, Any]


class TransferOutcome(TypedDict):
    """The outcome of one transfer of many: the completed `transfer`, or the error that `refused` it."""

    transfer: NotRequired[Transfer]
    refused: NotRequired[Refused]


# The fields that a stored document must have to be shown on a page.
ACCOUNT: Shape = {"name": str, "currency": str, "balance": int, "opened_at": datetime}
ENTRY: Shape = {"amount": int, "currency": str, "at": datetime, "memo": str}

_MONEY = {"bsonType": ["int", "long"]}

ACCOUNTS = Collection(
    "ledger.accounts",
    formerly="accounts",
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
)
PROTOCOL = Collection("ledger.protocol", unsharded="one document: native or two-phase")
COLLECTIONS = [
    PROTOCOL,
    *two_phase.COLLECTIONS,
    ACCOUNTS,
    Collection(
        "ledger.entries",
        formerly="entries",
        former_indexes=[Index([("account_id", 1), ("at", -1), ("_id", -1)])],
        outdated=["account_id_1_at_-1__id_-1"],
        indexes=[Index([("account_id", 1), ("order", -1), ("_id", -1)], why="statement(), newest first")],
        shard_key={"account_id": 1, "at": 1},
        validator={
            "$jsonSchema": {
                "required": ["account_id", "amount", "at"],
                "properties": {
                    "account_id": {"bsonType": "string"},
                    "amount": _MONEY,
                    "at": {"bsonType": "date"},
                    "order": {"bsonType": "timestamp"},
                },
            }
        },
    ),
]
