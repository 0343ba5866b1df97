"""The crash cases of content."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from squinney import content
from squinney.content import Comments, Moderation, Nodes, People, Photos
from squinney.content.comments.documents import Strategy
from squinney.content.errors import SlugTaken, UnknownNode
from squinney.content.files import chunks, uploads
from squinney.mongo.schema import Db
from squinney.testing import Case
from squinney.testing.crash.cases import transactions
from squinney.transactions import Mode
from tests.systems.content.pictures import jpeg, noise

ADA: Any = {"_id": "ada", "name": "Ada"}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
CHUNK = 4_000
OLD, NEW = jpeg("red"), noise(90)
BOTH: tuple[Mode, ...] = ("native", "two-phase")


def _age(db: Db) -> None:
    """Make all uploads stalled, all removals due and all freezes expired."""
    db["content.uploads"].update_many({}, {"$set": {"seen": LONG_AGO}})
    db["content.removals"].update_many({}, {"$set": {"due_at": LONG_AGO}})
    frozen = {"metadata.discussion.frozen": {"$exists": True}}
    db["content.nodes"].update_many(frozen, {"$set": {"metadata.discussion.frozen.until": LONG_AGO}})


def _nodes(db: Db, mode: Mode = "auto") -> Nodes:
    return Nodes(db, transactions=transactions(db, mode))


def _photos(db: Db, mode: Mode = "auto") -> Photos:
    return Photos(db, transactions=transactions(db, mode), chunk_bytes=CHUNK)


def _comments(db: Db, mode: Mode = "auto", strategy: Strategy = "separate") -> Comments:
    return Comments(db, strategy, transactions=transactions(db, mode))


def _tree(db: Db) -> Any:
    nodes = _nodes(db)
    folder = nodes.create(None, "folder", "folder", "F", ADA)
    other = nodes.create(None, "other", "folder", "O", ADA)
    page = nodes.create(folder, "page", "basic-page", "Before", ADA, {"text": "before"})
    return {"folder": folder["_id"], "other": other["_id"], "page": page["_id"], "nonce": page["metadata"]["nonce"]}


def _create(db: Db, mode: Mode, state: Any) -> None:
    _nodes(db, mode).create(state["folder"], "new", "basic-page", "New", ADA)


def _created_once(db: Db, state: Any) -> None:
    with suppress(SlugTaken):
        _nodes(db).create(state["folder"], "new", "basic-page", "New", ADA)
    assert _nodes(db).by_path("/folder")["metadata"]["num_children"] == 2


def _edit(db: Db, mode: Mode, state: Any) -> None:
    _nodes(db, mode).edit(state["page"], state["nonce"], {"title": "After", "detail": {"text": "after"}})


def _edited_or_not(db: Db, state: Any) -> None:
    node = _nodes(db).by_id(state["page"])["metadata"]
    assert (node["title"], node["detail"]["text"]) in [("Before", "before"), ("After", "after")]
    assert _nodes(db).history(state["page"]).items[0]["nonce"] == node["nonce"]
    assert len(_nodes(db).history(state["page"]).items) == node["version"]


def _tag(db: Db, mode: Mode, state: Any) -> None:
    _nodes(db, mode).add_tags(state["page"], ["x", "y"])


def _tagged_whole_or_not(db: Db, state: Any) -> None:
    assert _nodes(db).by_id(state["page"])["metadata"]["tags"] in ([], ["x", "y"])


def _restore(db: Db, mode: Mode, state: Any) -> None:
    _nodes(db, mode).restore(state["page"], state["nonce"])


def _restored_or_not(db: Db, state: Any) -> None:
    assert len(_nodes(db).history(state["page"]).items) in (1, 2)


def _move(db: Db, mode: Mode, state: Any) -> None:
    _nodes(db, mode).move(state["page"], state["other"], "moved")


def _moved_or_not(db: Db, state: Any) -> None:
    nodes = _nodes(db)
    counts = [nodes.by_id(state[name])["metadata"]["num_children"] for name in ("folder", "other")]
    assert (nodes.path_of(state["page"]), counts) in [("/folder/page", [1, 0]), ("/other/moved", [0, 1])]


def _remove(db: Db, mode: Mode, state: Any) -> None:
    _nodes(db, mode).remove(state["page"])


def _removed_or_not(db: Db, state: Any) -> None:
    there = db["content.nodes"].count_documents({"_id": state["page"]})
    assert db["content.revisions"].count_documents({"node_id": state["page"]}) == there
    assert _nodes(db).by_id(state["folder"])["metadata"]["num_children"] == there


def _upload(db: Db, mode: Mode, state: Any) -> None:
    with patch.object(chunks, "CHUNKS_A_BATCH", 1):
        _photos(db, mode).upload(io.BytesIO(NEW), None, "pic", author=ADA)


def _uploaded_whole_or_not_at_all(db: Db, state: Any) -> None:
    try:
        node = _nodes(db).by_path("/pic")
    except UnknownNode:
        _require_files(db, 0)
        return
    assert b"".join(_photos(db).open(node, "original").read()) == NEW
    _require_files(db, 2)


def _require_files(db: Db, number: int) -> None:
    """Require that only this number of files, their chunks and no uploads are stored."""
    files = list(db["content.assets.files"].find())
    assert len(files) == number
    chunks = sum(-(-file["length"] // file["chunkSize"]) for file in files)
    assert db["content.assets.chunks"].count_documents({}) == chunks
    assert db["content.uploads"].count_documents({}) == 0


def _photo(db: Db) -> Any:
    return _photos(db).upload(io.BytesIO(OLD), None, "pic", author=ADA)["_id"]


def _replace(db: Db, mode: Mode, state: Any) -> None:
    with patch.object(chunks, "CHUNKS_A_BATCH", 1):
        _photos(db, mode).replace(io.BytesIO(NEW), state)


def _old_or_new_whole(db: Db, state: Any) -> None:
    assert b"".join(_photos(db).open(state, "original").read()) in (OLD, NEW)
    assert b"".join(_photos(db).open(state).read())
    _require_files(db, 2)


def _silent_upload(db: Db) -> Any:
    """Prepare a photo that was replaced, and an upload that died."""
    photo = _photo(db)
    _photos(db).replace(io.BytesIO(NEW), photo)
    receiver = uploads.Receiver(db, by="ada", chunk_bytes=CHUNK)
    receiver._store(io.BytesIO(NEW), NEW[:100], "image/jpeg", 10**9, False)
    _age(db)
    return photo


def _sweep(db: Db, mode: Mode, state: Any) -> None:
    content.sweep_uploads(db)


def _talk(strategy: Strategy) -> Any:
    def prepare(db: Db) -> Any:
        node = _nodes(db).create(None, "page", "basic-page", "P", ADA)["_id"]
        comments = _comments(db, strategy=strategy)
        slugs = [comments.post(node, ADA, f"no {number}")["slug"] for number in range(3)]
        if strategy != "paged":
            comments.post(node, ADA, "reply", slugs[0])
        return {"node": node, "slugs": slugs, "count": comments.count(node), "strategy": strategy}

    return prepare


def _texts(db: Db, state: Any) -> list[str]:
    return [comment["text"] for comment in _comments(db).page(state["node"]).items]


def _post(db: Db, mode: Mode, state: Any) -> None:
    reply_to = state["slugs"][1] if state["strategy"] != "paged" else None
    _comments(db, mode).post(state["node"], ADA, "new", reply_to, key="once")


def _posted_once(db: Db, state: Any) -> None:
    _post(db, "native", state)
    assert _texts(db, state).count("new") == 1
    assert _comments(db).count(state["node"]) == state["count"] + 1


def _change(db: Db, mode: Mode, state: Any) -> None:
    _comments(db, mode).edit(state["node"], state["slugs"][1], "changed")


def _changed_or_not(db: Db, state: Any) -> None:
    assert _comments(db).get(state["node"], state["slugs"][1])["text"] in ("no 1", "changed")
    assert _comments(db).count(state["node"]) == state["count"]


def _delete(db: Db, mode: Mode, state: Any) -> None:
    _comments(db, mode).delete(state["node"], state["slugs"][1])


def _deleted_or_not(db: Db, state: Any) -> None:
    there = "no 1" in _texts(db, state)
    assert _comments(db).count(state["node"]) == state["count"] - (not there)


def _convert(to: Strategy) -> Any:
    return lambda db, mode, state: _comments(db, mode).convert(state["node"], to)


def _nothing_lost(db: Db, state: Any) -> None:
    assert sorted(text for text in _texts(db, state) if text != "after") == sorted(
        ["no 0", "no 1", "no 2", *(["reply"] if state["strategy"] != "paged" else [])]
    )
    _comments(db).post(state["node"], ADA, "after", key="after")


def _flagged(db: Db) -> Any:
    state = _talk("separate")(db)
    Moderation(db, _comments(db)).flag(state["node"], state["slugs"][1], "ben")
    return state


def _flag(db: Db, mode: Mode, state: Any) -> None:
    Moderation(db, _comments(db, mode)).flag(state["node"], state["slugs"][1], "ben", "spam")


def _flagged_once(db: Db, state: Any) -> None:
    _flag(db, "native", state)
    (entry,) = Moderation(db, _comments(db)).queue().items
    assert (entry.flag["by"], entry.flag["reasons"]) == (["ben"], ["spam"])


def _decide(db: Db, mode: Mode, state: Any) -> None:
    Moderation(db, _comments(db, mode)).decide(state["node"], state["slugs"][1], "remove", by="mod")


def _decided_again(db: Db, state: Any) -> None:
    _decide(db, "native", state)
    assert "no 1" not in _texts(db, state)
    assert Moderation(db, _comments(db)).queue().items == []


def _erase(db: Db, mode: Mode, state: Any) -> None:
    People(db, _comments(db, mode)).erase("ada")


def _erased_in_the_end(db: Db, state: Any) -> None:
    _erase(db, "native", state)
    assert list(People(db, _comments(db)).export("ada")) == []


def _demo(db: Db, mode: Mode, state: Any) -> None:
    content.demo(db)


def _demo_goes_on(db: Db, state: Any) -> None:
    content.demo(db)
    assert db["content.nodes"].count_documents({}) == 9


def _case(name: str, prepare: Any, act: Any, check: Any, modes: tuple[Mode, ...] = BOTH, covers: Any = ()) -> Case:
    return Case(name, "content", prepare, act, check, modes, covers=covers, age=_age)


STRATEGIES: tuple[Strategy, ...] = ("separate", "embedded", "paged")
CONVERSIONS: list[tuple[Strategy, Strategy]] = [
    ("separate", "paged"),
    ("paged", "embedded"),
    ("embedded", "separate"),
]

CASES = [
    _case("Nodes.create", _tree, _create, _created_once),
    _case("Nodes.edit", _tree, _edit, _edited_or_not),
    _case("Nodes.add_tags", _tree, _tag, _tagged_whole_or_not, ("native",)),
    _case("Nodes.restore", _tree, _restore, _restored_or_not),
    _case("Nodes.move", _tree, _move, _moved_or_not),
    _case("Nodes.remove", _tree, _remove, _removed_or_not, covers=["Photos.remove"]),
    _case("Photos.upload", lambda db: None, _upload, _uploaded_whole_or_not_at_all),
    _case("Photos.replace", _photo, _replace, _old_or_new_whole),
    _case(
        "job:sweep-uploads",
        _silent_upload,
        _sweep,
        _old_or_new_whole,
        ("native",),
        ["job:sweep-content", "content.sweep_uploads", "content.sweep_removals"],
    ),
    *(_case(f"Comments.post {one}", _talk(one), _post, _posted_once) for one in STRATEGIES),
    *(_case(f"Comments.edit {one}", _talk(one), _change, _changed_or_not) for one in ("separate", "paged")),
    *(_case(f"Comments.delete {one}", _talk(one), _delete, _deleted_or_not) for one in ("separate", "paged")),
    *(_case(f"Comments.convert {one} to {to}", _talk(one), _convert(to), _nothing_lost) for one, to in CONVERSIONS),
    _case("Moderation.flag", _talk("separate"), _flag, _flagged_once, ("native",)),
    _case("Moderation.decide", _flagged, _decide, _decided_again, ("native",)),
    _case("People.erase", _talk("separate"), _erase, _erased_in_the_end, ("native",)),
    _case("content.demo", lambda db: None, _demo, _demo_goes_on, ("native",)),
]
