"""Nodes, assets and feeds over HTTP. Comments are in `content_comments.py`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from squinney.api import content_comments
from squinney.api.assets import Body, asset_response, feed_response
from squinney.api.cursors import Cursor, Signing
from squinney.api.dependencies import noun
from squinney.api.problems import responses
from squinney.api.routes import OneThreadRoute
from squinney.content import (
    TRUSTED,
    BadMedia,
    EditConflict,
    Node,
    Nodes,
    NotEmpty,
    Photos,
    SlugTaken,
    UnknownNode,
    UploadLost,
    Viewer,
    feeds,
    media,
    render,
)
from squinney.content.documents import MOST_TAGS
from squinney.content.photos import Rendition
from squinney.errors import Forbidden, LimitReached
from squinney.patterns.paging import Page
from squinney.patterns.transactions import Busy

BODY_LIMITS = {"/api/content/assets": media.MOST_BYTES["video"]}

content = APIRouter(prefix="/api/content", tags=["content"], route_class=OneThreadRoute)
router = APIRouter()

Tree = Annotated[Nodes, Depends(noun("content", "nodes", Nodes))]
Albums = Annotated[Photos, Depends(noun("content", "photos", Photos))]
Limit = Annotated[int, Query(ge=1, le=200)]
Id = Annotated[str, Field(min_length=1, max_length=200)]
Tags = Annotated[list[str], Field(max_length=MOST_TAGS)]
Nonce = Annotated[str, Field(min_length=1, max_length=64)]
Kind = Literal["basic-page", "blog-entry", "folder", "blog", "gallery", "photo", "video"]


async def viewer(
    on_behalf_of: Annotated[
        str | None,
        Header(min_length=1, max_length=200, description="A user's id: answer as that person may see it"),
    ] = None,
) -> Viewer:
    """An API key is a trusted server's; it may ask on a person's behalf."""
    return Viewer(on_behalf_of) if on_behalf_of else TRUSTED


As = Annotated[Viewer, Depends(viewer)]


class AuthorModel(BaseModel):
    """Who wrote it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: Id
    name: str = Field(min_length=1, max_length=100)

    def stored(self) -> Any:
        """As the library takes it."""
        return {"_id": self.id, "name": self.name}


class Change(BaseModel):
    """What requests share: nothing unknown."""

    model_config = ConfigDict(extra="forbid")


class NewNode(Change):
    """What creating a node takes; without `published` it is a draft."""

    parent_id: str | None = None
    slug: str = Field(min_length=1, max_length=150, examples=["2026-11-hello"])
    type: Kind
    title: str = Field(min_length=1, max_length=300)
    author: AuthorModel
    detail: dict[str, Any] = {}
    tags: Tags = []
    published: datetime | None = None


class Edit(Change):
    """What an edit takes: the nonce that was read, and what to set."""

    nonce: Nonce
    title: str | None = Field(None, max_length=300)
    detail: dict[str, Any] | None = None
    by: AuthorModel | None = None
    session: str | None = Field(None, min_length=1, max_length=64, description="One person's sitting at the editor")

    def changes(self) -> dict[str, Any]:
        """The fields that were given."""
        return {name: value for name, value in (("title", self.title), ("detail", self.detail)) if value is not None}


class TagChange(Change):
    """Tags to add and to remove."""

    add: Tags = []
    remove: Tags = []


class Publication(Change):
    """When to publish; now without it."""

    at: datetime | None = None


class Restoration(Change):
    """Which version to restore."""

    nonce: Nonce
    by: AuthorModel | None = None


class Move(Change):
    """Where to."""

    parent_id: str | None
    slug: str | None = Field(None, min_length=1, max_length=150)
    by: AuthorModel | None = None


class AccessModel(Change):
    """Who may read and edit: everyone, signed-in, user:ID, role:NAME."""

    read: list[str]
    edit: list[str]


class AccessChange(Change):
    """Access of the node's own; null inherits from the parent."""

    access: AccessModel | None


class NodeModel(BaseModel):
    """A node."""

    id: str
    nonce: str
    version: int
    type: str
    parent_id: str | None
    slug: str
    title: str
    created: datetime
    updated: datetime
    published: datetime | None
    author: dict[str, str]
    tags: list[str]
    detail: dict[str, Any]
    num_children: int
    num_comments: int
    access: dict[str, list[str]] | None = None


class NodePage(BaseModel):
    """A page of nodes."""

    items: list[NodeModel]
    next: str | None


class RevisionModel(BaseModel):
    """A version of a node."""

    nonce: str
    version: int
    at: datetime
    author: dict[str, str]
    title: str
    detail: dict[str, Any]


class RevisionPage(BaseModel):
    """A page of versions."""

    items: list[RevisionModel]
    next: str | None


class Rendered(BaseModel):
    """A node's text as HTML that is safe to show."""

    html: str


def _author(author: Any) -> dict[str, str]:
    return {"id": author["_id"], "name": author["name"]}


def _out(node: Node) -> Any:
    metadata = node["metadata"]
    return {**metadata, "id": node["_id"], "author": _author(metadata["author"])}


def _page(page: Page[Node], sign: Any) -> Any:
    return {"items": [_out(node) for node in page.items], "next": sign(page.next)}


def _parent(parent_id: str) -> str | None:
    return None if parent_id == "root" else parent_id


READ = responses(UnknownNode)
WRITE = responses(UnknownNode, Forbidden, Busy)


@content.post(
    "/nodes",
    status_code=201,
    response_model=NodeModel,
    responses=responses(UnknownNode, Forbidden, SlugTaken, LimitReached),
)
def create_node(tree: Tree, body: NewNode, by: As) -> Any:
    """Create a node."""
    node = tree.create(
        body.parent_id, body.slug, body.type, body.title, body.author.stored(), body.detail, body.tags,
        published=body.published, viewer=by,
    )  # fmt: skip
    return _out(node)


@content.get("/by-path", response_model=NodeModel, responses=READ)
def get_by_path(tree: Tree, by: As, path: Annotated[str, Query(max_length=4_000, examples=["/blog/hello"])]) -> Any:
    """The node at a path."""
    return _out(tree.by_path(path, viewer=by))


@content.get("/nodes/{node_id}", response_model=NodeModel, responses=READ)
def get_node(tree: Tree, by: As, node_id: str) -> Any:
    """One node."""
    return _out(tree.by_id(node_id, viewer=by))


@content.get("/nodes/{node_id}/html", response_model=Rendered, responses=READ)
def get_html(tree: Tree, by: As, node_id: str) -> Any:
    """The node's text, rendered and sanitised."""
    return {"html": render.markdown(tree.by_id(node_id, viewer=by)["metadata"]["detail"].get("text", ""))}


@content.patch("/nodes/{node_id}", response_model=NodeModel, responses={**WRITE, **responses(EditConflict)})
def edit_node(tree: Tree, by: As, node_id: str, body: Edit) -> Any:
    """Save an edit; a conflict answers with the base, their version and yours."""
    who = body.by.stored() if body.by else None
    try:
        return _out(tree.edit(node_id, body.nonce, body.changes(), by=who, session=body.session, viewer=by))
    except EditConflict as conflict:  # whoever may edit the node may see its versions
        shown = {"base": conflict.base, "theirs": conflict.theirs, "yours": conflict.yours}
        conflict.details.update({name: _version(metadata) for name, metadata in shown.items()})
        raise


def _version(metadata: Any) -> Any:
    names = ("nonce", "version", "title", "detail", "updated")
    return {name: metadata[name] for name in names if name in metadata} if metadata else None


@content.delete("/nodes/{node_id}", status_code=204, responses={**WRITE, **responses(NotEmpty)})
def remove_node(tree: Tree, by: As, node_id: str) -> None:
    """Remove a node without children."""
    tree.remove(node_id, viewer=by)


@content.get("/nodes/{node_id}/children", response_model=NodePage, responses=READ)
def list_children(tree: Tree, by: As, sign: Signing, node_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Everything below a node, or below `root`, by slug."""
    return _page(tree.children(_parent(node_id), cursor=cursor, limit=limit, viewer=by), sign)


@content.get("/nodes/{node_id}/recent", response_model=NodePage, responses=READ)
def list_recent(tree: Tree, by: As, sign: Signing, node_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """What is published below a node, or below `root`, newest first."""
    return _page(tree.recent(_parent(node_id), cursor=cursor, limit=limit, viewer=by), sign)


@content.get("/nodes/{node_id}/unpublished", response_model=NodePage, responses=READ)
def list_unpublished(tree: Tree, by: As, sign: Signing, node_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Drafts and scheduled nodes below a node, or below `root`."""
    return _page(tree.unpublished(_parent(node_id), cursor=cursor, limit=limit, viewer=by), sign)


@content.get("/tags/{tag}", response_model=NodePage, responses=responses())
def list_tagged(tree: Tree, by: As, sign: Signing, tag: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """What is published with a tag, newest first."""
    return _page(tree.tagged(tag, cursor=cursor, limit=limit, viewer=by), sign)


@content.post("/nodes/{node_id}/tags", response_model=NodeModel, responses={**WRITE, **responses(LimitReached)})
def change_tags(tree: Tree, by: As, node_id: str, body: TagChange) -> Any:
    """Add and remove tags; needs no nonce."""
    if body.remove:
        tree.remove_tags(node_id, body.remove, viewer=by)
    return _out(tree.add_tags(node_id, body.add, viewer=by))


@content.post("/nodes/{node_id}/publish", response_model=NodeModel, responses=WRITE)
def publish_node(tree: Tree, by: As, node_id: str, body: Publication) -> Any:
    """Publish now, or at a time to come."""
    return _out(tree.publish(node_id, body.at, viewer=by))


@content.post("/nodes/{node_id}/unpublish", response_model=NodeModel, responses=WRITE)
def unpublish_node(tree: Tree, by: As, node_id: str) -> Any:
    """Make it a draft again."""
    return _out(tree.unpublish(node_id, viewer=by))


@content.post("/nodes/{node_id}/move", response_model=NodeModel, responses={**WRITE, **responses(SlugTaken)})
def move_node(tree: Tree, by: As, node_id: str, body: Move) -> Any:
    """Put a node, with all below it, elsewhere."""
    who = body.by.stored() if body.by else None
    return _out(tree.move(node_id, body.parent_id, body.slug, by=who, viewer=by))


@content.put("/nodes/{node_id}/access", response_model=NodeModel, responses=WRITE)
def set_access(tree: Tree, by: As, node_id: str, body: AccessChange) -> Any:
    """Say who may read and edit the node and what inherits from it."""
    return _out(tree.set_access(node_id, body.access.model_dump() if body.access else None, viewer=by))


@content.get("/nodes/{node_id}/history", response_model=RevisionPage, responses=WRITE)
def list_history(tree: Tree, by: As, sign: Signing, node_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """The node's versions, newest first."""
    page = tree.history(node_id, cursor=cursor, limit=limit, viewer=by)
    items = [
        {
            **one,
            "author": _author(one["author"]),
            "title": one["metadata"]["title"],
            "detail": one["metadata"]["detail"],
        }
        for one in page.items
    ]
    return {"items": items, "next": sign(page.next)}


@content.post("/nodes/{node_id}/restore", response_model=NodeModel, responses=WRITE)
def restore_node(tree: Tree, by: As, node_id: str, body: Restoration) -> Any:
    """Save an earlier version as the newest."""
    return _out(tree.restore(node_id, body.nonce, by=body.by.stored() if body.by else None, viewer=by))


# ---- assets ----

Digest = Annotated[str | None, Query(pattern="^[0-9a-f]{64}$")]
UPLOADED: dict[int | str, Any] = responses(UnknownNode, Forbidden, SlugTaken, BadMedia, UploadLost)


@content.post("/assets", status_code=201, response_model=NodeModel, responses=UPLOADED)
async def upload_asset(
    request: Request,
    albums: Albums,
    by: As,
    slug: Annotated[str, Query(min_length=1, max_length=150)],
    author_id: Annotated[str, Query(min_length=1, max_length=200)],
    author_name: Annotated[str, Query(min_length=1, max_length=100)],
    parent_id: str | None = None,
    title: Annotated[str, Query(max_length=300)] = "",
    type: Literal["photo", "video"] = "photo",
    published: datetime | None = None,
    sha256: Digest = None,
) -> Any:
    """Upload a photo or video as the request's body; it is streamed, and its type is read from the bytes."""
    author: Any = {"_id": author_id, "name": author_name}

    def work() -> Node:
        return albums.upload(
            Body(request), parent_id, slug, author=author, title=title, type=type, published=published,
            length=_announced(request), sha256=sha256, viewer=by,
        )  # fmt: skip

    return _out(await run_in_threadpool(work))


def _announced(request: Request) -> int | None:
    given = request.headers.get("content-length", "")
    return int(given) if given.isdecimal() else None


@content.put("/assets/{node_id}", response_model=NodeModel, responses={**UPLOADED, **responses(EditConflict)})
async def replace_asset(
    request: Request, albums: Albums, by: As, node_id: str, nonce: str | None = None, sha256: Digest = None
) -> Any:
    """Replace the bytes; readers get the old photo whole or the new one whole."""

    def work() -> Node:
        length = _announced(request)
        return albums.replace(Body(request), node_id, nonce, length=length, sha256=sha256, viewer=by)

    return _out(await run_in_threadpool(work))


@content.get("/assets/{node_id}", response_class=Response, responses=READ)
def get_asset(request: Request, albums: Albums, by: As, node_id: str, rendition: Rendition = "web") -> Response:
    """The bytes, or a range of them; with an ETag."""
    return asset_response(request, albums.open(node_id, rendition, viewer=by), cache="private, no-cache")


@content.get("/feeds/{node_id}.{kind}", response_class=Response, responses=READ)
def get_feed(request: Request, tree: Tree, node_id: str, kind: Literal["rss", "atom"]) -> Response:
    """What is published below a node and open to everyone, as RSS 2.0 or Atom; answers 304."""
    return feed_for(request, tree, tree.by_id(node_id, viewer=Viewer()), kind)


def feed_for(request: Request, tree: Nodes, node: Node, kind: Literal["rss", "atom"]) -> Response:
    """The feed of a node, for the API and for the pages."""
    site = str(request.base_url).rstrip("/")
    path = tree.path_of(node)
    recent = tree.recent(node, limit=30, viewer=Viewer()).items
    entries = [(entry, f"{site}/site{path}/{entry['metadata']['slug']}") for entry in recent]
    feed = feeds.Feed(node["metadata"]["title"], f"{site}/site{path}", str(request.url), entries)
    body = feeds.rss(feed) if kind == "rss" else feeds.atom(feed)
    return feed_response(request, body, f"application/{kind}+xml", feed.updated)


router.include_router(content)
router.include_router(content_comments.router)
