"""`squinney prove ads`, small enough for every test run."""

from __future__ import annotations

import pytest
from tests.proving import require_proof
from tests.sizes import IN_FULL, heavy

from squinney.mongo.embedded import Embedded


@heavy
@pytest.mark.timeout(300)
def test_every_promise_holds_under_kills(mongod: Embedded) -> None:
    size = ["--workers", "8", "--seconds", "120"] if IN_FULL else ["--workers", "3", "--seconds", "60"]
    require_proof(mongod, "ads", *size, *([] if IN_FULL else ["--operations", "120", "--kill-every", "3"]))
