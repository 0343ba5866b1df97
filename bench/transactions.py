"""Transfers per second: `Transactions` compared with the same transaction on the plain driver, and with PostgreSQL."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata
from multiprocessing.synchronize import Barrier
from pathlib import Path

from pymongo.client_session import ClientSession
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from bench import report
from bench._transactions_postgres import Bank, bank, dbos, functions
from bench.harness import Contender, Round, Series, Work, compare, run_round
from squinney import assembly, ledger
from squinney.ledger import Accounts, InsufficientFunds, NewTransfer
from squinney.ledger.documents import Account
from squinney.mongo import schema
from squinney.mongo.connect import Connection, client_for
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.transactions.two_phase import TwoPhase

SPREAD, HOT = 1_000, 2
THREADS = (1, 8, 32)
PROCESSES, THREADS_EACH = 4, 4
REFUSING, REFUSALS_A_SECOND = 4, 140
BATCHES = (250, 1_000)
OPENING = 10**12
_together: Barrier  # of the processes of a round


def transfer_with_driver(db: Db, src: str, dst: str, amount: int) -> None:
    """Transfer as an engineer would write it with PyMongo: one transaction, checks included."""

    def work(session: ClientSession) -> None:
        taken = db["ledger.accounts"].update_one(
            {"_id": src, "balance": {"$gte": amount}, "closed_at": None},
            {"$inc": {"balance": -amount}},
            session=session,
        )
        if not taken.matched_count:
            raise ValueError("insufficient funds")
        given = db["ledger.accounts"].update_one(
            {"_id": dst, "closed_at": None}, {"$inc": {"balance": amount}}, session=session
        )
        if not given.matched_count:
            raise ValueError("unknown account")
        transfer, now = new_id(), datetime.now(UTC)
        common = {"transfer_id": transfer, "currency": "EUR", "at": now, "memo": ""}
        db["ledger.entries"].insert_many(
            [
                {"_id": f"{transfer}-out", "account_id": src, "other_id": dst, "amount": -amount, **common},
                {"_id": f"{transfer}-in", "account_id": dst, "other_id": src, "amount": amount, **common},
            ],
            session=session,
        )

    with db.client.start_session() as session:
        session.with_transaction(work, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))


def run(connection: Connection, *, rounds: int = 9, seconds: float = 2.0) -> None:
    """Measure every load, and write the page."""
    db, two_phase = (connection.client[name] for name in ("bench_transactions", "bench_two_phase"))
    for target in (db, two_phase):
        connection.client.drop_database(target.name)
        schema.apply(target, [*assembly.CORE_COLLECTIONS, *ledger.COLLECTIONS])
    ids = {SPREAD: _open(db, SPREAD), HOT: _open(db, HOT)}
    for count in ids:
        _open(two_phase, count, ids[count])
    with bank([account for some in ids.values() for account in some], OPENING) as peers:
        results = [
            (
                threads,
                accounts,
                compare(
                    _contenders(db, two_phase, peers, ids[accounts]), threads=threads, rounds=rounds, seconds=seconds
                ),
            )
            for accounts in (SPREAD, HOT)
            for threads in THREADS
        ]
        batches = [
            compare(_batches(db, peers, ids[SPREAD], size), threads=1, rounds=rounds, seconds=seconds)
            for size in BATCHES
        ]
        processes = [
            _in_processes(connection, db, two_phase, peers, ids[accounts], rounds, seconds)
            for accounts in (SPREAD, HOT)
        ]
    refused = _beside_refusals(db, ids[SPREAD], rounds, seconds)
    version = connection.client.admin.command("buildInfo")["version"]
    for target in (db, two_phase):
        connection.client.drop_database(target.name)
    if peers.version:
        version += f", PostgreSQL {peers.version} (one PL/pgSQL function, synchronous commit)"
    if peers.dbos:
        version += f", DBOS {metadata.version('dbos')}"
    _write(results, [_processes_table(processes), refused, _batches_table(batches)], version, rounds, seconds)


def _open(db: Db, count: int, ids: Sequence[str] = ()) -> list[str]:
    accounts: list[Account] = [
        {"_id": account_id, "name": "", "currency": "EUR", "balance": OPENING, "opened_at": datetime.now(UTC)}
        for account_id in ids or [new_id() for _ in range(count)]
    ]
    db["ledger.accounts"].insert_many(accounts)  # type: ignore[arg-type]
    return [account["_id"] for account in accounts]


def _between_two(ids: Sequence[str], transfer: Callable[[str, str], object]) -> Work:
    chance = [random.Random(number) for number in range(max(THREADS))]

    def work(thread: int) -> None:
        src, dst = chance[thread].sample(ids, 2)
        transfer(src, dst)

    return work


def _contenders(db: Db, other: Db, peers: Bank, ids: Sequence[str]) -> list[Contender]:
    accounts, two_phase = Accounts(db), Accounts(other, transactions=TwoPhase(other))
    postgres, in_workflow = peers.transfer, peers.dbos
    return [
        Contender("plain driver", _between_two(ids, lambda src, dst: transfer_with_driver(db, src, dst, 1))),
        Contender("Transactions", _between_two(ids, lambda src, dst: accounts.transfer(src, dst, 1))),
        Contender("two-phase", _between_two(ids, lambda src, dst: two_phase.transfer(src, dst, 1))),
        Contender(
            "PostgreSQL",
            _between_two(ids, lambda src, dst: postgres(src, dst, 1)) if postgres else None,
            peers.missing,
        ),
        Contender(
            "DBOS",
            _between_two(ids, lambda src, dst: in_workflow(src, dst, 1)) if in_workflow else None,
            peers.missing_dbos,
        ),
    ]


# ---- several processes ----


def _in_processes(
    connection: Connection, db: Db, two_phase: Db, peers: Bank, ids: Sequence[str], rounds: int, seconds: float
) -> tuple[int, list[Series]]:
    """Run 4 processes of 4 threads, the contenders in turn."""
    uri = f"mongodb://{connection.client.address[0]}" if connection.client.address else ""
    uri = connection.embedded.uri if connection.embedded else uri
    where: dict[str, tuple[str, str]] = {
        "plain driver": (uri, db.name),
        "Transactions": (uri, db.name),
        "two-phase": (uri, two_phase.name),
        **({"PostgreSQL": (str(peers.socket), "")} if peers.transfer else {}),
        **({"DBOS": (str(peers.socket), "")} if peers.dbos else {}),
    }
    missing = {"PostgreSQL": peers.missing, "DBOS": peers.missing_dbos}
    series = [Series(name) for name in where]
    for number in range(rounds):
        for contender in series if number % 2 == 0 else reversed(series):
            context = multiprocessing.get_context("spawn")
            together = context.Barrier(PROCESSES)
            with context.Pool(PROCESSES, _wait_together, [together]) as pool:
                work = [(contender.name, *where[contender.name], ids, seconds)] * PROCESSES
                done: list[Round] = pool.starmap(_one_process, work, chunksize=1)
            latencies = [latency for part in done for latency in part.latencies]
            contender.rounds.append(Round(len(latencies), max(part.seconds for part in done), latencies))
    absent = [Series(name, missing=missing[name]) for name in missing if name not in where]
    return len(ids), [*series, *absent]


def _wait_together(barrier: Barrier) -> None:
    """Keep the barrier at which the processes of a round wait for each other, so that none is alone for a while."""
    global _together
    _together = barrier


def _one_process(how: str, where: str, database: str, ids: Sequence[str], seconds: float) -> Round:
    with _transfer_of(how, where, database) as transfer:
        work = _between_two(ids, lambda src, dst: transfer(src, dst, 1))
        work(0)  # connects
        _together.wait()
        return run_round(work, THREADS_EACH, seconds)


@contextmanager
def _transfer_of(how: str, where: str, database: str) -> Iterator[Callable[[str, str, int], object]]:
    if how == "PostgreSQL":
        yield functions(Path(where))[0]
    elif how == "DBOS":
        with dbos(Path(where)) as (transfer, missing):
            assert transfer, missing
            yield transfer
    else:
        with client_for(where) as client:
            db = client[database]
            if how == "plain driver":
                yield lambda src, dst, amount: transfer_with_driver(db, src, dst, amount)
            else:
                yield Accounts(db, transactions=TwoPhase(db) if how == "two-phase" else None).transfer


def _processes_table(results: Sequence[tuple[int, list[Series]]]) -> str:
    rows = [
        _without_threads(_row(accounts, THREADS_EACH, series[0], contender))
        for accounts, series in results
        for contender in series
    ]
    head = ["accounts", "how", "transfers/s", "p50 ms", "p99 ms", "time relative to the plain driver"]
    return f"## {PROCESSES} processes of {THREADS_EACH} threads\n\n" + report.table(head, rows)


def _without_threads(row: list[str]) -> list[str]:
    return [row[0], *row[2:]]


# ---- beside refusals ----


def _beside_refusals(db: Db, ids: Sequence[str], rounds: int, seconds: float) -> str:
    """Run 28 threads, alone and beside 4 whose transfers are refused: from one empty account, or from a thousand."""
    good = max(THREADS) - REFUSING
    accounts = Accounts(db)
    empty = {1: [accounts.open("EUR")["_id"]], SPREAD: [accounts.open("EUR")["_id"] for _ in range(SPREAD)]}
    names = {0: "without refusals", 1: "refusals on one account", SPREAD: f"refusals on {SPREAD:,} accounts"}
    series = {count: Series(name) for count, name in names.items()}
    refused: dict[int, list[float]] = {1: [], SPREAD: []}
    work = _between_two(ids, lambda src, dst: accounts.transfer(src, dst, 1))
    for number in range(rounds):
        for count in names if number % 2 == 0 else reversed(names):
            with _Refusals(accounts, empty.get(count, []), ids) as refusals:
                series[count].rounds.append(run_round(work, good, seconds))
            if count:
                refused[count].append(refusals.count / seconds)
    rows = [
        [
            contender.name,
            f"{sum(refused[count]) / rounds:,.0f}" if count else "0",
            f"{contender.rate:,.0f}",
            f"{contender.ratio_to(series[0]):.2f}x",
        ]
        for count, contender in series.items()
    ]
    head = ["beside them", "refusals/s", "good transfers/s", "rate relative to none"]
    return f"## {good} threads beside {REFUSING} that are refused\n\n" + report.table(head, rows)


class _Refusals:
    """Threads whose transfers are refused, a fixed number a second; use it in a `with`."""

    def __init__(self, accounts: Accounts, empty: Sequence[str], ids: Sequence[str]) -> None:
        self._accounts, self._empty, self._ids = accounts, empty, ids
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(REFUSING)]
        self.count = 0

    def __enter__(self) -> _Refusals:
        for thread in self._threads if self._empty else ():
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads if self._empty else ():
            thread.join()

    def _work(self, number: int) -> None:
        chance, every = random.Random(number), REFUSING / REFUSALS_A_SECOND
        due = time.monotonic()
        while not self._stop.is_set():
            with suppress(InsufficientFunds):
                self._accounts.transfer(chance.choice(self._empty), chance.choice(self._ids), 1)
            self.count += 1
            due = max(due + every, time.monotonic() - every)
            time.sleep(max(0.0, due - time.monotonic()))


# ---- many at a time ----


def _batches(db: Db, peers: Bank, ids: Sequence[str], size: int) -> list[Contender]:
    accounts, chance = Accounts(db), random.Random(size)
    postgres = peers.transfer_many

    def as_asked(transfers: Sequence[tuple[str, str, int]]) -> list[NewTransfer]:
        return [{"src": src, "dst": dst, "amount": amount} for src, dst, amount in transfers]

    def many() -> list[tuple[str, str, int]]:
        return [(*chance.sample(ids, 2), 1) for _ in range(size)]  # type: ignore[misc]

    return [
        Contender("one by one", _between_two(ids, lambda src, dst: accounts.transfer(src, dst, 1))),
        Contender(f"transfer_many of {size:,}", lambda _: accounts.transfer_many(as_asked(many())) and None),
        Contender(
            f"PostgreSQL, one call of {size:,}",
            (lambda _: postgres(many()) and None) if postgres else None,
            peers.missing,
        ),
    ]


def _batches_table(results: Sequence[Sequence[Series]]) -> str:
    rows = []
    for size, (single, *many) in zip(BATCHES, results, strict=True):
        rows += [[single.name, f"{single.rate:,.0f}", "1.0x"]]
        rows += [
            [contender.name, f"{contender.rate * size:,.0f}", f"{contender.rate * size / single.rate:.1f}x"]
            if contender.rounds
            else [contender.name, "-", contender.missing]
            for contender in many
        ]
    return "## Many transfers, one thread\n\n" + report.table(
        ["how", "transfers/s", "rate relative to one by one"], rows
    )


# ---- the page ----


def _relative_time(driver: Series, contender: Series) -> str:
    """Return the ratio of the two median rates, so that it agrees with the rates in the table."""
    return f"{driver.rate / contender.rate:.2f}x"


def _row(accounts: int, threads: int, driver: Series, contender: Series) -> list[str]:
    if not contender.rounds:
        return [f"{accounts:,}", str(threads), contender.name, "-", "-", "-", contender.missing]
    percentiles = (f"{contender.percentile(share):.1f}" for share in (0.5, 0.99))
    return [
        f"{accounts:,}",
        str(threads),
        contender.name,
        f"{contender.rate:,.0f}",
        *percentiles,
        _relative_time(driver, contender),
    ]


def _write(
    results: list[tuple[int, int, list[Series]]], further: Sequence[str], version: str, rounds: int, seconds: float
) -> None:
    rows = [
        _row(accounts, threads, series[0], contender) for threads, accounts, series in results for contender in series
    ]
    head = ["accounts", "threads", "how", "transfers/s", "p50 ms", "p99 ms", "time relative to the plain driver"]
    groups = [f"{threads} on {accounts:,}" for threads, accounts, _ in results]
    drawn = {
        contender.name: [series[position].rate for _, _, series in results]
        for position, contender in enumerate(results[0][2])
        if contender.rounds
    }
    single = results[0][2]
    summary = (
        f"A transfer with `Transactions` takes {_relative_time(single[0], single[1])} the time of the "
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
            *further,
            f"{rounds} interleaved rounds of {seconds:g} s for each contender; rates are medians, and times are ratios "
            "of these medians: below 1x is faster than the plain driver, and differences below a tenth are noise (in "
            f"the first case the median of the rounds' own ratios is {single[0].ratio_to(single[1]):.2f}x). Write "
            "concern majority, read concern snapshot. `two-phase` is the book's protocol, for the record. DBOS runs "
            f"the PostgreSQL function as one transaction of a workflow. {report.machine(version)} The load average "
            f"was {os.getloadavg()[2]:.0f}: if that is more than the cores, other programs were busy too, and only "
            "ratios within a table mean anything.",
        ],
    )
    report.copy_to_readme("transactions", summary)
    print(report.table(head, rows))
    print("\n".join(further))
    print(summary)
