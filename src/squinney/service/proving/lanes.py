"""The work of the two lanes: workers move money between a few accounts, in the same way in both."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress

from squinney.errors import Conflict, Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db
from squinney.service.proving.instructions import instructions

Transfer = Callable[[Db, str, str, int], None]

WORKERS = 2
ACCOUNTS = 20
OPENING = 50_000
TOTAL = ACCOUNTS * OPENING
NAMES = [f"account {number:02}" for number in range(ACCOUNTS)]
MAX_AMOUNT = 9_000
READY_SECONDS = 0.25  # before a full second, a worker waits for it
RACED_AMOUNT = OPENING * 2 // 3  # an account has enough for one such transfer, not for two


def prepare(db: Db) -> None:
    """Open the accounts."""
    db["accounts"].insert_many([{"_id": name, "balance": OPENING} for name in NAMES])


def work(transfer: Transfer, db: Db, seed: int) -> None:
    """Transfer random amounts until killed. Workers share no accounts, except in the stage of the races."""
    chance = random.Random(seed)
    while True:
        own = NAMES[seed % WORKERS :: WORKERS]
        src, dst = chance.sample(own, 2)
        _try(transfer, db, src, dst, chance.randint(1_000, MAX_AMOUNT))
        if instructions.races and _until_next_second() < READY_SECONDS:
            _race(transfer, db, own)


def _race(transfer: Transfer, db: Db, own: list[str]) -> None:
    """At the next full second, empty the account whose turn it is; the other worker does the same."""
    time.sleep(_until_next_second())
    raced = NAMES[int(time.time()) % ACCOUNTS]
    _try(transfer, db, raced, next(name for name in own if name != raced), RACED_AMOUNT)


def _until_next_second() -> float:
    return 1 - time.time() % 1


def _try(transfer: Transfer, db: Db, src: str, dst: str, amount: int) -> None:
    with suppress(Conflict, Unavailable), operation():
        transfer(db, src, dst, amount)


def measure(db: Db) -> tuple[int, int]:
    """Return the sum of the balances and the lowest one."""
    group = {"_id": None, "total": {"$sum": "$balance"}, "lowest": {"$min": "$balance"}}
    balances = next(iter(db["accounts"].aggregate([{"$group": group}])))
    return int(balances["total"]), int(balances["lowest"])


def check(db: Db) -> dict[str, str]:
    """Return each promise with what is wrong, which is empty if the promise holds."""
    total, lowest = measure(db)
    return promises(total, lowest)


def promises(total: int, lowest: int) -> dict[str, str]:
    """Return the promises about the sum and about the lowest balance ever seen."""
    lost = TOTAL - total
    wrong = f"{abs(lost) / 100:,.2f} {'lost' if lost > 0 else 'created'}" if lost else ""
    return {
        "the sum of balances is unchanged": wrong,
        "no balance is ever negative": f"one fell to {lowest / 100:,.2f}" if lowest < 0 else "",
    }
