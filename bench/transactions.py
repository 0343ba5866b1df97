"""Transfers per second: `Transactions` in both modes, compared with the same transaction on the plain driver."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

from pymongo.client_session import ClientSession
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from bench import report
from bench.harness import Contender, Series, compare
from squinney import assembly, ledger
from squinney.ledger import Accounts
from squinney.ledger.documents import Account
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.transactions import Transactions

SPREAD, HOT = 1_000, 2
THREADS = (1, 8, 32)
OPENING = 10**12


def transfer_with_driver(db: Db, src: str, dst: str, amount: int) -> None:
    """Transfer as an engineer would write it with PyMongo: one transaction, checks included."""

    def work(session: ClientSession) -> None:
        taken = db["accounts"].update_one(
            {"_id": src, "balance": {"$gte": amount}, "closed_at": None},
            {"$inc": {"balance": -amount}},
            session=session,
        )
        if not taken.matched_count:
            raise ValueError("insufficient funds")
        given = db["accounts"].update_one(
            {"_id": dst, "closed_at": None}, {"$inc": {"balance": amount}}, session=session
        )
        if not given.matched_count:
            raise ValueError("unknown account")
        transfer, now = new_id(), datetime.now(UTC)
        common = {"transfer_id": transfer, "currency": "EUR", "at": now, "memo": ""}
        db["entries"].insert_many(
            [
                {"_id": f"{transfer}-out", "account_id": src, "other_id": dst, "amount": -amount, **common},
                {"_id": f"{transfer}-in", "account_id": dst, "other_id": src, "amount": amount, **common},
            ],
            session=session,
        )

    with db.client.start_session() as session:
        session.with_transaction(work, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))


def run(connection: Connection, *, rounds: int = 9, seconds: float = 2.0) -> None:
    """Measure every number of threads on every number of accounts, and write the page."""
    db = connection.client["bench_transactions"]
    connection.client.drop_database(db.name)
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *ledger.COLLECTIONS])
    ids = {SPREAD: _open(db, SPREAD), HOT: _open(db, HOT)}
    results = [
        (threads, accounts, compare(_contenders(db, ids[accounts]), threads=threads, rounds=rounds, seconds=seconds))
        for accounts in (SPREAD, HOT)
        for threads in THREADS
    ]
    version = connection.client.admin.command("buildInfo")["version"]
    connection.client.drop_database(db.name)
    _write(results, version, rounds, seconds)


def _open(db: Db, count: int) -> list[str]:
    accounts: list[Account] = [
        {"_id": new_id(), "name": "", "currency": "EUR", "balance": OPENING, "txns": [], "opened_at": datetime.now(UTC)}
        for _ in range(count)
    ]
    db["accounts"].insert_many(accounts)  # type: ignore[arg-type]
    return [account["_id"] for account in accounts]


def _contenders(db: Db, ids: list[str]) -> list[Contender]:
    chance = [random.Random(number) for number in range(max(THREADS))]

    def between_two(transfer: Callable[[str, str], object]) -> Callable[[int], None]:
        def work(thread: int) -> None:
            src, dst = chance[thread].sample(ids, 2)
            transfer(src, dst)

        return work

    native = Accounts(db, transactions=Transactions(db, "native"))
    two_phase = Accounts(db, transactions=Transactions(db, "two-phase"))
    return [
        Contender("plain driver", between_two(lambda src, dst: transfer_with_driver(db, src, dst, 1))),
        Contender("native", between_two(lambda src, dst: native.transfer(src, dst, 1))),
        Contender("two-phase", between_two(lambda src, dst: two_phase.transfer(src, dst, 1))),
    ]


def _relative_time(driver: Series, one: Series) -> str:
    """Return the ratio of the two median rates, so that it agrees with the rates in the table."""
    return f"{driver.rate / one.rate:.2f}x"


def _write(results: list[tuple[int, int, list[Series]]], version: str, rounds: int, seconds: float) -> None:
    rows = []
    for threads, accounts, series in results:
        for one in series:
            rows.append(
                [
                    f"{accounts:,}",
                    str(threads),
                    one.name,
                    f"{one.rate:,.0f}",
                    f"{one.percentile(0.5):.1f}",
                    f"{one.percentile(0.99):.1f}",
                    _relative_time(series[0], one),
                ]
            )
    head = ["accounts", "threads", "how", "transfers/s", "p50 ms", "p99 ms", "time relative to the plain driver"]
    groups = [f"{threads} on {accounts:,}" for threads, accounts, _ in results]
    drawn = {
        one.name: [series[position].rate for _, _, series in results] for position, one in enumerate(results[0][2])
    }
    single = results[0][2]
    summary = (
        f"A transfer with `Transactions` in native mode takes {_relative_time(single[0], single[1])} the time of the "
        f"same transaction on the plain driver: {single[1].rate:,.0f} a second against {single[0].rate:,.0f} "
        f"(1 thread, {SPREAD:,} accounts; differences below a tenth are noise)."
    )
    report.write_page(
        "transactions",
        "Transfers: `Transactions` compared with the plain driver",
        [
            summary,
            report.table(head, rows),
            report.bars("transactions", "Transfers per second (threads on accounts)", groups, drawn, "transfers/s"),
            f"{rounds} interleaved rounds of {seconds:g} s for each contender; rates are medians, and times are ratios "
            "of these medians: below 1x is faster than the plain driver, and differences below a tenth are noise (in "
            f"the first case the median of the rounds' own ratios is {single[0].ratio_to(single[1]):.2f}x). Write "
            f"concern majority, read concern snapshot. {report.machine(version)}",
        ],
    )
    report.copy_to_readme("transactions", summary)
    print(report.table(head, rows))
    print(summary)
