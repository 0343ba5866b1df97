"""The subjects of discussions: nodes, and subjects of the caller's own, each in a document with the same fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from squinney.content.comments import queries
from squinney.content.comments.discussions import DiscussedNode
from squinney.content.comments.documents import SUBJECTS
from squinney.content.documents import Strategy
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.content.nodes import queries as node_queries
from squinney.content.nodes.documents import NODES
from squinney.content.nodes.freezing import thaw_if_expired
from squinney.errors import Forbidden, SquinneyError
from squinney.mongo.schema import Db, Document
from squinney.transactions import Step

May = Callable[[str, Literal["read", "write"], str], bool]
FIELDS = {f"metadata.{name}": 1 for name in ("parent_id", "slug", "discussion", "num_comments", "num_comment_pages")}


class Subjects:
    """Finds and begins discussions.

    A document is a node. An id is that of a node if there is one, otherwise, unless `only_nodes`, it is a subject of
    the caller's own, which need not exist before its first comment.
    """

    def __init__(self, db: Db, strategy: Strategy, *, only_nodes: bool, may: May | None) -> None:
        self._db = db
        self._strategy = strategy
        self._only_nodes = only_nodes
        self._may = may

    def allow(self, person: str | None, action: Literal["read", "write"], subject: str) -> None:
        """Raise `Forbidden` if this person may not do this; None is the application itself."""
        # guard: who may read and write is asked
        if person is not None and self._may is not None and not self._may(person, action, subject):
            raise Forbidden(f"you may not {action} comments here")

    def metadata(self, subject: str, collection: str | None = None) -> tuple[str, Document]:
        """Return where the subject is, and its fields; a subject of the caller's own without comments has none.

        Raises: `UnknownNode`.
        """
        if collection in (None, NODES):
            stored = node_queries.NODE.find_one(self._db, node_id=subject, projection=FIELDS)
            if stored is not None:
                return NODES, cast(Document, stored["metadata"])
            # guard: a removed node does not become a subject of another kind
            if self._only_nodes or collection == NODES:
                raise UnknownNode(f"there is no node {subject}", node_id=subject)
        stored = queries.SUBJECT.find_one(self._db, subject=subject, projection=FIELDS)
        return SUBJECTS, cast(Document, stored["metadata"]) if stored else {}

    def discussed(self, subject: str, *, begin: bool = False, collection: str | None = None) -> DiscussedNode | None:
        """Return the subject's discussion; with `begin`, begin it if there is none."""
        collection, metadata = self.metadata(subject, collection)
        if "discussion" not in metadata:
            if not begin:
                return None
            self._begin(collection, subject)
            collection, metadata = self.metadata(subject, collection)
        if frozen := metadata["discussion"].get("frozen"):
            thaw_if_expired(self._db, collection, subject, frozen)
        return _discussed(subject, metadata, collection)

    def step(self, subject: str, refused: Callable[[Document | None], SquinneyError]) -> Step:
        """Return the step that requires that the subject of a discussion still exists."""
        discussed = self.discussed(subject)
        if discussed is None:
            raise UnknownComment("the subject has no comments")
        return Step(discussed.collection, subject, route=discussed.route, refused=refused)

    def _begin(self, collection: str, subject: str) -> None:
        """Begin a discussion with the default strategy; of several concurrent first comments, only one does so."""
        fresh = {"strategy": self._strategy, "epoch": 1, "claimed": 1}
        if collection == SUBJECTS:
            metadata = {"num_comments": 0, "num_comment_pages": 0, "discussion": fresh}
            self._db[SUBJECTS].update_one({"_id": subject}, {"$setOnInsert": {"metadata": metadata}}, upsert=True)
            return
        self._db[NODES].update_one(
            # guard: only the first comment sets the strategy
            {"_id": subject, "metadata.discussion": None},
            {"$set": {"metadata.discussion": fresh}},
        )


def discussed_in(node: Any) -> DiscussedNode | None:
    """Return the node's discussion as its document describes it; None if it has none or only an id is given."""
    metadata = {} if isinstance(node, str) else node.get("metadata", {})
    return _discussed(node["_id"], metadata, NODES) if "discussion" in metadata else None


def _discussed(subject: str, metadata: Any, collection: str) -> DiscussedNode:
    route = node_queries.route(metadata) if collection == NODES else {}
    return DiscussedNode(subject, route, metadata["discussion"], metadata.get("num_comment_pages", 0), collection)
