"""`advise_shard_key`: rates shard keys for the events with the user's own data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from bson.timestamp import Timestamp

from squinney import checks
from squinney.analytics.events import queries
from squinney.analytics.events.documents import EVENT_SHARD_KEY
from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.events.sources import source_of
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document

Key = Mapping[str, int | str]

CANDIDATES: Sequence[Key] = (
    {"time": 1},
    {"_id": "hashed"},
    {"path": 1},
    {"host": 1},
    EVENT_SHARD_KEY,
)
QUERIES = (queries.BY_PATH, queries.BY_HOST, queries.BETWEEN)
SAMPLE = 10_000
MONOTONIC = 0.8
HOT_SHARE = 0.05
FEW_VALUES = 100


@dataclass(frozen=True)
class Advice:
    """The rating of a shard key.

    `hottest_share` is the share of the most frequent value of the whole key: a chunk with one value cannot be split.
    """

    key: Key
    sampled: int
    cardinality: int
    hottest_share: float
    hottest: str
    monotonic: bool
    routed: tuple[str, ...]
    broadcast: tuple[str, ...]
    verdict: str
    reason: str


@operation(60, reads_only=True)
def advise_shard_key(db: Db, candidates: Iterable[Key] = CANDIDATES, *, sample: int = SAMPLE) -> list[Advice]:
    """Rate shard keys for the events by a sample of events and by the declared queries.

    Raises: `Invalid` where there are no events, or for a malformed key.
    """
    checks.integer(sample, "sample", least=100, most=1_000_000)
    keys = [_checked(key) for key in candidates]
    found = list(_sampled(EventPartitions(db), sample))
    if not found:
        raise Invalid("there are no events yet to sample", field="sample")
    streams = _streams(found)
    return [_rated(key, found, streams) for key in keys]


def _sampled(partitions: EventPartitions, sample: int) -> Iterator[Document]:
    """Yield about `sample` events, from each partition in proportion to its size."""
    sizes = {partition: partition.estimated_document_count() for partition in partitions.spanning()}
    total = sum(sizes.values())
    for partition, size in sizes.items():
        if size:
            share = -(-sample * size // total)
            yield from partition.aggregate([{"$sample": {"size": share}}], allowDiskUse=True)


def _streams(events: Iterable[Document]) -> list[list[Document]]:
    """Group the events by source: imported ones in the order of their file, recorded ones in the order of arrival.

    The arrival order of imported events says nothing: it depends on how the import's threads were scheduled.
    """

    def position(event: Document) -> tuple[str, Timestamp, Any]:
        source = source_of(event["_id"])
        return source, Timestamp(0, 0) if source else event["arrived"], event["_id"]

    return [list(stream) for _, stream in groupby(sorted(events, key=position), lambda event: position(event)[0])]


def _checked(key: Any) -> Key:
    if not isinstance(key, Mapping) or not key or not all(kind in (1, "hashed") for kind in key.values()):
        raise Invalid("a shard key is like {path: 1, ssk: 1} or {_id: hashed}", field="candidates")
    return key


def _rated(key: Key, events: Sequence[Document], streams: Sequence[Sequence[Document]]) -> Advice:
    values = Counter(tuple(_comparable(event.get(field)) for field in key) for event in events)
    hottest, count = values.most_common(1)[0]
    leading = next(iter(key))
    hashed = key[leading] == "hashed"
    values_in_order = [[_comparable(event.get(leading)) for event in stream] for stream in streams]
    monotonic = not hashed and _follows_time(values_in_order)
    routed = tuple(query.name for query in QUERIES if _routes(key, query(**query.example)))
    broadcast = tuple(query.name for query in QUERIES if query.name not in routed)
    share = count / len(events)
    shown = ", ".join(map(str, hottest))
    verdict, reason = _verdict(monotonic, share, len(values), routed)
    return Advice(key, len(events), len(values), share, shown, monotonic, routed, broadcast, verdict, reason)


def _verdict(monotonic: bool, share: float, cardinality: int, routed: tuple[str, ...]) -> tuple[str, str]:
    if monotonic:
        return "poor", "it follows time, so all inserts go to the one shard with the newest chunk"
    if cardinality < FEW_VALUES:
        return "poor", f"{cardinality} distinct values allow at most {cardinality} chunks"
    if share > HOT_SHARE:
        return "risky", f"one value has {share:.1%} of the events, in a chunk that cannot be split"
    if not routed:
        return "writes only", "inserts are spread evenly, but every query goes to all shards"
    return "good", f"inserts are spread, chunks can be split, and {', '.join(routed)} goes to one shard"


def _routes(key: Key, where: Document) -> bool:
    """Return True if the filter selects shards: by a value of the key's first field, or by its range if not hashed."""
    leading = next(iter(key))
    if leading not in where:
        return False
    bounded = isinstance(where[leading], Mapping)
    return not bounded or key[leading] == 1


def _comparable(value: Any) -> Any:
    return "" if value is None else value


def _follows_time(streams: Sequence[Sequence[Any]]) -> bool:
    """Return True if the values are times, or if on average they rise or fall within their streams.

    Times always count: a live event has the newest time, even if the imported logs were sorted differently.
    """
    if all(isinstance(value, datetime) for stream in streams for value in stream):
        return True
    long = [stream for stream in streams if len(stream) > 2]
    number = sum(map(len, long))
    return number > 0 and sum(abs(_correlation(stream)) * len(stream) for stream in long) / number > MONOTONIC


def _correlation(values: Sequence[Any]) -> float:
    """Return Spearman's rank correlation between the values and their order."""
    number = len(values)
    by_value = sorted(range(number), key=lambda index: (str(type(values[index])), values[index], index))
    squares = sum((rank - index) ** 2 for rank, index in enumerate(by_value))
    return 1 - 6 * squares / (number * (number**2 - 1))
