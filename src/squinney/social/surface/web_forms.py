"""The social network's forms: what members change on its pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, File, Request, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.errors import Invalid, SquinneyError, Unavailable
from squinney.http.permissions import SignInNeeded
from squinney.http.visitor import visitor_of
from squinney.social import PUBLIC, AlreadyJoined, User, rules
from squinney.social.surface.pages import (
    Network,
    Text,
    back,
    feed,
    me_of,
    member_of,
    page_of,
    person_page,
    photo_store,
)

router = APIRouter()
Photo = Annotated[UploadFile | None, File()]
NEW_CIRCLE = "Friends"


@router.post("/join")
def join(request: Request, network: Network) -> Response:
    """Become a member under the name of one's account."""
    me = me_of(request)
    person = visitor_of(request).person
    try:
        network.join((person and (person["name"] or person["login"])) or "Member", user=me)
        visitor_of(request).flash("You have joined. Put some people into a circle to get their news.")
    except AlreadyJoined:
        if member_of(request, network) is None:  # else they pressed the button twice
            visitor_of(request).flash("You have left before, and what you wrote is still being kept or removed.", "bad")
    return RedirectResponse("/social/people", status_code=303)


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
    me = network.get(me_of(request))
    user = to or None
    text = text.replace("\r\n", "\n").strip()
    detail: dict[str, str] = {}
    try:
        kind, detail = _detail(request, me, text, link, photo, alt)
        network.post(me["id"], kind, detail, [audience], user)
    except SquinneyError as error:
        if not isinstance(error, Unavailable):  # then the post may be there all the same
            _forget_photo(request, detail, me["id"])
        typed = {"text": text, "audience": audience, "link": link}
        if user is None:
            return feed(request, network, me, "news", error=error, typed=typed)
        return person_page(request, network, network.profile(me["id"], user)["handle"] or "", error=error, typed=typed)
    visitor_of(request).flash("Written.")
    return back(request) if user else RedirectResponse("/social/wall", status_code=303)  # where one sees it


def _detail(
    request: Request, me: User, text: str, link: str, photo: UploadFile | None, alt: str
) -> tuple[str, dict[str, str]]:
    """What sort of post the form makes."""
    store = photo_store(request)
    if photo is not None and photo.filename and store is not None:
        if link:
            raise Invalid("a post has a link or a photo, not both", field="link")
        rules.detail("photo", {"text": text, "alt": alt, "file": "still to come"})
        return "photo", {"text": text, "alt": alt, "file": store.keep(photo.file, me["id"], me["name"])}
    return ("link", {"text": text, "url": link}) if link else ("status", {"text": text})


def _forget_photo(request: Request, detail: Mapping[str, str], author: str) -> None:
    if "file" in detail and (store := photo_store(request)):
        store.forget(detail["file"], author)


@router.post("/posts/{post}/comments", response_class=HTMLResponse)
def write_comment(request: Request, network: Network, post: str, text: Text = "") -> Response:
    """Write below a post."""
    return _do(request, lambda me: network.comment(me, post, text.replace("\r\n", "\n").strip()))


@router.post("/posts/{post}/delete", response_class=HTMLResponse)
def delete_post(request: Request, network: Network, post: str) -> Response:
    """Remove a post of one's own, or to oneself, and its photo. A crash in between leaves the photo to a job."""

    def act(me: str) -> None:
        found = network.get_post(me, post)
        network.delete_post(me, post)
        _forget_photo(request, found["detail"], found["by"]["id"])

    _do(request, act)
    here = request.headers.get("referer", "")
    return RedirectResponse("/social/wall", status_code=303) if "/posts/" in here else back(request)


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
    me = network.get(me_of(request))
    try:
        given = rules.profile({"about": about.replace("\r\n", "\n"), "place": place, "link": link})
        network.rename(me["id"], name)
        network.edit_profile(me["id"], given)
    except SquinneyError as error:
        typed = {"name": name, "about": about, "place": place, "link": link}
        return page_of(request, network, "me", me, error=error, typed=typed)
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
    me = me_of(request)
    kept = [one["detail"]["file"] for one in network.export(me) if one["what"] == "post" and one["type"] == "photo"]
    network.erase(me)
    if store := photo_store(request):
        for photo in kept:
            store.forget(photo, me)
    visitor_of(request).flash("You have left, and everything you wrote here is being removed.")
    return RedirectResponse("/social", status_code=303)


def _do(request: Request, act: Callable[[str], object]) -> Response:
    """What a small form asks for; where it is refused, the page that it was on says why."""
    try:
        act(me_of(request))
    except SignInNeeded:
        raise
    except SquinneyError as error:
        visitor_of(request).flash(error.message, "bad")
    return back(request)
