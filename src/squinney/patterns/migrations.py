"""Bringing a live collection of typed documents up to date in the background."""

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
from squinney.clock import Clock, utcnow
from squinney.mongo.connect import operation
from squinney.mongo.paths import value_at
from squinney.mongo.pinned import CODEC, pinned
from squinney.mongo.schema import Collection, Document
from squinney.patterns.polymorphic import Types, Unreadable, newest_version

COLLECTIONS = [Collection("migrations", shard_key={"_id": "hashed"})]

# What Python has no value for (the year 10000, a text that is none) is one document's failure, and not the run's.
ANY_DOCUMENT = CODEC.with_options(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)

Plan = list[tuple[Any, ReplaceOne[Document]]]

ATTEMPTS = 5
BATCH_SECONDS = 60
MOST_FAILURES_KEPT = 100
LARGEST_WRITE_BYTES = 16 << 20  # the old document, to see that it is still the same, and the new one


@dataclass(frozen=True)
class Progress:
    """How far a migration has come. `after` is the last `_id` looked at; `failures` are the first hundred."""

    target: dict[str, int]
    started_at: datetime
    total: int = 0
    after: list[Any] = field(default_factory=list)  # empty before the first batch, else one id of any type
    scanned: int = 0
    upgraded: int = 0
    failed: int = 0
    failures: list[Document] = field(default_factory=list)
    updated_at: datetime | None = None
    finished_at: datetime | None = None


class Migration:
    """Upgrades every old document of one collection, a batch at a time in the order of `_id`.

    Safe beside writers: a document is replaced only if it is still, to the last field, the one that was read; if not,
    it is read again. Progress is kept in `migrations`, so a run that was stopped or killed goes on where it was; one
    that had finished, or was for other versions, begins anew. Two runs at once do no harm but double work.

    `inside` names the field that holds the typed document where it is not the whole; `route` the shard key's fields.
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
        clock: Clock = utcnow,
    ) -> None:
        self._collection = pinned(collection.database)[collection.name].with_options(codec_options=ANY_DOCUMENT)
        self._types = types
        self._inside = inside
        self._route = route
        self._batch = checks.integer(batch, "batch", least=1, most=10_000)
        self._per_second = per_second
        self._clock = clock
        self._migrations = pinned(collection.database)["migrations"]
        self._target = {model.__name__: newest_version(model) for model in (types.base, *types.models.values())}

    @property
    def name(self) -> str:
        """The collection's name."""
        return self._collection.name

    @operation(reads_only=True)
    def progress(self) -> Progress | None:
        """How far the last run came; None before the first.

        Raises: `Unavailable`.
        """
        stored = self._migrations.find_one({"_id": self._collection.name}, {"_id": 0})
        return Progress(**stored) if stored else None

    def run(self, *, stop: Event | None = None, report: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Go through the collection, or through what is left of it; calls `report` after every batch.

        Documents that cannot be upgraded are counted, named in `failures`, and left as they are. `stop` ends the run
        after the batch at hand. Old documents that others insert behind the run are met by the next one.

        Atomic: each document by one conditional replacement.
        After a crash: some documents are old, some new, all readable; run it again.
        Raises: `Unavailable` when MongoDB is away; run it again.
        """
        stop = stop or Event()
        progress = self._begin()
        while progress.finished_at is None and not stop.is_set():
            began = time.monotonic()
            with operation(BATCH_SECONDS):
                ids = self._next_ids(progress)
                progress = self._keep(self._step(progress, ids))
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
        return Progress(target=self._target, started_at=self._clock(), total=total)

    def _next_ids(self, progress: Progress) -> list[Any]:
        # $expr, because ids may be of several types and a plain $gt stays within one
        where = {"$expr": {"$gt": ["$_id", {"$literal": progress.after[0]}]}} if progress.after else {}
        found = self._collection.find(where, {"_id": 1}).sort("_id", 1).limit(self._batch)
        return [document["_id"] for document in found]

    def _step(self, progress: Progress, ids: list[Any]) -> Progress:
        if not ids:
            return replace(progress, finished_at=self._clock())
        upgraded, failures = self._upgrade(ids)
        return replace(
            progress,
            after=[ids[-1]],
            scanned=progress.scanned + len(ids),
            upgraded=progress.upgraded + upgraded,
            failed=progress.failed + len(failures),
            failures=[*progress.failures, *failures][:MOST_FAILURES_KEPT],
        )

    def _keep(self, progress: Progress) -> Progress:
        progress = replace(progress, updated_at=self._clock())
        self._migrations.replace_one({"_id": self._collection.name}, asdict(progress), upsert=True)
        return progress

    def _upgrade(self, ids: list[Any]) -> tuple[int, list[Document]]:
        """Upgrade those of `ids` that are old; read again, a few times, those that changed meanwhile."""
        upgraded, failures = 0, list[Document]()
        for _ in range(ATTEMPTS):
            plan, unreadable = self._plan(ids)
            matched, refused = self._write(plan)
            upgraded += matched
            failures = unreadable + refused
            if matched + len(refused) == len(plan):
                return upgraded, failures
        settled = [failure["id"] for failure in failures]
        restless = [document_id for document_id, _ in self._plan(ids)[0] if document_id not in settled]
        return upgraded, failures + [{"id": document_id, "reason": "it kept changing"} for document_id in restless]

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
        """How many were replaced, and those that the server refused: by a validator, a unique index, their size."""
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
        """What the driver would refuse to send ends the batch with it, and the run."""
        codec = self._collection.codec_options
        try:
            size = len(bson.encode(where, codec_options=codec)) + len(bson.encode(whole, codec_options=codec))
        except (BSONError, ValueError, TypeError, OverflowError) as error:
            raise Unreadable(f"its upgrade cannot be stored: {error}") from error
        if size > LARGEST_WRITE_BYTES:
            raise Unreadable("it is too large to be compared and replaced by one write: upgrade it by hand")
