"""Who may see and change a node. A node without access of its own has its parent's; the top has the site's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from squinney import checks
from squinney.content import queries
from squinney.content.documents import MOST_DEPTH, Access, Node
from squinney.errors import Forbidden, Invalid
from squinney.mongo.schema import Db, Document

DEFAULT_ACCESS: Access = {"read": ["everyone"], "edit": ["role:editor", "role:admin"]}
PRINCIPAL = r"everyone|signed-in|user:.{1,200}|role:[a-z][a-z0-9-]{0,49}"
MOST_PRINCIPALS = 100
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


def effective(db: Db, nodes: Iterable[Node], *, top: Access) -> dict[str, Access]:
    """Each node's access, its own or inherited, by its id: one query per level above them."""
    settled: dict[str | None, Access] = {None: top}
    parents: dict[str, str | None] = {}
    level: list[Document] = [dict(node) for node in nodes]
    asked = [node["_id"] for node in level]
    for _ in range(MOST_DEPTH + 1):
        for node in level:
            parents[node["_id"]] = node["metadata"]["parent_id"]
            if own := node["metadata"].get("access"):
                settled[node["_id"]] = own
        unknown = {parents[known] for known in parents if known not in settled} - settled.keys() - parents.keys()
        if not unknown:
            break
        fields = {"metadata.parent_id": 1, "metadata.access": 1}
        level = list(queries.NODES_BY_ID.find(db, node_ids=sorted(filter(None, unknown)), projection=fields))
        missing = unknown - {node["_id"] for node in level}
        # A parent that is gone hides what is below it.
        settled.update({gone: {"read": [], "edit": []} for gone in missing})
    return {node_id: _inherited(node_id, parents, settled) for node_id in asked}


def _inherited(node_id: str, parents: Mapping[str, str | None], settled: Mapping[str | None, Access]) -> Access:
    at: str | None = node_id
    for _ in range(MOST_DEPTH + 2):
        if at in settled:
            return settled[at]
        at = parents[at] if at is not None and at in parents else None
    return {"read": [], "edit": []}


def forbid(what: str) -> Forbidden:
    """The refusal of an edit by somebody who may only read."""
    return Forbidden(f"you may not {what} this")
