"""The API of assets and feeds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from squinney.content import BadMedia, EditConflict, Node, SlugTaken, UnknownNode, UploadLost
from squinney.content.photos.photos import Rendition
from squinney.content.surface.assets import BodyStream, asset_response
from squinney.content.surface.dependencies import NodesDep, PhotosDep
from squinney.content.surface.feeds import feed_for
from squinney.content.surface.models import NodeModel, node_response
from squinney.content.surface.viewer import ViewerDep
from squinney.errors import Forbidden
from squinney.http.error_responses import responses
from squinney.http.routes import OneThreadRoute
from squinney.http.threads import UPLOADS

router = APIRouter(prefix="/api/content", tags=["content"], route_class=OneThreadRoute)

READ = responses(UnknownNode)
Digest = Annotated[str | None, Query(pattern="^[0-9a-f]{64}$")]
UPLOADED: dict[int | str, Any] = responses(UnknownNode, Forbidden, SlugTaken, BadMedia, UploadLost)


@router.post("/assets", status_code=201, response_model=NodeModel, responses=UPLOADED)
async def upload_asset(
    request: Request,
    photos: PhotosDep,
    viewer: ViewerDep,
    slug: Annotated[str, Query(min_length=1, max_length=150)],
    author_id: Annotated[str, Query(min_length=1, max_length=200)],
    author_name: Annotated[str, Query(min_length=1, max_length=100)],
    parent_id: str | None = None,
    title: Annotated[str, Query(max_length=300)] = "",
    type: Literal["photo", "video"] = "photo",
    published: datetime | None = None,
    sha256: Digest = None,
) -> Any:
    """Upload a photo or video as the request's body. It is streamed, and its type is read from its bytes."""
    author: Any = {"_id": author_id, "name": author_name}

    def work() -> Node:
        return photos.upload(
            BodyStream(request), parent_id, slug, author=author, title=title, type=type, published=published,
            length=_content_length(request), sha256=sha256, viewer=viewer,
        )  # fmt: skip

    return node_response(await UPLOADS.run(work))


def _content_length(request: Request) -> int | None:
    given = request.headers.get("content-length", "")
    return int(given) if given.isdecimal() else None


@router.put("/assets/{node_id}", response_model=NodeModel, responses={**UPLOADED, **responses(EditConflict)})
async def replace_asset(
    request: Request,
    photos: PhotosDep,
    viewer: ViewerDep,
    node_id: str,
    nonce: str | None = None,
    sha256: Digest = None,
) -> Any:
    """Replace the file of a photo or video. Readers get the complete old file or the complete new one."""

    def work() -> Node:
        length = _content_length(request)
        return photos.replace(BodyStream(request), node_id, nonce, length=length, sha256=sha256, viewer=viewer)

    return node_response(await UPLOADS.run(work))


@router.get("/assets/{node_id}", response_class=Response, responses=READ)
def get_asset(
    request: Request, photos: PhotosDep, viewer: ViewerDep, node_id: str, rendition: Rendition = "web"
) -> Response:
    """Return the bytes or a range of them, with an ETag."""
    return asset_response(request, photos.open(node_id, rendition, viewer=viewer), cache="private, no-cache")


@router.get("/feeds/{node_id}.{kind}", response_class=Response, responses=READ)
def get_feed(request: Request, nodes: NodesDep, node_id: str, kind: Literal["rss", "atom"]) -> Response:
    """Return the public children of a node as an RSS 2.0 or Atom feed; supports conditional requests."""
    return feed_for(request, nodes, node_id, kind)
