"""Shared by the pages of the social network: the visitor, rendering, and pages that several routes show."""

from __future__ import annotations

import json
from typing import Annotated, Any, Protocol, cast

from fastapi import Depends, Form, Query, Request
from markupsafe import Markup, escape
from starlette.responses import Response, StreamingResponse

from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import service
from squinney.http.pages import redirect, render, return_path
from squinney.patterns.paging import Page
from squinney.social import Network as SocialNetwork
from squinney.social import Person, Post, UnknownUser, User, rules

Network = Annotated[SocialNetwork, Depends(service("social", "network", SocialNetwork))]
Text = Annotated[str, Form()]
Cursor = Annotated[str | None, Query(max_length=4_000)]
COLOURS = 6


class PhotoStore(Protocol):
    """The interface of the system that stores the photos of posts. The service provides it."""

    def keep(self, stream: Any, author_id: str, name: str) -> str:
        """Store a photo and return its id."""

    def response(self, request: Request, photo: str, author_id: str) -> Response:
        """Return the photo, if it is by this author."""

    def forget(self, photo: str, author_id: str) -> None:
        """Delete the photo, if it is by this author."""


def photo_store(request: Request) -> PhotoStore | None:
    return cast(PhotoStore | None, getattr(request.app.state, "post_photos", None))


# ---- the visitor ----


def person_id(request: Request) -> str | None:
    person = visitor_of(request).person
    return person["_id"] if person else None


def member_of(request: Request, network: SocialNetwork) -> User | None:
    """Return the visitor's account, or None if the visitor is not a member. The page `/social` has the join button."""
    person = person_id(request)
    if person is None:
        return None
    try:
        return network.get(person)
    except UnknownUser:
        return None


def render_page(
    request: Request, network: SocialNetwork, template: str, me: User | None, *, with_unseen: bool = True, **values: Any
) -> Response:
    return render(
        request,
        f"social/{template}.html",
        me=me,
        unseen=network.unseen(me["id"]) if me and with_unseen else 0,
        linked=linked,
        face=face,
        max_text=rules.MAX_TEXT_LENGTH,
        photos=photo_store(request) is not None,
        **{"error": None, "typed": {}, **values},
    )


def linked(text: str, people: list[Person]) -> Markup:
    """Return the text as HTML: mentions of these people become links, everything else is escaped."""
    handles = {person["handle"] for person in people}
    html, end = Markup(), 0
    for mention in rules.MENTION.finditer(text.lower()) if len(text.lower()) == len(text) else ():
        if mention[1] in handles:
            link = Markup('<a href="/social/people/{}">{}</a>').format(mention[1], text[slice(*mention.span())])
            html += escape(text[end : mention.start()]) + link
            end = mention.end()
    return html + escape(text[end:])


def face(person: Person) -> Markup:
    """Return an avatar: a circle with the person's initials, in a colour chosen by the person's id."""
    words = (person["name"] or "?").split()
    letters = "".join(word[0] for word in (words[0], *words[1:][-1:])).upper()
    colour = sum(person["id"].encode()) % COLOURS
    return Markup('<span class="face face-{}" aria-hidden="true">{}</span>').format(colour, letters)


def redirect_back(request: Request, message: str = "", kind: str = "good") -> Response:
    """Redirect to the page that had the form, if it was a page of the social network, else to `/social`."""
    page = return_path(request)
    return redirect(request, page if page.startswith("/social") else "/social", message, kind)


def exported(network: SocialNetwork, me: str, headers: dict[str, str] | None = None) -> Response:
    """Return all stored documents about a member, one JSON document per line."""
    lines = (json.dumps(document, default=str, ensure_ascii=False) + "\n" for document in network.export(me))
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


# ---- pages that several routes show ----


def feed(
    request: Request, network: SocialNetwork, me: User, what: str, cursor: str | None = None, **values: Any
) -> Response:
    """Render one of the member's own lists of posts, with the form for a new post."""
    page = posts_of(network, me["id"], what, cursor)
    return render_page(request, network, "feed", me, what=what, page=page, is_first=cursor is None, **values)


def posts_of(network: SocialNetwork, me: str, what: str, cursor: str | None = None) -> Page[Post]:
    """Return a page of the member's news, wall or incoming posts."""
    if what == "wall":
        return network.wall(me, me, cursor=cursor)
    if what == "public":
        return network.public(me, cursor=cursor)
    return (network.news if what == "news" else network.incoming)(me, cursor=cursor)


def person_page(
    request: Request, network: SocialNetwork, handle: str, cursor: str | None = None, **values: Any
) -> Response:
    """Render a member's profile and wall."""
    me = member_of(request, network)
    viewer = me["id"] if me else None
    user = network.find(handle)
    try:
        profile = network.profile(viewer, user)
    except UnknownUser as error:  # the same message as for an unknown handle, so that a block stays secret
        raise UnknownUser(f"there is no member @{handle}", handle=handle) from error
    page = network.wall(viewer, user, cursor=cursor)
    return render_page(request, network, "person", me, person=profile, page=page, what="person", **values)
