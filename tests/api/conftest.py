"""The application in this process, on the test's database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.plugins.shelf import Prepared

from squinney import assembly
from squinney.clock import utcnow
from squinney.http.options import Options
from squinney.http.visitor import SIGNED_IN, Visitor
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"


@pytest.fixture(autouse=True)
def _quick_passwords(quick_passwords: None) -> None:
    """For all of them."""


@pytest.fixture
def systems(prepared: Prepared) -> assembly.Assembled:
    """All systems on the test's database."""
    return assembly.assemble(prepared(assembly.collections()))


@pytest.fixture
def stranger(systems: assembly.Assembled) -> Iterator[TestClient]:
    """A client of the whole site, with neither key nor session."""
    app = create_site(systems, options=Options(secret=SECRET))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def site(stranger: TestClient, systems: assembly.Assembled) -> TestClient:
    """A client that may do everything: it has an API key for all scopes, and is signed in as an admin."""
    services = systems.services["identity"]
    _, key = services["keys"].create("tests", ["*:write"])
    admin = {"_id": "admin", "login": "admin", "name": "Admin", "role": "admin", "created_at": utcnow()}
    systems.db["people"].insert_one(admin)
    token = SIGNED_IN + services["sessions"].start(admin)
    stranger.cookies.set("squinney", token)
    stranger.headers["Authorization"] = f"Bearer {key}"
    stranger.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf
    return stranger
