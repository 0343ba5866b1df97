"""`advise_shard_key`: what the book tells to test with one's own data, tested with one's own data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson.timestamp import Timestamp

from squinney import checks
from squinney.analytics.events import queries
from squinney.analytics.events.documents import EVENT_SHARD_KEY
from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.events.sources import log_of
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
    """How a shard key would do. `hottest_share` is of the whole key: a chunk cannot be split below one value."""

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
    """Judge shard keys for the events by a sample of them and the declared queries.

    Raises: `Invalid` where there are no events, or for a key that is none.
    """
    checks.integer(sample, "sample", least=100, most=1_000_000)
    keys = [_checked(key) for key in candidates]
    found = list(_sampled(EventPartitions(db), sample))
    if not found:
        raise Invalid("there are no events yet to judge by", field="sample")
    streams = _streams(found)
    return [_judged(key, found, streams) for key in keys]


def _sampled(partitions: EventPartitions, sample: int) -> Iterator[Document]:
    """About so many events: of each partition its share of them, so that a rotated log is judged like any other."""
    sizes = {partition: partition.estimated_document_count() for partition in partitions.spanning()}
    total = sum(sizes.values())
    for partition, size in sizes.items():
        if size:
            share = -(-sample * size // total)
            yield from partition.aggregate([{"$sample": {"size": share}}], allowDiskUse=True)


def _streams(events: Iterable[Document]) -> list[list[Document]]:
    """Each log's events in the order of the file, and those that were recorded singly in the order of arrival.

    When a log's events arrived says only how the import's threads overtook each other, and a second log begins anew.
    """
    streams: dict[str, list[Document]] = defaultdict(list)
    for event in events:
        streams[log_of(event["_id"])].append(event)
    return [sorted(stream, key=_position_in_stream) for stream in streams.values()]


def _position_in_stream(event: Document) -> tuple[Timestamp, Any]:
    return Timestamp(0, 0) if log_of(event["_id"]) else event["arrived"], event["_id"]


def _checked(key: Any) -> Key:
    if not isinstance(key, Mapping) or not key or not all(kind in (1, "hashed") for kind in key.values()):
        raise Invalid("a shard key is like {path: 1, ssk: 1} or {_id: hashed}", field="candidates")
    return key


def _judged(key: Key, events: Sequence[Document], streams: Sequence[Sequence[Document]]) -> Advice:
    values = Counter(tuple(_comparable(event.get(field)) for field in key) for event in events)
    hottest, count = values.most_common(1)[0]
    leading = next(iter(key))
    hashed = key[leading] == "hashed"
    values_in_order = [[_comparable(event.get(leading)) for event in stream] for stream in streams]
    monotonic = not hashed and _follows_time(values_in_order)
    routed = tuple(query.name for query in QUERIES if _routes(key, query(**query.example)))
    broadcast = tuple(query.name for query in QUERIES if query.name not in routed)
    share = count / len(events)
    verdict, reason = _verdict(monotonic, share, len(values), routed)
    return Advice(
        key,
        len(events),
        len(values),
        share,
        ", ".join(map(str, hottest)),
        monotonic,
        routed,
        broadcast,
        verdict,
        reason,
    )


def _verdict(monotonic: bool, share: float, cardinality: int, routed: tuple[str, ...]) -> tuple[str, str]:
    if monotonic:
        return "poor", "it follows time, so all inserts go to the one shard with the newest chunk"
    if cardinality < FEW_VALUES:
        return "poor", f"{cardinality} values make at most {cardinality} chunks"
    if share > HOT_SHARE:
        return "risky", f"one value has {share:.1%} of the events, in a chunk that cannot be split"
    if not routed:
        return "writes only", "inserts are spread evenly, but every query goes to all shards"
    return "good", f"inserts are spread, chunks can be split, and {', '.join(routed)} is routed"


def _routes(key: Key, where: Document) -> bool:
    """Whether a filter tells the shards: it must fix the first field, or bound it where the key is in order."""
    leading = next(iter(key))
    if leading not in where:
        return False
    bounded = isinstance(where[leading], Mapping)
    return not bounded or key[leading] == 1


def _comparable(value: Any) -> Any:
    return "" if value is None else value


def _follows_time(streams: Sequence[Sequence[Any]]) -> bool:
    """Whether values are times, or follow the order of their stream, or its reverse, on average over all of them.

    What happens now has the newest time, however a log that was imported was sorted.
    """
    if all(isinstance(value, datetime) for stream in streams for value in stream):
        return True
    long = [stream for stream in streams if len(stream) > 2]
    number = sum(map(len, long))
    return number > 0 and sum(abs(_correlation(stream)) * len(stream) for stream in long) / number > MONOTONIC


def _correlation(values: Sequence[Any]) -> float:
    """Spearman's rank correlation of values with their order, from the squares of differences."""
    number = len(values)
    by_value = sorted(range(number), key=lambda index: (str(type(values[index])), values[index], index))
    squares = sum((rank - index) ** 2 for rank, index in enumerate(by_value))
    return 1 - 6 * squares / (number * (number**2 - 1))
