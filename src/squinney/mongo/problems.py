"""Checks of stored data: how each kind of problem is found, described and repaired."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from squinney.errors import Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.failures import is_away
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document

log = logging.getLogger(__name__)

SNAPSHOT_TOO_OLD = 239
# The errors that a malformed document causes, in Python or on the server.
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OperationFailure)
ADVICE = "give the server a larger minSnapshotHistoryWindowInSeconds"


class SnapshotTooOld(Unavailable):
    """A check takes longer than the server keeps snapshots, by default five minutes."""


@dataclass(frozen=True)
class Problem:
    """A problem in stored data: a stable code, the documents concerned, and whether `repair` can repair it."""

    code: str
    message: str
    documents: dict[str, Any] = field(default_factory=dict)
    repairable: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def read_findings(db: Db, check: Pipeline, **arguments: Any) -> list[Document]:
    """Return all findings of a check from one snapshot, as a list, so that the caller may process them slowly.

    Without a snapshot, documents that change together could be read before and after a change, and seem to disagree.

    Raises: `SnapshotTooOld`.
    """
    collection = db[check.collection].with_options(read_concern=ReadConcern("snapshot"))
    try:
        return list(collection.aggregate(check(**arguments), allowDiskUse=True))
    except OperationFailure as error:
        if error.code != SNAPSHOT_TOO_OLD:
            raise
        raise SnapshotTooOld(f"{check.name} reads for longer than the server keeps snapshots: {ADVICE}") from error


def malformed(collection: str, document: Document, error: Exception) -> Problem:
    """Return the problem of a document that cannot be read."""
    document_id = document.get("_id")
    return Problem(
        "malformed-document",
        f"{collection} {document_id} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        documents={collection: document_id},
    )


def check_failed(name: str, error: Exception) -> Problem:
    """Return the problem of a check that fails as a whole because of a document."""
    return Problem("check-failed", f"{name} cannot be checked ({type(error).__name__}: {str(error)[:200]})")


def raise_if_away(error: Exception) -> None:
    """Raise `Unavailable` if the server was unreachable or too slow, since that is not a problem of the data."""
    with operation(None):
        # guard: a time-out of the server is not reported as a problem of the data
        if isinstance(error, PyMongoError) and is_away(error):
            raise error


@dataclass(frozen=True)
class Check:
    """One kind of problem, and how it is found and repaired.

    `query` yields the findings: a pipeline, or a function that reads them in parts. `message` is a format string for a
    finding, or a function. `repair(db, finding)` changes only what is still as it was found, and returns the number of
    changed documents. Without `repair`, or if `repairable` is false for a finding, a person must decide. `counted_as`
    names the repairs in the counts. `documents` returns the documents concerned, by default the finding's `_id` in
    `collection`, which is by default the query's.
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
        """Return the current findings."""
        return read_findings(db, self.query, **self.arguments) if isinstance(self.query, Pipeline) else self.query(db)

    def problem(self, finding: Document) -> Problem:
        """Return the finding as `find_problems` yields it; a malformed finding is a problem of its own."""
        try:
            message = self.message.format(**finding) if isinstance(self.message, str) else self.message(finding)
            documents = self.documents(finding) if self.documents else {self.collection: finding["_id"]}
            return Problem(self.code, message, documents, self.repair is not None and self.repairable(finding))
        except MALFORMED as error:
            return malformed(self.collection, finding, error)

    def repair_finding(self, db: Db, finding: Document) -> int:
        """Repair a finding and return the number of changed documents; a malformed finding is left to a person."""
        try:
            return self.repair(db, finding) if self.repair and self.repairable(finding) else 0
        except MALFORMED as error:
            raise_if_away(error)
            log.warning("%s", malformed(self.collection, finding, error))
            return 0


def problems(db: Db, checks: Sequence[Check]) -> Iterator[Problem]:
    """Yield the problems that the checks find, one check after another.

    Raises: `SnapshotTooOld`.
    """
    for check in checks:
        try:
            yield from map(check.problem, check.findings(db))
        except MALFORMED as error:
            raise_if_away(error)
            yield check_failed(check.code, error)


@operation(None)
def repair_problems(db: Db, checks: Sequence[Check]) -> Counter[str]:
    """Repair what the checks find and can repair, in their order; return counts.

    Atomic: each finding by itself.
    After a crash: run it again.
    Raises: `Unavailable`, `SnapshotTooOld`.
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
