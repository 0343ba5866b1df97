"""Who looks, as a visitor of pages or through an API key, and the HTML that they are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from markupsafe import Markup
from pydantic import AfterValidator

from squinney.content import TRUSTED, Author, Viewer
from squinney.content.nodes import render
from squinney.errors import Unavailable
from squinney.http.dependencies import processes_of
from squinney.http.permissions import signed_in
from squinney.http.visitor import visitor_of
from squinney.roles import ROLES, may_act_as


async def viewer(
    on_behalf_of: Annotated[
        str | None,
        Header(min_length=1, max_length=200, description="A user's id: answer as that person may see it"),
    ] = None,
) -> Viewer:
    """An API key is a trusted server's; it may ask on a person's behalf."""
    return Viewer(on_behalf_of) if on_behalf_of else TRUSTED


As = Annotated[Viewer, Depends(viewer)]


def viewer_of(request: Request) -> Viewer:
    """The visitor, as access names them: a role includes those below it."""
    visitor = visitor_of(request)
    if visitor.person is None:
        return Viewer()
    roles = frozenset(role for role in ROLES if may_act_as(visitor.role, role))
    return Viewer(visitor.person["_id"], roles)


def author_of(request: Request) -> Author:
    """The signed-in visitor, as what they write names them.

    Raises: `SignInNeeded`.
    """
    person = signed_in(request)
    return {"_id": person["_id"], "name": person["name"] or person["login"]}


# Browsers send forms with line ends of their own, which would count twice towards the greatest length.
Typed = Annotated[str, AfterValidator(lambda text: text.replace("\r\n", "\n"))]


def page_html(request: Request, text: str) -> Markup:
    """A page's text; sanitised, so a template may show it as it is."""
    return _html(request, render.markdown, text)


def comment_html(request: Request, text: str) -> Markup:
    """A comment's text; sanitised, so a template may show it as it is."""
    return _html(request, render.comment, text)


def _html(request: Request, make: Callable[..., str], text: str) -> Markup:
    """One text that cannot be rendered now is no reason not to show the page: it is shown as it was typed.

    After the first of these no other of the request waits for its turn: a page of them would wait for minutes.
    """
    is_busy = getattr(request.state, "rendering_is_busy", False)
    try:
        return Markup(make(text, offload=_refuse if is_busy else processes_of(request)))  # noqa: S704
    except Unavailable:
        request.state.rendering_is_busy = True
        return Markup(render.as_typed(text))  # noqa: S704


def _refuse(*_: Any) -> str:
    raise Unavailable("too much is being computed at this moment")
