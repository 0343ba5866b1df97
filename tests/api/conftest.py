"""The application in this process, on the test's database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.web.app import create_site


@pytest.fixture
def site(db: Db) -> Iterator[TestClient]:
    """A client of the whole site."""
    schema.apply(db, assembly.collections())
    with TestClient(create_site(assembly.assemble(db)), raise_server_exceptions=False) as client:
        yield client
