"""Upgrading the typed documents of a live collection in the background."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Any

import bson
from bson.codec_options import DatetimeConversion
from bson.errors import BSONError
from pymongo import ReplaceOne
from pymongo.collection import Collection as DriverCollection
from pymongo.errors import BulkWriteError

from squinney import checks
from squinney.clock import utcnow
from squinney.mongo.connect import operation
from squinney.mongo.paths import value_at
from squinney.mongo.pinned import CODEC, pinned
from squinney.mongo.schema import Collection, Document
from squinney.patterns.polymorphic import Types, Unreadable, newest_version

COLLECTIONS = [Collection("migrations", shard_key={"_id": "hashed"})]

# A value outside Python's range (the year 10000, invalid UTF-8) must fail one document, and not the whole run.
ANY_DOCUMENT = CODEC.with_options(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)

Plan = list[tuple[Any, ReplaceOne[Document]]]

ATTEMPTS = 5
BATCH_SECONDS = 60
MOST_FAILURES_KEPT = 100
LARGEST_WRITE_BYTES = 16 << 20  # of the old document, which the filter compares, and the new one together


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


class Migration:
    """Upgrades every old document of one collection, in batches by `_id`.

    It is safe with concurrent writers: a document is replaced only if every field is still as it was read; otherwise it
    is read again. The progress is stored in `migrations`. So a run that was stopped or killed continues, while one that
    had finished, or was for other versions, starts again. Two concurrent runs only do the work twice.

    `inside` names the field with the typed document, if that is not the whole document. `route` names the fields of the
    shard key.
    """

    def __init__(
        self,
        collection: DriverCollection[Document],
        types: Types[Any],
        *,
        inside: str = "",
        route: Sequence[str] = (),
        batch: int = 100,
        per_second: float | None = None,
    ) -> None:
        self._collection = pinned(collection.database)[collection.name].with_options(codec_options=ANY_DOCUMENT)
        self._types = types
        self._inside = inside
        self._route = route
        self._batch = checks.integer(batch, "batch", least=1, most=10_000)
        self._per_second = per_second
        self._migrations = pinned(collection.database)["migrations"]
        self._target = {model.__name__: newest_version(model) for model in (types.base, *types.models.values())}

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

    def run(self, *, stop: Event | None = None, report: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Upgrade the rest of the collection, and call `report` after every batch.

        Documents that cannot be upgraded are counted, listed in `failures`, and left unchanged. `stop` ends the run
        after the current batch. The next run upgrades old documents that are inserted before the current position.

        Atomic: each document by one conditional replacement.
        After a crash: some documents are old and some new, all are readable; run it again.
        Raises: `Unavailable` if MongoDB cannot be reached; run it again.
        """
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
        found = self._collection.find(where, {"_id": 1}).sort("_id", 1).limit(self._batch)
        return [document["_id"] for document in found]

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
            failures=[*progress.failures, *failures][:MOST_FAILURES_KEPT],
        )

    def _save(self, progress: Progress) -> Progress:
        progress = replace(progress, updated_at=utcnow())
        self._migrations.replace_one({"_id": self._collection.name}, asdict(progress), upsert=True)
        return progress

    def _upgrade(self, ids: list[Any]) -> tuple[int, list[Document]]:
        """Upgrade the old documents among `ids`; read those that changed meanwhile again, up to `ATTEMPTS` times."""
        upgraded, failures = 0, list[Document]()
        for _ in range(ATTEMPTS):
            plan, unreadable = self._plan(ids)
            matched, refused = self._write(plan)
            upgraded += matched
            failures = unreadable + refused
            if matched + len(refused) == len(plan):
                return upgraded, failures
        failed = [failure["id"] for failure in failures]
        changing = [document_id for document_id, _ in self._plan(ids)[0] if document_id not in failed]
        return upgraded, failures + [{"id": document_id, "reason": "it kept changing"} for document_id in changing]

    def _plan(self, ids: list[Any]) -> tuple[Plan, list[Document]]:
        plan: Plan = []
        unreadable: list[Document] = []
        for document in self._collection.find({"_id": {"$in": ids}}):
            try:
                if self._types.is_outdated(self._typed(document)):
                    plan.append((document["_id"], self._replacement(document)))
            except Unreadable as error:
                unreadable.append({"id": document["_id"], "reason": error.details.get("reason", error.message)})
        return plan, unreadable

    def _write(self, plan: Plan) -> tuple[int, list[Document]]:
        """Return the number of replaced documents, and those that the server rejected, for example by a validator."""
        if not plan:
            return 0, []
        try:
            return self._collection.bulk_write([write for _, write in plan], ordered=False).matched_count, []
        except BulkWriteError as error:
            details = error.details
            if details["writeConcernErrors"]:
                raise
            refused = [{"id": plan[one["index"]][0], "reason": one["errmsg"]} for one in details["writeErrors"]]
            return details["nMatched"], refused

    def _typed(self, document: Document) -> Document:
        typed = document.get(self._inside) if self._inside else document
        if not isinstance(typed, dict):
            raise Unreadable(f"{self._inside} is not a document")
        return typed

    def _replacement(self, document: Document) -> ReplaceOne[Document]:
        new = self._types.dump(self._types.load(self._typed(document)))
        unchanged = {"$expr": {"$eq": ["$$ROOT", {"$literal": document}]}}
        where = {"_id": document["_id"], **{path: value_at(document, path) for path in self._route}, **unchanged}
        whole = {**document, self._inside: new} if self._inside else new
        self._check_storable(where, whole)
        return ReplaceOne(where, whole)

    def _check_storable(self, where: Document, whole: Document) -> None:
        """Reject a document that the driver cannot send: it would end the whole batch, and the run."""
        codec = self._collection.codec_options
        try:
            size = len(bson.encode(where, codec_options=codec)) + len(bson.encode(whole, codec_options=codec))
        except (BSONError, ValueError, TypeError, OverflowError) as error:
            raise Unreadable(f"its upgrade cannot be stored: {error}") from error
        if size > LARGEST_WRITE_BYTES:
            raise Unreadable("it is too large to be compared and replaced by one write: upgrade it manually")
