"""Who may see and change a node.

A node without access of its own inherits its parent's. Nodes at the top level inherit the site's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from squinney import checks
from squinney.content.nodes import queries
from squinney.content.nodes.documents import MAX_DEPTH, Access, Node
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document

DEFAULT_ACCESS: Access = {"read": ["everyone"], "edit": ["role:editor", "role:admin"]}
PRINCIPAL = r"everyone|signed-in|user:.{1,200}|role:[a-z][a-z0-9-]{0,49}"
MAX_PRINCIPALS = 100
NOBODY: Access = {"read": [], "edit": []}
INHERITED_FIELDS = {"metadata.parent_id": 1, "metadata.access": 1, "metadata.published": 1}
MODERATORS = frozenset({"editor", "admin"})


@dataclass(frozen=True)
class Viewer:
    """The user on whose behalf a method runs.

    `Viewer()` is an anonymous visitor. `TRUSTED` is the application itself, which may do everything. A viewer with
    `by_api` came with an API key of the content system, which opens nothing that is kept for another system.
    """

    user_id: str | None = None
    roles: frozenset[str] = field(default_factory=frozenset)
    trusted: bool = False
    by_api: bool = False

    @property
    def principals(self) -> list[str]:
        """All names by which access can be granted to this viewer."""
        own = ["signed-in", f"user:{self.user_id}"] if self.user_id else []
        return ["everyone", *own, *(f"role:{role}" for role in sorted(self.roles))]

    def may(self, what: str, access: Access, node: Node | None = None) -> bool:
        """Return whether `access` allows the viewer to "read" or "edit"; authors may do both with their own nodes.

        A node that is kept for another system, such as the photo of a post, ignores `access` and its publication: only
        its author, admins and the application itself may see it here. That system shows it to others.
        """
        is_author = node is not None and self.user_id and node["metadata"]["author"]["_id"] == self.user_id
        # guard: editors do not see what is kept for another system
        if node is not None and is_kept(node):
            # guard: an API key does not open what is kept for another system
            return not self.by_api and (self.trusted or bool(is_author) or "admin" in self.roles)
        if self.trusted or is_author:
            return True
        granted = [*access["edit"], *(access["read"] if what == "read" else [])]
        return not set(granted).isdisjoint(self.principals)

    @property
    def moderates(self) -> bool:
        """Whether the viewer may moderate comments on every node that they may read."""
        return self.trusted or not self.roles.isdisjoint(MODERATORS)


TRUSTED = Viewer(trusted=True)
ANYBODY = Viewer()


def is_kept(node: Mapping[str, Any]) -> bool:
    """Return whether the node is kept for another system."""
    return "kept_for" in node["metadata"]


def checked(access: Mapping[str, Any]) -> Access:
    """Return the access in the form in which it is stored, or raise `Invalid`."""
    if not isinstance(access, Mapping) or set(access) != {"read", "edit"}:
        raise Invalid("access must have read and edit", field="access")
    return {"read": _principals(access["read"], "access.read"), "edit": _principals(access["edit"], "access.edit")}


def _principals(names: Any, field_name: str) -> list[str]:
    if not isinstance(names, list | tuple) or len(names) > MAX_PRINCIPALS:
        raise Invalid(f"{field_name} must be a list of at most {MAX_PRINCIPALS} names", field=field_name)
    return sorted({checks.text(name, field_name, max_length=206, pattern=PRINCIPAL) for name in names})


def effective(
    db: Db, nodes: Sequence[Node], above: Iterable[Node] = (), *, top: Access, now: datetime
) -> dict[str, Access]:
    """Return each node's own or inherited access by node id.

    This runs one query per level of the tree. Ancestors that the caller already has are passed in `above` and are not
    read again. Below a node that is not published yet, only users who may edit may read.
    """
    known: dict[str, Document | None] = {node["_id"]: dict(node) for node in (*nodes, *above)}
    for _ in range(MAX_DEPTH + 1):
        missing = {node["metadata"]["parent_id"] for node in known.values() if node} - known.keys() - {None}
        if not missing:
            break
        ancestors = queries.NODES_BY_ID.find(db, node_ids=sorted(missing), projection=INHERITED_FIELDS)
        known.update(dict.fromkeys(missing) | {node["_id"]: node for node in ancestors})
    return {node["_id"]: _inherited(node["_id"], known, top, now) for node in nodes}


def _inherited(node_id: str, known: Mapping[str, Document | None], top: Access, now: datetime) -> Access:
    access, is_open = None, True
    at: str | None = node_id
    for _ in range(MAX_DEPTH + 2):
        if at is None:
            access = access or top
            break
        node = known.get(at)
        if node is None:  # below a missing parent, only a node with access of its own is visible
            break
        access = access or node["metadata"].get("access")
        is_open = is_open and (at == node_id or is_published(node["metadata"], now))
        at = node["metadata"]["parent_id"]
    access = access or NOBODY
    return access if is_open else {"read": [], "edit": access["edit"]}


def is_published(metadata: Mapping[str, Any], now: datetime) -> bool:
    """Return whether the node's time of publication is in the past."""
    published = metadata["published"]
    return published is not None and published <= now
