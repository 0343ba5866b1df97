"""Pages for uploads of photos and videos, and for replacing their files."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.datastructures import UploadFile
from starlette.responses import Response

from squinney.content.files.uploads import Stream
from squinney.content.folders.plan import slug_of
from squinney.content.surface.assets import BodyStream
from squinney.content.surface.dependencies import NodesDep, PhotosDep
from squinney.content.surface.viewer import author_of, viewer_of
from squinney.content.surface.web_editing import LongFormRoute, publication_time
from squinney.http.pages import render as render_page
from squinney.http.threads import UPLOADS

router = APIRouter(prefix="/site/-", route_class=LongFormRoute)


@router.get("/upload", response_class=HTMLResponse)
def show_upload(request: Request, nodes: NodesDep, parent: str) -> Response:
    """Show the form for uploads of photos and videos."""
    return render_page(request, "content/upload.html", above=nodes.by_id(parent, viewer=viewer_of(request)))


@router.post("/upload", response_class=JSONResponse)
async def upload(
    request: Request,
    nodes: NodesDep,
    photos: PhotosDep,
    parent: Annotated[str, Query(max_length=200)],
    slug: Annotated[str, Query(max_length=150)] = "",
    title: Annotated[str, Query(max_length=300)] = "",
    alt: Annotated[str, Query(max_length=500)] = "",
    type: Literal["photo", "video"] = "photo",
    when: Literal["now", "draft"] = "now",
) -> Response:
    """Upload a file. A script sends it as the request's body, which is streamed and lets the page show the progress."""
    typed = {"title": title, "slug": slug, "alt": alt, "type": type, "when": when} | _typed(request)

    def work() -> tuple[str, str]:
        node = photos.upload(
            _file(request), parent, typed["slug"] or (typed["title"] and slug_of(typed["title"])),
            author=author_of(request), title=typed["title"], type=cast(Any, typed["type"]),
            detail={"alt": typed["alt"]}, published=publication_time(typed["when"], ""), viewer=viewer_of(request),
        )  # fmt: skip
        return f"/site{nodes.path_of(node)}", f"/site/-/asset/{node['_id']}"

    return _uploaded(request, await UPLOADS.run(work), 201)


@router.post("/replace/{node_id}", response_class=JSONResponse)
async def replace(
    request: Request, nodes: NodesDep, photos: PhotosDep, node_id: str, nonce: Annotated[str | None, Query()] = None
) -> Response:
    """Replace the file of a photo or video."""

    def work() -> tuple[str, str]:
        node = photos.replace(_file(request), node_id, nonce, by=author_of(request), viewer=viewer_of(request))
        return f"/site{nodes.path_of(node)}", f"/site/-/asset/{node['_id']}"

    return _uploaded(request, await UPLOADS.run(work), 200)


def _typed(request: Request) -> dict[str, str]:
    """Return the fields of a form that a browser without scripts sent; none if the file is the body."""
    return {name: value for name, value in request.state.form.items() if isinstance(value, str) and value}


def _file(request: Request) -> Stream:
    sent = request.state.form.get("file")
    return sent.file if isinstance(sent, UploadFile) else BodyStream(request)


def _uploaded(request: Request, addresses: tuple[str, str], status: int) -> Response:
    """Go to the page of the file, or tell a script its addresses: the page, and the file itself."""
    url, asset = addresses
    if "file" in request.state.form:
        return RedirectResponse(url, status_code=303)
    return JSONResponse({"url": url, "asset": asset}, status_code=status)
