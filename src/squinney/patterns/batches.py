"""Upgrading the documents of a live collection in the background, in batches."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Any

from bson.codec_options import DatetimeConversion
from pymongo import ReplaceOne, UpdateOne
from pymongo.collection import Collection as DriverCollection
from pymongo.errors import BulkWriteError

from squinney import checks
from squinney.clock import utcnow
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import CODEC, pinned
from squinney.mongo.schema import Document

# A value outside Python's range (the year 10000, invalid UTF-8) must fail one document, and not the whole run.
ANY_DOCUMENT = CODEC.with_options(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)

Plan = list[tuple[Any, ReplaceOne[Document] | UpdateOne]]

BATCH_SECONDS = 60
MAX_FAILURES_KEPT = 100


@dataclass(frozen=True)
class Progress:
    """The progress of a migration. `after` is the last `_id` read; `failures` are the first hundred."""

    target: dict[str, int]
    started_at: datetime
    total: int = 0
    after: list[Any] = field(default_factory=list)  # empty before the first batch, else a single id of any type
    scanned: int = 0
    upgraded: int = 0
    failed: int = 0
    failures: list[Document] = field(default_factory=list)
    updated_at: datetime | None = None
    finished_at: datetime | None = None


class Batches(ABC):
    """Upgrades the old documents of one collection, in batches by `_id`; a subclass says how.

    The progress is stored in `migrations`. So a run that was stopped or killed continues, while one that had finished,
    or was for another `target`, starts again. Two concurrent runs only do the work twice.

    Of a migration that `is_required`, programs do not see the old documents until it has run.
    """

    is_required = False

    def __init__(
        self,
        collection: DriverCollection[Document],
        target: Mapping[str, int],
        *,
        batch: int = 100,
        per_second: float | None = None,
    ) -> None:
        self._collection = pinned(collection.database)[collection.name].with_options(codec_options=ANY_DOCUMENT)
        self._batch = checks.integer(batch, "batch", minimum=1, maximum=10_000)
        self._per_second = per_second
        self._migrations = pinned(collection.database)["squinney.migrations"]
        self._target = dict(target)

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self._collection.name

    @operation(reads_only=True)
    def progress(self) -> Progress | None:
        """Return the progress of the last run; None before the first.

        Raises: `Unavailable`.
        """
        stored = self._migrations.find_one({"_id": self._collection.name}, {"_id": 0})
        return Progress(**stored) if stored else None

    @abstractmethod
    def run(self, *, stop: Event | None = None, report: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Upgrade the rest of the collection: `_run_batches` with these arguments."""

    def _run_batches(self, stop: Event | None, report: Callable[[Progress], None]) -> Progress:
        stop = stop or Event()
        progress = self._begin()
        while progress.finished_at is None and not stop.is_set():
            began = time.monotonic()
            with operation(BATCH_SECONDS):
                ids = self._next_ids(progress)
                progress = self._save(self._step(progress, ids))
            report(progress)
            if self._per_second:
                stop.wait(max(0.0, len(ids) / self._per_second - (time.monotonic() - began)))
        return progress

    @operation(reads_only=True)
    def _begin(self) -> Progress:
        last = self.progress()
        if last and last.target == self._target and last.finished_at is None:
            return last
        total = self._collection.estimated_document_count()
        return Progress(target=self._target, started_at=utcnow(), total=total)

    def _next_ids(self, progress: Progress) -> list[Any]:
        # $expr, because ids may have several types and a plain $gt compares within one type only
        where = {"$expr": {"$gt": ["$_id", {"$literal": progress.after[0]}]}} if progress.after else {}
        documents = self._collection.find(where, {"_id": 1}).sort("_id", 1).limit(self._batch)
        return [document["_id"] for document in documents]

    def _step(self, progress: Progress, ids: list[Any]) -> Progress:
        if not ids:
            return replace(progress, finished_at=utcnow())
        upgraded, failures = self._upgrade(ids)
        return replace(
            progress,
            after=[ids[-1]],
            scanned=progress.scanned + len(ids),
            upgraded=progress.upgraded + upgraded,
            failed=progress.failed + len(failures),
            failures=[*progress.failures, *failures][:MAX_FAILURES_KEPT],
        )

    def _save(self, progress: Progress) -> Progress:
        progress = replace(progress, updated_at=utcnow())
        self._migrations.replace_one({"_id": self._collection.name}, asdict(progress), upsert=True)
        return progress

    @abstractmethod
    def _upgrade(self, ids: list[Any]) -> tuple[int, list[Document]]:
        """Upgrade the old documents among `ids`; return how many, and those that cannot be: `id` and `reason`."""

    def _write(self, plan: Plan) -> tuple[int, list[Document]]:
        """Return the number of upgraded documents, and those that the server rejected, for example by a validator."""
        if not plan:
            return 0, []
        try:
            return self._collection.bulk_write([write for _, write in plan], ordered=False).matched_count, []
        except BulkWriteError as error:
            details = error.details
            if details["writeConcernErrors"]:
                raise
            refused = [
                {"id": plan[failure["index"]][0], "reason": failure["errmsg"]} for failure in details["writeErrors"]
            ]
            return details["nMatched"], refused
