"""What the routes of content take and answer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from squinney.content import Node
from squinney.content.nodes.documents import MOST_TAGS, Metadata, Revision
from squinney.http.bodies import AcceptsUnchangedFields, Body, IgnoresReadOnlyFields
from squinney.http.response_models import model_of, signed_page
from squinney.patterns.paging import Page

Id = Annotated[str, Field(min_length=1, max_length=200)]
Tags = Annotated[list[str], Field(max_length=MOST_TAGS)]
Nonce = Annotated[str, Field(min_length=1, max_length=64)]
Time = Annotated[datetime, Field(strict=False)]  # JSON has no type of its own for it
Kind = Literal["basic-page", "blog-entry", "folder", "blog", "gallery", "photo", "video"]

# A browser keeps a permanent redirect for ever, and two of them for a page that was moved away and back never end.
MAY_CHANGE = {"Cache-Control": "no-store"}


class AuthorModel(Body):
    """Who wrote it."""

    id: Id
    name: str = Field(min_length=1, max_length=100)

    def stored(self) -> Any:
        """As the library takes it."""
        return {"_id": self.id, "name": self.name}


class NewNode(IgnoresReadOnlyFields, Body):
    """What creating a node takes; without `published` it is a draft."""

    READ_ONLY = frozenset({"id", "nonce", "version", "created", "updated", "num_children", "num_comments", "access"})
    parent_id: str | None = None
    slug: str = Field(min_length=1, max_length=150, examples=["2026-11-hello"])
    type: Kind
    title: str = Field(min_length=1, max_length=300)
    author: AuthorModel
    detail: dict[str, Any] = {}
    tags: Tags = []
    published: Time | None = None


class Edit(AcceptsUnchangedFields, Body):
    """What an edit takes: the nonce that was read, and what to set. Everything else that GET gives may stand beside."""

    READ_ONLY = frozenset({"version", "created", "updated", "num_children", "num_comments"})
    UNCHANGEABLE = frozenset({"id", "type", "parent_id", "slug", "author", "tags", "published", "access"})
    nonce: Nonce
    title: str | None = Field(None, max_length=300)
    detail: dict[str, Any] | None = None
    by: AuthorModel | None = None
    session: str | None = Field(None, min_length=1, max_length=64, description="One person's sitting at the editor")

    def changes(self) -> dict[str, Any]:
        """The fields that were given."""
        return {name: value for name, value in (("title", self.title), ("detail", self.detail)) if value is not None}


class TagChange(Body):
    """Tags to add and to remove."""

    add: Tags = []
    remove: Tags = []


class Publication(Body):
    """When to publish; now without it."""

    at: Time | None = None


class Restoration(Body):
    """Which version to restore."""

    nonce: Nonce
    by: AuthorModel | None = None


class Move(Body):
    """Where to."""

    parent_id: str | None
    slug: str | None = Field(None, min_length=1, max_length=150)
    by: AuthorModel | None = None


class AccessModel(Body):
    """Who may read and edit: everyone, signed-in, user:ID, role:NAME."""

    read: list[str]
    edit: list[str]


class AccessChange(Body):
    """Access of the node's own; null inherits from the parent."""

    access: AccessModel | None


_OURS = ["num_comment_pages", "discussion", "comments"]
NodeModel = model_of(Metadata, model_name="Node", without=_OURS, _id=str)
_INSIDE = ["_id", "node_id", "session", "metadata"]
RevisionModel = model_of(Revision, without=_INSIDE, title=str, detail=dict[str, Any])


class Rendered(BaseModel):
    """A node's text as HTML that is safe to show."""

    html: str


def node_out(node: Node) -> Any:
    """A node, as answers say it."""
    return {**node["metadata"], "_id": node["_id"]}


def page_out(page: Page[Node], sign: Any) -> Any:
    """A page of nodes, its cursor signed."""
    return signed_page(page.map(node_out), sign)
