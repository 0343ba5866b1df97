"""The shapes and collections of files, uploads and what is to be removed."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from squinney.mongo.schema import Collection, Index

ASSETS = "content.assets"
FILES = "content.assets.files"
CHUNKS = "content.assets.chunks"
UPLOADS = "content.uploads"
REMOVALS = "content.removals"


class Upload(TypedDict):
    """An upload under way. While this exists and `seen` is fresh, its files are left alone."""

    _id: str
    file_id: str
    by: str
    started: datetime
    seen: datetime


FILE_COLLECTIONS = [
    Collection(
        FILES,
        indexes=[Index([("filename", 1), ("uploadDate", 1)], why="every GridFS driver makes it where it is missing")],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        CHUNKS,
        indexes=[Index([("files_id", 1), ("n", 1)], unique=True, why="reads a file in order")],
        shard_key={"files_id": 1, "n": 1},
    ),
    Collection(
        UPLOADS, indexes=[Index([("seen", 1)], why="stalled uploads, for the sweep")], shard_key={"_id": "hashed"}
    ),
    Collection(
        REMOVALS, indexes=[Index([("due_at", 1)], why="what the sweep may delete now")], shard_key={"_id": "hashed"}
    ),
]
