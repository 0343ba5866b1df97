"""The crash cases of content."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from squinney import content
from squinney.content import Comments, Moderation, Nodes, People, Photos
from squinney.content.documents import Strategy
from squinney.content.errors import UnknownNode
from squinney.content.files import chunks, uploads
from squinney.errors import SlugTaken
from squinney.mongo.schema import Db
from squinney.testing import Case
from tests.systems.content.pictures import jpeg, noise

ADA: Any = {"_id": "ada", "name": "Ada"}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
CHUNK = 4_000
OLD, NEW = jpeg("red"), noise(90)


def _age(db: Db) -> None:
    """Make all uploads stalled, all removals due and all freezes expired."""
    db["content.uploads"].update_many({}, {"$set": {"seen": LONG_AGO}})
    db["content.removals"].update_many({}, {"$set": {"due_at": LONG_AGO}})
    frozen = {"metadata.discussion.frozen": {"$exists": True}}
    db["content.nodes"].update_many(frozen, {"$set": {"metadata.discussion.frozen.until": LONG_AGO}})


def _photos(db: Db) -> Photos:
    return Photos(db, chunk_bytes=CHUNK)


def _comments(db: Db, strategy: Strategy = "separate") -> Comments:
    return Comments(db, strategy, only_nodes=True)


def _tree(db: Db) -> Any:
    nodes = Nodes(db)
    folder = nodes.create(None, "folder", "folder", "F", ADA)
    other = nodes.create(None, "other", "folder", "O", ADA)
    page = nodes.create(folder, "page", "basic-page", "Before", ADA, {"text": "before"})
    return {"folder": folder["_id"], "other": other["_id"], "page": page["_id"], "nonce": page["metadata"]["nonce"]}


def _created_once(db: Db, state: Any) -> None:
    with suppress(SlugTaken):
        Nodes(db).create(state["folder"], "new", "basic-page", "New", ADA)
    assert Nodes(db).by_path("/folder")["metadata"]["num_children"] == 2


def _edit(db: Db, state: Any) -> None:
    Nodes(db).edit(state["page"], state["nonce"], {"title": "After", "detail": {"text": "after"}})


def _edited_or_not(db: Db, state: Any) -> None:
    node = Nodes(db).by_id(state["page"])["metadata"]
    assert (node["title"], node["detail"]["text"]) in [("Before", "before"), ("After", "after")]
    assert Nodes(db).history(state["page"]).items[0]["nonce"] == node["nonce"]
    assert len(Nodes(db).history(state["page"]).items) == node["version"]


def _tagged_whole_or_not(db: Db, state: Any) -> None:
    assert Nodes(db).by_id(state["page"])["metadata"]["tags"] in ([], ["x", "y"])


def _restored_or_not(db: Db, state: Any) -> None:
    assert len(Nodes(db).history(state["page"]).items) in (1, 2)


def _moved_or_not(db: Db, state: Any) -> None:
    nodes = Nodes(db)
    counts = [nodes.by_id(state[name])["metadata"]["num_children"] for name in ("folder", "other")]
    assert (nodes.path_of(state["page"]), counts) in [("/folder/page", [1, 0]), ("/other/moved", [0, 1])]


def _removed_or_not(db: Db, state: Any) -> None:
    there = db["content.nodes"].count_documents({"_id": state["page"]})
    assert db["content.revisions"].count_documents({"node_id": state["page"]}) == there
    assert Nodes(db).by_id(state["folder"])["metadata"]["num_children"] == there


def _upload(db: Db, state: Any) -> None:
    with patch.object(chunks, "CHUNKS_A_BATCH", 1):
        _photos(db).upload(io.BytesIO(NEW), None, "pic", author=ADA)


def _uploaded_whole_or_not_at_all(db: Db, state: Any) -> None:
    try:
        node = Nodes(db).by_path("/pic")
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


def _replace(db: Db, state: Any) -> None:
    with patch.object(chunks, "CHUNKS_A_BATCH", 1):
        _photos(db).replace(io.BytesIO(NEW), state)


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


def _talk(strategy: Strategy) -> Any:
    def prepare(db: Db) -> Any:
        node = Nodes(db).create(None, "page", "basic-page", "P", ADA)["_id"]
        comments = _comments(db, strategy=strategy)
        slugs = [comments.post(node, ADA, f"no {number}")["slug"] for number in range(3)]
        if strategy != "paged":
            comments.post(node, ADA, "reply", slugs[0])
        return {"node": node, "slugs": slugs, "count": comments.count(node), "strategy": strategy}

    return prepare


def _texts(db: Db, state: Any) -> list[str]:
    return [comment["text"] for comment in _comments(db).page(state["node"]).items]


def _post(db: Db, state: Any) -> None:
    reply_to = state["slugs"][1] if state["strategy"] != "paged" else None
    _comments(db).post(state["node"], ADA, "new", reply_to, key="once")


def _posted_once(db: Db, state: Any) -> None:
    _post(db, state)
    assert _texts(db, state).count("new") == 1
    assert _comments(db).count(state["node"]) == state["count"] + 1


def _changed_or_not(db: Db, state: Any) -> None:
    assert _comments(db).get(state["node"], state["slugs"][1])["text"] in ("no 1", "changed")
    assert _comments(db).count(state["node"]) == state["count"]


def _deleted_or_not(db: Db, state: Any) -> None:
    there = "no 1" in _texts(db, state)
    assert _comments(db).count(state["node"]) == state["count"] - (not there)


def _convert(to: Strategy) -> Any:
    return lambda db, state: _comments(db).convert(state["node"], to)


def _nothing_lost(db: Db, state: Any) -> None:
    assert sorted(text for text in _texts(db, state) if text != "after") == sorted(
        ["no 0", "no 1", "no 2", *(["reply"] if state["strategy"] != "paged" else [])]
    )
    _comments(db).post(state["node"], ADA, "after", key="after")


def _post_on_subject(db: Db, state: Any) -> None:
    Comments(db).post("article-5", ADA, "first", key="k")


def _begun_or_not(db: Db, state: Any) -> None:
    _post_on_subject(db, state)
    assert ([item["text"] for item in Comments(db).page("article-5").items], Comments(db).count("article-5")) == (
        ["first"],
        1,
    )


def _flagged(db: Db) -> Any:
    state = _talk("separate")(db)
    Moderation(db, _comments(db)).flag(state["node"], state["slugs"][1], "ben")
    return state


def _flag(db: Db, state: Any) -> None:
    Moderation(db, _comments(db)).flag(state["node"], state["slugs"][1], "ben", "spam")


def _flagged_once(db: Db, state: Any) -> None:
    _flag(db, state)
    (entry,) = Moderation(db, _comments(db)).queue().items
    assert (entry.flag["by"], entry.flag["reasons"]) == (["ben"], ["spam"])


def _decide(db: Db, state: Any) -> None:
    Moderation(db, _comments(db)).decide(state["node"], state["slugs"][1], "remove", by="mod")


def _decided_again(db: Db, state: Any) -> None:
    _decide(db, state)
    assert "no 1" not in _texts(db, state)
    assert Moderation(db, _comments(db)).queue().items == []


def _erase(db: Db, state: Any) -> None:
    People(db, Comments(db)).erase("ada")


def _erased_in_the_end(db: Db, state: Any) -> None:
    _erase(db, state)
    assert list(People(db, Comments(db)).export("ada")) == []


def _demo_goes_on(db: Db, state: Any) -> None:
    content.demo(db)
    assert db["content.nodes"].count_documents({}) == 9


def _case(name: str, prepare: Any, act: Any, check: Any, covers: Any = ()) -> Case:
    return Case(name, "content", prepare, act, check, covers=covers, age=_age)


STRATEGIES: tuple[Strategy, ...] = ("separate", "embedded", "paged")
CONVERSIONS: list[tuple[Strategy, Strategy]] = [
    ("separate", "paged"),
    ("paged", "embedded"),
    ("embedded", "separate"),
]

CASES = [
    _case(
        "Nodes.create",
        _tree,
        lambda db, state: Nodes(db).create(state["folder"], "new", "basic-page", "New", ADA),
        _created_once,
    ),
    _case("Nodes.edit", _tree, _edit, _edited_or_not),
    _case(
        "Nodes.add_tags", _tree, lambda db, state: Nodes(db).add_tags(state["page"], ["x", "y"]), _tagged_whole_or_not
    ),
    _case("Nodes.restore", _tree, lambda db, state: Nodes(db).restore(state["page"], state["nonce"]), _restored_or_not),
    _case("Nodes.move", _tree, lambda db, state: Nodes(db).move(state["page"], state["other"], "moved"), _moved_or_not),
    _case(
        "Nodes.remove",
        _tree,
        lambda db, state: Nodes(db).remove(state["page"]),
        _removed_or_not,
        covers=["Photos.remove"],
    ),
    _case("Photos.upload", lambda db: None, _upload, _uploaded_whole_or_not_at_all),
    _case("Photos.replace", _photo, _replace, _old_or_new_whole),
    _case(
        "job:give-up-uploads",
        _silent_upload,
        lambda db, state: content.give_up_uploads(db),
        _old_or_new_whole,
        covers=["job:delete-leftovers", "content.give_up_uploads", "content.delete_leftovers"],
    ),
    *(_case(f"Comments.post {strategy}", _talk(strategy), _post, _posted_once) for strategy in STRATEGIES),
    _case("Comments.post on a subject", lambda db: None, _post_on_subject, _begun_or_not),
    *(
        _case(
            f"Comments.edit {one}",
            _talk(one),
            lambda db, state: _comments(db).edit(state["node"], state["slugs"][1], "changed"),
            _changed_or_not,
        )
        for one in ("separate", "paged")
    ),
    *(
        _case(
            f"Comments.delete {one}",
            _talk(one),
            lambda db, state: _comments(db).delete(state["node"], state["slugs"][1]),
            _deleted_or_not,
        )
        for one in ("separate", "paged")
    ),
    *(_case(f"Comments.convert {one} to {to}", _talk(one), _convert(to), _nothing_lost) for one, to in CONVERSIONS),
    _case("Moderation.flag", _talk("separate"), _flag, _flagged_once),
    _case("Moderation.decide", _flagged, _decide, _decided_again),
    _case("People.erase", _talk("separate"), _erase, _erased_in_the_end),
    _case("content.demo", lambda db: None, lambda db, state: content.demo(db), _demo_goes_on),
]
