"""The social network's pages: news, walls, notices, circles and people."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response, StreamingResponse

from squinney.errors import Invalid
from squinney.http.options import MOST_FORM_BYTES
from squinney.http.permissions import needs
from squinney.social import Network as SocialNetwork
from squinney.social import UnknownPost
from squinney.social.surface import web_forms
from squinney.social.surface.pages import (
    Cursor,
    Network,
    feed,
    me_of,
    member_of,
    page_of,
    person_id,
    person_page,
    photo_store,
    posts_of,
    to_join,
)

router = APIRouter(prefix="/social")
WRITES_NEED = "member"
BODY_LIMITS = {"/social/posts": MOST_FORM_BYTES}  # with a photo
LISTS = ("news", "wall", "incoming")


@router.get("", response_class=HTMLResponse)
def show_news(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """A member's news, with the form to write; others are told what this is, and how to join."""
    me = member_of(request, network)
    if me is None:
        return page_of(
            request,
            network,
            "welcome",
            None,
            signed_in=person_id(request) is not None,
            people=network.members(None, limit=12).items,
        )
    return feed(request, network, me, "news", cursor)


@router.get("/wall", response_class=HTMLResponse, dependencies=[needs("member")])
def show_wall(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """One's own wall."""
    return _own_list(request, network, "wall", cursor)


@router.get("/incoming", response_class=HTMLResponse, dependencies=[needs("member")])
def show_incoming(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """What is addressed to oneself."""
    return _own_list(request, network, "incoming", cursor)


def _own_list(request: Request, network: SocialNetwork, what: str, cursor: str | None) -> Response:
    me = member_of(request, network)
    return to_join() if me is None else feed(request, network, me, what, cursor)


@router.get("/live/{what}", response_class=HTMLResponse, dependencies=[needs("member")])
def show_live(request: Request, network: Network, what: str) -> Response:
    """The first screen of a list as it is now: our script puts it in place of the one that is shown."""
    if what not in LISTS:
        raise Invalid(f"there are {', '.join(LISTS)}", field="what")
    me = network.get(me_of(request))
    return page_of(request, network, "posts", me, counts=False, page=posts_of(network, me["id"], what), what=what)


@router.get("/notices", response_class=HTMLResponse, dependencies=[needs("member")])
def show_notices(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """What one was told."""
    me = member_of(request, network)
    if me is None:
        return to_join()
    return page_of(request, network, "notices", me, page=network.notices(me["id"], cursor=cursor))


@router.get("/people", response_class=HTMLResponse)
def show_people(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Who is there, the newest first."""
    me = member_of(request, network)
    return page_of(request, network, "people", me, page=network.members(me and me["id"], cursor=cursor))


@router.get("/people/{handle}", response_class=HTMLResponse)
def show_person(request: Request, network: Network, handle: str, cursor: Cursor = None) -> Response:
    """Somebody's profile and wall: to visitors what is public."""
    return person_page(request, network, handle, cursor)


@router.get("/posts/{post}", response_class=HTMLResponse)
def show_post(request: Request, network: Network, post: str, cursor: Cursor = None) -> Response:
    """One post with its comments."""
    me = member_of(request, network)
    viewer = me["id"] if me else None
    found = network.get_post(viewer, post)
    comments = network.comments(viewer, post, cursor=cursor)
    return page_of(request, network, "post", me, post=found, comments=comments)


@router.get("/circles", response_class=HTMLResponse, dependencies=[needs("member")])
def show_circles(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Those in one's circles, followers, and whom one has blocked."""
    me = member_of(request, network)
    if me is None:
        return to_join()
    page = network.circles(me["id"], cursor=cursor)
    followers, blocked = network.followers(me["id"]), network.blocked(me["id"])
    return page_of(request, network, "circles", me, page=page, followers=followers, blocked=blocked)


@router.get("/me", response_class=HTMLResponse, dependencies=[needs("member")])
def show_me(request: Request, network: Network) -> Response:
    """One's own name and profile, and the ways out."""
    me = member_of(request, network)
    return to_join() if me is None else page_of(request, network, "me", me)


@router.get("/export", dependencies=[needs("member")])
def export(request: Request, network: Network) -> Response:
    """Everything that is kept of oneself, a JSON document on each line."""
    lines = (json.dumps(one, default=str, ensure_ascii=False) + "\n" for one in network.export(me_of(request)))
    headers = {"Content-Disposition": 'attachment; filename="social.ndjson"', "Cache-Control": "no-store"}
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


@router.get("/photos/{post}")
def show_photo(request: Request, network: Network, post: str) -> Response:
    """The photo of a post that the visitor may see now."""
    me = member_of(request, network)
    found = network.get_post(me["id"] if me else None, post)
    store = photo_store(request)
    if store is None or found["type"] != "photo":
        raise UnknownPost(f"there is no photo of post {post}", post=post)
    return store.answer(request, found["detail"]["file"], found["by"]["id"])


router.include_router(web_forms.router)
