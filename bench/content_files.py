"""One transfer of a large file, in a process of its own: `python -m bench.content_files URI gridfs|photos BYTES`."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from gridfs import GridFSBucket

from squinney.content import COLLECTIONS, Photos
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.patterns import transactions

HEAD = b"\0\0\0\x18ftypmp42"


class Zeros:
    """A video that is mostly nothing, made as it is read."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._block = HEAD + bytes(range(256)) * (1 << 14)

    def read(self, size: int = -1, /) -> bytes:
        """The next piece."""
        piece = self._block[: min(len(self._block), self._left, size if size >= 0 else self._left)]
        self._left -= len(piece)
        return piece


def main(uri: str, how: str, size: int) -> None:
    """Up, down, and print the rates and the peak."""
    with client_for(uri) as client:
        db = client["bench_content_files"]
        client.drop_database(db.name)
        schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
        began = time.perf_counter()
        file: Any = _up(db, how, size)
        up = time.perf_counter() - began
        began = time.perf_counter()
        received = sum(len(piece) for piece in _down(db, how, file))
        down = time.perf_counter() - began
        client.drop_database(db.name)
    assert received == size
    print(json.dumps({"up": size / up / 1e6, "down": size / down / 1e6, "peak": _peak()}))


def _peak() -> int:
    """Linux's own high-water mark; `ru_maxrss` would be that of the process that started this one, if it was larger."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _up(db: Any, how: str, size: int) -> Any:
    if how == "gridfs":
        return GridFSBucket(db, "bench").upload_from_stream("x", Zeros(size))
    return Photos(db).upload(Zeros(size), None, "film", author={"_id": "a", "name": "A"}, type="video")


def _down(db: Any, how: str, file: Any) -> Any:
    if how == "gridfs":
        opened = GridFSBucket(db, "bench").open_download_stream(file)
        return iter(lambda: opened.read(2 << 20), b"")
    return Photos(db).open(file, "original").read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
