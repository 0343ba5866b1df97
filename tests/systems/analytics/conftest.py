"""Fixtures: a database with the collections of analytics, and the real log if it is available."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.analytics import COLLECTIONS, EventLog
from squinney.analytics.events.pages import events_of
from squinney.mongo.schema import Db, Document

ROOT = Path(__file__).parents[3]
MAY = datetime(2015, 5, 1, tzinfo=UTC)
JUNE = datetime(2015, 6, 1, tzinfo=UTC)


def sample_folder() -> Path | None:
    """Return the folder of the sample data: `SQUINNEY_TEST_DATA`, or `shared/data` in a folder above the clone."""
    given = os.environ.get("SQUINNEY_TEST_DATA")
    folders = [Path(given)] if given else [parent / "shared" / "data" for parent in ROOT.parents]
    return next((folder for folder in folders if (folder / "access.log.gz").exists()), None)


@pytest.fixture(scope="session")
def real_log_gz() -> Path:
    """10,000 lines of a real Apache combined log, compressed."""
    folder = sample_folder()
    if folder is None:
        pytest.skip("the sample log was not found: set SQUINNEY_TEST_DATA to the folder with access.log.gz")
    return folder / "access.log.gz"


@pytest.fixture(scope="session")
def real_log(real_log_gz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same log, decompressed."""
    path = tmp_path_factory.mktemp("log") / "access.log"
    path.write_bytes(gzip.decompress(real_log_gz.read_bytes()))
    return path


@pytest.fixture
def analytics_db(prepared: Prepared) -> Db:
    """A database with the analytics collections."""
    return prepared(COLLECTIONS)


@pytest.fixture
def keyed_db(prepared: Prepared) -> Db:
    """A database with the collections of analytics and of idempotency keys."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def log(analytics_db: Db) -> EventLog:
    """The event log."""
    return EventLog(analytics_db)


def line(number: int = 0, *, path: str = "/", host: str = "203.0.113.7", at: str = "17/May/2015:10:05:03 +0000") -> str:
    """A line of the combined format."""
    return f'{host} - - [{at}] "GET {path} HTTP/1.1" 200 {number} "-" "test"\n'


def stored_events(db: Db) -> list[Document]:
    """All events of all pages."""
    return [event for page in db["analytics.events"].find() for event in events_of(page)]
