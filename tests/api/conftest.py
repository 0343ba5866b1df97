"""Fixtures: the application in this process, with the test's database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.plugins.shelf import Prepared

from squinney import assembly
from squinney.clock import utcnow
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.http.site_options import SiteOptions
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"


@pytest.fixture(autouse=True)
def _quick_passwords(quick_passwords: None) -> None:
    """Hash passwords quickly in all tests of this folder."""


@pytest.fixture
def systems(prepared: Prepared) -> assembly.Assembled:
    """Return all systems, with the test's database."""
    return assembly.assemble(prepared(assembly.collections()))


@pytest.fixture
def stranger(systems: assembly.Assembled) -> Iterator[TestClient]:
    """Return a client of the site without a key and without a session."""
    app = create_site(systems, options=SiteOptions(secret=SECRET))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def site(stranger: TestClient, systems: assembly.Assembled) -> TestClient:
    """Return a client with all permissions: it has an API key for all scopes, and is signed in as an admin."""
    services = systems.services["identity"]
    _, key = services["keys"].create("tests", ["*:write"])
    admin = {"_id": "admin", "login": "admin", "name": "Admin", "role": "admin", "created_at": utcnow()}
    systems.db["identity.people"].insert_one(admin)
    token = SIGNED_IN + services["sessions"].start(admin)
    stranger.cookies.set("squinney", token)
    stranger.headers["Authorization"] = f"Bearer {key}"
    stranger.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf
    return stranger
