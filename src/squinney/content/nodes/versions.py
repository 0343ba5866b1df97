"""What an edit makes of a node, and when two edits conflict."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from squinney.content.documents import Author
from squinney.content.nodes import queries, rules
from squinney.content.nodes.documents import REVISIONS, Node
from squinney.mongo.schema import Db, Document
from squinney.patterns.nonces import EditConflict, new_nonce
from squinney.transactions import Plan


def plan(current: Node, changes: Document, by: Author | None, now: datetime, *, session: str | None = None) -> Plan:
    """The node as the changes leave it, with its revision."""
    after = rules.changed(current, changes, now, new_nonce())
    revision = rules.revision_step(after, by or current["metadata"]["author"], now, session=session)
    return Plan([rules.edit_step(current, after), revision], result=after)


def restored(earlier: Mapping[str, Any]) -> Document:
    """The changes that bring an earlier version back; a photo keeps the file it has."""
    then = earlier["metadata"]
    detail = {name: value for name, value in then["detail"].items() if name not in rules.FILE_KEYS}
    return {"title": then["title"], "detail": detail}


def require_own_saves_since(db: Db, current: Node, nonce: str, changes: Document, session: str | None) -> None:
    """Nobody but the same session has saved since the nonce.

    Raises: `EditConflict`.
    """
    base = db[REVISIONS].find_one(queries.REVISION(node_id=current["_id"], nonce=nonce))
    if base and session is not None:
        since = queries.SAVED_SINCE.find(db, node_id=current["_id"], version=base["version"], projection={"session": 1})
        if all(saved["session"] == session for saved in since):
            return
    yours = None
    if base:
        as_node = cast(Node, {"_id": current["_id"], "metadata": base["metadata"]})
        yours = rules.changed(as_node, changes, current["metadata"]["updated"], nonce)["metadata"]
    raise EditConflict(
        "somebody else has saved since you began",
        base=base["metadata"] if base else None,
        theirs=current["metadata"],
        yours=yours or changes,
    )
