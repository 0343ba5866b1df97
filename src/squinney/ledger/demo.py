"""Demo data: a few accounts and transfers."""

from __future__ import annotations

from squinney.ledger.accounts import Accounts
from squinney.mongo.schema import Db
from squinney.transactions import Key

PEOPLE = [("Ada's current account", 125_000), ("Ben's savings", 80_000), ("Corner bakery", 15_000), ("Rent", 0)]
MOVES = [(0, 2, 1_250, "bread for a week"), (1, 0, 20_000, "holiday money"), (0, 3, 70_000, "November rent")]


def demo(db: Db) -> None:
    """Open accounts and transfer some money. Idempotency keys make a second call do nothing.

    Atomic: each account and each transfer separately.
    After a crash: the next call continues.
    """
    accounts = Accounts(db)
    opened = [
        accounts.open("EUR", opening, name=name, key=Key(f"demo {name}", "demo"))["_id"] for name, opening in PEOPLE
    ]
    for number, (src, dst, amount, memo) in enumerate(MOVES):
        accounts.transfer(opened[src], opened[dst], amount, memo=memo, key=Key(f"demo {number}", "demo"))
