"""What the pages of the social network have in common: who looks, and the pages that several routes show."""

from __future__ import annotations

from typing import Annotated, Any, Protocol, cast

from fastapi import Depends, Form, Query, Request
from fastapi.responses import RedirectResponse
from markupsafe import Markup, escape
from starlette.responses import Response

from squinney.http.dependencies import service
from squinney.http.pages import render
from squinney.http.permissions import SignInNeeded
from squinney.http.visitor import visitor_of
from squinney.patterns.paging import Page
from squinney.social import Network as SocialNetwork
from squinney.social import Person, Post, UnknownUser, User, rules

Network = Annotated[SocialNetwork, Depends(service("social", "network", SocialNetwork))]
Text = Annotated[str, Form()]
Cursor = Annotated[str | None, Query(max_length=4_000)]
COLOURS = 6


class PhotoStore(Protocol):
    """Where photos of posts are kept: by another system, which the service brings along."""

    def keep(self, stream: Any, author_id: str, name: str) -> str:
        """Store a photo; returns its id."""

    def answer(self, request: Request, photo: str, author_id: str) -> Response:
        """The photo, if that author's."""

    def forget(self, photo: str, author_id: str) -> None:
        """Remove the photo, if that author's."""


def photo_store(request: Request) -> PhotoStore | None:
    return cast(PhotoStore | None, getattr(request.app.state, "post_photos", None))


# ---- who looks ----


def person_id(request: Request) -> str | None:
    person = visitor_of(request).person
    return person["_id"] if person else None


def member_of(request: Request, network: SocialNetwork) -> User | None:
    """The visitor, where they have joined."""
    person = person_id(request)
    if person is None:
        return None
    try:
        return network.get(person)
    except UnknownUser:
        return None


def to_join() -> Response:
    """Where those go who are signed in and no members."""
    return RedirectResponse("/social", status_code=303)


def me_of(request: Request) -> str:
    person = person_id(request)
    if person is None:
        raise SignInNeeded("sign in first")
    return person


def page_of(
    request: Request, network: SocialNetwork, template: str, me: User | None, *, counts: bool = True, **values: Any
) -> Response:
    return render(
        request,
        f"social/{template}.html",
        me=me,
        unseen=network.unseen(me["id"]) if me and counts else 0,
        linked=linked,
        face=face,
        most_text=rules.MOST_TEXT,
        photos=photo_store(request) is not None,
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


def back(request: Request, there: str = "/social") -> Response:
    """Where the form was, if that was one of these pages."""
    referer = request.headers.get("referer", "").partition(f"://{request.headers.get('host')}/")[2]
    return RedirectResponse(f"/{referer}" if referer.startswith("social") else there, status_code=303)


# ---- pages that several routes show ----


def feed(
    request: Request, network: SocialNetwork, me: User, what: str, cursor: str | None = None, **values: Any
) -> Response:
    """One of a member's own lists of posts, with the form to write."""
    page = posts_of(network, me["id"], what, cursor)
    return page_of(request, network, "feed", me, what=what, page=page, is_first=cursor is None, **values)


def posts_of(network: SocialNetwork, me: str, what: str, cursor: str | None = None) -> Page[Post]:
    """A page of one of those lists."""
    if what == "wall":
        return network.wall(me, me, cursor=cursor)
    return (network.news if what == "news" else network.incoming)(me, cursor=cursor)


def person_page(
    request: Request, network: SocialNetwork, handle: str, cursor: str | None = None, **values: Any
) -> Response:
    """Somebody's profile and wall."""
    me = member_of(request, network)
    viewer = me["id"] if me else None
    user = network.find(handle)
    try:
        profile = network.profile(viewer, user)
    except UnknownUser as error:  # the same words for all: that they block the viewer is theirs to know
        raise UnknownUser(f"there is no member @{handle}", handle=handle) from error
    page = network.wall(viewer, user, cursor=cursor)
    return page_of(request, network, "person", me, person=profile, page=page, what="person", **values)
