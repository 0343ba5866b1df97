"""What `find_problems` of a system yields, and how it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from squinney.errors import Unavailable
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document

SNAPSHOT_TOO_OLD = 239
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
