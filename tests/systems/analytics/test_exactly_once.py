"""Two hundred kills of followers, imports and packings, while a log is rotated at random."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from collections import Counter
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from tests.processes import wait_until_gone
from tests.sizes import a_tenth_of, heavy
from tests.systems.analytics import rotator
from tests.systems.analytics.conftest import stored_events
from tests.systems.analytics.rotator import LOST, Server, wait_until

from squinney.analytics import EventLog, feed_hits, pack
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

KILLS = 10  # in one campaign
children = multiprocessing.get_context("forkserver")


class Campaign:
    """One server and its rotator, and the processes that are killed."""

    def __init__(self, db: Db, uri: str, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.server = Server(folder, self.rng)
        self.warnings = folder / "warnings"
        self.warnings.touch()
        self._db = db
        self._to = f"{uri}&appName=campaign-{db.name}", db.name
        self.app = f"campaign-{db.name}"
        self.kills: Counter[str] = Counter()
        self._running: dict[str, ForkServerProcess] = {}
        self._importing = set[int]()
        self.unfinished: list[set[int]] = []  # the logs whose import by hand was killed

    def run(self) -> None:
        try:
            self.start("follow")
            self._write()
            self.server.finish_line()
            wait_until(lambda: self._db["analytics.events"].find_one() is not None)  # the first call has begun
            while self.kills.total() < KILLS:
                self._step()
        finally:
            for process in self._running.values():
                process.kill()
                process.join()

    def _step(self) -> None:
        self._write()
        match self.rng.randrange(10):
            case 0 | 1:
                self.server.rotate()
            case 2 | 3:
                self.kill()
            case 4:
                self.start("pack")
            case 5:
                self.start("import")
            case 6 | 7 | 8:
                self.start("follow")
            case 9 if self.rng.random() < 0.3:
                self._down_for_three_rotations()

    def _down_for_three_rotations(self) -> None:
        if "follow" in self._running:
            self.kill("follow")
        for _ in range(3):
            self._write()
            self.server.rotate()

    def _write(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.server.write(self.rng.randint(1, 60))
            time.sleep(self.rng.choice([0, 0.01, 0.05]))

    def start(self, name: str) -> None:
        running = self._running.get(name)
        if running and running.is_alive():
            return
        self._importing = self.server.any_log() if name == "import" else self._importing
        path = self.server.path_of(self._importing) or self.server.path
        calls = {
            "follow": (rotator.follow, (*self._to, self.server.path, self.warnings)),
            "pack": (rotator.pack_often, self._to),
            "import": (rotator.import_once, (*self._to, path)),
        }
        target, arguments = calls[name]
        process = children.Process(target=target, args=arguments, daemon=True)
        process.start()
        self._running[name] = process

    def kill(self, name: str = "") -> None:
        alive = [name for name, process in self._running.items() if process.is_alive()]
        if not alive:
            return
        name = name if name in alive else self.rng.choice(alive)
        time.sleep(self.rng.choice([0, self.rng.uniform(0, 0.3)]))
        process = self._running.pop(name)
        process.kill()
        process.join()
        self.kills[name] += 1
        if name == "import":
            self.unfinished.append(self._importing)

    def finish(self) -> None:
        """Follow once more to the end of the log, repeat killed imports, and pack and count everything."""
        self.server.finish_line()
        wait_until_gone(self._db.client, self.app)
        stop = threading.Event()
        stop.set()
        log = EventLog(self._db)
        rotator.until_it_works(lambda: log.follow(self.server.path, stop=stop))
        for path in filter(None, map(self.server.path_of, self.unfinished)):
            log.import_file(path)
        pack(self._db)
        for source in self._db["analytics.imports"].find({}, {"_id": 1}):
            feed_hits(self._db, source["_id"])

    def report(self) -> str:
        """Return what a reader of a failure needs."""
        kind = (
            f"{self.server.alike} lines alike, {'dated' if self.server.is_dated else 'numbered'}, kills: {self.kills}"
        )
        deleted = [f"deleted at {at:.2f}: {min(lines)} to {max(lines)}" for at, lines in self.server.deleted]
        return "\n".join([kind, *deleted, self.warnings.read_text()])

    def warned_at(self) -> list[float]:
        lines = self.warnings.read_text().splitlines()
        return [float(line.split()[0]) for line in lines if LOST in line]


@heavy
@pytest.mark.parametrize("seed", range(a_tenth_of(20)))
def test_each_line_is_stored_once_or_named(
    analytics_db: Db, mongod: Embedded, tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    campaign = Campaign(analytics_db, mongod.uri, tmp_path, seed)
    campaign.run()
    campaign.finish()
    server = campaign.server
    events = stored_events(analytics_db)
    counts = Counter(event["bytes"] for event in events if event["path"] == "/")
    twice = {number: count for number, count in counts.items() if count > 1}
    missing = set(range(server.written)) - counts.keys()
    named = set[int]()
    warned = campaign.warned_at() + [record.created for record in caplog.records if LOST in record.getMessage()]
    for at, lines in server.deleted:
        if any(warning > at for warning in warned):
            named |= lines
    named.update(*(lines for lines in campaign.unfinished if server.path_of(lines) is None))
    assert (twice, sorted(missing - named)) == ({}, []), campaign.report()
    if not missing:
        assert len(events) - server.written == server.logs * server.alike
    assert analytics_db["analytics.rejects"].count_documents({}) == 0
    assert sum(day["total"] for day in analytics_db["analytics.hits_daily"].find()) == len(events)
