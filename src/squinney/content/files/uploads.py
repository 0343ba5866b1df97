"""Bytes on their way in: files of the asset bucket, each under an upload record until a node shows it.

The record is written first and goes last. A file without a node has a record; a record that stands still for five
minutes is taken away by `sweep-uploads`, and an upload without its record cannot finish.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, Protocol

from gridfs import GridFSBucket
from pymongo.read_concern import ReadConcern

from squinney.content.errors import BadMedia, UploadLost
from squinney.content.files import media
from squinney.content.files.blanked_videos import BlankedVideo
from squinney.content.files.chunks import CHUNK_BYTES, ChunkWriter
from squinney.content.files.documents import ASSETS, CHUNKS, FILES, UPLOADS, Upload
from squinney.content.files.mp4_locations import WithoutPlace
from squinney.content.files.queries import CHUNKS_OF
from squinney.content.files.webm_locations import WithoutNotes
from squinney.errors import Invalid
from squinney.mongo.connect import operation, server_now
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.transactions import Step

HEAD_BYTES = 4_096
DIGEST_BYTES = 1 << 20
MP4, WEBM = "video/mp4", "video/webm"
HEARTBEAT_SECONDS = 30
SETTLED_WITHIN_SECONDS = 10


class Stream(Protocol):
    """Anything that gives bytes piece by piece: an open file, a request's body."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


def web_id(file_id: str) -> str:
    """The file of a picture's rendition for the web."""
    return f"{file_id}-web"


class Receiver:
    """One upload: begins with its record, ends in steps for the transaction that shows the file, or is given up."""

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
        """Store the stream, check it, and return what the node's detail says of it.

        Raises: `BadMedia`, `Invalid` where the length or the digest is not the one announced, `UploadLost`.
        """
        head = _head(stream)
        type_ = media.content_type(head, kind)
        stored, received, digest = self._store(stream, head, type_, media.MOST_BYTES[kind], sha256 is not None)
        _require_announced(stored, received, length, sha256)
        self._require_all_chunks(self.file_id, stored)
        detail = {"file_id": self.file_id, "content_type": type_, "length": stored, "sha256": digest}
        return {**detail, **(self._picture() if kind == "photo" else {"width": None, "height": None, "web": None})}

    def _store(self, stream: Stream, head: bytes, type_: str, most: int, announced: bool) -> tuple[int, str, str]:
        """Its length, the digest of what came if one was announced, and of what is stored: a video loses its notes."""
        length = 0
        video = without_place(type_)
        received = hashlib.sha256() if video and announced else None
        with self._writer(self.file_id, type_) as writer:
            piece = head
            while piece:
                length += len(piece)
                if length > most:
                    raise BadMedia(f"the file is larger than {most} bytes", field="file", limit=most)
                if received:
                    received.update(piece)
                writer.write(video.feed(piece) if video else piece)
                self._beat()
                piece = stream.read(writer.wanted)
            if video:
                writer.write(video.finish())
            stored = writer.finish()
        return length, received.hexdigest() if received else stored, stored

    def _writer(self, file_id: str, type_: str) -> ChunkWriter:
        about = {"content_type": type_, "locked": self.upload_id}
        return ChunkWriter(self._db, file_id, about, chunk_bytes=self._chunk_bytes)

    def _picture(self) -> Document:
        bucket = GridFSBucket(self._db, ASSETS)
        with operation(60), bucket.open_download_stream(self.file_id) as original:
            found = media.picture(original)
        self._has_web = True
        with self._writer(web_id(self.file_id), found.web_type) as writer:
            writer.write(found.web)
            digest = writer.finish()
        self._require_all_chunks(web_id(self.file_id), len(found.web))
        self._beat(now=True)
        web = {
            "content_type": found.web_type,
            "length": len(found.web),
            "sha256": digest,
            "width": found.web_width,
            "height": found.web_height,
        }
        return {"width": found.width, "height": found.height, "web": web}

    def _beat(self, *, now: bool = False) -> None:
        """Say that the upload is alive; where the record is gone it was given up."""
        if not now and time.monotonic() - self._seen < HEARTBEAT_SECONDS:
            return
        self._seen = time.monotonic()
        with operation():
            alive = self._db[UPLOADS].update_one({"_id": self.upload_id}, {"$currentDate": {"seen": True}})
        if not alive.matched_count:
            raise UploadLost("the upload stood still for too long; start it again")

    def _require_all_chunks(self, file_id: str, length: int) -> None:
        """Chunks were written to one member each: wait until a majority has them all."""
        chunks = self._db.get_collection(CHUNKS, read_concern=ReadConcern("majority"))
        until = time.monotonic() + SETTLED_WITHIN_SECONDS
        while True:
            with operation(60):
                if chunks.count_documents(CHUNKS_OF(file_id=file_id)) == -(-length // self._chunk_bytes):
                    return
            self._beat(now=True)
            if time.monotonic() > until:
                raise UploadLost("chunks of the upload are missing; start it again")
            time.sleep(0.05)

    def finish_steps(self) -> list[Step]:
        """What belongs in the transaction that shows the file: the record goes, the file is unlocked."""
        files = [self.file_id, *([web_id(self.file_id)] if self._has_web else [])]
        unlocked = [
            Step(
                FILES,
                file_id,
                guard={"metadata.locked": self.upload_id},
                give={"$unset": {"metadata.locked": ""}},
                refused=lambda _: UploadLost("the upload was given up; start it again"),
            )
            for file_id in files
        ]
        lost = UploadLost("the upload stood still for too long; start it again")
        return [Step(UPLOADS, self.upload_id, delete=True, refused=lambda _: lost), *unlocked]

    def give_up(self) -> None:
        """Take everything away again, the record last. Without a record the sweep was faster, and deletes the files."""
        with operation(60):
            if self._db[UPLOADS].find_one({"_id": self.upload_id}, {"_id": 1}) is None:
                return
            delete_files(self._db, self.file_id)
            self._db[UPLOADS].delete_one({"_id": self.upload_id})


def without_place(type_: str) -> BlankedVideo | None:
    """What takes the place out of a video of this type."""
    if type_ == MP4:
        return WithoutPlace()
    return WithoutNotes() if type_ == WEBM else None


def sha256_as_stored(stream: Stream, kind: str) -> str:
    """The digest that a file has once it is stored.

    Raises: `BadMedia`.
    """
    piece = _head(stream)
    video = without_place(media.content_type(piece, kind))
    digest = hashlib.sha256()
    while piece:
        digest.update(video.feed(piece) if video else piece)
        piece = stream.read(DIGEST_BYTES)
    digest.update(video.finish() if video else b"")
    return digest.hexdigest()


def delete_files(db: Db, file_id: str) -> int:
    """Delete a file and its rendition: the `files` documents first, so that no reader finds one without chunks."""
    both = {"$in": [file_id, web_id(file_id)]}
    gone = db[FILES].delete_many({"_id": both}).deleted_count
    db[CHUNKS].delete_many({"files_id": both})
    return gone


def _head(stream: Stream) -> bytes:
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
    for field, (wanted, found) in announced.items():
        if wanted is not None and wanted != found:
            raise Invalid(f"{field} was announced as {wanted}, but {found} came", field=field)
