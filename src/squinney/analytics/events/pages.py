"""Pages: events are stored together, about two hundred of one source, one site and one hour (UTC).

A page costs the server hardly more than an event would. It is never changed; packing replaces small pages by large
ones, as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import bson
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession

from squinney.analytics.events import queries
from squinney.analytics.events.documents import EVENTS, FORGETTING, IMPORTS, LIVE
from squinney.clock import Clock, utcnow
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import CODEC, pinned
from squinney.mongo.schema import Db, Document
from squinney.transactions import in_transaction

MAX_EVENTS = 200
MAX_BYTES = 128 << 10  # of the events as BSON; a page ends with the event that exceeds it
LOOSE_BELOW = MAX_EVENTS // 2
SECONDS = 60
PACKED_AT_ONCE = 1_000
HOUR_MS = 3_600_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
_KEYS = [b"\x03%d\0" % index for index in range(MAX_EVENTS)]  # the start of each element of a BSON array
_FILLED_BY_THE_SERVER = Timestamp(0, 0)


def milliseconds(at: datetime) -> int:
    """Return the milliseconds since 1970, as BSON stores a time."""
    return (at - EPOCH) // MILLISECOND


@dataclass(slots=True)
class _OpenPage:
    first: int
    last: int
    forget_at: int | None
    size: int = 0
    end: int | None = None
    events: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class BuiltPage(NamedTuple):
    """A page to be inserted, and the numbers under which its events were added."""

    document: RawBSONDocument
    numbers: list[int]


class PageBuilder:
    """Sorts the events of one source into pages: `add` each event, then take all pages with `finish`.

    Each event has a number. The id of a page ends with the `block` of its first event's number.
    """

    def __init__(self, source: str, block: Callable[[int], str] = "{:012x}".format) -> None:
        self._source = source
        self._block = block
        self._open: dict[tuple[int, str, int | None], _OpenPage] = {}
        self._finished: list[BuiltPage] = []

    def add(
        self,
        event: bytes,
        at: int,
        number: int,
        *,
        site: str = "",
        end: int | None = None,
        forget_at: int | None = None,
    ) -> None:
        """Add an event as BSON; `end` is that of its line in the source. Times are milliseconds since 1970."""
        # guard: a page is of one hour
        key = at // HOUR_MS, site, None if forget_at is None else forget_at // HOUR_MS
        page = self._open.get(key)
        if page is None:
            page = self._open[key] = _OpenPage(at, at, forget_at)
        page.events.append(event)
        page.numbers.append(number)
        page.size += len(event)
        page.end = end
        if at < page.first:
            page.first = at
        elif at > page.last:
            page.last = at
        if forget_at is not None and page.forget_at is not None:
            page.forget_at = min(forget_at, page.forget_at)
        # guard: a page is bounded
        if len(page.events) == MAX_EVENTS or page.size >= MAX_BYTES:
            self._finished.append(self._encoded(key, self._open.pop(key)))

    def add_document(self, event: Document, number: int, *, end: int | None = None) -> None:
        """Add an event that is not encoded yet."""
        event = dict(event)
        site, forget_at = event.pop("site", ""), event.pop("forget_at", None)
        until = None if forget_at is None else milliseconds(forget_at)
        self.add(encoded(event), milliseconds(event["time"]), number, site=site, end=end, forget_at=until)

    def finish(self) -> list[BuiltPage]:
        """Return all pages, and begin anew."""
        self._finished += [self._encoded(key, page) for key, page in self._open.items()]
        finished, self._open, self._finished = self._finished, {}, []
        return finished

    def _encoded(self, key: tuple[int, str, int | None], page: _OpenPage) -> BuiltPage:
        hour, site, _ = key
        head: Document = {
            "_id": f"{EPOCH + timedelta(hours=hour):%Y-%m-%dT%H}/{self._source}/{self._block(page.numbers[0])}",
            "source": self._source,
            **({"site": site} if site else {}),
            "from": DatetimeMS(page.first),
            "to": DatetimeMS(page.last),
            "n": len(page.events),
            **({} if page.end is None else {"end": page.end}),
            "arrived": _FILLED_BY_THE_SERVER,
            **({"loose": True} if len(page.events) < LOOSE_BELOW and page.size < MAX_BYTES else {}),
            **({} if page.forget_at is None else {"forget_at": DatetimeMS(page.forget_at)}),
        }
        return BuiltPage(RawBSONDocument(_with_events(bson.encode(head), page.events)), page.numbers)


def encoded(event: Document) -> bytes:
    """Return an event as BSON."""
    return bson.encode(event, codec_options=CODEC)


def _with_events(head: bytes, events: list[bytes]) -> bytes:
    """Append the array of events to an encoded document, without decoding them."""
    parts = [part for pair in zip(_KEYS, events, strict=False) for part in pair]
    array = b"".join(parts)
    body = head[4:-1] + b"\x04events\0" + (len(array) + 5).to_bytes(4, "little") + array + b"\0\0"
    return (len(body) + 4).to_bytes(4, "little") + body


def events_of(page: Document) -> Iterator[Document]:
    """Yield a page's events with what its page knows about all of them."""
    shared: Document = {name: page[name] for name in ("site", "forget_at") if name in page}
    for event in page["events"]:
        yield {**shared, **event}


# ---- packing ----


def pack(db: Db, *, clock: Clock = utcnow) -> Counter[str]:
    """Pack the small pages of each source and hour, once the hour is over; imports and readers continue meanwhile.

    Atomic: the pages of one source and hour in one transaction.
    After a crash: some hours are packed; the next call packs the others.
    """
    db = pinned(db)
    hour = clock().replace(minute=0, second=0, microsecond=0)
    done: Counter[str] = Counter()
    with operation(SECONDS):
        hours = list(queries.LOOSE_HOURS.run(db, before=hour))
    for row in hours:
        source, start = row["_id"]["source"], row["_id"]["hour"]
        done["packed"] += in_transaction(db, partial(_pack_hour, db, source, start), seconds=SECONDS)
    return +done


def _pack_hour(db: Db, source: str, hour: datetime, session: ClientSession) -> int:
    """Replace the hour's small pages; return how many there were.

    The pages get a new `arrived`, so that roll-ups count again what they may have read meanwhile.
    """
    counted = 0
    if source != LIVE:
        # Its write to the source's record makes packing and the counting of hits exclude each other.
        # guard: pages of a source that is being forgotten are not packed
        known = {"_id": source, "state": {"$ne": FORGETTING}}
        record = db[IMPORTS].find_one_and_update(known, {"$inc": {"packed": 1}}, session=session)
        if record is None:
            return 0
        counted = record.get("hits_offset", 0)
    where = queries.LOOSE_PAGES(source=source, start=hour, end=hour + timedelta(hours=1))
    small = list(db[EVENTS].find(where, session=session).sort("from", 1).limit(PACKED_AT_ONCE))
    # guard: pages whose hits are counted are not packed together with others
    sides = [[page for page in small if (page.get("end", 0) <= counted) is side] for side in (True, False)]
    return sum(_replace_pages(db, source, pages, session) for pages in sides if len(pages) > 1)


def _replace_pages(db: Db, source: str, pages: list[Document], session: ClientSession) -> int:
    db[EVENTS].delete_many({"_id": {"$in": [page["_id"] for page in pages]}}, session=session)
    db[EVENTS].insert_many(_packed(source, pages), session=session)
    return len(pages)


def _packed(source: str, pages: Iterable[Document]) -> list[Any]:
    """Return pages of the same events that will not be packed again. Each has the `end` of the last of its lines."""
    ordered = sorted(pages, key=lambda page: page.get("end", 0))
    builder = PageBuilder(source, lambda number: str(ordered[number]["_id"]).rpartition("/")[2])
    for number, page in enumerate(ordered):
        until = page.get("forget_at")
        forget_at = None if until is None else milliseconds(until)
        for event in page["events"]:
            builder.add(
                encoded(event),
                milliseconds(event["time"]),
                number,
                site=page.get("site", ""),
                end=page.get("end"),
                forget_at=forget_at,
            )
    packed = [bson.decode(page.document.raw, CODEC) for page in builder.finish()]
    return [{name: value for name, value in page.items() if name != "loose"} for page in packed]
