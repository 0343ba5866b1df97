"""A plain `MongoClient(uri)` is enough: every public class and function sets the guarantees it needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import SON
from pymongo import MongoClient, monitoring
from pymongo.collection import Collection
from pymongo.database import Database
from tests.plugins.shelf import Prepared

import squinney
from squinney import analytics, assembly, commerce, content, ledger
from squinney.assembly import SYSTEMS
from squinney.mongo.embedded import Embedded
from squinney.mongo.pinned import CODEC, MAJORITY_READ, pinned
from squinney.mongo.schema import Db, Document

NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)
READS = {"find", "aggregate", "count", "distinct"}
WRITES = {"insert", "update", "delete", "findAndModify"}


class Careless(monitoring.CommandListener):
    """Records commands without guarantees of their own. In a transaction those of the transaction apply."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        wanted = "readConcern" if event.command_name in READS else "writeConcern"
        if event.command_name in READS | WRITES and "autocommit" not in event.command and wanted not in event.command:
            self.commands.append(str(event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...
    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


@pytest.fixture
def careless() -> Careless:
    """The commands that were sent without guarantees."""
    return Careless()


@pytest.fixture
def plain(mongod: Embedded, careless: Careless) -> Iterator[MongoClient[Document]]:
    """A client as in the driver's tutorial."""
    with MongoClient(mongod.uri, event_listeners=[careless]) as client:
        yield client


# ---- every public class ----


def public_classes() -> dict[str, type]:
    """Return the public classes and functions with a `db` parameter, of all packages and of the patterns."""
    classes: dict[str, type] = {}
    for info in pkgutil.walk_packages(squinney.__path__, "squinney."):
        if info.name.startswith("squinney.testing"):  # it looks at databases as they are
            continue
        module = importlib.import_module(info.name)
        names = getattr(module, "__all__", dir(module) if ".patterns." in info.name else [])
        for value in (getattr(module, name) for name in names if not name.startswith("_")):
            if inspect.isclass(value) and "db" in getattr(value.__init__, "__annotations__", {}):
                classes[f"{value.__module__}.{value.__qualname__}"] = value
    return classes


CLASSES = public_classes()
VALUES = ("Assembled", "EventsIntoPages")  # hold what they are given; a migration reads broken texts too


def test_the_classes_are_found():
    names = {value.__name__ for value in CLASSES.values()}
    assert {"Hits", "EventLog", "Accounts", "Carts", "Nodes", "Sessions", "Leases", "Queue", "Transactions"} <= names


@pytest.mark.parametrize("name", [name for name in CLASSES if not name.endswith(VALUES)])
def test_every_public_class_pins_its_database(plain, name):
    made = CLASSES[name](plain["anything"], **required(CLASSES[name], plain["anything"]))
    for database in held_by(made, set()):
        codec = database.codec_options.with_options(datetime_conversion=CODEC.datetime_conversion)  # of any year
        assert codec == CODEC, f"{name} holds {database} as it was given"
        assert database.read_concern == MAJORITY_READ


def required(kind: type, db: Db) -> dict[str, Any]:
    """Return the arguments that a class needs in addition to the database."""
    known = {
        "comments": lambda: content.Comments(db),
        "payments": lambda: commerce.TestGateway(db),
        "name": lambda: "anything",
        "sources": lambda: ["anything"],
        "jobs": list,
        "kind": lambda: "anything",
        "most": lambda: 1,
        "seconds": lambda: 1,
    }
    parameters = list(inspect.signature(kind).parameters.values())[1:]
    return {parameter.name: known[parameter.name]() for parameter in parameters if parameter.default is parameter.empty}


def held_by(value: Any, seen: set[int]) -> Iterator[Database[Any] | Collection[Any]]:
    """Yield every database and collection that one of our objects refers to."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Database | Collection):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from held_by(part, seen)
    elif type(value).__module__.startswith("squinney."):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in [*getattr(value, "__dict__", {}), *slots]:
            yield from held_by(getattr(value, name, None), seen)


# ---- every function of a system ----


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_what_a_system_does_with_a_database_is_pinned(prepared: Prepared, plain, careless, system):
    db = plain[prepared([*assembly.CORE_COLLECTIONS, *system.collections]).name]
    system.figures(db)
    assert list(system.find_problems(db)) == []
    assert not system.repair(db)
    for job in system.jobs:
        job.run(db)
    assert careless.commands == []


def test_the_classes_and_documents_of_the_client_do_not_count(mongod):
    with MongoClient(mongod.uri, document_class=SON, datetime_conversion="DATETIME_MS") as client:
        assert pinned(client["anything"]).codec_options == CODEC


def test_a_client_that_reads_elsewhere_still_moves_money(mongod, prepared: Prepared):
    name = prepared([*assembly.CORE_COLLECTIONS, *ledger.COLLECTIONS]).name
    with MongoClient(mongod.uri, readPreference="secondaryPreferred", w=1) as client:
        accounts = ledger.Accounts(client[name])
        payer, payee = (accounts.open("EUR", 100)["_id"] for _ in range(2))
        accounts.transfer(payer, payee, 30)
        assert accounts.get(payee)["balance"] == 130


# ---- what went wrong ----


def test_hits_by_a_plain_client(prepared: Prepared, plain):
    hits = analytics.Hits(plain[prepared(analytics.COLLECTIONS).name])
    hits.record("site", "/", NOON)
    for counted in (hits.minutes, hits.hours, hits.days, hits.weeks, hits.months):
        points = counted("site", "/", NOON - timedelta(hours=13), NOON + timedelta(days=40))
        assert sum(point.hits for point in points) == 1, counted.__name__
        assert all(point.at.utcoffset() == timedelta(0) for point in points)


def test_events_rollups_and_visits_by_a_plain_client(prepared: Prepared, plain):
    db = plain[prepared(analytics.COLLECTIONS).name]
    log = analytics.EventLog(db)
    log.record_many([{"time": NOON + timedelta(minutes=n), "host": "a", "path": "/", "bytes": 5} for n in range(3)])
    assert [event["time"].tzinfo is not None for event in log.between(NOON, NOON + timedelta(hours=1))] == [True] * 3
    rollups = analytics.Rollups(db, key="path", value="bytes", time="time")
    rollups.run()
    (bucket,) = rollups.read("hourly", "/", NOON, NOON + timedelta(hours=1))
    assert (bucket["at"], bucket["total"]) == (NOON, 15)
    sessions = analytics.Sessions(db)
    assert sessions.derive().changed == 1
    assert sessions.derive().changed == 0  # what is stored is compared with what the events say
    assert list(analytics.verify(db)) == []


def test_the_ledger_by_a_plain_client(prepared: Prepared, plain):
    accounts = ledger.Accounts(plain[prepared([*assembly.CORE_COLLECTIONS, *ledger.COLLECTIONS]).name])
    account = accounts.open("EUR", 100)["_id"]
    assert accounts.get(account)["opened_at"].utcoffset() == timedelta(0)
    assert all(entry["at"].utcoffset() == timedelta(0) for entry in accounts.statement(account).items)
