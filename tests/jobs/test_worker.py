"""Workers that share jobs, die and take over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import MongoClient
from tests.plugins.shelf import Prepared
from tests.sizes import heavy, todays

from squinney import assembly
from squinney.errors import NotFound
from squinney.mongo import schema
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.patterns import jobs as records
from squinney.patterns import leases
from squinney.patterns.jobs import Job
from squinney.patterns.leases import Leases
from squinney.service.jobs import JobWorker, statuses
from squinney.service.jobs.holding import holding


@pytest.fixture
def ready(prepared: Prepared) -> Db:
    return prepared(assembly.collections())


def wait_for(condition: Callable[[], Any], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def test_a_job_runs_when_due_and_its_result_is_kept(ready: Db) -> None:
    job = Job("count", every_seconds=3600, run=lambda db: {"n": 7}, what="counts")
    worker = JobWorker(ready, [job], holder="w1")
    assert statuses(ready, [job])[0].state == "never run"
    worker.register_jobs()
    assert worker.run("count") == "ok"
    assert worker.run("count") is None, "not due again yet"
    assert worker.run("count", even_if_not_due=True) == "ok"
    status = statuses(ready, [job])[0]
    assert (status.state, status.runs, status.failures) == ("fine", 2, 0)
    assert status.last["result"] == {"n": 7}
    assert status.last["holder"] == "w1"
    assert status.next_at
    assert 0.8 * 3600 < (status.next_at - status.last["finished_at"]).total_seconds() < 1.2 * 3600


def test_a_client_with_naive_times_works(ready: Db, mongod: Embedded) -> None:
    """The client reads times without a time zone."""
    job = Job("count", every_seconds=3600, run=lambda db: {"n": 7})
    with MongoClient[Any](mongod.uri) as client:
        worker = JobWorker(client[ready.name], [job])
        worker.register_jobs()
        assert worker.run("count") == "ok"
        assert statuses(client[ready.name], [job])[0].state == "fine"


def test_failures_are_kept_and_wait_longer_each_time(ready: Db) -> None:
    def fail(db: Db) -> Mapping[str, Any]:
        raise RuntimeError("no")

    job = Job("bad", every_seconds=10, run=fail)
    worker = JobWorker(ready, [job])
    worker.register_jobs()
    waits = []
    for _ in range(3):
        assert worker.run("bad", even_if_not_due=True) == "failed"
        status = statuses(ready, [job])[0]
        assert status.next_at
        waits.append((status.next_at - status.last["finished_at"]).total_seconds())
    assert status.state == "failing"
    assert status.last["error"] == "RuntimeError: no"
    assert "result" not in status.last
    assert waits[1] > 1.5 * waits[0], "twice as long, a little spread"
    assert waits[2] > 1.5 * waits[1]


@pytest.mark.parametrize("result", [{"x": object()}, {"x": "y" * 20_000}, {"$x": 1, "a.b": 2}])
def test_odd_results_do_no_harm(ready: Db, result: dict[str, Any]) -> None:
    worker = JobWorker(ready, [Job("odd", every_seconds=10, run=lambda db: result)])
    worker.register_jobs()
    assert worker.run("odd") == "ok"


def test_a_failure_is_stored_with_any_message(ready: Db) -> None:
    def fail(db: Db) -> Mapping[str, Any]:
        raise ValueError(f"no file {chr(0xDC80)}")

    job = Job("odd", every_seconds=10, run=fail)
    worker = JobWorker(ready, [job])
    worker.register_jobs()
    assert worker.run("odd") == "failed"
    assert worker.run("odd") is None, "it waits for its time"
    assert statuses(ready, [job])[0].last["error"] == r"ValueError: no file \udc80"


def test_an_unknown_job_is_refused(ready: Db) -> None:
    with pytest.raises(NotFound):
        JobWorker(ready, []).run("nothing")


def test_many_workers_run_a_job_once_at_a_time(ready: Db) -> None:
    inside, most, runs = Counter[str](), Counter[str](), Counter[str]()
    lock = threading.Lock()

    def run(db: Db) -> Mapping[str, Any]:
        with lock:
            inside["now"] += 1
            most["now"] = max(most["now"], inside["now"])
        time.sleep(0.05)
        with lock:
            inside["now"] -= 1
            runs["all"] += 1
        return {}

    job = Job("one", every_seconds=0.01, run=run)
    workers = [JobWorker(ready, [job], holder=f"w{n}", look_every_seconds=0.02, lease_seconds=30) for n in range(4)]
    for worker in workers:
        worker.start()
    wait_for(lambda: runs["all"] >= 15)
    assert all(worker.stop() for worker in workers)
    assert most["now"] == 1
    assert ready[leases.NAME].find_one({"_id": "job:one"}, {"token": 1}) == {"_id": "job:one"}, "released"


def test_a_long_job_keeps_its_lease(ready: Db) -> None:
    others: list[str | None] = []

    def run(db: Db) -> Mapping[str, Any]:
        at_first = (db[leases.NAME].find_one({"_id": "job:long"}) or {})["until"]
        wait_for(lambda: server_now(db) > at_first)
        others.append(second.run("long"))
        return {}

    job = Job("long", every_seconds=3600, run=run)
    first = JobWorker(ready, [job], lease_seconds=4)
    second = JobWorker(ready, [Job("long", every_seconds=3600, run=lambda db: {})])
    first.register_jobs()
    assert first.run("long") == "ok"
    assert others == [None]


def test_results_are_stored_unchanged(ready: Db) -> None:
    job = Job("odd", every_seconds=10, run=lambda db: {"x": "$$NOW"})
    worker = JobWorker(ready, [job])
    worker.register_jobs()
    worker.run("odd")
    assert statuses(ready, [job])[0].last["result"] == {"x": "$$NOW"}


def test_a_worker_that_lost_its_lease_records_nothing(ready: Db) -> None:
    heir = JobWorker(ready, [Job("j", every_seconds=3600, run=lambda db: {"by": "heir"})], holder="heir")

    def stall(db: Db) -> Mapping[str, Any]:
        """Its lease runs out meanwhile, and another worker does all of it."""
        db[leases.NAME].update_one({"_id": "job:j"}, {"$set": {"until": datetime(2000, 1, 1, tzinfo=UTC)}})
        assert heir.run("j") == "ok"
        return {"by": "late"}

    late = Job("j", every_seconds=3600, run=stall)
    worker = JobWorker(ready, [late], holder="late")
    worker.register_jobs()
    worker.run("j")
    status = statuses(ready, [late])[0]
    assert (status.runs, status.last["holder"], status.last["result"]) == (1, "heir", {"by": "heir"})


def test_a_new_worker_makes_no_job_due(ready: Db) -> None:
    job = Job("j", every_seconds=3600, run=lambda db: {})
    first, second = JobWorker(ready, [job]), JobWorker(ready, [job])
    first.register_jobs()
    assert first.run("j") == "ok"
    second.register_jobs()
    assert second.due() == []


def test_stop_waits_for_running_jobs(ready: Db) -> None:
    begun, ended = threading.Event(), threading.Event()

    def run(db: Db) -> Mapping[str, Any]:
        begun.set()
        time.sleep(0.5)
        ended.set()
        return {"done": True}

    job = Job("slow", every_seconds=60, run=run)
    worker = JobWorker(ready, [job], look_every_seconds=0.02)
    worker.start()
    assert begun.wait(120)
    assert worker.stop()
    assert ended.is_set()
    assert statuses(ready, [job])[0].last["result"] == {"done": True}


def test_a_job_whose_worker_died_is_late_and_not_running_for_ever(ready: Db) -> None:
    job = Job("deadly", every_seconds=1, run=lambda db: {})
    JobWorker(ready, [job]).register_jobs()
    seen: list[Any] = []

    def die(db: Db) -> Mapping[str, Any]:
        seen.extend(statuses(db, [job]))
        raise SystemExit  # it is not put on record, as little as after kill -9

    with pytest.raises(SystemExit):
        JobWorker(ready, [Job("deadly", every_seconds=1, run=die)]).run("deadly")
    assert seen[0].state == "running"
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    ready[records.NAME].update_one({"_id": "deadly"}, {"$set": {"next_at": long_ago, "last": {"outcome": "ok"}}})
    status = statuses(ready, [job])[0]
    assert status.state == "late"
    assert status.late_seconds > 3000


@pytest.mark.parametrize("command", ["find", "findAndModify", "update"])
def test_a_worker_survives_errors_of_the_server(own_db: Db, failing: Any, command: str) -> None:
    schema.apply(own_db, assembly.CORE_COLLECTIONS)
    ran: list[int] = []
    worker = JobWorker(
        own_db, [Job("j", every_seconds=0.01, run=lambda db: ran.append(1) or {})], look_every_seconds=0.02
    )
    interrupted = {"errorCode": 11601, "mode": {"times": 3}}  # as by killOp
    with failing([command], **interrupted):
        worker.start()
        wait_for(lambda: len(ran) >= 5)
    assert worker.stop()


def test_a_worker_survives_a_machine_without_threads(ready: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    worker = JobWorker(ready, [Job("a", every_seconds=60, run=lambda db: done.set(), what="")], look_every_seconds=0.05)
    start, refused = threading.Thread.start, []

    def start_later(thread: threading.Thread) -> None:
        if thread.name == "squinney-job-a" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_later)
    worker.start()
    assert done.wait(120)
    assert refused
    assert worker.stop()


def test_a_lease_is_renewed_again_after_the_server_refused_once(own_db: Db, failing: Any) -> None:
    schema.apply(own_db, assembly.CORE_COLLECTIONS)
    held = holding(Leases(own_db), "l", seconds=6)
    with held as mine, failing(["update"], errorCode=11601, mode={"times": 1}):
        assert mine
        before = mine.sure_until
        wait_for(lambda: mine.sure_until > before)


def test_a_lease_is_kept_by_a_thread_that_ends_with_it(ready: Db) -> None:
    before = set(threading.enumerate())
    for _ in range(2):
        with holding(Leases(ready), "l", seconds=4) as mine:
            assert mine
            wait_for(lambda mine=mine, first=mine.sure_until: mine.sure_until > first)
        wait_for(lambda: not [one for one in set(threading.enumerate()) - before if one.name == "squinney-lease"])


# ---- processes: killed in the middle, and with clocks that differ ----

KILLED = """
import sys, time
from pymongo import monitoring
from squinney import assembly
from squinney.service.jobs import JobWorker
from squinney.mongo.connect import client_for

class Hang(monitoring.CommandListener):
    armed = False
    def started(self, event):
        if Hang.armed:
            print("in the middle", flush=True)
            time.sleep(600)
    def succeeded(self, event): pass
    def failed(self, event): pass

uri, name, job_name = sys.argv[1:]
db = client_for(uri, event_listeners=[Hang()])[name]
job = next(job for job in assembly.jobs() if job.name == job_name)
def run(db):
    Hang.armed = True
    return job.run(db)
worker = JobWorker(db, [type(job)(job.name, job.every_seconds, run)], holder="doomed", lease_seconds=5)
worker.register_jobs()
worker.run(job_name)
"""


@heavy
@pytest.mark.parametrize("name", todays([job.name for job in assembly.jobs()], of=5))
def test_each_job_is_taken_over_when_its_worker_is_killed_in_the_middle(ready: Db, mongod: Embedded, name: str) -> None:
    doomed = subprocess.Popen(
        [sys.executable, "-c", KILLED, mongod.uri, ready.name, name], stdout=subprocess.PIPE, text=True
    )
    assert doomed.stdout
    assert doomed.stdout.readline() == "in the middle\n"
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.wait()
    job = next(job for job in assembly.jobs() if job.name == name)
    assert (statuses(ready, [job])[0].running or {})["holder"] == "doomed"
    heir = JobWorker(ready, [job], holder="heir", look_every_seconds=0.1)
    heir.start()
    wait_for(lambda: statuses(ready, [job])[0].runs, seconds=60)
    assert heir.stop()
    assert statuses(ready, [job])[0].last["holder"] == "heir"


SKEWED = """
import datetime as module, sys, time
hours = float(sys.argv[3])
real_time = time.time
time.time = lambda: real_time() + 3600 * hours
time.time_ns = lambda: int(time.time() * 1e9)
class Skewed(module.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
module.datetime = Skewed
from squinney.service.jobs import JobWorker
from squinney.mongo.connect import client_for
from squinney.patterns.jobs import Job
from tests.plugins.shelf import Prepared

db = client_for(sys.argv[1])[sys.argv[2]]
def run(db):
    marks = db["marks"]
    marks.insert_one({"_id": "inside"})  # a second one at once would be refused, and the run fail
    time.sleep(0.03)
    marks.delete_one({"_id": "inside"})
    return {"hours": hours}
worker = JobWorker(db, [Job("one", 0.01, run)], holder=sys.argv[3], lease_seconds=30, look_every_seconds=0.02)
db["runs"].insert_one({"_id": hours, "clock": module.datetime.now(module.UTC)})
worker.start()
sys.stdin.readline()
worker.stop()
"""


def test_workers_whose_clocks_are_an_hour_apart_never_run_a_job_at_once(ready: Db, mongod: Embedded) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", SKEWED, mongod.uri, ready.name, hours], stdin=subprocess.PIPE, text=True
        )
        for hours in ("0", "1", "-1")
    ]
    holders: set[str] = set()

    def all_had_a_turn() -> bool:
        record = ready[records.NAME].find_one({"_id": "one"}) or {}
        if last := record.get("last"):
            assert last["outcome"] == "ok", last
            holders.add(last["holder"])
        return len(holders) == 3 and record["runs"] >= 30

    try:
        wait_for(all_had_a_turn, seconds=60)
    finally:
        for worker in workers:
            worker.communicate("\n", timeout=120)
    record = ready[records.NAME].find_one({"_id": "one"}) or {}
    assert record["failures"] == 0
    clocks = sorted(run["clock"] for run in ready["runs"].find())
    assert (clocks[-1] - clocks[0]).total_seconds() > 7000, "the clocks did differ"
