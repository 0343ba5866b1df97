"""Uploads: files in the GridFS bucket, each with an upload record until a node shows the file.

The record is written first and deleted last, so every file without a node has one. `give-up-uploads` deletes the record
of an upload that was silent for five minutes, and an upload without its record cannot finish.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Protocol

from gridfs import GridFSBucket
from pymongo.read_concern import ReadConcern

from squinney.content.errors import BadMedia, UploadLost
from squinney.content.files import media
from squinney.content.files.chunks import CHUNK_BYTES, ChunkWriter
from squinney.content.files.documents import ASSETS, CHUNKS, FILES, UPLOADS, Upload
from squinney.content.files.mp4_locations import Mp4Blanker
from squinney.content.files.queries import CHUNKS_OF
from squinney.content.files.video_blanker import VideoBlanker
from squinney.content.files.webm_locations import WebmBlanker
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now
from squinney.patterns.ids import new_id
from squinney.transactions import Step

HEAD_BYTES = 4_096
DIGEST_BYTES = 1 << 20
BLANKERS: dict[str, Callable[[], VideoBlanker]] = {"video/mp4": Mp4Blanker, "video/webm": WebmBlanker}
HEARTBEAT_SECONDS = 30
SETTLED_WITHIN_SECONDS = 10


class Stream(Protocol):
    """A source of bytes, such as an open file or a request's body."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""
        ...


def web_id(file_id: str) -> str:
    """Return the file id of a picture's rendition for the web."""
    return f"{file_id}-web"


class Receiver:
    """One upload. It begins with an upload record, and ends with `finish_steps` in a transaction, or with `give_up`."""

    def __init__(self, db: Db, *, by: str, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._db = db
        self._chunk_bytes = chunk_bytes
        self.upload_id = new_id()
        self.file_id = new_id()
        self._has_web = False
        self._seen = time.monotonic()
        with operation():
            now = server_now(db)
            record: Upload = {"_id": self.upload_id, "file_id": self.file_id, "by": by, "started": now, "seen": now}
            db[UPLOADS].insert_one(dict(record))

    def receive(self, stream: Stream, kind: str, *, length: int | None, sha256: str | None) -> Document:
        """Store and check the stream; return the fields of the file for the node's detail.

        Raises: `BadMedia`, `Invalid` if the length or the digest is not the announced one, `UploadLost`.
        """
        head = _read_head(stream)
        type_ = media.content_type(head, kind)
        stored, received, digest = self._store(stream, head, type_, media.MAX_BYTES[kind], sha256 is not None)
        _require_announced(stored, received, length, sha256)
        self._require_all_chunks(self.file_id, stored)
        detail = {"file_id": self.file_id, "content_type": type_, "length": stored, "sha256": digest}
        return {**detail, **(self._picture() if kind == "photo" else {"width": None, "height": None, "web": None})}

    def _store(self, stream: Stream, head: bytes, type_: str, max_bytes: int, announced: bool) -> tuple[int, str, str]:
        """Store the stream; return its length, the digest of the received bytes, and the digest of the stored bytes.

        The digests differ for a video, whose metadata is blanked. For a video, the first is computed only if a digest
        was announced.
        """
        length = 0
        blanker = blanker_for(type_)
        received = hashlib.sha256() if blanker and announced else None
        with closing(self._writer(self.file_id, type_)) as writer:
            piece = head
            while piece:
                length += len(piece)
                if length > max_bytes:
                    raise BadMedia(f"the file is larger than {max_bytes} bytes", field="file", limit=max_bytes)
                if received:
                    received.update(piece)
                writer.write(blanker.feed(piece) if blanker else piece)
                self._heartbeat()
                piece = stream.read(writer.wanted)
            if blanker:
                writer.write(blanker.finish())
            stored = writer.finish()
        return length, received.hexdigest() if received else stored, stored

    def _writer(self, file_id: str, type_: str) -> ChunkWriter:
        metadata = {"content_type": type_, "locked": self.upload_id}
        return ChunkWriter(self._db, file_id, metadata, chunk_bytes=self._chunk_bytes)

    def _picture(self) -> Document:
        bucket = GridFSBucket(self._db, ASSETS)
        with operation(60), bucket.open_download_stream(self.file_id) as original:
            picture = media.decoded_picture(original)
        self._has_web = True
        with closing(self._writer(web_id(self.file_id), picture.web_type)) as writer:
            writer.write(picture.web)
            digest = writer.finish()
        self._require_all_chunks(web_id(self.file_id), len(picture.web))
        self._heartbeat(now=True)
        web = {
            "content_type": picture.web_type,
            "length": len(picture.web),
            "sha256": digest,
            "width": picture.web_width,
            "height": picture.web_height,
        }
        return {"width": picture.width, "height": picture.height, "web": web}

    def _heartbeat(self, *, now: bool = False) -> None:
        """Update the record's `seen` every 30 seconds, or `now`; raise `UploadLost` if the job has deleted it."""
        if not now and time.monotonic() - self._seen < HEARTBEAT_SECONDS:
            return
        self._seen = time.monotonic()
        with operation():
            alive = self._db[UPLOADS].update_one({"_id": self.upload_id}, {"$currentDate": {"seen": True}})
        if not alive.matched_count:
            raise _given_up()

    def _require_all_chunks(self, file_id: str, length: int) -> None:
        """Wait until a majority has all chunks, which one member has acknowledged, or raise `UploadLost`."""
        chunks = self._db.get_collection(CHUNKS, read_concern=ReadConcern("majority"))
        until = time.monotonic() + SETTLED_WITHIN_SECONDS
        while True:
            with operation(60):
                if chunks.count_documents(CHUNKS_OF(file_id=file_id)) == -(-length // self._chunk_bytes):
                    return
            self._heartbeat(now=True)
            if time.monotonic() > until:
                raise UploadLost("chunks of the upload are missing; start it again")
            time.sleep(0.05)

    def finish_steps(self) -> list[Step]:
        """Return the steps for the transaction that shows the file: delete the record and unlock the files."""
        files = [self.file_id, *([web_id(self.file_id)] if self._has_web else [])]
        unlocked = [
            Step(
                FILES,
                file_id,
                guard={"metadata.locked": self.upload_id},
                update={"$unset": {"metadata.locked": ""}},
                refused=lambda _: _given_up(),
            )
            for file_id in files
        ]
        return [Step(UPLOADS, self.upload_id, delete=True, refused=lambda _: _given_up()), *unlocked]

    def give_up(self) -> None:
        """Delete the files, then the record. Without a record, do nothing: then the job deletes the files."""
        with operation(60):
            if self._db[UPLOADS].find_one({"_id": self.upload_id}, {"_id": 1}) is None:
                return
            delete_files(self._db, self.file_id)
            self._db[UPLOADS].delete_one({"_id": self.upload_id})


def _given_up() -> UploadLost:
    return UploadLost("the upload was silent for too long and was given up; start the upload again")


def blanker_for(type_: str) -> VideoBlanker | None:
    """Return a filter that blanks the metadata of a video of this type; None for images."""
    return BLANKERS[type_]() if type_ in BLANKERS else None


def sha256_as_stored(stream: Stream, kind: str) -> str:
    """Return the digest that the stream would have as a stored file, or raise `BadMedia`."""
    piece = _read_head(stream)
    blanker = blanker_for(media.content_type(piece, kind))
    digest = hashlib.sha256()
    while piece:
        digest.update(blanker.feed(piece) if blanker else piece)
        piece = stream.read(DIGEST_BYTES)
    digest.update(blanker.finish() if blanker else b"")
    return digest.hexdigest()


def delete_files(db: Db, file_id: str) -> int:
    """Delete a file and its rendition, first the `files` documents, so that no reader opens a file without chunks."""
    both = {"$in": [file_id, web_id(file_id)]}
    deleted = db[FILES].delete_many({"_id": both}).deleted_count
    db[CHUNKS].delete_many({"files_id": both})
    return deleted


def _read_head(stream: Stream) -> bytes:
    head = b""
    while len(head) < HEAD_BYTES:
        piece = stream.read(HEAD_BYTES - len(head))
        if not piece:
            break
        head += piece
    if not head:
        raise BadMedia("the file is empty", field="file")
    return head


def _require_announced(stored: int, digest: str, length: int | None, sha256: str | None) -> None:
    announced: Mapping[str, tuple[Any, Any]] = {"length": (length, stored), "sha256": (sha256, digest)}
    for field, (wanted, actual) in announced.items():
        if wanted is not None and wanted != actual:
            raise Invalid(f"{field} was announced as {wanted}, but the upload has {actual}", field=field)
