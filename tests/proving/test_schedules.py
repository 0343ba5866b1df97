"""One schedule of two plain transfers, as the page plays it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from squinney.errors import Invalid, TooManyRequests
from squinney.mongo.embedded import Embedded
from squinney.service.proving.schedules import player as player_module
from squinney.service.proving.schedules.child import as_pytest, record
from squinney.service.proving.schedules.pages import KNOWN
from squinney.service.proving.schedules.player import SchedulePlayer
from squinney.testing import Explorer

ANOMALIES = {
    "a b3 a2": "lost update",
    "a2 a! b": "lost write",
    "a2 b a!": "dirty read",
    "a a? b": "lost write",
    "a3 b": "",
}


@pytest.mark.parametrize("schedule", KNOWN)
def test_each_schedule_of_the_page_is_named_and_its_test_passes(
    schedule: str, mongod: Embedded, explore: Explorer
) -> None:
    recording = record(mongod.uri, schedule)
    assert (recording.schedule, recording.anomaly) == (schedule, ANOMALIES[schedule])
    assert bool(recording.wrong) == bool(recording.anomaly)
    names: dict[str, Any] = {}
    exec(as_pytest(recording), names)  # what the visitor copies
    (test,) = [test for name, test in names.items() if name.startswith("test_")]
    test(explore)


def test_each_step_has_its_command_its_reply_and_the_documents_after_it(mongod: Embedded) -> None:
    recording = record(mongod.uri, "a b3 a2")
    assert [(one.actor, one.text, one.reply) for one in recording.messages[:3]] == [
        ("a", "find ada", "balance 100"),
        ("b", "find ada", "balance 100"),
        ("b", "update ada: $inc balance -70", ""),
    ]
    ada = [recording.before["accounts ada"], *(one.documents["accounts ada"] for one in recording.messages)]
    assert ada == [f"balance {one}" for one in (100, 100, 100, 30, 30, -40, -40)]
    assert recording.first_wrong == 4


@pytest.mark.parametrize("schedule", ["", "c", "a b3 a2 " * 20, "a3 a3 b", "--help", "a999"])
def test_an_impossible_schedule_is_refused(schedule: str, mongod: Embedded) -> None:
    with pytest.raises(Invalid, match=r"a schedule of two transfers looks like|is not possible"):
        SchedulePlayer(mongod.uri).play(schedule)


def test_one_schedule_is_played_at_a_time(mongod: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player_module, "WAIT_SECONDS", 0)
    player = SchedulePlayer(mongod.uri)

    def play(schedule: str) -> str:
        try:
            return player.play(schedule).recording.schedule
        except TooManyRequests:
            return "busy"

    with ThreadPoolExecutor(5) as visitors:
        played = list(visitors.map(play, ["a3 b", "b3 a", "a b3 a2", "b a3 b2", "a2 b a"]))
    assert played.count("busy") == 4
    kept = next(one for one in played if one != "busy")
    assert player.play(kept) is player.play(kept)
