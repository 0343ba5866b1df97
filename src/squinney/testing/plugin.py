"""The pytest plugin: a real MongoDB server for the run, a database for each test, and tools that test operations.

pytest loads it automatically when `squinney[embedded,testing]` is installed:

```python
def test_nothing_is_lost(sweep, explore):
    sweep(prepare, transfer, check)
    explore([transfer, transfer_back], check, prepare=prepare)
```

With pytest-xdist all workers share one server. Fixtures import what they need when they are used, so that the plugin
costs nothing in a run that does not use it.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from squinney.testing import counts
from squinney.testing.counts import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown

if TYPE_CHECKING:
    from pymongo import MongoClient

    from squinney.mongo.embedded import Embedded
    from squinney.mongo.schema import Db, Document
    from squinney.testing import Case, Cases, Explorer, NotCrashSafe, Refuted, Sweep, Swept
    from squinney.testing.audit import Audit
    from squinney.testing.replica_set import ReplicaSet

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary", "pytest_testnodedown"]

RUN_FOLDER = "SQUINNEY_TEST_FOLDER"  # set by a program that keeps one server for several runs
OUR_FOLDER = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for reports."""
    words = "Write an HTML file with pictures for each `NotCrashSafe` and `Refuted` into this folder."
    parser.getgroup("squinney").addoption("--squinney-report", metavar="DIR", type=Path, default=None, help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Choose one folder for the whole run; pytest-xdist workers inherit its name through the environment."""
    # guard: SIGTERM ends a run in order
    _end_in_order_after_sigterm()
    if RUN_FOLDER not in os.environ:
        from squinney.testing.servers import new_run_folder

        config.stash[OUR_FOLDER] = new_run_folder()
        os.environ[RUN_FOLDER] = str(config.stash[OUR_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers of the run and remove its folder."""
    if OUR_FOLDER in config.stash:
        from squinney.testing.servers import remove

        remove(config.stash[OUR_FOLDER])
        os.environ.pop(RUN_FOLDER, None)


def _end_in_order_after_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does: by default it would leave the run's servers and folders."""
    ours = os.getpid()

    def interrupt(number: int, frame: object) -> None:
        if os.getpid() == ours:
            raise KeyboardInterrupt
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked child ends as before
        os.kill(os.getpid(), signal.SIGTERM)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)


def run_folder() -> Path:
    """Return the folder of this run's servers, and create it if needed."""
    folder = Path(os.environ[RUN_FOLDER])
    if not folder.exists():
        from squinney.testing.servers import remove_abandoned

        remove_abandoned(beside=folder)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def serve(name: str) -> Embedded:
    """Return the run's server of this name, and start it if it is not running."""
    from squinney.testing.servers import serve

    return serve(run_folder() / name)


@pytest.fixture(scope="session")
def mongod() -> Iterator[Embedded]:
    """The server that all workers of this run share."""
    with serve("shared") as server:
        yield server


@pytest.fixture(scope="session")
def own_mongod() -> Iterator[Embedded]:
    """A server that only this worker uses: for fail points, which affect the whole server, and for pausing it."""
    with serve(f"own-{os.getpid()}") as server:
        yield server


@pytest.fixture(scope="session")
def mongo_client(mongod: Embedded) -> Iterator[MongoClient[Document]]:
    """A client connected to the shared server."""
    from squinney.mongo.connect import client_for

    with client_for(mongod.uri) as client:
        yield client


@pytest.fixture
def mongo_db(mongo_client: MongoClient[Document]) -> Iterator[Db]:
    """An empty database for this test; it is dropped when the test ends."""
    name = f"test_{secrets.token_hex(8)}"
    yield mongo_client[name]
    mongo_client.drop_database(name)


@pytest.fixture(scope="module")
def replica_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    """A replica set of three members to kill, pause and step down, one for each test module; starts in seconds."""
    from squinney.testing.replica_set import ReplicaSet

    with ReplicaSet.start(tmp_path_factory.mktemp("members")) as members:
        yield members


@pytest.fixture(scope="session")
def shared_explorer(mongod: Embedded, pytestconfig: pytest.Config) -> Iterator[Explorer]:
    """The threads, clients and databases that `explore` uses. The run prints how many schedules ran."""
    from squinney.testing import Explorer

    records = pytestconfig.getoption("--squinney-report") is not None
    with Explorer(mongod.uri, count=partial(counts.count, pytestconfig, "schedules"), records=records) as explorer:
        yield explorer


@pytest.fixture
def explore(shared_explorer: Explorer, request: pytest.FixtureRequest) -> Explorer:
    """`explore([a, b], check, ...)`: see `squinney.testing.Explorer.explore`."""
    shared_explorer.on_refuted = partial(_report, request)
    return shared_explorer


def _report(request: pytest.FixtureRequest, error: NotCrashSafe | Refuted) -> None:
    """Write the report of an error if the run wants reports."""
    if folder := request.config.getoption("--squinney-report"):
        from squinney.testing.failure_report import write_report

        write_report(folder, request.node.nodeid, error)
        counts.count(request.config, f"reports in {folder}", 1)


@pytest.fixture
def sweep(mongod: Embedded, mongo_db: Db, request: pytest.FixtureRequest) -> Sweep:
    """`sweep(prepare, act, check, ...)`: see `squinney.testing.sweep`. The run prints the number of crash points."""
    from squinney.testing.crash import NotCrashSafe
    from squinney.testing.crash import sweep as sweep_on

    def sweep(*args: Any, **kwargs: Any) -> Swept:
        __tracebackhide__ = True
        try:
            swept = sweep_on(*args, db=mongo_db, socket=mongod.socket, **kwargs)
        except NotCrashSafe as error:
            _report(request, error)
            raise
        counts.count(request.config, "crash points", len(swept))
        return swept

    return sweep


@pytest.fixture
def sweep_case(mongod: Embedded, mongo_db: Db, pytestconfig: pytest.Config) -> Callable[[Cases, Case], int]:
    """`sweep_case(cases, case)` sweeps one case of `squinney.testing.Cases` in all four ways."""
    from squinney.mongo import schema
    from squinney.testing.crash.child import WAYS

    def sweep_case(cases: Cases, case: Case) -> int:
        schema.apply(mongo_db, case.all_collections)
        points = sum(cases.sweep(case, way, db=mongo_db, socket=mongod.socket) for way in WAYS)
        assert points, f"{case.name} wrote nothing, so there was no write to crash at"
        counts.count(pytestconfig, "crash points", points)
        return points

    return sweep_case


@pytest.fixture
def audit(mongod: Embedded, mongo_db: Db) -> Iterator[Audit]:
    """The test's database with its commands recorded: see `squinney.testing.audit.Audit`."""
    from squinney.testing.audit import audited

    with audited(mongod.uri, mongo_db.name) as audit:
        yield audit
