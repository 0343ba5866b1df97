"""Content's part of `squinney prove`: what workers do until they are killed, and what must hold afterwards."""

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
from squinney.content.comments.documents import Strategy
from squinney.content.documents import Author
from squinney.content.files.photos import Photos
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.proof_checks import promises
from squinney.content.sweep import sweep_uploads
from squinney.errors import SquinneyError
from squinney.mongo.schema import Db, Document
from squinney.system import Proof
from squinney.transactions import Key, Mode

EDITOR: Author = {"_id": "proof", "name": "Proof"}
STRATEGIES: tuple[Strategy, ...] = ("separate", "embedded", "paged")
# Many, because a worker killed inside a native transaction holds its documents until the server ends it.
PAGES = 90
PICTURES = 30
THREADS = 3
CHUNK_BYTES = 4_096
STALLED_SECONDS = 5.0


def prepare(db: Db) -> None:
    """Pages with a discussion of each kind, and photos to replace, in two folders between which they move."""
    crew = _Crew(db, "auto", 0)
    folders = [crew.nodes.create(None, name, "folder", name, EDITOR) for name in ("left", "right")]
    for number in range(PAGES):
        node = crew.nodes.create(folders[number % 2], f"p{number}", "basic-page", "Start", EDITOR)
        Comments(db, STRATEGIES[number % 3]).convert(node, STRATEGIES[number % 3])
    for number in range(PICTURES):
        crew.photos.upload(_picture(crew.chance), folders[number % 2], f"f{number}", author=EDITOR)


def work(db: Db, mode: Mode, seed: int) -> None:
    """A few people who write, talk, upload, move and convert at random, for ever."""
    crews = [_Crew(db, mode, seed * 100 + number) for number in range(THREADS)]
    threads = [Thread(target=crew.work, daemon=True) for crew in crews]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class _Crew:
    """One person. What they are about to do is on record before they do it, and what was answered afterwards."""

    def __init__(self, db: Db, mode: Mode, seed: int) -> None:
        self._db = db
        self.chance = random.Random(seed)
        runs = Proof.transactions(db, mode)
        self.nodes = Nodes(db, transactions=runs)
        self.photos = Photos(db, nodes=self.nodes, transactions=runs, chunk_bytes=CHUNK_BYTES)
        self.comments = Comments(db, transactions=runs)
        of = {kind: {"metadata.type": kind} for kind in ("basic-page", "photo", "folder")}
        self._ids = {
            kind: [node["_id"] for node in db["content.nodes"].find(where, {"_id": 1})] for kind, where in of.items()
        }

    def work(self) -> None:
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._edit, 6), (self._post, 8), (self._answer, 3), (self._delete, 2), (self._convert, 2),
            (self._upload, 2), (self._replace, 4), (self._look, 6), (self._move, 1),
        ]  # fmt: skip
        acts, weights = zip(*kinds, strict=True)
        while True:
            try:
                self.chance.choices(acts, weights)[0]()
            except SquinneyError:
                continue

    def _intent(self, kind: str, **about: Any) -> str:
        intent_id = uuid.uuid4().hex
        self._db["intents"].insert_one({"_id": intent_id, "kind": kind, **about})
        return intent_id

    def _acknowledged(self, intent_id: str, **answer: Any) -> None:
        self._db["intents"].update_one({"_id": intent_id}, {"$set": {"acknowledged": True, **answer}})

    def _edit(self) -> None:
        node = self.nodes.by_id(self.chance.choice(self._ids["basic-page"]))
        intent = self._intent("edit", node_id=node["_id"])
        changed = self.nodes.edit(node, node["metadata"]["nonce"], {"title": intent}, by=EDITOR, session=intent)
        self._acknowledged(intent, nonce=changed["metadata"]["nonce"])

    def _post(self) -> None:
        self._say(self.chance.choice(self._ids["basic-page"]), None)

    def _answer(self) -> None:
        node = self.nodes.by_id(self.chance.choice(self._ids["basic-page"]))
        if "replies" in CAPABILITIES[self.comments.strategy_of(node)] and (found := self._any_comment(node)):
            self._say(node["_id"], found["slug"])

    def _say(self, node_id: str, reply_to: str | None) -> None:
        intent = self._intent("post", node_id=node_id)
        for _ in range(self.chance.choice([1, 1, 2])):
            self.comments.post(node_id, EDITOR, intent, reply_to, key=Key(intent, "proof"))
            self._acknowledged(intent)

    def _delete(self) -> None:
        node = self.nodes.by_id(self.chance.choice(self._ids["basic-page"]))
        if found := self._any_comment(node):
            intent = self._intent("delete", node_id=node["_id"], text=found["text"])
            self.comments.delete(node, found["slug"])
            self._acknowledged(intent)

    def _any_comment(self, node: Node) -> Document | None:
        found = [comment for comment in self.comments.page(node).items if not comment.get("deleted")]
        return dict(self.chance.choice(found)) if found else None

    def _convert(self) -> None:
        node_id, to = self.chance.choice(self._ids["basic-page"]), self.chance.choice(STRATEGIES)
        intent = self._intent("convert", node_id=node_id)
        self.comments.convert(node_id, to)
        self._acknowledged(intent)

    def _upload(self) -> None:
        intent, picture = self._intent("upload"), _picture(self.chance)
        node = self.photos.upload(picture, self.chance.choice(self._ids["folder"]), f"u{intent}", author=EDITOR)
        self._acknowledged(intent, node_id=node["_id"], sha256=_digest(picture.getvalue()))

    def _replace(self) -> None:
        intent, picture = self._intent("replace"), _picture(self.chance)
        node = self.photos.replace(picture, self.chance.choice(self._ids["photo"]), by=EDITOR)
        facts = {"nonce": node["metadata"]["nonce"], "sha256": _digest(picture.getvalue())}
        self._acknowledged(intent, node_id=node["_id"], **facts)

    def _look(self) -> None:
        """A reader who meets half a photo says so."""
        node_id, rendition = self.chance.choice(self._ids["photo"]), self.chance.choice(["web", "original"])
        asset = self.photos.open(node_id, rendition)  # type: ignore[arg-type]
        if _digest(b"".join(asset.read())) != asset.sha256:
            self._db["halves"].insert_one({"node_id": node_id, "rendition": rendition})

    def _move(self) -> None:
        self.nodes.move(self.chance.choice(self._ids["basic-page"]), self.chance.choice(self._ids["folder"]))


def _picture(chance: random.Random) -> io.BytesIO:
    """A photo of several chunks that no other one equals."""
    target = io.BytesIO()
    side = chance.randint(60, 100)
    from PIL import Image  # which only photos need

    Image.frombytes("RGB", (side, side), chance.randbytes(side * side * 3)).save(target, "JPEG", quality=90)
    target.seek(0)
    return target


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def settle(db: Db) -> Counter[str]:
    """What the background jobs do."""
    done = Proof.transactions(db, "auto").recover()
    try:
        done.update(sweep_uploads(db, stalled_seconds=STALLED_SECONDS))
    except SquinneyError:  # a killed worker's native transaction still holds something; the next round gets it
        done["sweeps put off"] += 1
    return done


def progress(db: Db) -> int:
    """How many operations were acknowledged so far."""
    return db["intents"].count_documents({"acknowledged": True})


def check(db: Db) -> dict[str, str]:
    """Each promise with what breaks it; an empty string where it holds."""
    return promises(db, lambda: settle(db))
