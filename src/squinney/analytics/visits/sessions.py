"""`Sessions`: how long visitors stay, from the requests they make."""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bson.timestamp import Timestamp
from pymongo import InsertOne, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import BulkWriteError

from squinney import checks
from squinney.analytics.events.partitions import EventPartitions, write_errors
from squinney.analytics.rollups.pipelines import Finest
from squinney.analytics.rollups.rollups import OVERLAP_SECONDS, Rollups, arrived_since, chunks
from squinney.analytics.visits.documents import VISIT_RUNS, VISITS
from squinney.errors import Conflict
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document

SILENCE_SECONDS = 30 * 60
MOST_SILENCE_SECONDS = 30 * 86_400
SECONDS = 3_600
HOSTS_AT_ONCE = 200

Visitor = tuple[str, str]  # the host, and who it is


@dataclass(frozen=True)
class Derived:
    """What a call changed, and whether the next one begins where it began."""

    hosts: int
    changed: int
    moved: bool


class Sessions:
    """Sessions of visitors: a visitor is a logged-in user of a host, or else a host with one user agent. A user who
    goes on from another host begins another session; roll-ups add up what is the same user's.

    Half an hour of silence ends a session. A late request may lengthen one, join two or begin one earlier: all sessions
    of its host are derived anew. One that is no more stays as an empty document, so that roll-ups notice. One whose
    first events retention has dropped stays the same session.
    """

    def __init__(
        self, db: Db, *, silence_seconds: int = SILENCE_SECONDS, overlap_seconds: int = OVERLAP_SECONDS
    ) -> None:
        self._db = pinned(db)
        self._partitions = EventPartitions(db, refresh_seconds=0)
        self._silence_seconds = checks.integer(silence_seconds, "silence_seconds", least=1, most=MOST_SILENCE_SECONDS)
        self._silence = timedelta(seconds=silence_seconds)
        self._overlap_seconds = overlap_seconds

    @classmethod
    def registered(cls, db: Db) -> list[Sessions]:
        """The sessions that were derived once in this database, as they were."""
        return [cls(db, silence_seconds=known["silence_seconds"]) for known in pinned(db)[VISIT_RUNS].find()]

    @operation(reads_only=True)
    def rollups(self, time_zone: str = "UTC", *, finest: Finest = "hour") -> Rollups:
        """The book's example: total and mean session time per user, by hour to year."""
        return Rollups(self._db, VISITS, "userid", "length", "ts", time_zone, name="visits", finest=finest)

    @operation(SECONDS)
    def derive(self) -> Derived:
        """Bring the sessions up to date with the events that have arrived.

        Atomic: each session by itself, unless a later call wrote it; the watermark's move, while this is the latest.
        After a crash: some sessions are newer than others; the next call derives them again.
        Raises: `Conflict` where they were derived with another silence: hosts would be told apart by when they came.
        """
        with self._db.client.start_session(causal_consistency=True) as session:
            taken = {"$inc": {"run": 1}, "$setOnInsert": {"silence_seconds": self._silence_seconds}}
            known: Any = self._db[VISIT_RUNS].find_one_and_update(
                {"_id": VISITS}, taken, upsert=True, return_document=True, session=session
            )
            if known["silence_seconds"] != self._silence_seconds:
                said = f"sessions here end after {known['silence_seconds']} s of silence"
                raise Conflict(said, field="silence_seconds")
            began = session.operation_time
            hosts = self._hosts(arrived_since(known.get("watermark"), self._overlap_seconds), session)
            changed = sum(self._derive_hosts(some, known["run"], session) for some in chunks(hosts, HOSTS_AT_ONCE))
            latest = {"_id": VISITS, "run": known["run"]}
            moved = self._db[VISIT_RUNS].update_one(latest, {"$set": {"watermark": began}}, session=session)
        return Derived(len(hosts), changed, moved.matched_count == 1)

    def _hosts(self, arrived: Document, session: ClientSession) -> list[str]:
        stages: list[Document] = [
            {"$match": {**arrived, "host": {"$type": "string"}}},
            {"$group": {"_id": "$host"}},
        ]
        return sorted(
            {
                row["_id"]
                for partition in self._partitions.spanning()
                for row in partition.aggregate(stages, session=session, allowDiskUse=True)
            }
        )

    def _derive_hosts(self, hosts: Sequence[str], run: int, session: ClientSession) -> int:
        times = self._times_of(hosts, session)
        stored, begun = self._stored(hosts, times, session)
        wanted = {
            document["_id"]: document
            for visitor, moments in times.items()
            for document in _sessions_of(visitor, moments, begun.get(visitor), self._silence)
        }
        writes: list[InsertOne[Document] | UpdateOne] = []
        for session_id in wanted.keys() | stored.keys():
            writes += _write(session_id, wanted.get(session_id), stored.get(session_id), run)
        if writes:
            self._send(writes, wanted, run, session)
        return len(writes)

    def _times_of(self, hosts: Sequence[str], session: ClientSession) -> dict[Visitor, list[datetime]]:
        """When each visitor of these hosts made requests, in order."""
        times: dict[Visitor, list[datetime]] = defaultdict(list)
        fields = {"time": 1, "host": 1, "user": 1, "user_agent": 1}
        for partition in self._partitions.spanning():
            for event in partition.find({"host": {"$in": hosts}}, fields, session=session):
                times[event["host"], _visitor(event)].append(event["time"])
        return {visitor: sorted(moments) for visitor, moments in times.items()}

    def _stored(
        self, hosts: Sequence[str], times: Mapping[Visitor, Sequence[datetime]], session: ClientSession
    ) -> tuple[dict[str, Document], dict[Visitor, Document]]:
        """The sessions to compare with, by id, and for each visitor the last one whose first events are gone.

        Older ones lost all their events to retention, and stay as they are.
        """
        oldest: dict[str, datetime] = {}
        for (host, _), moments in times.items():
            oldest[host] = min(moments[0], oldest.get(host, moments[0]))
        stored: dict[str, Document] = {}
        begun: dict[Visitor, Document] = {}
        for document in self._db[VISITS].find({"host": {"$in": hosts}}, session=session).sort("ts", 1):
            visitor = document["host"], document["userid"]
            if document["ts"] >= oldest.get(document["host"], document["ts"]):
                stored[document["_id"]] = document
            elif visitor in times and "length" in document:
                begun[visitor] = document
        return stored | {document["_id"]: document for document in begun.values()}, begun

    def _send(
        self,
        writes: list[InsertOne[Document] | UpdateOne],
        wanted: dict[str, Document],
        run: int,
        session: ClientSession,
    ) -> None:
        try:
            self._db[VISITS].bulk_write(writes, ordered=False, session=session)
        except BulkWriteError as error:
            failed = write_errors(error)
            if any(one["code"] != DUPLICATE_KEY for one in failed):
                raise
            again = [wanted[one["op"]["_id"]] for one in failed]  # another call inserted it first
            self._db[VISITS].bulk_write([_update(document, run) for document in again], session=session)


def _sessions_of(
    visitor: Visitor, moments: Sequence[datetime], begun: Document | None, silence: timedelta
) -> Iterator[Document]:
    host, userid = visitor
    for first, last, requests in _split(moments, silence, begun):
        yield {
            "_id": hashlib.sha256(f"{host}\n{userid}\n{first.isoformat()}".encode()).hexdigest()[:32],
            "userid": userid,
            "host": host,
            "ts": first,
            "length": int((last - first).total_seconds()),
            "requests": requests,
        }


def _visitor(event: Document) -> str:
    if user := event.get("user"):
        return str(user)
    agent = event.get("user_agent")
    return f"{event['host']} {zlib.crc32(agent.encode()):08x}" if agent else str(event["host"])


def _split(
    moments: Iterable[datetime], silence: timedelta, begun: Document | None = None
) -> Iterator[tuple[datetime, datetime, int]]:
    """First, last and number of requests of each session; one that is `begun` goes on with what came behind it."""
    first = last = None
    requests = 0
    if begun is not None:
        first, requests = begun["ts"], begun["requests"]
        last = first + timedelta(seconds=begun["length"])
        counted = last + timedelta(seconds=1)  # lengths are in whole seconds
        moments = [moment for moment in moments if moment >= counted]
    for moment in moments:
        if first is not None and last is not None and moment - last >= silence:
            yield first, last, requests
            first, requests = None, 0
        first = first or moment
        last = moment
        requests += 1
    if first is not None and last is not None:
        yield first, last, requests


def _write(
    session_id: str, wanted: Document | None, stored: Document | None, run: int
) -> list[InsertOne[Document] | UpdateOne]:
    if wanted is None:
        if stored is None or "length" not in stored:
            return []
        gone = {"$unset": {"length": "", "requests": ""}, "$set": {"run": run}, "$currentDate": _NOW}
        return [UpdateOne({"_id": session_id, "run": {"$lte": run}}, gone)]
    if stored is None:
        return [InsertOne({**wanted, "run": run, "arrived": Timestamp(0, 0)})]
    if (stored.get("length"), stored.get("requests")) == (wanted["length"], wanted["requests"]):
        return []
    return [_update(wanted, run)]


def _update(wanted: Document, run: int) -> UpdateOne:
    values = {name: value for name, value in wanted.items() if name != "_id"}
    return UpdateOne(
        {"_id": wanted["_id"], "run": {"$lte": run}}, {"$set": {**values, "run": run}, "$currentDate": _NOW}
    )


_NOW: Document = {"arrived": {"$type": "timestamp"}}
