"""The social network's forms: what members change on its pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, BinaryIO

from fastapi import APIRouter, File, Request, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from squinney.errors import Invalid, SquinneyError, Unavailable
from squinney.http.permissions import SignInNeeded
from squinney.http.threads import PHOTOS
from squinney.http.visitor import visitor_of
from squinney.social import PUBLIC, AlreadyJoined, User, rules
from squinney.social import Network as SocialNetwork
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


@dataclass(frozen=True)
class _Form:
    """What the form for a post says; `photo` where there is one, and somebody who keeps it."""

    text: str
    audience: str
    to: str | None
    link: str
    alt: str
    photo: BinaryIO | None


@router.post("/posts", response_class=HTMLResponse)
async def write_post(
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
    is_kept = photo is not None and photo.filename and photo_store(request) is not None
    form = _Form(_one_newline(text), audience, to or None, link, alt, photo.file if photo and is_kept else None)
    if form.photo is None:
        return await run_in_threadpool(_write, request, network, form)
    try:
        return await PHOTOS.run(partial(_write, request, network, form))
    except Unavailable as error:  # too many came before
        return await run_in_threadpool(_refused, request, network, form, error)


def _write(request: Request, network: SocialNetwork, form: _Form) -> Response:
    me = network.get(me_of(request))
    detail: dict[str, str] = {}
    try:
        kind, detail = _detail(request, network, me, form)
        network.post(me["id"], kind, detail, [form.audience], form.to)
    except SquinneyError as error:
        if not isinstance(error, Unavailable):  # then the post may be there all the same
            _forget_photo(request, detail, me["id"])
        return _refused(request, network, form, error)
    visitor_of(request).flash("Written.")
    return back(request) if form.to else RedirectResponse("/social/wall", status_code=303)  # where one sees it


def _refused(request: Request, network: SocialNetwork, form: _Form, error: SquinneyError) -> Response:
    """The page with the form, what was typed, and why."""
    me = network.get(me_of(request))
    typed = {"text": form.text, "audience": form.audience, "link": form.link}
    if form.to is None:
        return feed(request, network, me, "news", error=error, typed=typed)
    return person_page(request, network, network.profile(me["id"], form.to)["handle"] or "", error=error, typed=typed)


def _detail(request: Request, network: SocialNetwork, me: User, form: _Form) -> tuple[str, dict[str, str]]:
    """What sort of post the form makes."""
    store = photo_store(request)
    if form.photo is None or store is None:
        said = {"text": form.text}
        return ("link", {**said, "url": form.link}) if form.link else ("status", said)
    if form.link:
        raise Invalid("a post has a link or a photo, not both", field="link")
    said = {"text": form.text, "alt": form.alt}
    rules.detail("photo", {**said, "file": "still to come"})
    network.count_photo(me["id"])
    return "photo", {**said, "file": store.keep(form.photo, me["id"], me["name"])}


def _forget_photo(request: Request, detail: Mapping[str, str], author: str) -> None:
    if "file" in detail and (store := photo_store(request)):
        store.forget(detail["file"], author)


@router.post("/posts/{post}/comments", response_class=HTMLResponse)
def write_comment(request: Request, network: Network, post: str, text: Text = "") -> Response:
    """Write below a post."""
    return _do(request, lambda me: network.comment(me, post, _one_newline(text)))


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


@router.post("/{what}/{other:path}", response_class=HTMLResponse)
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
    """Leave, and have everything removed: posts by the worker, and photos by a job once their posts are gone."""
    if sure != "yes":
        raise Invalid("say that you are sure", field="sure")
    network.erase(me_of(request))
    visitor_of(request).flash("You have left, and everything you wrote here is being removed.")
    return RedirectResponse("/social", status_code=303)


def _one_newline(text: str) -> str:
    """As typed: browsers send two characters at the end of a line."""
    return text.replace("\r\n", "\n").strip()


def _do(request: Request, act: Callable[[str], object]) -> Response:
    """What a small form asks for; where it is refused, the page that it was on says why."""
    try:
        act(me_of(request))
    except SignInNeeded:
        raise
    except SquinneyError as error:
        visitor_of(request).flash(error.message, "bad")
    return back(request)
