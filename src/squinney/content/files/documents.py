"""The document types and collections of files, uploads and scheduled removals."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from squinney.content.removals import REMOVALS
from squinney.mongo.schema import Collection, Index

ASSETS = "content.assets"
FILES = "content.assets.files"
CHUNKS = "content.assets.chunks"
UPLOADS = "content.uploads"


class Upload(TypedDict):
    """An unfinished upload. Its files are not deleted while this record exists and `seen` is recent."""

    _id: str
    file_id: str
    by: str
    started: datetime
    seen: datetime


FILE_COLLECTIONS = [
    Collection(
        FILES,
        indexes=[Index([("filename", 1), ("uploadDate", 1)], why="every GridFS driver creates it if it is missing")],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        CHUNKS,
        indexes=[Index([("files_id", 1), ("n", 1)], unique=True, why="the chunks of a file in order")],
        shard_key={"files_id": 1, "n": 1},
    ),
    Collection(
        UPLOADS, indexes=[Index([("seen", 1)], why="stalled uploads, for the jobs")], shard_key={"_id": "hashed"}
    ),
    Collection(
        REMOVALS, indexes=[Index([("due_at", 1)], why="due removals, for the jobs")], shard_key={"_id": "hashed"}
    ),
]
