"""The API of nodes. Assets and feeds are in `api_assets.py`, comments in `api_comments.py`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse

from squinney.content import EditConflict, NotEmpty, SlugTaken, UnknownNode
from squinney.content.files import media
from squinney.content.markup import render
from squinney.content.surface import api_assets, api_comments
from squinney.content.surface.dependencies import NodesDep
from squinney.content.surface.models import (
    MAY_CHANGE,
    AccessChange,
    Edit,
    Move,
    NewNode,
    NodeModel,
    Publication,
    Rendered,
    Restoration,
    RevisionModel,
    TagChange,
    node_response,
    page_response,
)
from squinney.content.surface.viewer import ViewerDep
from squinney.errors import Forbidden, LimitReached
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import processes_of
from squinney.http.error_responses import responses
from squinney.http.response_models import page_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.transactions import Busy

# The longest text, with each character escaped in JSON.
MAX_TEXT_BYTES = 8 << 20
BODY_LIMITS = {"/api/content/assets": media.MAX_BYTES["video"], "/api/content/nodes": MAX_TEXT_BYTES}

content = APIRouter(prefix="/api/content", tags=["content"], route_class=OneThreadRoute)
router = APIRouter()


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
def create_node(nodes: NodesDep, body: NewNode, viewer: ViewerDep) -> Any:
    """Create a node."""
    node = nodes.create(
        body.parent_id, body.slug, body.type, body.title, body.author.stored(), body.detail, body.tags,
        published=body.published, viewer=viewer,
    )  # fmt: skip
    return node_response(node)


MOVED: dict[int | str, Any] = {308: {"description": "the node was moved to the path in Location"}}


@content.get("/by-path", response_model=NodeModel, responses={**READ, **MOVED})
def get_by_path(
    nodes: NodesDep, viewer: ViewerDep, path: Annotated[str, Query(max_length=4_000, examples=["/blog/hello"])]
) -> Any:
    """Return the node at a path; if it was moved, redirect to its new path."""
    try:
        return node_response(nodes.by_path(path, viewer=viewer))
    except UnknownNode:
        query = urlencode({"path": nodes.moved_to(path, viewer=viewer)})
        return RedirectResponse(f"/api/content/by-path?{query}", status_code=308, headers=MAY_CHANGE)


@content.get("/nodes/{node_id}", response_model=NodeModel, responses=READ)
def get_node(nodes: NodesDep, viewer: ViewerDep, node_id: str) -> Any:
    """Return the node with this id."""
    return node_response(nodes.by_id(node_id, viewer=viewer))


@content.get("/nodes/{node_id}/html", response_model=Rendered, responses=READ)
def get_html(request: Request, nodes: NodesDep, viewer: ViewerDep, node_id: str) -> Any:
    """Return the node's text as sanitised HTML."""
    text = nodes.by_id(node_id, viewer=viewer)["metadata"]["detail"].get("text", "")
    return {"html": render.markdown(text, offload=processes_of(request))}


@content.patch("/nodes/{node_id}", response_model=NodeModel, responses={**WRITE, **responses(EditConflict)})
def edit_node(nodes: NodesDep, viewer: ViewerDep, node_id: str, body: Edit) -> Any:
    """Save an edit. A conflict responds with the base, their version and yours."""
    author = body.by.stored() if body.by else None
    body.require_unchanged(lambda: node_response(nodes.editable(node_id, viewer)), NodeModel)
    try:
        node = nodes.edit(node_id, body.nonce, body.changes(), by=author, session=body.session, viewer=viewer)
    except EditConflict as conflict:  # users who may edit the node may see its versions
        shown = {"base": conflict.base, "theirs": conflict.theirs, "yours": conflict.yours}
        conflict.details.update({name: _version(metadata) for name, metadata in shown.items()})
        raise
    return node_response(node)


def _version(metadata: Any) -> Any:
    names = ("nonce", "version", "title", "detail", "updated")
    return {name: metadata[name] for name in names if name in metadata} if metadata else None


@content.delete("/nodes/{node_id}", status_code=204, responses={**WRITE, **responses(NotEmpty)})
def remove_node(nodes: NodesDep, viewer: ViewerDep, node_id: str) -> None:
    """Remove a node that has no children."""
    nodes.remove(node_id, viewer=viewer)


@content.get("/nodes/{node_id}/children", response_model=page_of(NodeModel), responses=READ)
def list_children(
    nodes: NodesDep, viewer: ViewerDep, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the children of a node, or of `root`, by slug."""
    return page_response(nodes.children(_parent(node_id), cursor=cursor, limit=limit, viewer=viewer), sign)


@content.get("/nodes/{node_id}/recent", response_model=page_of(NodeModel), responses=READ)
def list_recent(
    nodes: NodesDep, viewer: ViewerDep, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the published children of a node, or of `root`, newest first."""
    return page_response(nodes.recent(_parent(node_id), cursor=cursor, limit=limit, viewer=viewer), sign)


@content.get("/nodes/{node_id}/unpublished", response_model=page_of(NodeModel), responses=READ)
def list_unpublished(
    nodes: NodesDep, viewer: ViewerDep, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the drafts and scheduled children of a node, or of `root`."""
    return page_response(nodes.unpublished(_parent(node_id), cursor=cursor, limit=limit, viewer=viewer), sign)


@content.get("/tags/{tag}", response_model=page_of(NodeModel), responses=responses())
def list_tagged(
    nodes: NodesDep, viewer: ViewerDep, sign: SignCursor, tag: str, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the published nodes with a tag, newest first."""
    return page_response(nodes.tagged(tag, cursor=cursor, limit=limit, viewer=viewer), sign)


@content.post("/nodes/{node_id}/tags", response_model=NodeModel, responses={**WRITE, **responses(LimitReached)})
def change_tags(nodes: NodesDep, viewer: ViewerDep, node_id: str, body: TagChange) -> Any:
    """Add and remove tags; this needs no nonce."""
    return node_response(nodes.change_tags(node_id, add=body.add, remove=body.remove, viewer=viewer))


@content.post("/nodes/{node_id}/publish", response_model=NodeModel, responses=WRITE)
def publish_node(nodes: NodesDep, viewer: ViewerDep, node_id: str, body: Publication) -> Any:
    """Publish a node now, or schedule it."""
    return node_response(nodes.publish(node_id, body.at, viewer=viewer))


@content.post("/nodes/{node_id}/unpublish", response_model=NodeModel, responses=WRITE)
def unpublish_node(nodes: NodesDep, viewer: ViewerDep, node_id: str) -> Any:
    """Make a node a draft again."""
    return node_response(nodes.unpublish(node_id, viewer=viewer))


@content.post("/nodes/{node_id}/move", response_model=NodeModel, responses={**WRITE, **responses(SlugTaken)})
def move_node(nodes: NodesDep, viewer: ViewerDep, node_id: str, body: Move) -> Any:
    """Move a node, with the whole tree below it, to another parent or slug."""
    author = body.by.stored() if body.by else None
    return node_response(nodes.move(node_id, body.parent_id, body.slug, by=author, viewer=viewer))


@content.put("/nodes/{node_id}/access", response_model=NodeModel, responses=WRITE)
def set_access(nodes: NodesDep, viewer: ViewerDep, node_id: str, body: AccessChange) -> Any:
    """Set who may read and edit the node and the nodes that inherit from it."""
    return node_response(nodes.set_access(node_id, body.access.model_dump() if body.access else None, viewer=viewer))


@content.get("/nodes/{node_id}/history", response_model=page_of(RevisionModel), responses=WRITE)
def list_history(
    nodes: NodesDep, viewer: ViewerDep, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the node's versions, newest first."""
    page = nodes.history(node_id, cursor=cursor, limit=limit, viewer=viewer)
    return signed_page(page.map(lambda revision: {**revision["metadata"], **revision}), sign)


@content.post("/nodes/{node_id}/restore", response_model=NodeModel, responses=WRITE)
def restore_node(nodes: NodesDep, viewer: ViewerDep, node_id: str, body: Restoration) -> Any:
    """Save an earlier version as the newest version."""
    return node_response(nodes.restore(node_id, body.nonce, by=body.by.stored() if body.by else None, viewer=viewer))


router.include_router(content)
router.include_router(api_assets.router)
router.include_router(api_comments.router)
