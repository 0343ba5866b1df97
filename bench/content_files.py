"""Upload and download of a large file, compared with PyMongo's GridFS.

One transfer, in a process of its own: `python -m bench.content_files URI gridfs|photos BYTES`.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gridfs import GridFSBucket

from bench import report
from squinney import transactions
from squinney.content import COLLECTIONS, Photos
from squinney.mongo import schema
from squinney.mongo.connect import Connection, client_for

GIGABYTE = 1 << 30
AIM = 0.95
HEAD = b"\0\0\0\x18ftypmp42"


class Zeros:
    """A video of mostly zeros, generated while it is read."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._block = HEAD + bytes(range(256)) * (1 << 14)

    def read(self, size: int = -1, /) -> bytes:
        """Return the next piece."""
        piece = self._block[: min(len(self._block), self._left, size if size >= 0 else self._left)]
        self._left -= len(piece)
        return piece


def run(connection: Connection, *, rounds: int = 3, seconds: float = 1.0) -> None:
    """Measure and write the page. Each transfer runs in its own process, so that its peak memory can be measured."""
    size = GIGABYTE // 16 if seconds < 1 else GIGABYTE
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    results: dict[str, list[Any]] = {"gridfs": [], "photos": []}
    for _ in range(rounds):
        for how in results:
            results[how].append(_transfer(uri, how, size))
    small, large = _transfer(uri, "photos", size // 16), _transfer(uri, "photos", 2 * size)
    names = {"gridfs": "PyMongo's GridFS", "photos": "Photos"}
    rows = [
        [names[how], _median(turns, "up"), _median(turns, "down"), _ratio(turns, results["gridfs"], "up"),
         _ratio(turns, results["gridfs"], "down"), f"{max(turn['peak'] for turn in turns) >> 20}"]
        for how, turns in results.items()
    ]  # fmt: skip
    head = [f"{size >> 20} MiB", "up, MB/s", "down, MB/s", "up", "down", "peak memory, MiB"]
    flat = (
        f"Peak memory of a process that uploads and downloads {size // 16 >> 20} MiB: {small['peak'] >> 20} MiB; "
        f"{2 * size >> 20} MiB: {large['peak'] >> 20} MiB."
    )
    notes = (
        f"Medians of {rounds} interleaved rounds, and of their ratios. GridFS writes chunks of 255 KiB and waits for a "
        "majority after each 48 MB; `Photos` writes chunks of 1020 KiB, hashes them during the upload, counts them at "
        "the end, and shows the file in a transaction."
    )
    version = connection.client.admin.command("buildInfo")["version"]
    parts = [report.table(head, rows), _against_aim(rows), flat, notes, report.machine(version)]
    report.write_page("content-files", "Upload and download of a large file", parts)


def _against_aim(rows: list[list[str]]) -> str:
    """Return whether upload and download meet the aim, and by how much they miss it."""
    ratios = {"up": rows[1][3], "down": rows[1][4]}
    missed = [f"{way} ({share})" for way, share in ratios.items() if float(share.removesuffix("x")) < AIM]
    return f"The aim is {AIM}x of GridFS. " + (
        f"Missed: {', '.join(missed)}. Each download begins when its upload has ended, while the server still writes "
        "the file; whether this is the reason has not been measured."
        if missed
        else "Upload and download meet it."
    )


def _median(turns: list[Any], key: str) -> str:
    return f"{statistics.median(turn[key] for turn in turns):.0f}"


def _ratio(turns: list[Any], to: list[Any], key: str) -> str:
    return f"{statistics.median(mine[key] / theirs[key] for mine, theirs in zip(turns, to, strict=True)):.2f}x"


def _transfer(uri: str, how: str, size: int) -> Any:
    command = [sys.executable, "-m", "bench.content_files", uri, how, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    return json.loads(done.stdout)


def main(uri: str, how: str, size: int) -> None:
    """Upload and download a file, and print the rates and the peak memory."""
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
    """Return the peak memory from Linux's `VmHWM`; `ru_maxrss` may be that of the parent process, if that is larger."""
    peak = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(peak[1]) * 1024 if peak else 0


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
