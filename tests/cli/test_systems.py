"""`--systems` and `SQUINNEY_SYSTEMS`: exactly the chosen systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving import Serving

from squinney.mongo.schema import Db

CHOSEN = "ledger,ads"
COMMANDS = [("demo",), ("jobs", "list"), ("migrate",), ("indexes", "--apply"), ("doctor", "--repair"), ("doctor",)]


def groups(db: Db) -> set[str]:
    return {name.partition(".")[0] for name in db.list_collection_names()}


def test_every_command_takes_exactly_the_chosen_systems(squinney: Any, db: Db) -> None:
    for number, arguments in enumerate(COMMANDS):
        by_option = [*arguments, "--systems", CHOSEN] if number % 2 else ["--systems", CHOSEN, *arguments]
        done = squinney(*by_option)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        assert groups(db) == {"ledger", "ads", "squinney"}, arguments
    assert squinney("jobs", "run", "end-ad-campaigns", SQUINNEY_SYSTEMS=CHOSEN).returncode == 0
    assert "return-orphans" not in squinney("jobs", "list", SQUINNEY_SYSTEMS=CHOSEN).stdout
    assert squinney("--systems", CHOSEN, "ledger", "list").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--systems", CHOSEN, "commerce", "list"), "the system commerce is not one of the chosen ones: ledger, ads"),
        (("worker", "--systems", "shop"), "there is no system shop: Squinney has analytics, ledger"),
        (("serve", "--systems", "ledger"), "SQUINNEY_API_KEYS: without the system identity, the keys of the API"),
    ],
)
def test_a_choice_that_cannot_be_made_is_one_sentence(squinney: Any, db: Db, arguments: Any, said: str) -> None:
    done = squinney(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"squinney: {said}")
    assert done.stderr.count("\n") == 1
    assert db.list_collection_names() == []


def test_serve_runs_one_system(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--systems", "ledger", SQUINNEY_API_KEYS="k" * 32) as serving:
        answer = httpx.get(f"{serving.url}/api/ledger/accounts", headers={"Authorization": "Bearer " + "k" * 32})
        assert answer.json()["items"]
        assert httpx.get(f"{serving.url}/shop").status_code == 404
        assert set(httpx.get(f"{serving.url}/readyz").json()["jobs"]) == {
            "end-abandoned-transactions",
            "recover-two-phase",
        }
    assert "Traceback" not in serving.said
