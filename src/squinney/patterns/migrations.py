"""Upgrading the typed documents of a live collection in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import bson
from bson.errors import BSONError
from pymongo import ReplaceOne
from pymongo.collection import Collection as DriverCollection

from squinney.mongo.paths import value_at
from squinney.mongo.schema import Collection, Document
from squinney.patterns.batches import Batches, Plan, Progress
from squinney.patterns.polymorphic import Types, Unreadable, newest_version

COLLECTIONS = [Collection("squinney.migrations", formerly="migrations", shard_key={"_id": "hashed"})]

ATTEMPTS = 5
MAX_WRITE_BYTES = 16 << 20  # of the old document, which the filter compares, and the new one together


class Migration(Batches):
    """Upgrades every old document of one collection, in batches by `_id`.

    It is safe with concurrent writers: a document is replaced only if every field is still as it was read; otherwise it
    is read again.

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
        target = {model.__name__: newest_version(model) for model in (types.base, *types.models.values())}
        super().__init__(collection, target, batch=batch, per_second=per_second)
        self._types = types
        self._inside = inside
        self._route = route

    def run(self, *, stop: Event | None = None, report: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Upgrade the rest of the collection, and call `report` after every batch.

        Documents that cannot be upgraded are counted, listed in `failures`, and left unchanged. `stop` ends the run
        after the current batch. The next run upgrades old documents that are inserted before the current position.

        Atomic: each document by one conditional write.
        After a crash: some documents are old and some new, all are readable; run it again.
        Raises: `Unavailable` if MongoDB cannot be reached; run it again.
        """
        return self._run_batches(stop, report)

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
        if size > MAX_WRITE_BYTES:
            raise Unreadable("it is too large to be compared and replaced by one write: upgrade it manually")
