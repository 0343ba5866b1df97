"""The site's pages: nodes, the blog, the gallery, tags, feeds, and the bytes of photos."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.content import CAPABILITIES, Comment, Comments, Node, Nodes, UnknownComment, UnknownNode, Viewer
from squinney.content.comments.discussions import Order
from squinney.content.files import media
from squinney.content.files.photos import Rendition
from squinney.content.nodes import render
from squinney.content.surface import web_comments, web_editing
from squinney.content.surface.api_assets import feed_for
from squinney.content.surface.assets import asset_response
from squinney.content.surface.dependencies import Albums, Talk, Tree
from squinney.content.surface.models import MAY_CHANGE
from squinney.content.surface.viewer import comment_html, page_html, viewer_of
from squinney.errors import Invalid
from squinney.http.options import MOST_FORM_BYTES
from squinney.http.pages import render as render_page
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page

BODY_LIMITS = {
    **dict.fromkeys(("/site/-/upload", "/site/-/replace"), media.MOST_BYTES["video"]),
    **dict.fromkeys(("/site/-/new", "/site/-/edit", "/site/-/preview"), MOST_FORM_BYTES),
}
WRITES_NEED = "member"

router = APIRouter()
site = APIRouter(prefix="/site")

Version = Annotated[str, Query(max_length=200)]

COMMENTS_SHOWN = 50
TALKED_ABOUT = ("basic-page", "blog-entry", "photo", "video")
LISTED = {"blog": "content/entries.html", "gallery": "content/gallery.html", "folder": "content/entries.html"}


@site.get("", response_class=HTMLResponse)
@site.get("/", response_class=HTMLResponse)
def show_site(request: Request, tree: Tree, cursor: str | None = None) -> Response:
    """The top of the tree."""
    viewer = viewer_of(request)
    page = tree.children(None, cursor=cursor, viewer=viewer)
    return render_page(request, "content/index.html", page=page, may_edit=tree.may_edit(None, viewer))


@site.get("/-/tags/{tag}", response_class=HTMLResponse)
def show_tag(request: Request, tree: Tree, tag: str, cursor: str | None = None) -> Response:
    """What carries a tag, pages and photos in one list."""
    page = tree.tagged(tag, cursor=cursor, limit=20, viewer=viewer_of(request))
    items = [(node, f"/site{tree.path_of(node)}", _summary(node)) for node in page.items]
    return render_page(request, "content/tag.html", tag=tag, items=items, next=page.next)


@site.get("/-/asset/{node_id}", response_class=Response)
def show_asset(
    request: Request, albums: Albums, node_id: str, rendition: Rendition = "web", v: Version = ""
) -> Response:
    """A photo's or video's bytes. What a stranger may see, other sites may show: readers of feeds do.

    `v` makes a new address of each version, for whoever keeps what they once had.
    """
    viewer = viewer_of(request)
    response = asset_response(request, albums.open(node_id, rendition, viewer=viewer), cache="private, no-cache")
    if viewer.user_id is None:
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@site.get("/-/feed/{node_id}.{kind}", response_class=Response)
def show_feed(request: Request, tree: Tree, node_id: str, kind: Literal["rss", "atom"]) -> Response:
    """The feed of what is below a node."""
    return feed_for(request, tree, node_id, kind)


router.include_router(web_editing.router)
router.include_router(web_comments.router)


@site.get("/{path:path}", response_class=HTMLResponse)
def show_node(
    request: Request,
    tree: Tree,
    talk: Talk,
    path: str,
    cursor: str | None = None,
    order: Order | None = None,
    at: str | None = None,
) -> Response:
    """A node at its path, with what is below it or said of it."""
    viewer = viewer_of(request)
    try:
        node = tree.by_path(path, viewer=viewer)
    except UnknownNode:
        return _moved(request, tree, path, viewer)
    about: dict[str, Any] = {
        "node": node,
        "metadata": node["metadata"],
        "html": page_html(request, node["metadata"]["detail"].get("text", "")),
        "crumbs": _crumbs(tree, node, viewer),
        "may_edit": tree.may_edit(node, viewer),
        "here": f"/site/{path.strip('/')}",
        "key": new_id(),
    }
    if template := LISTED.get(node["metadata"]["type"]):
        page = tree.recent(node, cursor=cursor, limit=20, viewer=viewer)
        items = [(child, _summary(child)) for child in page.items]
        drafts = tree.unpublished(node, viewer=viewer).items if about["may_edit"] else []
        return render_page(request, template, **about, items=items, next=page.next, drafts=drafts)
    return render_page(request, "content/page.html", **about, talk=_talk(request, talk, node, cursor, order, at), at=at)


def _moved(request: Request, tree: Nodes, path: str, viewer: Viewer) -> Response:
    """Old links lead to where the page is now, to the same comment. The page may come back, so nobody may keep this."""
    query = f"?{request.url.query}" if request.url.query else ""
    now_at = f"/site{tree.moved_to(path, viewer=viewer)}{query}"
    return RedirectResponse(now_at, status_code=301, headers=MAY_CHANGE)


def _talk(
    request: Request, talk: Comments, node: Node, cursor: str | None, order: Order | None, at: str | None
) -> dict[str, Any] | None:
    """A page of comments, in threads where the strategy has them."""
    if node["metadata"]["type"] not in TALKED_ABOUT:
        return None
    can = CAPABILITIES[talk.strategy_of(node)]
    # A link may be older than the last conversion of the discussion.
    shown = order if order in can else "threaded" if "threaded" in can else "chronological"
    page, is_lost = _comments(talk, node, cursor, shown, at)
    count = talk.count(node)
    return {
        "comments": [(comment, comment_html(request, comment["text"])) for comment in page.items],
        "next": page.next,
        "order": shown,
        "threads": "threaded" in can,
        "replies": "replies" in can,
        "count": count,
        "later": not is_lost and (cursor is not None or (at is not None and count > len(page.items))),
        "is_lost": is_lost,
    }


def _comments(
    talk: Comments, node: Node, cursor: str | None, order: Order, at: str | None
) -> tuple[Page[Comment], bool]:
    """The page that was asked for. One that is gone is no reason not to show the article: then it is the first page."""
    try:
        if at is not None:
            return talk.page_showing(node, at, COMMENTS_SHOWN, order), False
        return talk.page(node, cursor, COMMENTS_SHOWN, order), False
    except (UnknownComment, Invalid):
        return talk.page(node, None, COMMENTS_SHOWN, order), True


def _summary(node: Node) -> str:
    detail = node["metadata"]["detail"]
    return cast(str, detail.get("summary") or render.summary(detail.get("text", "")))


def _crumbs(tree: Nodes, node: Node, viewer: Viewer) -> list[tuple[str, str]]:
    """Titles and paths of what is above the node, as far as the viewer may see it."""
    above = list(reversed(tree.ancestors(node)))
    shown = tree.readable(above, viewer)
    paths = ["/".join(one["metadata"]["slug"] for one in above[: index + 1]) for index in range(len(above))]
    return [(one["metadata"]["title"], f"/site/{path}") for one, path in zip(above, paths, strict=True) if one in shown]


router.include_router(site)
