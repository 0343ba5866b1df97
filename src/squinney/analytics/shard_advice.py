"""`advise_shard_key`: rates shard keys for the pages of events with the user's own data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from bson.timestamp import Timestamp

from squinney import checks
from squinney.analytics.events import queries
from squinney.analytics.events.documents import EVENTS, LIVE
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Db, Document

Key = Mapping[str, int | str]

CANDIDATES: Sequence[Key] = (
    {"_id": "hashed"},
    {"_id": 1},
    {"from": 1},
    {"source": 1, "from": 1},
    {"site": 1, "from": 1},
)
QUERIES = (queries.BETWEEN, queries.OF_SOURCE)
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
    """Rate shard keys for the pages of events by a sample of them and by the declared queries.

    Raises: `Invalid` where there are no events, or for a malformed key.
    """
    checks.integer(sample, "sample", minimum=100, maximum=1_000_000)
    keys = [_checked(key) for key in candidates]
    pages = list(db[EVENTS].aggregate([{"$sample": {"size": sample}}, {"$unset": "events"}], allowDiskUse=True))
    if not pages:
        raise Invalid("there are no events yet to sample", field="sample")
    streams = _streams(pages)
    return [_rated(key, pages, streams) for key in keys]


def _streams(pages: Iterable[Document]) -> list[list[Document]]:
    """Group the pages by source: imported ones in the order of their file, recorded ones in the order of arrival.

    The arrival order of imported pages says nothing: old logs may be imported at any time.
    """

    def position(page: Document) -> tuple[str, Timestamp, int]:
        return page["source"], page["arrived"] if page["source"] == LIVE else Timestamp(0, 0), page.get("end", 0)

    return [list(stream) for _, stream in groupby(sorted(pages, key=position), lambda page: str(page["source"]))]


def _checked(key: Any) -> Key:
    if not isinstance(key, Mapping) or not key or not all(kind in (1, "hashed") for kind in key.values()):
        raise Invalid("a shard key is like {source: 1, from: 1} or {_id: hashed}", field="candidates")
    if any(field.partition(".")[0] == "events" for field in key):
        raise Invalid("a shard key cannot be within the events of a page, which are an array", field="candidates")
    return key


def _rated(key: Key, pages: Sequence[Document], streams: Sequence[Sequence[Document]]) -> Advice:
    values = Counter(tuple(_comparable(event.get(field)) for field in key) for event in pages)
    hottest, count = values.most_common(1)[0]
    leading = next(iter(key))
    hashed = key[leading] == "hashed"
    values_in_order = [_varying(key, stream) for stream in streams]
    monotonic = not hashed and _follows_time(values_in_order)
    routed = tuple(query.name for query in QUERIES if _routes(key, _filter(query)))
    broadcast = tuple(query.name for query in QUERIES if query.name not in routed)
    share = count / len(pages)
    shown = ", ".join(map(str, hottest))
    verdict, reason = _verdict(monotonic, share, len(values), routed, is_unique=count == 1)
    return Advice(key, len(pages), len(values), share, shown, monotonic, routed, broadcast, verdict, reason)


def _varying(key: Key, stream: Sequence[Document]) -> list[Any]:
    """Return the values of the first field of the key that has more than one value in this stream."""
    values: list[Any] = []
    for field in key:
        values = [_comparable(page.get(field)) for page in stream]
        if len(set(values)) > 1:
            break
    return values


def _verdict(
    monotonic: bool, share: float, cardinality: int, routed: tuple[str, ...], *, is_unique: bool
) -> tuple[str, str]:
    if monotonic:
        return "poor", "it follows time, so all inserts go to the one shard with the newest chunk"
    if cardinality < FEW_VALUES and not is_unique:
        return "poor", f"{cardinality} distinct values allow at most {cardinality} chunks"
    if share > HOT_SHARE and not is_unique:
        return "risky", f"one value has {share:.1%} of the pages, in a chunk that cannot be split"
    if not routed:
        return "writes only", "inserts are spread evenly, but every query goes to all shards"
    return "good", f"inserts are spread, chunks can be split, and {', '.join(routed)} goes to one shard"


def _filter(query: Query | Pipeline) -> Document:
    stages = query(**query.example)
    return stages[0]["$match"] if isinstance(stages, list) else stages


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
        # guard: a time counts as monotonic in any order of the log
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
