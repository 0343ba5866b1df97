"""`Sessions`: how long visitors stay, derived from their requests."""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import BulkWriteError

from squinney import checks
from squinney.analytics.events.documents import EVENTS
from squinney.analytics.events.queries import UNWOUND
from squinney.analytics.rollups.pipelines import Finest
from squinney.analytics.rollups.rollups import OVERLAP_SECONDS, Rollups, arrived_since, chunks
from squinney.analytics.visits.documents import VISIT_RUNS, VISITS
from squinney.errors import Conflict
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document

SILENCE_SECONDS = 30 * 60
MAX_SILENCE_SECONDS = 30 * 86_400
SECONDS = 3_600
HOSTS_AT_ONCE = 200

Visitor = tuple[str, str]  # host and user id


@dataclass(frozen=True)
class Derived:
    """The result of `derive`; `moved` is True if it moved the watermark, from which the next call continues."""

    hosts: int
    changed: int
    moved: bool


class Sessions:
    """Sessions of visitors. A visitor is a logged-in user on one host, or otherwise a host with one user agent.

    A user who continues from another host starts a new session; roll-ups add up all sessions of the same user.
    `silence_seconds` without a request end a session, half an hour by default. A late request may lengthen a session,
    merge two, or move its start, so all sessions of its host are derived again. A session that no longer exists stays
    as an empty document, so that roll-ups notice the change. A session keeps its start when retention drops its first
    events.
    """

    def __init__(
        self, db: Db, *, silence_seconds: int = SILENCE_SECONDS, overlap_seconds: int = OVERLAP_SECONDS
    ) -> None:
        self._db = pinned(db)
        self._silence_seconds = checks.integer(
            silence_seconds, "silence_seconds", minimum=1, maximum=MAX_SILENCE_SECONDS
        )
        self._overlap_seconds = overlap_seconds

    @classmethod
    def registered(cls, db: Db) -> list[Sessions]:
        """Return the `Sessions` that were derived in this database before, with their settings."""
        return [cls(db, silence_seconds=stored["silence_seconds"]) for stored in pinned(db)[VISIT_RUNS].find()]

    @operation(reads_only=True)
    def rollups(self, time_zone: str = "UTC", *, finest: Finest = "hour") -> Rollups:
        """Return the roll-up of session times: total and mean per user, from hours to years."""
        return Rollups(self._db, VISITS, "userid", "length", "ts", time_zone, name="visits", finest=finest)

    @operation(SECONDS)
    def derive(self) -> Derived:
        """Update the sessions with the events that have arrived.

        Atomic: each session separately, unless a later call wrote it; moving the watermark, if this is the latest call.
        After a crash: some sessions are newer than others; the next call derives them again.
        Raises: `Conflict` if the sessions were derived with another `silence_seconds` before.
        """
        with self._db.client.start_session(causal_consistency=True) as session:
            next_run = {"$inc": {"run": 1}, "$setOnInsert": {"silence_seconds": self._silence_seconds}}
            state: Any = self._db[VISIT_RUNS].find_one_and_update(
                {"_id": VISITS}, next_run, upsert=True, return_document=True, session=session
            )
            if state["silence_seconds"] != self._silence_seconds:
                message = f"silence_seconds must be {state['silence_seconds']}, as for the sessions already derived"
                raise Conflict(message, field="silence_seconds")
            began = session.operation_time
            hosts = self._hosts(arrived_since(state.get("watermark"), self._overlap_seconds), session)
            changed = sum(self._derive_hosts(batch, state["run"], session) for batch in chunks(hosts, HOSTS_AT_ONCE))
            latest = {"_id": VISITS, "run": state["run"]}
            moved = self._db[VISIT_RUNS].update_one(latest, {"$set": {"watermark": began}}, session=session)
        return Derived(len(hosts), changed, moved.matched_count == 1)

    def _hosts(self, arrived: Document, session: ClientSession) -> list[str]:
        stages: list[Document] = [
            {"$match": arrived},
            UNWOUND,
            {"$match": {"events.host": {"$type": "string"}}},
            {"$group": {"_id": "$events.host"}},
        ]
        return sorted(row["_id"] for row in self._db[EVENTS].aggregate(stages, session=session, allowDiskUse=True))

    def _derive_hosts(self, hosts: Sequence[str], run: int, session: ClientSession) -> int:
        times = self._times_of(hosts, session)
        stored, begun = self._stored(hosts, times, session)
        silence = timedelta(seconds=self._silence_seconds)
        wanted: dict[str, Document] = {}
        for visitor, moments in times.items():
            wanted |= _sessions_of(visitor, _split(moments, silence, begun.get(visitor)))
        ids = wanted.keys() | stored.keys()
        changes = [_change(session_id, wanted.get(session_id), stored.get(session_id), run) for session_id in ids]
        writes = [change for change in changes if change]
        if writes:
            self._send(writes, session)
        return len(writes)

    def _times_of(self, hosts: Sequence[str], session: ClientSession) -> dict[Visitor, list[datetime]]:
        """Return the times of the requests of each visitor of these hosts, sorted."""
        times: dict[Visitor, list[datetime]] = defaultdict(list)
        of_hosts = {"events.host": {"$in": list(hosts)}}
        fields = {name: f"$events.{name}" for name in ("time", "host", "user", "user_agent")}
        stages: list[Document] = [{"$match": of_hosts}, UNWOUND, {"$match": of_hosts}, {"$replaceWith": fields}]
        for event in self._db[EVENTS].aggregate(stages, session=session):
            times[event["host"], _visitor(event)].append(event["time"])
        return {visitor: sorted(moments) for visitor, moments in times.items()}

    def _stored(
        self, hosts: Sequence[str], times: Mapping[Visitor, Sequence[datetime]], session: ClientSession
    ) -> tuple[dict[str, Document], dict[Visitor, Document]]:
        """Return the stored sessions to compare with, by id, and each visitor's session whose first events are dropped.

        Older sessions, all of whose events were dropped, are left unchanged.
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

    def _send(self, writes: list[UpdateOne], session: ClientSession) -> None:
        """Send the writes, and those again whose session another call has inserted meanwhile.

        That call is the later one if there is a duplicate again, and its session stays.
        """
        for _ in range(2):
            try:
                self._db[VISITS].bulk_write(writes, ordered=False, session=session)
                return
            except BulkWriteError as error:
                failed = error.details["writeErrors"]
                if error.details["writeConcernErrors"] or any(failure["code"] != DUPLICATE_KEY for failure in failed):
                    raise
                writes = [writes[failure["index"]] for failure in failed]


def _sessions_of(visitor: Visitor, split: Iterable[tuple[datetime, datetime, int]]) -> dict[str, Document]:
    """Return the documents of a visitor's sessions by their ids."""
    host, userid = visitor
    return {
        hashlib.sha256(f"{host}\n{userid}\n{first.isoformat()}".encode()).hexdigest()[:32]: {
            "userid": userid,
            "host": host,
            "ts": first,
            "length": int((last - first).total_seconds()),
            "requests": requests,
        }
        for first, last, requests in split
    }


def _visitor(event: Document) -> str:
    if user := event.get("user"):
        return str(user)
    agent = event.get("user_agent")
    return f"{event['host']} {zlib.crc32(agent.encode()):08x}" if agent else str(event["host"])


def _split(
    moments: Iterable[datetime], silence: timedelta, begun: Document | None = None
) -> list[tuple[datetime, datetime, int]]:
    """Return the first time, last time and number of requests of each session.

    A `begun` session has no events any more for its first requests; it is continued with the later requests.
    """
    visits: list[tuple[datetime, datetime, int]] = []
    if begun is not None:
        last = begun["ts"] + timedelta(seconds=begun["length"])
        visits.append((begun["ts"], last, begun["requests"]))
        counted = last + timedelta(seconds=1)  # lengths are in whole seconds
        moments = [moment for moment in moments if moment >= counted]
    for moment in moments:
        if visits and moment - visits[-1][1] < silence:
            first, _, requests = visits.pop()
            visits.append((first, moment, requests + 1))
        else:
            visits.append((moment, moment, 1))
    return visits


def _change(session_id: str, wanted: Document | None, stored: Document | None, run: int) -> UpdateOne | None:
    """Return the write that makes the stored session the wanted one, unless a later run wrote it; None if it is so."""
    if all((wanted or {}).get(name) == (stored or {}).get(name) for name in ("length", "requests")):
        return None
    change: Document = {"$set": {**(wanted or {}), "run": run}, "$currentDate": {"arrived": {"$type": "timestamp"}}}
    if wanted is None:
        change["$unset"] = {"length": "", "requests": ""}
    return UpdateOne({"_id": session_id, "run": {"$lte": run}}, change, upsert=wanted is not None)
