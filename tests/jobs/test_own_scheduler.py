"""`squinney.jobs`: the jobs of a system in a scheduler of one's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.racing import at_once

import squinney
from squinney import assembly, commerce, ledger
from squinney.commerce.system import SYSTEM
from squinney.core import CORE_JOBS
from squinney.errors import Invalid, Unavailable
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.service.doctor import examine
from squinney.service.jobs import statuses


def test_a_scheduler_runs_the_jobs_and_doctor_is_content(db: Db) -> None:
    squinney.prepare(db, commerce)
    jobs = squinney.jobs(db, commerce)
    assert [job.name for job in jobs] == [job.name for job in assembly.jobs([SYSTEM])]
    assert all(job.run() for job in jobs)
    assert all(job.every_seconds > 0 and job.what for job in jobs)
    assert [finding for finding in examine(db, systems=[SYSTEM]) if finding.level == "problem"] == []
    groups = {name.partition(".")[0] for name in db.list_collection_names()}
    assert groups == {"commerce", "squinney"}


def test_of_several_schedulers_one_runs_a_job_at_a_time(db: Db) -> None:
    running: list[int] = []

    def slow(db: Db) -> dict[str, int]:
        running.append(1)
        most = len(running)
        db["notes"].insert_one({"most": most})
        running.pop()
        return {}

    system = replace(SYSTEM, jobs=[Job("slow", 60, slow, "waits")])
    schedulers = [squinney.jobs(db, system)[-1] for _ in range(4)]
    outcomes = at_once(4, lambda number: schedulers[number].run())
    assert any(outcomes)
    assert {note["most"] for note in db["notes"].find()} == {1}


def test_a_job_that_fails_raises_and_is_recorded(db: Db) -> None:
    failing = Job("failing", 60, lambda db: {"x": 1 // 0}, "fails")
    job = squinney.jobs(db, replace(SYSTEM, jobs=[failing]))[-1]
    with pytest.raises(Unavailable, match="the job failing failed"):
        job.run()
    assert statuses(db, [failing])[0].state == "failing"


def test_only_systems_have_jobs(db: Db) -> None:
    assert [job.name for job in squinney.jobs(db)] == [job.name for job in CORE_JOBS]
    with pytest.raises(Invalid, match="give systems, such as"):
        squinney.jobs(db, "ledger")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="the system ledger is given twice"):
        squinney.jobs(db, ledger, ledger)
