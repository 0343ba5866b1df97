"""The files that one request passes through, recorded by a profiler: the lists of `docs/architecture.md`."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from starlette.testclient import TestClient

import squinney

SOURCE = f"{Path(squinney.__file__).parent}/"
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PRICING = {"list": 100, "retail": 100, "currency": "EUR"}


@pytest.fixture
def passed() -> Iterator[list[str]]:
    """Return a list that collects the files whose functions run in new threads, such as those of the site."""
    files: list[str] = []

    def record(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        # The code that watches the test run is not part of the site.
        if event == "call" and file.startswith(SOURCE) and not file.startswith(f"{SOURCE}testing/"):
            files.append(file.removeprefix(SOURCE))

    threading.setprofile(record)
    yield files
    threading.setprofile(None)  # type: ignore[arg-type]


def _requests(site: TestClient) -> dict[str, tuple[str, dict[str, Any]]]:
    accounts = [_made(site, "/api/ledger/accounts", {"currency": "EUR", "opening": 100}) for _ in range(2)]
    product = {"id": "a", "type": "Film", "title": "A", "pricing": PRICING}
    _made(site, "/api/commerce/products", product)
    site.post("/api/commerce/stock/a/receipts", json={"qty": 100})
    page = {"type": "basic-page", "title": "P", "slug": "p", "author": {"id": "a", "name": "Ada"}}
    comment = {"author_id": "a", "author_name": "Ada", "text": "hello"}
    return {
        "a transfer": ("/api/ledger/transfers", {"src": accounts[0], "dst": accounts[1], "amount": 1}),
        "a comment": (f"/api/comments/nodes/{_made(site, '/api/content/nodes', page)}", comment),
        "adding to a cart": (f"/api/commerce/carts/{_made(site, '/api/commerce/carts', {})}/items", {"sku": "a"}),
    }


def _made(site: TestClient, path: str, body: dict[str, Any]) -> str:
    return str(site.post(path, json=body).json()["id"])


def test_the_page_lists_the_files_that_a_request_passes(passed: list[str], site: TestClient) -> None:
    keys = count()
    for name, (path, body) in _requests(site).items():
        for _ in range(3):  # the first ones fill caches
            passed.clear()
            response = site.post(path, json=body, headers={"Idempotency-Key": str(next(keys))})
            assert response.status_code in (200, 201), response.text
        assert set(passed) == _listed("every request") | _listed(name), name
        assert f"| {name} | {len(set(passed))} |" in re.sub(r"(\| [a-z ]+ \|) \d+ \|", r"\1", PAGE.read_text())


def _listed(name: str) -> set[str]:
    """Return the files that the page lists after a name."""
    line = re.search(rf"^- {name}[^:]*: (.*(?:\n  .*)*)", PAGE.read_text(), re.M)
    assert line, f"docs/architecture.md lists no files of {name}"
    return set(re.findall(r"`([a-z_/]+\.py)`", line[1]))
