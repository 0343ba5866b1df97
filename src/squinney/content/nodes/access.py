"""Who may see and change a node. A node without access of its own has its parent's; the top has the site's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from squinney import checks
from squinney.content.nodes import queries
from squinney.content.nodes.documents import MOST_DEPTH, Access, Node
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document

DEFAULT_ACCESS: Access = {"read": ["everyone"], "edit": ["role:editor", "role:admin"]}
PRINCIPAL = r"everyone|signed-in|user:.{1,200}|role:[a-z][a-z0-9-]{0,49}"
MOST_PRINCIPALS = 100
NOBODY: Access = {"read": [], "edit": []}
WHAT_IS_INHERITED = {"metadata.parent_id": 1, "metadata.access": 1, "metadata.published": 1}
MODERATORS = frozenset({"editor", "admin"})


@dataclass(frozen=True)
class Viewer:
    """Who asks. `Viewer()` is anybody; `TRUSTED` is the application itself, which may do everything."""

    user_id: str | None = None
    roles: frozenset[str] = field(default_factory=frozenset)
    trusted: bool = False

    @property
    def principals(self) -> list[str]:
        """Every name under which access may be granted to this viewer."""
        own = ["signed-in", f"user:{self.user_id}"] if self.user_id else []
        return ["everyone", *own, *(f"role:{role}" for role in sorted(self.roles))]

    def may(self, what: str, access: Access, node: Node | None = None) -> bool:
        """Whether `access` lets the viewer "read" or "edit"; authors may do both with what is theirs."""
        if self.trusted or (node is not None and self.user_id and node["metadata"]["author"]["_id"] == self.user_id):
            return True
        granted = [*access["edit"], *(access["read"] if what == "read" else [])]
        return not set(granted).isdisjoint(self.principals)

    @property
    def moderates(self) -> bool:
        """Whether the viewer may judge comments wherever they may read."""
        return self.trusted or not self.roles.isdisjoint(MODERATORS)


TRUSTED = Viewer(trusted=True)
ANYBODY = Viewer()


def checked(access: Mapping[str, Any]) -> Access:
    """The access as stored.

    Raises: `Invalid`.
    """
    if not isinstance(access, Mapping) or set(access) != {"read", "edit"}:
        raise Invalid("access must have read and edit", field="access")
    return {"read": _principals(access["read"], "access.read"), "edit": _principals(access["edit"], "access.edit")}


def _principals(names: Any, field_name: str) -> list[str]:
    if not isinstance(names, list | tuple) or len(names) > MOST_PRINCIPALS:
        raise Invalid(f"{field_name} must be a list of at most {MOST_PRINCIPALS} names", field=field_name)
    return sorted({checks.text(name, field_name, most=206, pattern=PRINCIPAL) for name in names})


def effective(
    db: Db, nodes: Sequence[Node], above: Iterable[Node] = (), *, top: Access, now: datetime
) -> dict[str, Access]:
    """Each node's access, its own or inherited, by its id: one query per level above them that is not in `above`.

    What is below a node that is not published yet is for those who may edit it, as that node is.
    """
    asked = [node["_id"] for node in nodes]
    known: dict[str, Document | None] = {node["_id"]: dict(node) for node in (*nodes, *above)}
    for _ in range(MOST_DEPTH + 1):
        missing = {node["metadata"]["parent_id"] for node in known.values() if node} - known.keys() - {None}
        if not missing:
            break
        found = queries.NODES_BY_ID.find(db, node_ids=sorted(missing), projection=WHAT_IS_INHERITED)
        known.update(dict.fromkeys(missing) | {node["_id"]: node for node in found})
    return {node_id: _inherited(node_id, known, top, now) for node_id in asked}


def _inherited(node_id: str, known: Mapping[str, Document | None], top: Access, now: datetime) -> Access:
    access, is_open = None, True
    at: str | None = node_id
    for _ in range(MOST_DEPTH + 2):
        if at is None:
            return _narrowed(access or top, is_open)
        node = known.get(at)
        if node is None:  # a parent that is gone hides what is below it
            break
        access = access or node["metadata"].get("access")
        is_open = is_open and (at == node_id or is_published(node["metadata"], now))
        at = node["metadata"]["parent_id"]
    return _narrowed(access or NOBODY, is_open)


def _narrowed(access: Access, is_open: bool) -> Access:
    """The access below nodes that are all published; else nobody reads it who may not edit it."""
    return access if is_open else {"read": [], "edit": access["edit"]}


def is_published(metadata: Mapping[str, Any], now: datetime) -> bool:
    """Whether its time has come."""
    published = metadata["published"]
    return published is not None and published <= now
