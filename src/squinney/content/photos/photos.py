"""`Photos`: streamed upload and download of photos and videos. Each is a node; its bytes are a GridFS file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from gridfs import GridFSBucket
from gridfs.errors import CorruptGridFile, NoFile
from gridfs.synchronous.grid_file import GridOut
from pymongo.errors import PyMongoError

from squinney.clock import Clock, utcnow
from squinney.content import removals
from squinney.content.documents import Author
from squinney.content.errors import UnknownNode
from squinney.content.files.chunks import CHUNK_BYTES
from squinney.content.files.documents import ASSETS
from squinney.content.files.uploads import Receiver, Stream, web_id
from squinney.content.nodes import rules, versions
from squinney.content.nodes.access import TRUSTED, Viewer
from squinney.content.nodes.documents import NODE_COLLECTIONS, NODES, Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.nodes.steps import create_steps, slug_taken
from squinney.errors import Invalid, NotFound
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.prepared import require_unique
from squinney.mongo.schema import Db
from squinney.patterns.nonces import EditConflict
from squinney.transactions import Plan, Step, Transactions

Rendition = Literal["web", "original"]
# A large file over a slow connection takes hours; each write has a time limit of its own.
MAX_SECONDS = 86_400


@dataclass(frozen=True)
class Asset:
    """An open file with its type, length and digest. It stays readable for an hour after it is replaced."""

    content_type: str
    length: int
    sha256: str
    _file: GridOut

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from `start` to `end`, exclusive, in pieces.

        Raises: `NotFound` if the file is deleted in the meantime, an hour after it was replaced or removed.
        """
        left = (self.length if end is None else min(end, self.length)) - start
        self._file.seek(start)
        while left > 0:
            try:
                with operation(60, reads_only=True):
                    piece = self._file.readchunk()[:left]  # `read` of whole chunks takes more than twice the time
            except CorruptGridFile as error:
                raise NotFound("the file was deleted while it was read") from error
            left -= len(piece)
            yield piece


class Photos:
    """Photos and videos of a tree of nodes."""

    def __init__(
        self,
        db: Db,
        *,
        nodes: Nodes | None = None,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._nodes = nodes or Nodes(db, transactions=self._transactions, clock=clock)
        self._clock = clock
        self._chunk_bytes = chunk_bytes

    @operation(MAX_SECONDS)
    def upload(
        self,
        stream: Stream,
        parent: Node | str | None,
        slug: str,
        *,
        author: Author,
        title: str = "",
        type: Literal["photo", "video"] = "photo",
        detail: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        published: datetime | None = None,
        length: int | None = None,
        sha256: str | None = None,
        kept_for: str | None = None,
        viewer: Viewer = TRUSTED,
        also: Sequence[Step] = (),
    ) -> Node:
        """Store the stream as a file and create a node that shows it. `length` and `sha256`, if given, must match.

        `kept_for` is as for `Nodes.create`.

        Atomic: one transaction inserts the node and its revision, updates its parent's count and deletes the upload
        record.
        After a crash: a file that no node shows, with an upload record; `give-up-uploads` deletes both.
        Raises: `BadMedia`, `Invalid`, `SlugTaken`, `UnknownNode`, `Forbidden`, `UploadLost`, `NotPrepared`.
        """
        kind = _checked_kind(type)
        node = rules.new_node(self._clock(), slug, kind, title or slug, author, detail or {}, tags, published, kept_for)
        with operation():
            require_unique(self._db, NODES, NODE_COLLECTIONS)
            self._require_free(self._nodes.parent_for(parent, viewer), slug)
        with self._receiving(author["_id"]) as receiver:
            node["metadata"]["detail"].update(receiver.receive(stream, kind, length=length, sha256=sha256))

            def build() -> Plan:
                above = self._nodes.parent_for(parent, viewer)
                return Plan([*create_steps(node, above), *receiver.finish_steps()], result=node).also(also)

            return cast(Node, self._transactions.run("upload-photo", build).result)

    def _require_free(self, parent: Node | None, slug: str) -> None:
        """Refuse a taken slug before the upload instead of after it; the transaction checks it again."""
        try:
            self._nodes.get(parent, slug)
        except UnknownNode:
            return
        raise slug_taken(slug)

    @operation(MAX_SECONDS)
    def replace(
        self,
        stream: Stream,
        node: Node | str,
        nonce: str | None = None,
        *,
        by: Author | None = None,
        length: int | None = None,
        sha256: str | None = None,
        viewer: Viewer = TRUSTED,
        also: Sequence[Step] = (),
    ) -> Node:
        """Store the stream as a new file and let the node show it.

        With a `nonce`, the node is changed only if it was not saved since that nonce was read. Readers get the complete
        old file or the complete new one. The old file is deleted an hour later, when open readers have finished.

        Atomic: one transaction updates the node, whose nonce must match, inserts the revision, deletes the upload
        record and schedules the removal of the old file.
        After a crash: the node still shows the old photo. `give-up-uploads` deletes the new file and its upload record.
        Raises: `BadMedia`, `Invalid`, `EditConflict`, `UnknownNode`, `Forbidden`, `UploadLost`.
        """
        with operation():
            before = self._nodes.editable(node, viewer)
            _require_nonce(before, nonce)
            kind = _checked_kind(before["metadata"]["type"])
        editor = rules.checked_author(by, "by") if by else before["metadata"]["author"]
        with self._receiving(editor["_id"]) as receiver:
            received = receiver.receive(stream, kind, length=length, sha256=sha256)

            def build() -> Plan:
                current = self._nodes.editable(before["_id"], viewer)
                _require_nonce(current, nonce)
                now = self._clock()
                old = current["metadata"]["detail"].get("file_id")
                steps = [*receiver.finish_steps(), *([removals.old_file_step(old, now)] if old else [])]
                return versions.plan(current, {"detail": received}, editor, now, steps).also(also)

            return cast(Node, self._transactions.run("replace-photo", build).result)

    @contextmanager
    def _receiving(self, by: str) -> Iterator[Receiver]:
        receiver = Receiver(self._db, by=by, chunk_bytes=self._chunk_bytes)
        try:
            yield receiver
        except Exception as error:
            # If it is unknown whether the node already shows the file, only the job may decide.
            if not isinstance(error, PyMongoError) and not getattr(error, "outcome_unknown", False):
                receiver.give_up()
            raise

    @operation(reads_only=True)
    def open(self, node: Node | str, rendition: Rendition = "web", *, viewer: Viewer = TRUSTED) -> Asset:
        """Open the rendition for the web, or the original file. A photo's original is only for users who may edit it.

        Raises: `UnknownNode`, `Forbidden`, `NotFound` if the node has no file, `Invalid`.
        """
        if rendition not in ("web", "original"):
            raise Invalid("rendition must be web or original", field="rendition")
        current = self._nodes.by_id(rules.id_of(node), viewer=viewer)
        detail = current["metadata"]["detail"]
        if not detail.get("file_id"):
            raise NotFound("the node has no file", node_id=current["_id"])
        if web := detail["web"] if rendition == "web" else None:
            return self._asset(web_id(detail["file_id"]), web)
        if current["metadata"]["type"] == "photo":
            self._nodes.editable(current, viewer)  # the original has the camera's metadata
        return self._asset(detail["file_id"], detail)

    def _asset(self, file_id: str, detail: Mapping[str, Any]) -> Asset:
        try:
            file = GridFSBucket(self._db, ASSETS).open_download_stream(file_id)
        except NoFile:
            raise NotFound("the file does not exist any more", file_id=file_id) from None
        return Asset(detail["content_type"], detail["length"], detail["sha256"], file)

    @operation(30)
    def remove(self, node: Node | str, *, viewer: Viewer = TRUSTED, also: Sequence[Step] = ()) -> None:
        """Remove the photo's node; its file is deleted an hour later.

        Atomic: as `Nodes.remove`.
        After a crash: as `Nodes.remove`.
        Raises: `UnknownNode`, `Forbidden`.
        """
        self._nodes.remove(node, viewer=viewer, also=also)


def _checked_kind(kind: Any) -> Literal["photo", "video"]:
    if kind not in ("photo", "video"):
        raise Invalid("type must be photo or video", field="type")
    return cast(Literal["photo", "video"], kind)


def _require_nonce(current: Node, nonce: str | None) -> None:
    if nonce is not None and current["metadata"]["nonce"] != nonce:
        raise EditConflict(versions.SAVED_SINCE, theirs=current["metadata"])
