"""Photos, flags and the jobs of content, beside edits and removals."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from squinney import content
from squinney.content import Comments, Moderation, Nodes, People, Photos, delete_leftovers, give_up_uploads
from squinney.content.comments.documents import COMMENTS, FLAGS, PAGES
from squinney.content.errors import UploadLost
from squinney.content.files.documents import CHUNKS, FILES, UPLOADS
from squinney.content.nodes.documents import NODES, REVISIONS
from squinney.content.removals import REMOVALS
from squinney.mongo.schema import Db
from tests.crash.cases_content import _age as age
from tests.explore.scene import Act, Scene
from tests.systems.content.pictures import jpeg

ADA: Any = {"_id": "ada", "name": "Ada"}
OLD, NEW = jpeg("red", (8, 8)), jpeg("blue", (8, 8))


def _delete_leftovers(db: Db, state: Any) -> None:
    delete_leftovers(db)


# ---- photos ----


def _album(db: Db) -> dict[str, str]:
    """Add a photo whose file was replaced long ago, so that its old file is due."""
    album = Nodes(db).create(None, "album", "folder", "A", ADA)
    photo = Photos(db).upload(io.BytesIO(OLD), album, "pic", author=ADA)
    photo = Photos(db).replace(io.BytesIO(NEW), photo)
    age(db)
    return {"album": album["_id"], "photo": photo["_id"], "nonce": photo["metadata"]["nonce"]}


def _on_photos(change: Callable[[Photos, Any], object]) -> Act:
    return lambda db, state: change(Photos(db), state)


def _give_up_uploads(db: Db, state: Any) -> None:
    """Give up all uploads that are under way, as if they had been silent; also those that begin after the job."""
    give_up_uploads(db, stalled_seconds=-3600)


def _only_whole_photos_are_left(db: Db, state: Any) -> None:
    """Assert that each photo has its files, and that the job deletes all other files in the end."""
    age(db)
    give_up_uploads(db)
    photos = Photos(db)
    shown = []
    for node in db[NODES].find({"metadata.type": "photo"}):
        assert b"".join(photos.open(node["_id"], "original").read()) in (OLD, NEW)
        assert b"".join(photos.open(node["_id"]).read())
        shown += [node["metadata"]["detail"]["file_id"], f"{node['metadata']['detail']['file_id']}-web"]
    for name, field in ((FILES, "_id"), (CHUNKS, "files_id")):
        assert sorted(db[name].distinct(field)) == sorted(shown)
    assert db[UPLOADS].count_documents({}) == 0


PHOTOS: dict[str, Act] = {
    "upload": _on_photos(lambda photos, at: photos.upload(io.BytesIO(NEW), at["album"], "new", author=ADA)),
    "replace": _on_photos(lambda photos, at: photos.replace(io.BytesIO(OLD), at["photo"], at["nonce"])),
    "remove": _on_photos(lambda photos, at: photos.remove(at["photo"])),
    "edit": lambda db, at: Nodes(db).edit(at["photo"], at["nonce"], {"title": "After"}),
    "give up uploads": _give_up_uploads,
    "delete leftovers": _delete_leftovers,
}

# ---- flags ----


def _flagged(db: Db) -> dict[str, str]:
    """Add a page with a flagged comment and another comment."""
    node = Nodes(db).create(None, "page", "basic-page", "P", ADA)["_id"]
    slug = Comments(db, only_nodes=True).post(node, ADA, "rude")["slug"]
    Moderation(db, Comments(db, only_nodes=True)).flag(node, slug, "ben", "rude")
    return {"node": node, "slug": slug, "other": Comments(db, only_nodes=True).post(node, ADA, "kind")["slug"]}


def _on_flags(change: Callable[[Moderation, Any], object]) -> Act:
    return lambda db, at: change(Moderation(db, Comments(db, only_nodes=True)), at)


def _remove_for_good(db: Db, state: Any) -> None:
    Nodes(db).remove(state["node"])
    delete_leftovers(db)


def _nothing_of_a_removed_page_is_left(db: Db, state: Any) -> None:
    delete_leftovers(db)
    if not db[NODES].find_one({"_id": state["node"]}):
        for name in (COMMENTS, PAGES, FLAGS, REVISIONS):
            assert list(db[name].find()) == []


FLAGGED: dict[str, Act] = {
    "flag": _on_flags(lambda flags, at: flags.flag(at["node"], at["other"], "cid", "spam")),
    "flag again": _on_flags(lambda flags, at: flags.flag(at["node"], at["slug"], "cid")),
    "keep": _on_flags(lambda flags, at: flags.decide(at["node"], at["slug"], "keep", by="mod")),
    "take down": _on_flags(lambda flags, at: flags.decide(at["node"], at["slug"], "remove", by="mod")),
    "delete": lambda db, at: Comments(db, only_nodes=True).delete(at["node"], at["slug"]),
    "remove page": _remove_for_good,
    "erase": lambda db, at: People(db, Comments(db)).erase("ada"),
}

# ---- what conversions leave ----


def _converted(db: Db) -> dict[str, str]:
    """Convert a discussion, so that the removal of its old comments is due."""
    state = _flagged(db)
    Comments(db, only_nodes=True).convert(state["node"], "paged")
    age(db)
    return state


CONVERTED: dict[str, Act] = {
    "delete leftovers": _delete_leftovers,
    "convert back": lambda db, at: Comments(db, only_nodes=True).convert(at["node"], "separate"),
    "post": lambda db, at: Comments(db, only_nodes=True).post(at["node"], ADA, "new"),
    "delete": FLAGGED["delete"],
    "remove page": FLAGGED["remove page"],
}

SCENES = [
    Scene(
        "comments, repaired",
        "content",
        _flagged,
        {name: CONVERTED[name] for name in ("post", "delete")},
        between=[content.repair],
    ),
    Scene(
        "photos",
        "content",
        _album,
        PHOTOS,
        composed=["give up uploads", "delete leftovers"],
        excused=(UploadLost,),
        ignored=[REMOVALS],  # an upload that is given up leaves one more, for chunks that may still arrive
        check=_only_whole_photos_are_left,
        age=age,
    ),
    Scene(
        "flags",
        "content",
        _flagged,
        FLAGGED,
        composed=["take down", "remove page", "erase"],
        check=_nothing_of_a_removed_page_is_left,
        age=age,
    ),
    Scene(
        "comments, swept",
        "content",
        _converted,
        CONVERTED,
        composed=["delete leftovers", "convert back", "remove page"],
        check=_nothing_of_a_removed_page_is_left,
        age=age,
    ),
]
