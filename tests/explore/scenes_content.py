"""Scenes of content: concurrent changes of nodes and discussions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from squinney.content import Comments, Nodes
from squinney.content.documents import Strategy
from squinney.mongo.schema import Db
from tests.explore.scene import Act, Scene

ADA: Any = {"_id": "ada", "name": "Ada"}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def _age(db: Db) -> None:
    db["content.removals"].update_many({}, {"$set": {"due_at": LONG_AGO}})
    frozen = {"metadata.discussion.frozen": {"$exists": True}}
    for name in ("content.nodes", "content.subjects"):
        db[name].update_many(frozen, {"$set": {"metadata.discussion.frozen.until": LONG_AGO}})


# ---- nodes ----


def _tree(db: Db) -> dict[str, str]:
    nodes = Nodes(db)
    folder = nodes.create(None, "folder", "folder", "F", ADA)
    other = nodes.create(None, "other", "folder", "O", ADA)
    page = nodes.create(folder, "page", "basic-page", "Before", ADA, {"text": "before"})
    return {"folder": folder["_id"], "other": other["_id"], "page": page["_id"], "nonce": page["metadata"]["nonce"]}


def _on_tree(change: Callable[[Nodes, Any], object]) -> Act:
    return lambda db, state: change(Nodes(db), state)


NODE_OPERATIONS: dict[str, Act] = {
    "create": _on_tree(lambda nodes, at: nodes.create(at["folder"], "new", "basic-page", "New", ADA)),
    "edit": _on_tree(lambda nodes, at: nodes.edit(at["page"], at["nonce"], {"title": "After"})),
    "restore": _on_tree(lambda nodes, at: nodes.restore(at["page"], at["nonce"])),
    "tag": _on_tree(lambda nodes, at: nodes.add_tags(at["page"], ["x"])),
    "move": _on_tree(lambda nodes, at: nodes.move(at["page"], at["other"], "moved")),
    "move folder": _on_tree(lambda nodes, at: nodes.move(at["other"], at["folder"], "inner")),
    "move folder back": _on_tree(lambda nodes, at: nodes.move(at["folder"], at["other"], "inner")),
    "remove": _on_tree(lambda nodes, at: nodes.remove(at["page"])),
}

# ---- comments ----


def _talk(strategy: Strategy) -> Callable[[Db], Any]:
    def prepare(db: Db) -> Any:
        node = Nodes(db).create(None, "page", "basic-page", "P", ADA)["_id"]
        comments = Comments(db, strategy, only_nodes=True)
        return {"node": node, "slugs": [comments.post(node, ADA, f"no {number}")["slug"] for number in range(2)]}

    return prepare


def _on_talk(change: Callable[[Comments, Any], object]) -> Act:
    return lambda db, state: change(Comments(db, only_nodes=True), state)


COMMENT_OPERATIONS: dict[str, Act] = {
    "post": _on_talk(lambda comments, at: comments.post(at["node"], ADA, "new")),
    "post by key": _on_talk(lambda comments, at: comments.post(at["node"], ADA, "once", key="k")),
    "edit": _on_talk(lambda comments, at: comments.edit(at["node"], at["slugs"][1], "changed")),
    "delete": _on_talk(lambda comments, at: comments.delete(at["node"], at["slugs"][1])),
    "remove page": lambda db, state: Nodes(db).remove(state["node"]),
}
# ---- a subject of the caller's own, which the first comment begins ----


def _on_subject(strategy: Strategy, author: str) -> Act:
    return lambda db, state: Comments(db, strategy).post("article-5", {"_id": author, "name": author}, "new")


BEGIN: dict[str, Act] = {
    "post": _on_subject("separate", "ada"),
    "post embedded": _on_subject("embedded", "ben"),
    "convert": lambda db, state: Comments(db).convert("article-5", "paged"),
}

CONVERT: dict[str, Act] = {"convert": _on_talk(lambda comments, at: comments.convert(at["node"], "paged"))}

SCENES = [
    Scene("nodes", "content", _tree, NODE_OPERATIONS, age=_age),
    *(
        Scene(f"comments, {strategy}", "content", _talk(strategy), COMMENT_OPERATIONS, age=_age)
        for strategy in ("separate", "embedded", "paged")
    ),
    Scene("comments, a new subject", "content", lambda db: {}, BEGIN, composed=["convert"], age=_age),
    Scene(
        "comments, converted",
        "content",
        _talk("separate"),
        {**{name: COMMENT_OPERATIONS[name] for name in ("post", "delete")}, **CONVERT},
        composed=["convert"],
        age=_age,
    ),
]
