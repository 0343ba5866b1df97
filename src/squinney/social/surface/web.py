"""The social network's pages: news, walls, notices, circles and people."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Protocol, cast

from fastapi import APIRouter, Depends, File, Form, Query, Request, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup, escape
from starlette.responses import Response, StreamingResponse

from squinney.errors import Invalid, SquinneyError
from squinney.http.dependencies import service
from squinney.http.options import MOST_FORM_BYTES
from squinney.http.pages import render
from squinney.http.permissions import SignInNeeded, needs
from squinney.http.statuses import status_of
from squinney.http.visitor import visitor_of
from squinney.patterns.paging import Page
from squinney.social import PUBLIC, AlreadyJoined, Person, Post, UnknownPost, UnknownUser, User, rules
from squinney.social import Network as SocialNetwork

router = APIRouter(prefix="/social")
WRITES_NEED = "member"
BODY_LIMITS = {"/social/posts": MOST_FORM_BYTES}  # with a photo

Network = Annotated[SocialNetwork, Depends(service("social", "network", SocialNetwork))]
Text = Annotated[str, Form()]
Cursor = Annotated[str | None, Query(max_length=4_000)]
Photo = Annotated[UploadFile | None, File()]
LISTS = ("news", "wall", "incoming")
NEW_CIRCLE = "Friends"
COLOURS = 6


class PhotoStore(Protocol):
    """Where photos of posts are kept: by another system, which the service brings along."""

    def keep(self, stream: Any, author_id: str, name: str) -> str:
        """Store a photo; returns its id."""

    def answer(self, request: Request, photo: str, author_id: str) -> Response:
        """The photo, if that author's."""

    def forget(self, photo: str, author_id: str) -> None:
        """Remove the photo, if that author's."""


def _photos(request: Request) -> PhotoStore | None:
    return cast(PhotoStore | None, getattr(request.app.state, "post_photos", None))


# ---- who looks ----


def _person_id(request: Request) -> str | None:
    person = visitor_of(request).person
    return person["_id"] if person else None


def _member(request: Request, network: SocialNetwork) -> User | None:
    """The visitor, where they have joined."""
    person = _person_id(request)
    if person is None:
        return None
    try:
        return network.get(person)
    except UnknownUser:
        return None


def _to_join() -> Response:
    """Where those go who are signed in and no members."""
    return RedirectResponse("/social", status_code=303)


def _me(request: Request) -> str:
    person = _person_id(request)
    if person is None:
        raise SignInNeeded("sign in first")
    return person


def _page(
    request: Request, network: SocialNetwork, template: str, me: User | None, *, counts: bool = True, **values: Any
) -> Response:
    error = values.get("error")
    return render(
        request,
        f"social/{template}.html",
        status=status_of(error) if error else 200,
        me=me,
        unseen=network.unseen(me["id"]) if me and counts else 0,
        linked=linked,
        face=face,
        most_text=rules.MOST_TEXT,
        photos=_photos(request) is not None,
        **{"error": None, "typed": {}, **values},
    )


def linked(text: str, people: list[Person]) -> Markup:
    """A text with links where it mentions members; everything else is only text."""
    handles = {one["handle"] for one in people}
    found, end = Markup(), 0
    for mention in rules.MENTION.finditer(text.lower()) if len(text.lower()) == len(text) else ():
        if mention[1] in handles:
            link = Markup('<a href="/social/people/{}">{}</a>').format(mention[1], text[slice(*mention.span())])
            found += escape(text[end : mention.start()]) + link
            end = mention.end()
    return found + escape(text[end:])


def face(person: Person) -> Markup:
    """A round sign with one or two letters, in a colour of the person's own."""
    words = (person["name"] or "?").split()
    letters = "".join(word[0] for word in (words[0], *words[1:][-1:])).upper()
    colour = sum(person["id"].encode()) % COLOURS
    return Markup('<span class="face face-{}" aria-hidden="true">{}</span>').format(colour, letters)


def _back(request: Request, there: str = "/social") -> Response:
    """Where the form was, if that was one of these pages."""
    referer = request.headers.get("referer", "").partition(f"://{request.headers.get('host')}/")[2]
    return RedirectResponse(f"/{referer}" if referer.startswith("social") else there, status_code=303)


# ---- reading ----


@router.get("", response_class=HTMLResponse)
def show_news(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """A member's news, with the form to write; others are told what this is, and how to join."""
    me = _member(request, network)
    if me is None:
        return _page(
            request,
            network,
            "welcome",
            None,
            signed_in=_person_id(request) is not None,
            people=network.members(None, limit=12).items,
        )
    return _feed(request, network, me, "news", cursor)


@router.get("/wall", response_class=HTMLResponse, dependencies=[needs("member")])
def show_wall(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """One's own wall."""
    return _own_list(request, network, "wall", cursor)


@router.get("/incoming", response_class=HTMLResponse, dependencies=[needs("member")])
def show_incoming(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """What is addressed to oneself."""
    return _own_list(request, network, "incoming", cursor)


def _own_list(request: Request, network: SocialNetwork, what: str, cursor: str | None) -> Response:
    me = _member(request, network)
    return _to_join() if me is None else _feed(request, network, me, what, cursor)


def _feed(
    request: Request, network: SocialNetwork, me: User, what: str, cursor: str | None = None, **values: Any
) -> Response:
    page = _posts(network, me["id"], what, cursor)
    return _page(request, network, "feed", me, what=what, page=page, is_first=cursor is None, **values)


def _posts(network: SocialNetwork, me: str, what: str, cursor: str | None = None) -> Page[Post]:
    if what == "wall":
        return network.wall(me, me, cursor=cursor)
    return (network.news if what == "news" else network.incoming)(me, cursor=cursor)


@router.get("/live/{what}", response_class=HTMLResponse, dependencies=[needs("member")])
def show_live(request: Request, network: Network, what: str) -> Response:
    """The first screen of a list as it is now: our script puts it in place of the one that is shown."""
    if what not in LISTS:
        raise Invalid(f"there are {', '.join(LISTS)}", field="what")
    me = network.get(_me(request))
    return _page(request, network, "posts", me, counts=False, page=_posts(network, me["id"], what), what=what)


@router.get("/notices", response_class=HTMLResponse, dependencies=[needs("member")])
def show_notices(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """What one was told."""
    me = _member(request, network)
    if me is None:
        return _to_join()
    return _page(request, network, "notices", me, page=network.notices(me["id"], cursor=cursor))


@router.get("/people", response_class=HTMLResponse)
def show_people(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Who is there, the newest first."""
    me = _member(request, network)
    return _page(request, network, "people", me, page=network.members(me and me["id"], cursor=cursor))


@router.get("/people/{handle}", response_class=HTMLResponse)
def show_person(request: Request, network: Network, handle: str, cursor: Cursor = None) -> Response:
    """Somebody's profile and wall: to visitors what is public."""
    return _person(request, network, handle, cursor)


def _person(
    request: Request, network: SocialNetwork, handle: str, cursor: str | None = None, **values: Any
) -> Response:
    me = _member(request, network)
    viewer = me["id"] if me else None
    user = network.find(handle)
    try:
        profile = network.profile(viewer, user)
    except UnknownUser as error:  # the same words for all: that they block the viewer is theirs to know
        raise UnknownUser(f"there is no member @{handle}", handle=handle) from error
    page = network.wall(viewer, user, cursor=cursor)
    return _page(request, network, "person", me, person=profile, page=page, what="person", **values)


@router.get("/posts/{post}", response_class=HTMLResponse)
def show_post(request: Request, network: Network, post: str, cursor: Cursor = None) -> Response:
    """One post with its comments."""
    me = _member(request, network)
    viewer = me["id"] if me else None
    found = network.get_post(viewer, post)
    comments = network.comments(viewer, post, cursor=cursor)
    return _page(request, network, "post", me, post=found, comments=comments)


@router.get("/circles", response_class=HTMLResponse, dependencies=[needs("member")])
def show_circles(request: Request, network: Network, cursor: Cursor = None) -> Response:
    """Those in one's circles, followers, and whom one has blocked."""
    me = _member(request, network)
    if me is None:
        return _to_join()
    page = network.circles(me["id"], cursor=cursor)
    followers, blocked = network.followers(me["id"], limit=50), network.blocked(me["id"], limit=50)
    return _page(request, network, "circles", me, page=page, followers=followers.items, blocked=blocked.items)


@router.get("/me", response_class=HTMLResponse, dependencies=[needs("member")])
def show_me(request: Request, network: Network) -> Response:
    """One's own name and profile, and the ways out."""
    me = _member(request, network)
    return _to_join() if me is None else _page(request, network, "me", me)


@router.get("/export", dependencies=[needs("member")])
def export(request: Request, network: Network) -> Response:
    """Everything that is kept of oneself, a JSON document on each line."""
    lines = (json.dumps(one, default=str, ensure_ascii=False) + "\n" for one in network.export(_me(request)))
    headers = {"Content-Disposition": 'attachment; filename="social.ndjson"', "Cache-Control": "no-store"}
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


# ---- writing ----


@router.post("/join")
def join(request: Request, network: Network) -> Response:
    """Become a member under the name of one's account."""
    me = _me(request)
    person = visitor_of(request).person
    try:
        network.join((person and (person["name"] or person["login"])) or "Member", user=me)
        visitor_of(request).flash("You have joined. Put some people into a circle to get their news.")
    except AlreadyJoined:
        visitor_of(request).flash("You have left before, and what you wrote is still being kept or removed.", "bad")
    return RedirectResponse("/social/people", status_code=303)


@router.get("/photos/{post}")
def show_photo(request: Request, network: Network, post: str) -> Response:
    """The photo of a post that the visitor may see now."""
    me = _member(request, network)
    found = network.get_post(me["id"] if me else None, post)
    store = _photos(request)
    if store is None or found["type"] != "photo":
        raise UnknownPost(f"there is no photo of post {post}", post=post)
    return store.answer(request, found["detail"]["file"], found["by"]["id"])


@router.post("/posts", response_class=HTMLResponse)
def write_post(
    request: Request,
    network: Network,
    text: Text = "",
    audience: Text = PUBLIC,
    to: Text = "",
    link: Text = "",
    photo: Photo = None,
    alt: Text = "",
) -> Response:
    """Write a post, on one's own wall or somebody's."""
    me = network.get(_me(request))
    user = to or None
    text = text.replace("\r\n", "\n").strip()
    try:
        kind, detail = _detail(request, me, text, link, photo, alt)
        network.post(me["id"], kind, detail, [audience], user)
    except SquinneyError as error:
        typed = {"text": text, "audience": audience, "link": link}
        if user is None:
            return _feed(request, network, me, "news", error=error, typed=typed)
        return _person(request, network, network.profile(me["id"], user)["handle"] or "", error=error, typed=typed)
    visitor_of(request).flash("Written.")
    return _back(request) if user else RedirectResponse("/social/wall", status_code=303)  # where one sees it


def _detail(
    request: Request, me: User, text: str, link: str, photo: UploadFile | None, alt: str
) -> tuple[str, dict[str, str]]:
    """What sort of post the form makes."""
    store = _photos(request)
    if photo is not None and photo.filename and store is not None:
        if link:
            raise Invalid("a post has a link or a photo, not both", field="link")
        rules.detail("photo", {"text": text, "alt": alt, "file": "still to come"})
        return "photo", {"text": text, "alt": alt, "file": store.keep(photo.file, me["id"], me["name"])}
    return ("link", {"text": text, "url": link}) if link else ("status", {"text": text})


@router.post("/posts/{post}/comments", response_class=HTMLResponse)
def write_comment(request: Request, network: Network, post: str, text: Text = "") -> Response:
    """Write below a post."""
    return _do(request, lambda me: network.comment(me, post, text.replace("\r\n", "\n").strip()))


@router.post("/posts/{post}/delete", response_class=HTMLResponse)
def delete_post(request: Request, network: Network, post: str) -> Response:
    """Remove a post of one's own, and its photo. A crash in between leaves the photo to its author and admins."""

    def act(me: str) -> None:
        found = network.get_post(me, post)
        network.delete_post(me, post)
        if (store := _photos(request)) and found["type"] == "photo":
            store.forget(found["detail"]["file"], me)

    _do(request, act)
    here = request.headers.get("referer", "")
    return RedirectResponse("/social/wall", status_code=303) if "/posts/" in here else _back(request)


@router.post("/comments/{comment}/delete", response_class=HTMLResponse)
def delete_comment(request: Request, network: Network, comment: str) -> Response:
    """Remove a comment."""
    return _do(request, lambda me: network.delete_comment(me, comment))


@router.post("/circle", response_class=HTMLResponse)
def circle(request: Request, network: Network, other: Text, circle: Text = "", new: Text = "") -> Response:
    """Put somebody into a circle that there is, or into a new one."""
    return _do(request, lambda me: network.circle(me, other, new.strip() or circle or NEW_CIRCLE))


@router.post("/uncircle", response_class=HTMLResponse)
def uncircle(request: Request, network: Network, other: Text, circle: Text) -> Response:
    """Take somebody out of a circle."""
    return _do(request, lambda me: network.uncircle(me, other, circle))


@router.post("/{what}/{other}", response_class=HTMLResponse)
def set_apart(request: Request, network: Network, what: str, other: str) -> Response:
    """Block, unblock, mute or unmute somebody."""
    ways: dict[str, Callable[[str, str], None]] = {
        "block": network.block,
        "unblock": network.unblock,
        "mute": network.mute,
        "unmute": network.unmute,
    }
    if what not in ways:
        raise Invalid(f"it must be one of {', '.join(ways)}", field="what")
    return _do(request, lambda me: ways[what](me, other))


@router.post("/profile", response_class=HTMLResponse)
def edit_profile(
    request: Request, network: Network, name: Text = "", about: Text = "", place: Text = "", link: Text = ""
) -> Response:
    """Take another name, and say something about oneself."""
    me = network.get(_me(request))
    try:
        given = rules.profile({"about": about.replace("\r\n", "\n"), "place": place, "link": link})
        network.rename(me["id"], name)
        network.edit_profile(me["id"], given)
    except SquinneyError as error:
        typed = {"name": name, "about": about, "place": place, "link": link}
        return _page(request, network, "me", me, error=error, typed=typed)
    visitor_of(request).flash("Saved.")
    return RedirectResponse("/social/me", status_code=303)


@router.post("/seen", response_class=HTMLResponse)
def see_notices(request: Request, network: Network) -> Response:
    """Have all notices count as seen."""
    return _do(request, network.see_notices)


@router.post("/erase", response_class=HTMLResponse)
def erase(request: Request, network: Network, sure: Text = "") -> Response:
    """Leave, and have everything removed."""
    if sure != "yes":
        raise Invalid("say that you are sure", field="sure")
    me = _me(request)
    kept = [one["detail"]["file"] for one in network.export(me) if one["what"] == "post" and one["type"] == "photo"]
    network.erase(me)
    if store := _photos(request):
        for photo in kept:
            store.forget(photo, me)
    visitor_of(request).flash("You have left, and everything you wrote here is being removed.")
    return RedirectResponse("/social", status_code=303)


def _do(request: Request, act: Callable[[str], object]) -> Response:
    """What a small form asks for; where it is refused, the page that it was on says why."""
    try:
        act(_me(request))
    except SignInNeeded:
        raise
    except SquinneyError as error:
        visitor_of(request).flash(error.message, "bad")
    return _back(request)
