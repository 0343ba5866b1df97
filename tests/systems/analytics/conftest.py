"""Analytics on a database of its own, and the real log where it is at hand."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.analytics import COLLECTIONS, EventLog
from squinney.mongo.schema import Db

ROOT = Path(__file__).parents[3]
MAY = datetime(2015, 5, 1, tzinfo=UTC)
JUNE = datetime(2015, 6, 1, tzinfo=UTC)


def sample_folder() -> Path | None:
    """Where the sample data is: `SQUINNEY_TEST_DATA`, or `shared/data` beside the clone or one level up."""
    given = os.environ.get("SQUINNEY_TEST_DATA")
    places = [Path(given)] if given else [parent / "shared" / "data" for parent in ROOT.parents]
    return next((place for place in places if (place / "access.log.gz").exists()), None)


@pytest.fixture(scope="session")
def real_log_gz() -> Path:
    """10,000 lines of a real Apache combined log, compressed."""
    folder = sample_folder()
    if folder is None:
        pytest.skip("the sample log is not here: set SQUINNEY_TEST_DATA to the folder with access.log.gz")
    return folder / "access.log.gz"


@pytest.fixture(scope="session")
def real_log(real_log_gz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same log, plain."""
    path = tmp_path_factory.mktemp("log") / "access.log"
    path.write_bytes(gzip.decompress(real_log_gz.read_bytes()))
    return path


@pytest.fixture
def analytics_db(prepared: Prepared) -> Db:
    """A database with the analytics collections."""
    return prepared(COLLECTIONS)


@pytest.fixture
def keyed_db(prepared: Prepared) -> Db:
    """The same with the records of idempotency keys."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def log(analytics_db: Db) -> EventLog:
    """The event log."""
    return EventLog(analytics_db)


def line(number: int = 0, *, path: str = "/", host: str = "203.0.113.7", at: str = "17/May/2015:10:05:03 +0000") -> str:
    """A line of the combined format."""
    return f'{host} - - [{at}] "GET {path} HTTP/1.1" 200 {number} "-" "test"\n'
