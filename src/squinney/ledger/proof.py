"""The ledger's part of `squinney prove`: the work of the workers, and the checks after they were killed."""

from __future__ import annotations

import random
import uuid
from collections import Counter

from squinney.errors import Conflict, Unavailable
from squinney.ledger.accounts import Accounts
from squinney.ledger.repair import find_problems
from squinney.mongo.schema import Db, Document
from squinney.system import Proof
from squinney.transactions import end_abandoned

# Many, because a worker killed in a transaction blocks its two accounts until that is ended.
ACCOUNTS = 200
OPENING = 1_000_000


def prepare(db: Db) -> None:
    """Open the accounts that the workers use."""
    accounts = Accounts(db)
    for number in range(ACCOUNTS):
        accounts.open("EUR", OPENING, name=f"proof {number}")


def work(db: Db, seed: int) -> None:
    """Transfer random amounts forever, sometimes twice with the same key; each intent is stored before its transfer."""
    accounts = Accounts(db, transactions=Proof.transactions(db))
    chance = random.Random(seed)
    ids = [account["_id"] for account in db["ledger.accounts"].find({}, {"_id": 1})]
    while True:
        src, dst = chance.sample(ids, 2)
        intent = {"_id": uuid.uuid4().hex, "src": src, "dst": dst, "amount": chance.randint(1, 5_000)}
        db["intents"].insert_one(intent)
        for _ in range(chance.choice([1, 1, 2])):
            _try(db, accounts, intent)


def _try(db: Db, accounts: Accounts, intent: Document) -> None:
    try:
        accounts.transfer(intent["src"], intent["dst"], intent["amount"], key=intent["_id"], memo=intent["_id"])
    except (Conflict, Unavailable):
        return
    db["intents"].update_one({"_id": intent["_id"]}, {"$set": {"acknowledged": True}})


def settle(db: Db) -> Counter[str]:
    """End the open transactions of killed workers, as the background job does."""
    return Counter({"open transactions": end_abandoned(db)})


def progress(db: Db) -> int:
    """Return the number of acknowledged transfers."""
    return db["intents"].count_documents({"acknowledged": True})


def check(db: Db) -> dict[str, str]:
    """Return each promise with a description of its violations, which is empty if the promise holds."""
    accounts = Accounts(db)
    total = accounts.total("EUR")
    moved = Counter(entry["memo"] for entry in db["ledger.entries"].find({"amount": {"$lt": 0}}))
    acknowledged = [intent["_id"] for intent in db["intents"].find({"acknowledged": True})]
    twice = [key for key, times in moved.items() if times > 1]
    lost = [key for key in acknowledged if key not in moved]
    problems = [str(problem) for problem in find_problems(db)]
    negative = db["ledger.accounts"].count_documents({"balance": {"$lt": 0}})
    return {
        "the sum of balances is unchanged": "" if total == ACCOUNTS * OPENING else f"{total}",
        "no balance is negative": "" if not negative else f"{negative} accounts",
        "no key moved money twice": "" if not twice else f"{len(twice)} keys",
        "no acknowledged transfer is lost": "" if not lost else f"{len(lost)} transfers",
        "find_problems is empty": "; ".join(problems[:3]),
    }
