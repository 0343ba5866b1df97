"""The forms on the social network's pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, BinaryIO

from fastapi import APIRouter, File, Request, UploadFile
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from squinney.errors import Invalid, SquinneyError, Unavailable
from squinney.http.access.callers import PageRoute
from squinney.http.access.new_accounts import count_public_text
from squinney.http.access.permissions import SignInNeeded, signed_in
from squinney.http.pages import redirect
from squinney.http.threads import PHOTOS
from squinney.social import PUBLIC, AlreadyJoined, User, rules
from squinney.social import Network as SocialNetwork
from squinney.social.surface.pages import (
    Network,
    Text,
    feed,
    member_of,
    person_page,
    photo_store,
    redirect_back,
    render_page,
)

router = APIRouter(route_class=PageRoute)
Photo = Annotated[UploadFile | None, File()]
NEW_CIRCLE = "Friends"


@router.post("/join")
def join(request: Request, network: Network) -> Response:
    """Join under the name of the visitor's account."""
    person = signed_in(request)
    message, kind = "You have joined. Put some people into a circle to see their posts in your news.", "good"
    try:
        network.join(person["name"], user=person["_id"])
    except AlreadyJoined:
        if member_of(request, network) is None:  # otherwise the button was pressed twice
            message, kind = "You have left before, and what you wrote is still stored or being deleted.", "bad"
    return redirect(request, "/social/people", message, kind)


@dataclass(frozen=True)
class _Form:
    """The fields of the form for a post. `photo` is None without a photo, or without a system that stores photos."""

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
    """Write a post, optionally on another member's wall."""
    has_photo = photo is not None and photo.filename and photo_store(request) is not None
    form = _Form(_normalized(text), audience, to or None, link, alt, photo.file if photo and has_photo else None)
    if form.photo is None:
        return await run_in_threadpool(_write, request, network, form)
    try:
        # guard: photos run in a pool of their own
        return await PHOTOS.run(partial(_write, request, network, form))
    except Unavailable as error:  # too many photos are waiting
        return await run_in_threadpool(_refused, request, network, form, error)


def _write(request: Request, network: SocialNetwork, form: _Form) -> Response:
    me = network.get(signed_in(request)["_id"])
    detail: dict[str, str] = {}
    try:
        count_public_text(request, form.text, form.link, form.alt)
        kind, detail = _detail(request, network, me, form)
        network.post(me["id"], kind, detail, [form.audience], form.to)
    except SquinneyError as error:
        if not isinstance(error, Unavailable):  # in that case the post may have been written
            _forget_photo(request, detail, me["id"])
        return _refused(request, network, form, error)
    # To the page that shows the post.
    message = "Your post was saved."
    return redirect_back(request, message) if form.to else redirect(request, "/social/wall", message)


def _refused(request: Request, network: SocialNetwork, form: _Form, error: SquinneyError) -> Response:
    """Render the page with the form again, with the error and the values that were typed."""
    me = network.get(signed_in(request)["_id"])
    typed = {"text": form.text, "audience": form.audience, "link": form.link}
    if form.to is None:
        return feed(request, network, me, "news", error=error, typed=typed)
    return person_page(request, network, network.profile(me["id"], form.to)["handle"] or "", error=error, typed=typed)


def _detail(request: Request, network: SocialNetwork, me: User, form: _Form) -> tuple[str, dict[str, str]]:
    """Return the type and the content of the post, and store its photo if there is one."""
    store = photo_store(request)
    if form.photo is None or store is None:
        said = {"text": form.text}
        return ("link", {**said, "url": form.link}) if form.link else ("status", said)
    if form.link:
        raise Invalid("a post has a link or a photo, not both", field="link")
    said = {"text": form.text, "alt": form.alt}
    rules.check_detail("photo", {**said, "file": "not stored yet"})
    # guard: photos are counted before they are decoded
    network.count_photo(me["id"])
    return "photo", {**said, "file": store.keep(form.photo, me["id"], me["name"])}


def _forget_photo(request: Request, detail: Mapping[str, str], author: str) -> None:
    if "file" in detail and (store := photo_store(request)):
        store.forget(detail["file"], author)


@router.post("/posts/{post}/comments", response_class=HTMLResponse)
def write_comment(request: Request, network: Network, post: str, text: Text = "") -> Response:
    """Comment on a post."""

    def act(me: str) -> None:
        count_public_text(request, text)
        network.comment(me, post, _normalized(text))

    return _run(request, act)


@router.post("/posts/{post}/delete", response_class=HTMLResponse)
def delete_post(request: Request, network: Network, post: str) -> Response:
    """Delete a post by or to the member, and its photo. After a crash in between, a job deletes the photo."""

    def act(me: str) -> None:
        stored = network.get_post(me, post)
        network.delete_post(me, post)
        _forget_photo(request, stored["detail"], stored["by"]["id"])

    _run(request, act)
    here = request.headers.get("referer", "")
    return redirect(request, "/social/wall") if "/posts/" in here else redirect_back(request)


@router.post("/comments/{comment}/delete", response_class=HTMLResponse)
def delete_comment(request: Request, network: Network, comment: str) -> Response:
    """Delete a comment."""
    return _run(request, lambda me: network.delete_comment(me, comment))


@router.post("/circle", response_class=HTMLResponse)
def circle(request: Request, network: Network, other: Text, circle: Text = "", new: Text = "") -> Response:
    """Put another member into an existing circle, or into a new one."""
    return _run(request, lambda me: network.circle(me, other, new.strip() or circle or NEW_CIRCLE))


@router.post("/uncircle", response_class=HTMLResponse)
def uncircle(request: Request, network: Network, other: Text, circle: Text) -> Response:
    """Take another member out of a circle."""
    return _run(request, lambda me: network.uncircle(me, other, circle))


@router.post("/{what}/{other:path}", response_class=HTMLResponse)
def block_or_mute(request: Request, network: Network, what: str, other: str) -> Response:
    """Block, unblock, mute or unmute another member."""
    actions: dict[str, Callable[[str, str], None]] = {
        "block": network.block,
        "unblock": network.unblock,
        "mute": network.mute,
        "unmute": network.unmute,
    }
    if what not in actions:
        raise Invalid(f"what must be one of {', '.join(actions)}", field="what")
    return _run(request, lambda me: actions[what](me, other))


@router.post("/profile", response_class=HTMLResponse)
def edit_profile(
    request: Request, network: Network, name: Text = "", about: Text = "", place: Text = "", link: Text = ""
) -> Response:
    """Change the member's name and profile."""
    me = network.get(signed_in(request)["_id"])
    try:
        count_public_text(request, about, link)
        given = rules.check_profile({"about": about.replace("\r\n", "\n"), "place": place, "link": link})
        network.rename(me["id"], name)
        network.edit_profile(me["id"], given)
    except SquinneyError as error:
        typed = {"name": name, "about": about, "place": place, "link": link}
        return render_page(request, network, "me", me, error=error, typed=typed)
    return redirect(request, "/social/me", "Saved.")


@router.post("/seen", response_class=HTMLResponse)
def see_notices(request: Request, network: Network) -> Response:
    """Mark all notices as seen."""
    return _run(request, network.see_notices)


@router.post("/erase", response_class=HTMLResponse)
def erase(request: Request, network: Network, sure: Text = "") -> Response:
    """Leave the network. The worker deletes everything about the member; a job deletes the photos of deleted posts."""
    if sure != "yes":
        raise Invalid("check the box to confirm that you want to leave", field="sure")
    network.erase(signed_in(request)["_id"])
    return redirect(request, "/social", "You have left, and everything you wrote here is being deleted.")


def _normalized(text: str) -> str:
    """Return the text with plain newlines, because browsers send two characters at the end of a line."""
    return text.replace("\r\n", "\n").strip()


def _run(request: Request, act: Callable[[str], object]) -> Response:
    """Run the action of a small form, and redirect to its page; an error is shown there."""
    try:
        act(signed_in(request)["_id"])
    except SignInNeeded:
        raise
    except SquinneyError as error:
        return redirect_back(request, error.message, "bad")
    return redirect_back(request)
