"""Content's part of `squinney prove`: what workers do until they are killed, and the checks afterwards."""

from __future__ import annotations

import hashlib
import io
import random
import uuid
from collections import Counter
from collections.abc import Callable
from threading import Thread
from typing import Any

from squinney.content.comments.comments import Comments
from squinney.content.comments.discussions import CAPABILITIES
from squinney.content.documents import Author, Strategy
from squinney.content.leftovers import give_up_uploads
from squinney.content.nodes.documents import NODES, Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.photos.photos import Photos
from squinney.content.proof_checks import promises
from squinney.errors import SquinneyError
from squinney.mongo.schema import Db, Document
from squinney.system import Proof
from squinney.transactions import Key, end_abandoned

EDITOR: Author = {"_id": "proof", "name": "Proof"}
STRATEGIES: tuple[Strategy, ...] = ("separate", "embedded", "paged")
# Many, because the documents of a worker that is killed in a transaction stay blocked until that is ended.
PAGES = 90
PICTURES = 30
THREADS = 3
CHUNK_BYTES = 4_096
STALLED_SECONDS = 5.0


def prepare(db: Db) -> None:
    """Create two folders with pages, whose discussions use all strategies, and with photos."""
    worker = _Worker(db, 0)
    folders = [worker.nodes.create(None, name, "folder", name, EDITOR) for name in ("left", "right")]
    for number in range(PAGES):
        node = worker.nodes.create(folders[number % 2], f"p{number}", "basic-page", "Start", EDITOR)
        Comments(db, STRATEGIES[number % 3], only_nodes=True).convert(node, STRATEGIES[number % 3])
    for number in range(PICTURES):
        worker.photos.upload(_picture(worker.random), folders[number % 2], f"f{number}", author=EDITOR)


def work(db: Db, seed: int) -> None:
    """Edit, comment, upload, move and convert at random in a few threads, for ever."""
    workers = [_Worker(db, seed * 100 + number) for number in range(THREADS)]
    threads = [Thread(target=worker.work, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class _Worker:
    """Performs random operations. It records each before it starts, and the result afterwards."""

    def __init__(self, db: Db, seed: int) -> None:
        self._db = db
        self.random = random.Random(seed)
        transactions = Proof.transactions(db)
        self.nodes = Nodes(db, transactions=transactions)
        self.photos = Photos(db, nodes=self.nodes, transactions=transactions, chunk_bytes=CHUNK_BYTES)
        self.comments = Comments(db, transactions=transactions, only_nodes=True)
        self._ids = {
            kind: [node["_id"] for node in db[NODES].find({"metadata.type": kind}, {"_id": 1})]
            for kind in ("basic-page", "photo", "folder")
        }

    def work(self) -> None:
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._edit, 6), (self._post, 8), (self._reply, 3), (self._delete, 2), (self._convert, 2),
            (self._upload, 2), (self._replace, 4), (self._download, 6), (self._move, 1),
        ]  # fmt: skip
        acts, weights = zip(*kinds, strict=True)
        while True:
            try:
                self.random.choices(acts, weights)[0]()
            except SquinneyError:
                continue

    def _intent(self, kind: str, **arguments: Any) -> str:
        intent_id = uuid.uuid4().hex
        self._db["intents"].insert_one({"_id": intent_id, "kind": kind, **arguments})
        return intent_id

    def _acknowledged(self, intent_id: str, **result: Any) -> None:
        self._db["intents"].update_one({"_id": intent_id}, {"$set": {"acknowledged": True, **result}})

    def _edit(self) -> None:
        node = self.nodes.by_id(self.random.choice(self._ids["basic-page"]))
        intent = self._intent("edit", node_id=node["_id"])
        changed = self.nodes.edit(node, node["metadata"]["nonce"], {"title": intent}, by=EDITOR, session=intent)
        self._acknowledged(intent, nonce=changed["metadata"]["nonce"])

    def _post(self) -> None:
        self._post_once(self.random.choice(self._ids["basic-page"]), None)

    def _reply(self) -> None:
        node = self.nodes.by_id(self.random.choice(self._ids["basic-page"]))
        if "replies" in CAPABILITIES[self.comments.strategy_of(node)] and (comment := self._any_comment(node)):
            self._post_once(node["_id"], comment["slug"])

    def _post_once(self, node_id: str, reply_to: str | None) -> None:
        """Post with a key, sometimes twice."""
        intent = self._intent("post", node_id=node_id)
        for _ in range(self.random.choice([1, 1, 2])):
            self.comments.post(node_id, EDITOR, intent, reply_to, key=Key(intent, "proof"))
            self._acknowledged(intent)

    def _delete(self) -> None:
        node = self.nodes.by_id(self.random.choice(self._ids["basic-page"]))
        if comment := self._any_comment(node):
            intent = self._intent("delete", node_id=node["_id"], text=comment["text"])
            self.comments.delete(node, comment["slug"])
            self._acknowledged(intent)

    def _any_comment(self, node: Node) -> Document | None:
        comments = [comment for comment in self.comments.page(node).items if not comment.get("deleted")]
        return dict(self.random.choice(comments)) if comments else None

    def _convert(self) -> None:
        node_id, to = self.random.choice(self._ids["basic-page"]), self.random.choice(STRATEGIES)
        intent = self._intent("convert", node_id=node_id)
        self.comments.convert(node_id, to)
        self._acknowledged(intent)

    def _upload(self) -> None:
        intent, picture = self._intent("upload"), _picture(self.random)
        node = self.photos.upload(picture, self.random.choice(self._ids["folder"]), f"u{intent}", author=EDITOR)
        self._acknowledged(intent, node_id=node["_id"], sha256=_digest(picture.getvalue()))

    def _replace(self) -> None:
        intent, picture = self._intent("replace"), _picture(self.random)
        node = self.photos.replace(picture, self.random.choice(self._ids["photo"]), by=EDITOR)
        self._acknowledged(intent, node_id=node["_id"], sha256=_digest(picture.getvalue()))

    def _download(self) -> None:
        """Read a photo, and record it in `halves` if its bytes do not match its digest."""
        node_id, rendition = self.random.choice(self._ids["photo"]), self.random.choice(["web", "original"])
        asset = self.photos.open(node_id, rendition)  # type: ignore[arg-type]
        if _digest(b"".join(asset.read())) != asset.sha256:
            self._db["halves"].insert_one({"node_id": node_id, "rendition": rendition})

    def _move(self) -> None:
        self.nodes.move(self.random.choice(self._ids["basic-page"]), self.random.choice(self._ids["folder"]))


def _picture(rng: random.Random) -> io.BytesIO:
    """Return a photo of several chunks, different from all others."""
    target = io.BytesIO()
    side = rng.randint(60, 100)
    from PIL import Image  # imported here, because only photos need Pillow

    Image.frombytes("RGB", (side, side), rng.randbytes(side * side * 3)).save(target, "JPEG", quality=90)
    target.seek(0)
    return target


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def settle(db: Db) -> Counter[str]:
    """Run the background jobs once; return counts."""
    done = Counter({"open transactions": end_abandoned(db)})
    try:
        done.update(give_up_uploads(db, stalled_seconds=STALLED_SECONDS))
    except SquinneyError:  # a killed worker's transaction still blocks a document; the next call deletes it
        done["deletions put off"] += 1
    return done


def progress(db: Db) -> int:
    """Return the number of operations acknowledged so far."""
    return db["intents"].count_documents({"acknowledged": True})


def check(db: Db) -> dict[str, str]:
    """Return each promise with what breaks it, or an empty string if the promise holds."""
    return promises(db, lambda: settle(db))
