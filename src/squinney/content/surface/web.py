"""The site's pages for readers: nodes, lists, tags, feeds, and the files of photos."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, cast
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.content import CAPABILITIES, Comment, Comments, Node, Nodes, UnknownComment, UnknownNode, Viewer
from squinney.content.comments.discussions import Order
from squinney.content.files import media
from squinney.content.markup import render
from squinney.content.photos.photos import Rendition
from squinney.content.surface import web_comments, web_editing, web_uploads
from squinney.content.surface.assets import asset_response
from squinney.content.surface.dependencies import CommentsDep, NodesDep, PhotosDep
from squinney.content.surface.feeds import feed_for
from squinney.content.surface.models import MAY_CHANGE
from squinney.content.surface.viewer import comment_html, page_html, viewer_of
from squinney.errors import Invalid
from squinney.http.access.callers import PageRoute
from squinney.http.pages import render as render_page
from squinney.http.site_options import MAX_FORM_BYTES
from squinney.http.static_files import FOR_GOOD
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, all_items

BODY_LIMITS = {
    **dict.fromkeys(("/site/-/upload", "/site/-/replace"), media.MAX_BYTES["video"]),
    **dict.fromkeys(("/site/-/new", "/site/-/edit", "/site/-/preview"), MAX_FORM_BYTES),
}

router = APIRouter()
site = APIRouter(prefix="/site", route_class=PageRoute)

Version = Annotated[str, Query(max_length=200)]

COMMENTS_SHOWN = 50
# A text that begins with a picture of this site.
LEAD = re.compile(r"!\[[^\]]*\]\((/site/-/asset/[A-Za-z0-9-]+(?:\?v=[^)\s\"]*)?)\)")
LISTS = {"blog": "content/entries.html", "gallery": "content/gallery.html", "folder": "content/entries.html"}


def public_pages(services: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the pages that everybody may see, those of a folder newest first."""
    for path, _ in public_nodes(services["nodes"]):
        yield path


def public_nodes(nodes: Nodes) -> Iterator[tuple[str, Node]]:
    """Yield the nodes that everybody may see with their paths, those of a folder newest first."""
    above: list[tuple[str, Node | None]] = [("/site", None)]
    for path, parent in above:
        for node in _published_in(nodes, parent):
            below = f"{path}/{node['metadata']['slug']}"
            yield below, node
            if node["metadata"]["type"] in LISTS:
                above.append((below, node))


def _published_in(nodes: Nodes, parent: Node | None) -> Iterator[Node]:
    # guard: a sitemap lists only what everybody may see
    return all_items(lambda at: nodes.recent(parent, cursor=at, limit=200, viewer=Viewer()))


@site.get("", response_class=HTMLResponse)
@site.get("/", response_class=HTMLResponse)
def show_site(request: Request, nodes: NodesDep, cursor: str | None = None) -> Response:
    """Show the top level of the nodes."""
    viewer = viewer_of(request)
    page = nodes.children(None, cursor=cursor, viewer=viewer)
    lists = [node for node in page.items if node["metadata"]["type"] in LISTS]
    leads = {**_leads(page.items), **_newest_pictures(nodes, lists, viewer)}
    others = [node for node in page.items if node not in lists]
    items = [(node, _summary(node)) for node in [*lists, *others]]
    may_edit = nodes.may_edit(None, viewer)
    return render_page(request, "content/index.html", items=items, next=page.next, may_edit=may_edit, leads=leads)


@site.get("/-/tags/{tag}", response_class=HTMLResponse)
def show_tag(request: Request, nodes: NodesDep, tag: str, cursor: str | None = None) -> Response:
    """Show the nodes with a tag, of all types in one list."""
    page = nodes.tagged(tag, cursor=cursor, limit=20, viewer=viewer_of(request))
    items = [(node, f"/site{nodes.path_of(node)}", _summary(node)) for node in page.items]
    return render_page(request, "content/tag.html", tag=tag, items=items, next=page.next)


@site.get("/-/asset/{node_id}", response_class=Response)
def show_asset(
    request: Request, photos: PhotosDep, node_id: str, rendition: Rendition = "web", v: Version = ""
) -> Response:
    """Send the bytes of a photo or video. Other sites, such as feed readers, may embed those that are public.

    `v` gives each version its own URL, so that caches do not show an old one.
    """
    viewer = viewer_of(request)
    cache = FOR_GOOD if v and viewer.user_id is None else "private, no-cache"
    response = asset_response(request, photos.open(node_id, rendition, viewer=viewer), cache=cache)
    # guard: other sites may not embed photos of a signed-in visitor
    if viewer.user_id is None:
        # guard: other sites may embed public photos
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@site.get("/-/feed/{node_id}.{kind}", response_class=Response)
def show_feed(request: Request, nodes: NodesDep, node_id: str, kind: Literal["rss", "atom"]) -> Response:
    """Send the feed of a node's children."""
    return feed_for(request, nodes, node_id, kind)


router.include_router(web_editing.router)
router.include_router(web_uploads.router)
router.include_router(web_comments.router)


@site.get("/{path:path}", response_class=HTMLResponse)
def show_node(
    request: Request,
    nodes: NodesDep,
    comments: CommentsDep,
    path: str,
    cursor: str | None = None,
    order: Order | None = None,
    at: str | None = None,
) -> Response:
    """Show the node at a path with its children or comments."""
    viewer = viewer_of(request)
    try:
        node = nodes.by_path(path, viewer=viewer)
    except UnknownNode:
        return _moved(request, nodes, path, viewer)
    if viewer.user_id is not None:  # then its path is not counted in the public charts
        request.state.is_private = node not in nodes.readable([node], Viewer())
    context: dict[str, Any] = {
        "node": node,
        "metadata": node["metadata"],
        "html": page_html(request, node["metadata"]["detail"].get("text", "")),
        "crumbs": _crumbs(nodes, node, viewer),
        "may_edit": nodes.may_edit(node, viewer),
        "here": f"/site/{path.strip('/')}",
        "key": new_id(),
        "products": _products_in(request, node),
    }
    if template := LISTS.get(node["metadata"]["type"]):
        page = nodes.recent(node, cursor=cursor, limit=20, viewer=viewer)
        items = [(child, _summary(child)) for child in page.items]
        leads = _leads(page.items)
        drafts = nodes.unpublished(node, viewer=viewer).items if context["may_edit"] else []
        return render_page(request, template, **context, items=items, leads=leads, next=page.next, drafts=drafts)
    discussion = _discussion(request, comments, node, cursor, order, at)
    return render_page(request, "content/page.html", **context, discussion=discussion, at=at)


def _products_in(request: Request, node: Node) -> Sequence[Any]:
    """Return the products that a text links to, as cards. The service provides them."""
    mentions = getattr(request.app.state, "mentions", None)
    return mentions.products_in(node["metadata"]["detail"].get("text", "")) if mentions else ()


def _moved(request: Request, nodes: Nodes, path: str, viewer: Viewer) -> Response:
    """Redirect an old path to the node's current path, with the same query, which may name a comment."""
    query = f"?{request.url.query}" if request.url.query else ""
    url = f"/site{nodes.moved_to(path, viewer=viewer)}{query}"
    return RedirectResponse(url, status_code=301, headers=MAY_CHANGE)


def _discussion(
    request: Request, comments: Comments, node: Node, cursor: str | None, order: Order | None, at: str | None
) -> dict[str, Any]:
    """Return a page of comments for the template, in threaded order if the strategy supports it."""
    can = CAPABILITIES[comments.strategy_of(node)]
    # The order in a link may not be supported any more after a conversion.
    shown = order if order in can else "threaded" if "threaded" in can else "chronological"
    page, is_lost = _comments_page(comments, node, cursor, shown, at)
    count = comments.count(node)
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


def _comments_page(
    comments: Comments, node: Node, cursor: str | None, order: Order, at: str | None
) -> tuple[Page[Comment], bool]:
    """Return the requested page of comments; if it does not exist any more, the first page and True."""
    try:
        if at is not None:
            return comments.page_showing(node, at, COMMENTS_SHOWN, order), False
        return comments.page(node, cursor, COMMENTS_SHOWN, order), False
    except (UnknownComment, Invalid):
        return comments.page(node, None, COMMENTS_SHOWN, order), True


def _summary(node: Node) -> str:
    detail = node["metadata"]["detail"]
    return cast(str, detail.get("summary") or render.summary(detail.get("text", "")))


def _leads(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the URL of the picture with which the text of a node begins, if it is stored on this site."""
    leads = {node["_id"]: LEAD.match(node["metadata"]["detail"].get("text", "")) for node in nodes}
    return {node_id: lead[1] for node_id, lead in leads.items() if lead}


def _newest_pictures(nodes: Nodes, lists: Iterable[Node], viewer: Viewer) -> dict[str, str]:
    """Return the URL of a new picture in each list, or of one that begins an entry; no two lists have the same."""
    pictures: dict[str, str] = {}
    taken: set[str] = set()
    for node in lists:
        for child in nodes.recent(node, limit=5, viewer=viewer).items:
            url = _picture_of(child)
            if url and node["_id"] not in pictures and url.partition("?")[0] not in taken:
                pictures[node["_id"]] = url
                taken.add(url.partition("?")[0])
    return pictures


def _picture_of(node: Node) -> str:
    metadata = node["metadata"]
    if metadata["detail"].get("web"):
        return f"/site/-/asset/{node['_id']}?v={quote(metadata['nonce'])}"
    return _leads([node]).get(node["_id"], "")


def _crumbs(nodes: Nodes, node: Node, viewer: Viewer) -> list[tuple[str, str]]:
    """Return the titles and URLs of those ancestors that the viewer may see, from the top down."""
    above = list(reversed(nodes.ancestors(node)))
    visible = nodes.readable(above, viewer)
    url, crumbs = "/site", []
    for ancestor in above:
        url += f"/{ancestor['metadata']['slug']}"
        if ancestor in visible:
            crumbs.append((ancestor["metadata"]["title"], url))
    return crumbs


router.include_router(site)
