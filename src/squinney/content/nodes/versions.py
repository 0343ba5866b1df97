"""The plan of an edit, and the detection of conflicting edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from squinney.content.documents import Author
from squinney.content.nodes import queries, rules
from squinney.content.nodes.documents import Node
from squinney.content.nodes.steps import changed_node, edit_step, revision_step
from squinney.mongo.schema import Db, Document
from squinney.patterns.nonces import EditConflict, new_nonce
from squinney.transactions import Plan, Step

SAVED_SINCE = "the node was saved since you opened it"


def plan(
    current: Node,
    changes: Document,
    by: Author | None,
    now: datetime,
    more: Iterable[Step] = (),
    *,
    session: str | None = None,
    step_for: Callable[[Node, Node], Step] = edit_step,
) -> Plan:
    """Return the plan that saves the changes with a revision and takes `more` steps; the changed node is its result."""
    after = changed_node(current, changes, now, new_nonce())
    revision = revision_step(after, by or current["metadata"]["author"], now, session=session)
    return Plan([step_for(current, after), *more, revision], result=after)


def restored(earlier: Mapping[str, Any]) -> Document:
    """Return the changes that restore an earlier version; a photo keeps its current file."""
    metadata = earlier["metadata"]
    detail = {name: value for name, value in metadata["detail"].items() if name not in rules.FILE_KEYS}
    return {"title": metadata["title"], "detail": detail}


def require_same_session_since(db: Db, current: Node, nonce: str, changes: Document, session: str | None) -> None:
    """Require that all saves since the nonce are of the same session, or raise `EditConflict`."""
    base = queries.REVISION.find_one(db, node_id=current["_id"], nonce=nonce)
    if base and session is not None:
        saves = queries.SAVED_SINCE.find(db, node_id=current["_id"], version=base["version"], projection={"session": 1})
        if all(saved["session"] == session for saved in saves):
            return
    yours = None
    if base:
        as_node = cast(Node, {"_id": current["_id"], "metadata": base["metadata"]})
        yours = changed_node(as_node, changes, current["metadata"]["updated"], nonce)["metadata"]
    raise EditConflict(
        SAVED_SINCE,
        base=base["metadata"] if base else None,
        theirs=current["metadata"],
        yours=yours or changes,
    )
