"""Nodes over HTTP. Assets and feeds are in `api_assets.py`, comments in `api_comments.py`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse

from squinney.content import EditConflict, NotEmpty, SlugTaken, UnknownNode
from squinney.content.files import media
from squinney.content.nodes import render
from squinney.content.surface import api_assets, api_comments
from squinney.content.surface.dependencies import Tree
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
    node_out,
    page_out,
)
from squinney.content.surface.viewer import As
from squinney.errors import Forbidden, LimitReached
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import processes_of
from squinney.http.problems import responses
from squinney.http.response_models import page_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.transactions import Busy

# A text of the greatest length, each of its characters escaped.
LONGEST_TEXT_BYTES = 8 << 20
BODY_LIMITS = {"/api/content/assets": media.MOST_BYTES["video"], "/api/content/nodes": LONGEST_TEXT_BYTES}

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
def create_node(tree: Tree, body: NewNode, by: As) -> Any:
    """Create a node."""
    node = tree.create(
        body.parent_id, body.slug, body.type, body.title, body.author.stored(), body.detail, body.tags,
        published=body.published, viewer=by,
    )  # fmt: skip
    return node_out(node)


MOVED: dict[int | str, Any] = {308: {"description": "moved: the node is at the path in Location"}}


@content.get("/by-path", response_model=NodeModel, responses={**READ, **MOVED})
def get_by_path(tree: Tree, by: As, path: Annotated[str, Query(max_length=4_000, examples=["/blog/hello"])]) -> Any:
    """The node at a path; where it was moved since, a redirect to its new path."""
    try:
        return node_out(tree.by_path(path, viewer=by))
    except UnknownNode:
        now_at = urlencode({"path": tree.moved_to(path, viewer=by)})
        return RedirectResponse(f"/api/content/by-path?{now_at}", status_code=308, headers=MAY_CHANGE)


@content.get("/nodes/{node_id}", response_model=NodeModel, responses=READ)
def get_node(tree: Tree, by: As, node_id: str) -> Any:
    """One node."""
    return node_out(tree.by_id(node_id, viewer=by))


@content.get("/nodes/{node_id}/html", response_model=Rendered, responses=READ)
def get_html(request: Request, tree: Tree, by: As, node_id: str) -> Any:
    """The node's text, rendered and sanitised."""
    text = tree.by_id(node_id, viewer=by)["metadata"]["detail"].get("text", "")
    return {"html": render.markdown(text, offload=processes_of(request))}


@content.patch("/nodes/{node_id}", response_model=NodeModel, responses={**WRITE, **responses(EditConflict)})
def edit_node(tree: Tree, by: As, node_id: str, body: Edit) -> Any:
    """Save an edit; a conflict answers with the base, their version and yours."""
    who = body.by.stored() if body.by else None
    body.require_unchanged(lambda: node_out(tree.editable(node_id, by)), NodeModel)
    try:
        return node_out(tree.edit(node_id, body.nonce, body.changes(), by=who, session=body.session, viewer=by))
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


@content.get("/nodes/{node_id}/children", response_model=page_of(NodeModel), responses=READ)
def list_children(tree: Tree, by: As, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Everything below a node, or below `root`, by slug."""
    return page_out(tree.children(_parent(node_id), cursor=cursor, limit=limit, viewer=by), sign)


@content.get("/nodes/{node_id}/recent", response_model=page_of(NodeModel), responses=READ)
def list_recent(tree: Tree, by: As, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """What is published below a node, or below `root`, newest first."""
    return page_out(tree.recent(_parent(node_id), cursor=cursor, limit=limit, viewer=by), sign)


@content.get("/nodes/{node_id}/unpublished", response_model=page_of(NodeModel), responses=READ)
def list_unpublished(
    tree: Tree, by: As, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """Drafts and scheduled nodes below a node, or below `root`."""
    return page_out(tree.unpublished(_parent(node_id), cursor=cursor, limit=limit, viewer=by), sign)


@content.get("/tags/{tag}", response_model=page_of(NodeModel), responses=responses())
def list_tagged(tree: Tree, by: As, sign: SignCursor, tag: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """What is published with a tag, newest first."""
    return page_out(tree.tagged(tag, cursor=cursor, limit=limit, viewer=by), sign)


@content.post("/nodes/{node_id}/tags", response_model=NodeModel, responses={**WRITE, **responses(LimitReached)})
def change_tags(tree: Tree, by: As, node_id: str, body: TagChange) -> Any:
    """Add and remove tags; needs no nonce."""
    return node_out(tree.change_tags(node_id, add=body.add, remove=body.remove, viewer=by))


@content.post("/nodes/{node_id}/publish", response_model=NodeModel, responses=WRITE)
def publish_node(tree: Tree, by: As, node_id: str, body: Publication) -> Any:
    """Publish now, or at a time to come."""
    return node_out(tree.publish(node_id, body.at, viewer=by))


@content.post("/nodes/{node_id}/unpublish", response_model=NodeModel, responses=WRITE)
def unpublish_node(tree: Tree, by: As, node_id: str) -> Any:
    """Make it a draft again."""
    return node_out(tree.unpublish(node_id, viewer=by))


@content.post("/nodes/{node_id}/move", response_model=NodeModel, responses={**WRITE, **responses(SlugTaken)})
def move_node(tree: Tree, by: As, node_id: str, body: Move) -> Any:
    """Put a node, with all below it, elsewhere."""
    who = body.by.stored() if body.by else None
    return node_out(tree.move(node_id, body.parent_id, body.slug, by=who, viewer=by))


@content.put("/nodes/{node_id}/access", response_model=NodeModel, responses=WRITE)
def set_access(tree: Tree, by: As, node_id: str, body: AccessChange) -> Any:
    """Say who may read and edit the node and what inherits from it."""
    return node_out(tree.set_access(node_id, body.access.model_dump() if body.access else None, viewer=by))


@content.get("/nodes/{node_id}/history", response_model=page_of(RevisionModel), responses=WRITE)
def list_history(tree: Tree, by: As, sign: SignCursor, node_id: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """The node's versions, newest first."""
    page = tree.history(node_id, cursor=cursor, limit=limit, viewer=by)
    return signed_page(page.map(lambda one: {**one["metadata"], **one}), sign)


@content.post("/nodes/{node_id}/restore", response_model=NodeModel, responses=WRITE)
def restore_node(tree: Tree, by: As, node_id: str, body: Restoration) -> Any:
    """Save an earlier version as the newest."""
    return node_out(tree.restore(node_id, body.nonce, by=body.by.stored() if body.by else None, viewer=by))


router.include_router(content)
router.include_router(api_assets.router)
router.include_router(api_comments.router)
