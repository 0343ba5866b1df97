"""Round trips that the pages state are counted here, on the wire; and figures say what their own table shows."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

import pytest

from squinney import ledger, transactions
from squinney.ledger import Accounts
from squinney.mongo.schema import apply
from squinney.testing.server_commands import watched

DOCS = Path(__file__).parents[2] / "docs"


def stated(key: str | None) -> int:
    costs = re.search(r"(\d+) round trips, (\d+) with a key", (DOCS / "ledger.md").read_text())
    assert costs
    return int(costs[2] if key else costs[1])


@pytest.mark.parametrize("key", [None, "once"])
def test_a_transfer_takes_as_many_round_trips_as_the_ledgers_page_says(mongod, key):
    with watched(mongod.uri, f"test_{secrets.token_hex(8)}") as (db, commands):
        try:
            apply(db, [*transactions.COLLECTIONS, *ledger.COLLECTIONS])
            accounts = Accounts(db)
            src, dst = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
            accounts.transfer(src, dst, 1)  # reads the currencies, once per process
            commands.sent.clear()
            accounts.transfer(src, dst, 1, key=key)
            assert len(commands.sent) == stated(key), commands.names
        finally:
            db.client.drop_database(db.name)


TRANSFERS = re.compile(r"^\| ([\d,]+) \| (\d+) \| ([^|]+) \| ([\d,]+) \|.*\| ([\d.]+)x \|$", re.MULTILINE)


def test_relative_times_of_transfers_agree_with_their_rates():
    plain = 0
    for accounts, threads, how, rate, time in TRANSFERS.findall((DOCS / "benchmarks/transactions.md").read_text()):
        per_second = int(rate.replace(",", ""))
        plain = per_second if how == "plain driver" else plain
        rounded = 0.5 / plain + 0.5 / per_second  # the page has rates as whole numbers, and times with two decimals
        expected = pytest.approx(plain / per_second, abs=0.005 + rounded * plain / per_second)
        assert float(time) == expected, (accounts, threads, how)
    assert plain


def test_the_readmes_figure_is_the_one_of_the_table():
    driver, ours, *_ = TRANSFERS.findall((DOCS / "benchmarks/transactions.md").read_text())
    assert (driver[2], ours[2]) == ("plain driver", "Transactions")
    assert f"A transfer with `Transactions` takes {ours[4]}x the time" in (DOCS.parent / "README.md").read_text()
