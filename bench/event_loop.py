"""The longest pause of an event loop whose tasks all transfer from the same account."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

import squinney
from bench import report
from squinney import ledger
from squinney.mongo.connect import Connection

TASKS = 40
CONTROL, OURS, ASYNC, DIRECT = "`asyncio.sleep`", "`in_thread`", "`AsyncMongoClient`", "called directly"
Work = Callable[[int], Awaitable[object]]


@dataclass
class Pauses:
    """What one contender did to the loop: the longest pause of each round, in milliseconds, and its rate."""

    longest: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)  # without the time that the loop's thread waited for a processor
    rates: list[float] = field(default_factory=list)


def run(connection: Connection, *, rounds: int = 9, seconds: float = 2.0) -> None:
    """Measure and write the page."""
    name = "bench_event_loop"
    connection.client.drop_database(name)
    try:
        measured = asyncio.run(_measure(connection, name, rounds, seconds))
    finally:
        connection.client.drop_database(name)
    _write(measured, connection.client.server_info()["version"], rounds, seconds)


async def _measure(connection: Connection, name: str, rounds: int, seconds: float) -> dict[str, Pauses]:
    async with AsyncMongoClient[dict[str, object]](connection.uri) as client:
        works = await _contenders(connection.client[name], client, name)
        measured = {contender: Pauses() for contender in works}
        for number in range(rounds):
            for contender in list(works) if number % 2 == 0 else reversed(works):
                await _round(works[contender], measured[contender], seconds)
    return measured


async def _contenders(db, client, name: str) -> dict[str, Work]:  # type: ignore[no-untyped-def]
    squinney.prepare(db, ledger)
    accounts = ledger.Accounts(db)
    shared, *others = (accounts.open("EUR", 10**9)["_id"] for _ in range(TASKS + 1))
    plain = client[name]["plain"]
    await plain.insert_many([{"_id": number, "balance": 10**9} for number in range(TASKS + 1)])

    def transfer(task: int) -> None:
        try:
            accounts.transfer(shared, others[task], 1)
        except squinney.SquinneyError:
            return  # a refusal is an answer too

    async def by_hand(task: int) -> None:
        async def both(session) -> None:  # type: ignore[no-untyped-def]
            await plain.update_one({"_id": TASKS, "balance": {"$gte": 1}}, {"$inc": {"balance": -1}}, session=session)
            await plain.update_one({"_id": task}, {"$inc": {"balance": 1}}, session=session)

        async with client.start_session() as session:
            try:
                await session.with_transaction(both)
            except PyMongoError:
                return

    async def blocking(task: int) -> None:
        transfer(task)
        await asyncio.sleep(0)

    return {
        CONTROL: lambda task: asyncio.sleep(0.02),
        OURS: lambda task: squinney.in_thread(transfer, task),
        ASYNC: by_hand,
        DIRECT: blocking,
    }


async def _round(work: Work, pauses: Pauses, seconds: float) -> None:
    until = time.perf_counter() + seconds
    calls = [0] * TASKS

    async def repeat(task: int) -> None:
        while time.perf_counter() < until:
            await work(task)
            calls[task] += 1

    ticks = asyncio.ensure_future(_tick())
    await asyncio.gather(*(repeat(task) for task in range(TASKS)))
    ticks.cancel()
    longest, own = await ticks
    pauses.longest.append(longest * 1000)
    pauses.own.append(own * 1000)
    pauses.rates.append(sum(calls) / seconds)


async def _tick() -> tuple[float, float]:
    """Sleep for a millisecond again and again; return by how much the longest was late, and how much of it is ours."""
    longest = own = 0.0
    now, waited = time.perf_counter(), _waited()
    try:
        while True:
            await asyncio.sleep(0.001)
            before, now = now, time.perf_counter()
            waited_before, waited = waited, _waited()
            late = now - before - 0.001
            longest, own = max(longest, late), max(own, late - (waited - waited_before))
    except asyncio.CancelledError:
        return longest, own


def _waited() -> float:
    """Return for how long this thread was ready and had no processor, which is the machine's doing."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def _write(measured: dict[str, Pauses], version: str, rounds: int, seconds: float) -> None:
    rows = [
        [
            contender,
            f"{statistics.median(pauses.longest):,.0f}",
            f"{max(pauses.longest):,.0f}",
            f"{statistics.median(pauses.own):,.0f}",
            f"{statistics.median(pauses.rates):,.0f}",
        ]
        for contender, pauses in measured.items()
    ]
    head = [
        "the tasks",
        "longest pause, ms (median of rounds)",
        "worst",
        "without waiting for a processor",
        "per second",
    ]
    control, ours = measured[CONTROL], measured[OURS]
    text = (
        f"{TASKS} tasks of one loop move money from the same account to accounts of their own, in {rounds} rounds of "
        f"{seconds:g} s, which take turns. A pause is the time by which an `asyncio.sleep` of a millisecond is late. "
        "The fourth column leaves out the time for which the loop's thread was ready while other programs had the "
        "processors. The first row is the control: its tasks only sleep."
    )
    result = (
        f"With `squinney.in_thread` the longest pause is {statistics.median(ours.longest):,.0f} ms, where that of the "
        f"control is {statistics.median(control.longest):,.0f} ms; {statistics.median(ours.own):,.0f} ms are the "
        f"program's own. The load of the machine was {os.getloadavg()[0]:.0f}."
    )
    page = [text, report.table(head, rows), result, report.machine(version)]
    report.write_page("event_loop", "An event loop under load", page)
