"""The HTML report of a failure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pymongo.errors import AutoReconnect

from squinney.mongo.schema import Db
from squinney.testing import Explorer, NotCrashSafe, Refuted, Sweep


def one_account(db: Db) -> None:
    db["accounts"].insert_one({"_id": "<ada>", "balance": 100})


def deposit(db: Db) -> None:
    while True:
        try:
            db["accounts"].update_one({"_id": "<ada>"}, {"$inc": {"balance": 5}})
            return
        except AutoReconnect:
            pass


def at_most_one_deposit(db: Db) -> None:
    assert db["accounts"].find_one({}, {"balance": 1})["balance"] <= 105  # type: ignore[index]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Want reports in this folder, as `--squinney-report` does."""
    monkeypatch.setattr(request.config.option, "squinney_report", tmp_path / "reports")
    return tmp_path / "reports"


def the_report(folder: Path) -> str:
    """Return the only report, after a check that it needs no other file."""
    (path,) = folder.iterdir()
    text = path.read_text("utf-8")
    assert not re.search(r"\s(src|href)=", text)
    assert "<script" not in text
    assert "url(" not in text
    return text


def test_a_refuted_schedule_is_reported_with_its_documents(
    explore: Explorer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore, "records", True)
    with pytest.raises(Refuted) as refuted:
        explore([deposit], at_most_one_deposit, prepare=one_account)
    assert refuted.value.schedule == "a? a"
    text = the_report(folder)
    assert '<span class="anomaly">double apply</span>' in text
    assert "a update &lt;ada&gt;: $inc balance 5 (its reply is lost)" in text
    assert '<td class="changed">balance 110</td>' in text
    assert "<ada>" not in text


def test_a_sweep_that_fails_is_reported_with_its_crash_points(sweep: Sweep, folder: Path) -> None:
    with pytest.raises(NotCrashSafe):
        sweep(one_account, deposit, at_most_one_deposit)
    text = the_report(folder)
    assert '<span class="anomaly">double apply</span>' in text
    assert "lost the reply to write 1 (update accounts) and went on" in text
    assert "1 of 4 crash points leave something wrong" in text


def test_without_the_option_nothing_is_written(sweep: Sweep, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert request.config.getoption("--squinney-report") is None
    with pytest.raises(NotCrashSafe):
        sweep(one_account, deposit, at_most_one_deposit, ways=["reconnected"])
    assert list(tmp_path.iterdir()) == []
