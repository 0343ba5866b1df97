"""Stored data that is not as it should be: how each kind is found, what is said of it, and how it is mended."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from squinney.errors import Unavailable
from squinney.mongo.connect import is_away
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document

log = logging.getLogger(__name__)

SNAPSHOT_TOO_OLD = 239
# What code meets in a document that is not what it should be, here or on the server.
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OperationFailure)
ADVICE = "give the server a larger minSnapshotHistoryWindowInSeconds"


class SnapshotTooOld(Unavailable):
    """A check takes longer than the server can look back, by default five minutes."""


@dataclass(frozen=True)
class Problem:
    """Something wrong in stored data: a stable code, the documents concerned, and whether `repair` mends it."""

    code: str
    message: str
    documents: dict[str, Any] = field(default_factory=dict)
    repairable: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def read_findings(db: Db, check: Pipeline, **arguments: Any) -> list[Document]:
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


def malformed(collection: str, document: Document, error: Exception) -> Problem:
    """A document that is not what it should be."""
    document_id = document.get("_id")
    return Problem(
        "malformed-document",
        f"{collection} {document_id} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        documents={collection: document_id},
    )


def check_failed(name: str, error: Exception) -> Problem:
    """A check that some document keeps from being made at all."""
    return Problem("check-failed", f"{name} cannot be checked ({type(error).__name__}: {str(error)[:200]})")


def raise_if_away(error: Exception) -> None:
    """Raise it again where the server was away or too slow: that tells nothing of the data."""
    if isinstance(error, PyMongoError) and is_away(error):
        raise error


@dataclass(frozen=True)
class Check:
    """One kind of problem.

    `query` finds what is wrong: a pipeline, or a function that reads it in parts. `message` is filled in with the
    finding, or makes a text of it. `repair(db, finding)` changes what is still as it was found, and returns how many
    documents that were; without one, a person must decide, as where `repairable` says so of a finding. `counted_as`
    names what was done. `documents` are those concerned, by default the finding's `_id` in `collection`, which is the
    query's.
    """

    code: str
    query: Pipeline | Callable[[Db], Iterable[Document]]
    message: str | Callable[[Document], str]
    repair: Callable[[Db, Document], int] | None = None
    counted_as: str = ""
    repairable: Callable[[Document], bool] = lambda finding: True
    documents: Callable[[Document], dict[str, Any]] | None = None
    collection: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.query, Pipeline) and not self.collection:
            object.__setattr__(self, "collection", self.query.collection)

    def findings(self, db: Db) -> Iterable[Document]:
        """What is wrong now."""
        return read_findings(db, self.query, **self.arguments) if isinstance(self.query, Pipeline) else self.query(db)

    def problem(self, finding: Document) -> Problem:
        """The finding, as `find_problems` yields it; one that cannot be read is a problem of its own."""
        try:
            message = self.message.format(**finding) if isinstance(self.message, str) else self.message(finding)
            documents = self.documents(finding) if self.documents else {self.collection: finding["_id"]}
            return Problem(self.code, message, documents, self.repair is not None and self.repairable(finding))
        except MALFORMED as error:
            return malformed(self.collection, finding, error)

    def repair_finding(self, db: Db, finding: Document) -> int:
        """How many documents it took; one that cannot be read is left to a person."""
        try:
            return self.repair(db, finding) if self.repair and self.repairable(finding) else 0
        except MALFORMED as error:
            raise_if_away(error)
            log.warning("%s", malformed(self.collection, finding, error))
            return 0


def problems(db: Db, checks: Sequence[Check]) -> Iterator[Problem]:
    """What the checks find, one after another.

    Raises: `SnapshotTooOld`.
    """
    for check in checks:
        try:
            yield from map(check.problem, check.findings(db))
        except MALFORMED as error:
            raise_if_away(error)
            yield check_failed(check.code, error)


def repair_problems(db: Db, checks: Sequence[Check]) -> Counter[str]:
    """Repair what the checks find and can mend, in their order; returns counts.

    Atomic: each finding by itself.
    After a crash: run it again.
    Raises: `SnapshotTooOld`.
    """
    done: Counter[str] = Counter()
    for check in checks:
        try:
            findings = check.findings(db) if check.repair else ()
            done[check.counted_as or check.code] += sum(check.repair_finding(db, finding) for finding in findings)
        except MALFORMED as error:
            raise_if_away(error)
            log.warning("%s", check_failed(check.code, error))
    return done
