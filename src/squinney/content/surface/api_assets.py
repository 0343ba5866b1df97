"""Assets and feeds over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from squinney.content import BadMedia, EditConflict, Node, Nodes, SlugTaken, UnknownNode, UploadLost, Viewer
from squinney.content.files.photos import Rendition
from squinney.content.nodes import feeds
from squinney.content.surface.assets import Body, asset_response, feed_response
from squinney.content.surface.dependencies import Albums, Tree
from squinney.content.surface.models import NodeModel, node_out
from squinney.content.surface.viewer import As
from squinney.errors import Forbidden
from squinney.http.dependencies import processes_of
from squinney.http.problems import responses
from squinney.http.routes import OneThreadRoute
from squinney.http.threads import UPLOADS

router = APIRouter(prefix="/api/content", tags=["content"], route_class=OneThreadRoute)

READ = responses(UnknownNode)
Digest = Annotated[str | None, Query(pattern="^[0-9a-f]{64}$")]
UPLOADED: dict[int | str, Any] = responses(UnknownNode, Forbidden, SlugTaken, BadMedia, UploadLost)


@router.post("/assets", status_code=201, response_model=NodeModel, responses=UPLOADED)
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

    return node_out(await UPLOADS.run(work))


def _announced(request: Request) -> int | None:
    given = request.headers.get("content-length", "")
    return int(given) if given.isdecimal() else None


@router.put("/assets/{node_id}", response_model=NodeModel, responses={**UPLOADED, **responses(EditConflict)})
async def replace_asset(
    request: Request, albums: Albums, by: As, node_id: str, nonce: str | None = None, sha256: Digest = None
) -> Any:
    """Replace the bytes; readers get the old photo whole or the new one whole."""

    def work() -> Node:
        length = _announced(request)
        return albums.replace(Body(request), node_id, nonce, length=length, sha256=sha256, viewer=by)

    return node_out(await UPLOADS.run(work))


@router.get("/assets/{node_id}", response_class=Response, responses=READ)
def get_asset(request: Request, albums: Albums, by: As, node_id: str, rendition: Rendition = "web") -> Response:
    """The bytes, or a range of them; with an ETag."""
    return asset_response(request, albums.open(node_id, rendition, viewer=by), cache="private, no-cache")


@router.get("/feeds/{node_id}.{kind}", response_class=Response, responses=READ)
def get_feed(request: Request, tree: Tree, node_id: str, kind: Literal["rss", "atom"]) -> Response:
    """What is published below a node and open to everyone, as RSS 2.0 or Atom; answers 304."""
    return feed_for(request, tree, node_id, kind)


def feed_for(request: Request, tree: Nodes, node_id: str, kind: Literal["rss", "atom"]) -> Response:
    """The feed of a node, for the API and for the pages."""
    node = tree.by_id(node_id, viewer=Viewer())
    site = str(request.base_url).rstrip("/")
    path = tree.path_of(node)
    recent = tree.recent(node, limit=30, viewer=Viewer()).items
    entries = [(entry, f"{site}/site{path}/{entry['metadata']['slug']}") for entry in recent]
    feed = feeds.Feed(
        node["metadata"]["title"],
        f"{site}/site{path}",
        str(request.url),
        entries,
        asset_url=lambda entry: f"{site}/site/-/asset/{entry['_id']}?v={entry['metadata']['nonce']}",
        offload=processes_of(request),
    )
    body = feeds.rss(feed) if kind == "rss" else feeds.atom(feed)
    return feed_response(request, body, f"application/{kind}+xml", feed.updated)
