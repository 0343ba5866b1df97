"""Request and response models of the content API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from squinney.content import Node
from squinney.content.nodes.documents import MAX_TAGS, Metadata, Revision
from squinney.http.bodies import AcceptsUnchangedFields, Body, IgnoresReadOnlyFields
from squinney.http.response_models import model_of, signed_page
from squinney.patterns.paging import Page

Id = Annotated[str, Field(min_length=1, max_length=200)]
Tags = Annotated[list[str], Field(max_length=MAX_TAGS)]
Nonce = Annotated[str, Field(min_length=1, max_length=64)]
Time = Annotated[datetime, Field(strict=False)]  # not strict, because JSON has times only as strings
Kind = Literal["basic-page", "blog-entry", "folder", "blog", "gallery", "photo", "video"]

# Browsers cache permanent redirects for ever; a page that was moved and moved back would redirect in a loop.
MAY_CHANGE = {"Cache-Control": "no-store"}


class AuthorModel(Body):
    """The author of a node or version."""

    id: Id
    name: str = Field(min_length=1, max_length=100)

    def stored(self) -> Any:
        """Return the author as a document."""
        return {"_id": self.id, "name": self.name}


class NewNode(IgnoresReadOnlyFields, Body):
    """A new node; without `published` it is a draft."""

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
    """An edit: the nonce that was read, and the fields to set. Other fields that GET returns may be sent unchanged."""

    READ_ONLY = frozenset({"version", "created", "updated", "num_children", "num_comments"})
    UNCHANGEABLE = frozenset({"id", "type", "parent_id", "slug", "author", "tags", "published", "access"})
    nonce: Nonce
    title: str | None = Field(None, max_length=300)
    detail: dict[str, Any] | None = None
    by: AuthorModel | None = None
    session: str | None = Field(None, min_length=1, max_length=64, description="Identifies one editor window")

    def changes(self) -> dict[str, Any]:
        """Return the fields to set."""
        return {name: value for name, value in (("title", self.title), ("detail", self.detail)) if value is not None}


class TagChange(Body):
    """Tags to add and to remove."""

    add: Tags = []
    remove: Tags = []


class Publication(Body):
    """The time of publication; without `at`, now."""

    at: Time | None = None


class Restoration(Body):
    """The version to restore."""

    nonce: Nonce
    by: AuthorModel | None = None


class Move(Body):
    """The new parent, null for the top level, and the new slug."""

    parent_id: str | None
    slug: str | None = Field(None, min_length=1, max_length=150)
    by: AuthorModel | None = None


class AccessModel(Body):
    """The principals that may read and edit: everyone, signed-in, user:ID, role:NAME."""

    read: list[str]
    edit: list[str]


class AccessChange(Body):
    """The node's own access; null makes the node inherit its parent's."""

    access: AccessModel | None


_OURS = ["num_comment_pages", "discussion", "comments", "kept_for"]
NodeModel = model_of(Metadata, model_name="Node", without=_OURS, _id=str)
_INSIDE = ["_id", "node_id", "session", "metadata"]
RevisionModel = model_of(Revision, without=_INSIDE, title=str, detail=dict[str, Any])


class Rendered(BaseModel):
    """A node's text as HTML that is safe to show."""

    html: str


def node_response(node: Node) -> Any:
    """Return a node as the fields of a response."""
    return {**node["metadata"], "_id": node["_id"]}


def page_response(page: Page[Node], sign: Any) -> Any:
    """Return a page of nodes as a response, with its cursor signed."""
    return signed_page(page.map(node_response), sign)
