"""What `find_problems` of a system yields, and how it reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from squinney.errors import Unavailable
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document

log = logging.getLogger(__name__)

SNAPSHOT_TOO_OLD = 239
# What code meets in a document that is not what it should be, here or on the server.
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OperationFailure)
ADVICE = "give the server a larger minSnapshotHistoryWindowInSeconds"


class SnapshotTooOld(Unavailable):
    """A check takes longer than the server can look back, by default five minutes."""

    code = "snapshot-too-old"


@dataclass(frozen=True)
class Problem:
    """Something wrong in stored data: a stable code, the documents concerned, and whether `repair` mends it."""

    code: str
    message: str
    documents: dict[str, Any] = field(default_factory=dict)
    repairable: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def found(db: Db, check: Pipeline, **arguments: Any) -> list[Document]:
    """All that a check finds, at one moment; whoever is told may take as long as he likes.

    Read one after another, documents that change together disagree wherever a change comes in between.

    Raises: `SnapshotTooOld`.
    """
    collection = db[check.collection].with_options(read_concern=ReadConcern("snapshot"))
    try:
        return list(collection.aggregate(check(**arguments), allowDiskUse=True))
    except OperationFailure as error:
        if error.code != SNAPSHOT_TOO_OLD:
            raise
        raise SnapshotTooOld(f"{check.name} reads for longer than the server can look back: {ADVICE}") from error


def told(db: Db, check: Pipeline, tell: Callable[[Document], Problem | None], **arguments: Any) -> Iterator[Problem]:
    """What is to be told of all that a check finds. A document that cannot even be read is a problem of its own.

    Raises: `SnapshotTooOld`.
    """
    try:
        documents = found(db, check, **arguments)
    except MALFORMED as error:
        yield unchecked(check.name, error)
        return
    yield from told_each(check.collection, documents, tell)


def told_each(
    collection: str, documents: Iterable[Document], tell: Callable[[Document], Problem | None]
) -> Iterator[Problem]:
    """What is to be told of each document; None is nothing. One that cannot be read ends nothing."""
    for document in documents:
        try:
            problem = tell(document)
        except MALFORMED as error:
            problem = malformed(collection, document, error)
        if problem is not None:
            yield problem


def mended(db: Db, check: Pipeline, mend: Callable[[Document], int], **arguments: Any) -> int:
    """How many of those that a check finds were mended; those that cannot be read are left to a person.

    Raises: `SnapshotTooOld`.
    """
    try:
        documents = found(db, check, **arguments)
    except MALFORMED as error:
        log.warning("%s", unchecked(check.name, error))
        return 0
    return mended_each(check.collection, documents, mend)


def mended_each(collection: str, documents: Iterable[Document], mend: Callable[[Document], int]) -> int:
    """How many of the documents were mended."""
    done = 0
    for document in documents:
        try:
            done += mend(document)
        except MALFORMED as error:
            log.warning("%s", malformed(collection, document, error))
    return done


def malformed(collection: str, document: Document, error: Exception) -> Problem:
    """A document that is not what it should be."""
    document_id = document.get("_id")
    return Problem(
        "malformed-document",
        f"{collection} {document_id} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        documents={collection: document_id},
    )


def unchecked(name: str, error: Exception) -> Problem:
    """A check that some document keeps from being made at all."""
    return Problem("check-failed", f"{name} cannot be checked ({type(error).__name__}: {str(error)[:200]})")
