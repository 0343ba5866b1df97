"""The social network's pages: news, walls, notices, circles and people."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney.errors import Invalid
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs, signed_in
from squinney.http.pages import redirect
from squinney.http.site_options import MAX_FORM_BYTES
from squinney.social import Network as SocialNetwork
from squinney.social import UnknownPost
from squinney.social.surface import web_forms
from squinney.social.surface.pages import (
    Cursor,
    Network,
    exported,
    feed,
    member_of,
    person_id,
    person_page,
    photo_store,
    posts_of,
    render_page,
)

router = APIRouter(prefix="/social", route_class=PageRoute)
BODY_LIMITS = {"/social/posts": MAX_FORM_BYTES}  # with a photo
LISTS = ("news", "wall", "incoming")
MAX_FACES = 14  # beside the public posts


@router.get("", response_class=HTMLResponse)
def show_news(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show a member's news and the form for a new post; show everyone else the welcome page."""
    me = member_of(request, network)
    if me is None:
        return render_page(
            request,
            network,
            "welcome",
            None,
            signed_in=person_id(request) is not None,
            people=network.members(None, limit=MAX_FACES).items,
            page=network.public(None, cursor=cursor),
            what="public",
        )
    return feed(request, network, me, "news", cursor)


@router.get("/wall", response_class=HTMLResponse, dependencies=[needs("member")])
def show_wall(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show the member's own wall."""
    return _own_list(request, network, "wall", cursor)


@router.get("/incoming", response_class=HTMLResponse, dependencies=[needs("member")])
def show_incoming(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show the posts that are addressed to the member."""
    return _own_list(request, network, "incoming", cursor)


def _own_list(request: Request, network: SocialNetwork, what: str, cursor: str | None) -> Response:
    me = member_of(request, network)
    return redirect(request, "/social") if me is None else feed(request, network, me, what, cursor)


@router.get("/public", response_class=HTMLResponse, dependencies=[needs("member")])
def show_public(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show a member the public posts of everybody."""
    return _own_list(request, network, "public", cursor)


@router.get("/live/{what}", response_class=HTMLResponse, dependencies=[needs("member")])
def show_live(request: Request, network: Network, what: str) -> Response:
    """Return the current first screen of a list as an HTML fragment; the page's script replaces the old one with it."""
    if what not in LISTS:
        raise Invalid(f"what must be one of {', '.join(LISTS)}", field="what")
    me = network.get(signed_in(request)["_id"])
    return render_page(
        request, network, "posts", me, with_unseen=False, page=posts_of(network, me["id"], what), what=what
    )


@router.get("/notices", response_class=HTMLResponse, dependencies=[needs("member")])
def show_notices(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show the member's notices."""
    me = member_of(request, network)
    if me is None:
        return redirect(request, "/social")
    return render_page(request, network, "notices", me, page=network.notices(me["id"], cursor=cursor))


@router.get("/people", response_class=HTMLResponse)
def show_people(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """List all members, newest first."""
    me = member_of(request, network)
    return render_page(request, network, "people", me, page=network.members(me and me["id"], cursor=cursor))


@router.get("/people/{handle}", response_class=HTMLResponse)
def show_person(request: Request, network: Network, handle: str, cursor: Cursor = None) -> Response:
    """Show a member's profile and wall; visitors see public posts only."""
    return person_page(request, network, handle, cursor)


@router.get("/posts/{post}", response_class=HTMLResponse)
def show_post(request: Request, network: Network, post: str, cursor: Cursor = None) -> Response:
    """Show one post with its comments."""
    me = member_of(request, network)
    viewer = me["id"] if me else None
    shown = network.get_post(viewer, post)
    comments = network.comments(viewer, post, cursor=cursor)
    return render_page(request, network, "post", me, post=shown, comments=comments)


@router.get("/circles", response_class=HTMLResponse, dependencies=[needs("member")])
def show_circles(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Show the people in the member's circles, the followers, and the people whom the member has blocked."""
    me = member_of(request, network)
    if me is None:
        return redirect(request, "/social")
    page = network.circles(me["id"], cursor=cursor)
    followers, blocked = network.followers(me["id"]), network.blocked(me["id"])
    return render_page(request, network, "circles", me, page=page, followers=followers, blocked=blocked)


@router.get("/me", response_class=HTMLResponse, dependencies=[needs("member")])
def show_me(request: Request, network: Network) -> Response:
    """Show the forms for the member's name and profile, the export, and leaving."""
    me = member_of(request, network)
    return redirect(request, "/social") if me is None else render_page(request, network, "me", me)


@router.get("/export", dependencies=[needs("member")])
def export(request: Request, network: Network) -> Response:
    """Download all stored documents about the member, one JSON document per line."""
    headers = {"Content-Disposition": 'attachment; filename="social.ndjson"', "Cache-Control": "no-store"}
    return exported(network, signed_in(request)["_id"], headers)


@router.get("/photos/{post}")
def show_photo(request: Request, network: Network, post: str) -> Response:
    """Return the photo of a post that the visitor may see now."""
    me = member_of(request, network)
    about = network.get_post(me["id"] if me else None, post)
    store = photo_store(request)
    if store is None or about["type"] != "photo":
        raise UnknownPost(f"post {post} has no photo", post=post)
    return store.response(request, about["detail"]["file"], about["by"]["id"])


router.include_router(web_forms.router)
