"""A transfer, twice: as everybody writes it first, and as guarded steps. The page of the proof shows this code."""

from __future__ import annotations

from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.transactions import Step, Transactions


def plain_transfer(db: Db, src: str, dst: str, amount: int) -> None:
    """Read, compare, write twice."""
    accounts = db["accounts"]
    account = accounts.find_one({"_id": src})
    if account is None or account["balance"] < amount:
        raise Conflict("the balance is too low")
    accounts.update_one({"_id": src}, {"$inc": {"balance": -amount}})
    accounts.update_one({"_id": dst}, {"$inc": {"balance": amount}})


def guarded_transfer(db: Db, src: str, dst: str, amount: int) -> None:
    """Do the same in guarded steps: both happen, or none."""
    enough = {"balance": {"$gte": amount}}
    taken = {"$inc": {"balance": -amount}}
    given = {"$inc": {"balance": amount}}
    steps = [
        Step("accounts", src, guard=enough, update=taken),
        Step("accounts", dst, update=given),
    ]
    Transactions(db).run("transfer", steps)
