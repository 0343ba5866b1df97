"""The engine of a proof: it starts workers, kills them, and at the end checks every promise."""

from __future__ import annotations

import math
import queue
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pymongo import MongoClient

from squinney.mongo import schema
from squinney.mongo.schema import Document
from squinney.pictures.timeline import Bar
from squinney.service.proving import lanes
from squinney.service.proving.progress import LaneProgress, Progress
from squinney.service.proving.scratch import scratch_name
from squinney.service.proving.subjects import Lane, Stage, Subject
from squinney.service.proving.worker import WorkerTask
from squinney.service.proving.workers import LaneWorkers
from squinney.transactions.abandoned import MIN_IDLE_SECONDS

TICK_SECONDS = 0.25
# A command of a worker that was killed may reach the server a little later; its report reaches us as late.
LATE_SECONDS = 0.05
MAX_BEGIN_SECONDS = 10.0  # of workers; then the clock of the proof starts all the same
MAX_RESTING_SECONDS = 10.0
Observe = Callable[[Progress], None]


@dataclass(frozen=True)
class ProofLimits:
    """How long a proof takes and how much it does. A `pause_seconds` of 0 runs at full speed and reports no runs."""

    seconds: float = 60
    operations: int = 0
    workers: int = 4
    kill_every: float = 1
    pause_seconds: float = 0


class Stopped(Exception):
    """Somebody wants the proof to end now, without a verdict."""


class Engine:
    """Runs one proof. `kill` and `stop` may be called from other threads."""

    def __init__(self, client: MongoClient[Document], uri: str, subject: Subject, limits: ProofLimits) -> None:
        self._limits = limits
        self._subject = subject
        self._wanted: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lanes = [_LaneRun(client, uri, subject, lane, limits) for lane in subject.lanes]
        progress = [lane.progress for lane in self._lanes]
        self.progress = Progress(subject.name, subject.title, progress, limits.seconds)
        self._client = client

    def kill(self) -> None:
        """Kill one worker of each lane now."""
        self._wanted.put("kill")

    def stop(self) -> None:
        """End the proof without a verdict."""
        self._wanted.put("stop")

    def run(self, stages: Sequence[Stage], observe: Observe) -> Progress:
        """Run the whole proof and return its verdict. Workers and databases are gone afterwards."""
        try:
            self.progress.server = self._client.admin.command("buildInfo")["version"]
            for lane in self._lanes:
                lane.start()
            observe(self.progress)
            for lane in self._lanes:
                lane.workers.await_begun(MAX_BEGIN_SECONDS)
            self._work(stages, observe)
            self.progress.state = "checking"
            observe(self.progress)
            for lane in self._lanes:
                if not stages[-1].kills:  # nothing is cut in a stage without kills, at its end neither
                    lane.workers.rest(MAX_RESTING_SECONDS)
                lane.workers.kill_all()
            time.sleep(MIN_IDLE_SECONDS + 0.1)  # open transactions count as abandoned after that
            for lane in self._lanes:
                lane.judge(self.progress.seconds)
            self.progress.state = "done"
        finally:
            for lane in self._lanes:
                lane.close()
        observe(self.progress)
        return self.progress

    def _work(self, stages: Sequence[Stage], observe: Observe) -> None:
        self.progress.state = "running"
        began = time.monotonic()
        ends = 0.0
        for number, stage in enumerate(stages):
            ends += stage.share * self._limits.seconds
            self.progress.stage = number
            if stage.races:
                for lane in self._lanes:
                    lane.workers.race()
            self._run_stage(stage, began, ends, observe)

    def _run_stage(self, stage: Stage, began: float, ends: float, observe: Observe) -> None:
        kill_every = self._limits.kill_every / stage.kills if stage.kills else math.inf
        next_kill = self.progress.seconds + 2 * kill_every
        while self.progress.seconds < ends and not self._has_done_enough():
            time.sleep(TICK_SECONDS)
            now = time.monotonic() - began
            if self._is_kill_wanted() or now >= next_kill:
                for lane in self._lanes:
                    lane.kill_one(began)
                next_kill = time.monotonic() - began + kill_every
            for lane in self._lanes:
                lane.look(began)
            self.progress.seconds = time.monotonic() - began
            observe(self.progress)

    def _has_done_enough(self) -> bool:
        return 0 < self._limits.operations <= sum(lane.progress.operations for lane in self._lanes)

    def _is_kill_wanted(self) -> bool:
        is_wanted = False
        with suppress(queue.Empty):
            while True:
                if self._wanted.get_nowait() == "stop":
                    raise Stopped
                is_wanted = True
        return is_wanted


class _LaneRun:
    """One lane of a running proof: its database, its workers, and what is known of it."""

    workers: LaneWorkers

    def __init__(
        self, client: MongoClient[Document], uri: str, subject: Subject, lane: Lane, limits: ProofLimits
    ) -> None:
        self._lane = lane
        self._uri = uri
        self._packages = subject.packages
        self._limits = limits
        self._client = client
        self._db = client[scratch_name(lane.name)]
        self._is_started = False
        self.progress = LaneProgress(lane.name, lane.title, lane.total)
        if lane.total:
            self.progress.levels.append((0, lane.total))

    def start(self) -> None:
        schema.apply(self._db, self._lane.collections())
        self._lane.proof.prepare(self._db)
        limits = self._limits
        task = WorkerTask(self._lane.name, self._uri, self._db.name, limits.pause_seconds, self._packages)
        self.workers = LaneWorkers(task, limits.workers)
        self._is_started = True

    def close(self) -> None:
        """Kill the workers and drop the database, however far the proof came."""
        try:
            if self._is_started:
                self.workers.kill_all()
        finally:
            self._client.drop_database(self._db.name)

    def kill_one(self, began: float) -> None:
        self.workers.kill_one()
        self.progress.kills.append(time.monotonic() - began)

    def look(self, began: float) -> None:
        """Settle what killed workers left, as a background job would, and look how far the others are."""
        self.progress.recovered.update(self._lane.proof.settle(self._db))
        if self._limits.pause_seconds:
            self._count_runs(began)
        else:
            self.progress.operations = self._lane.proof.progress(self._db)
        if self._lane.total:
            self._measure(began)

    def _count_runs(self, began: float) -> None:
        rows = [row.counted() for row in self.workers.rows]
        outcomes = Counter(bar.outcome for row in rows for bar in row)
        self.progress.operations, self.progress.refused = outcomes["done"], outcomes["refused"]
        self.progress.rows = [
            [Bar(round(bar.begin - began, 3), round(bar.end - began, 3), bar.outcome) for bar in row] for row in rows
        ]

    def _measure(self, began: float) -> None:
        """Measure the sum of the balances, unless a transfer ran meanwhile: half of it would be counted as lost."""
        before = time.monotonic()
        total, lowest = lanes.measure(self._db)
        after = time.monotonic()
        time.sleep(LATE_SECONDS)
        self.progress.lowest = min(self.progress.lowest, lowest)
        if self.workers.are_idle(before - LATE_SECONDS, after):
            self.progress.levels.append((round(after - began, 2), total))

    def judge(self, seconds: float) -> None:
        """Settle what is left, and check every promise. The workers are dead."""
        progress, proof = self.progress, self._lane.proof
        progress.kills.append(seconds)
        for _ in range(2):
            progress.recovered.update(proof.settle(self._db))
        if not self._limits.pause_seconds:
            progress.operations = proof.progress(self._db)
        if self._lane.total:
            total, lowest = lanes.measure(self._db)
            progress.levels.append((seconds, total))
            progress.lowest = min(progress.lowest, lowest)
            progress.verdict = lanes.promises(total, progress.lowest)
        else:
            progress.verdict = dict(proof.check(self._db))
