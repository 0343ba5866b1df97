"""The viewer of a request, of pages or of the API, and the HTML of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from markupsafe import Markup
from pydantic import AfterValidator

from squinney.content import Author, Viewer
from squinney.content.markup import render
from squinney.errors import Unavailable
from squinney.http.access.permissions import signed_in
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import processes_of
from squinney.roles import ROLES, may_act_as


async def api_viewer(
    on_behalf_of: Annotated[
        str | None,
        Header(min_length=1, max_length=200, description="The id of a user, with whose permissions the request runs"),
    ] = None,
) -> Viewer:
    """Return the viewer of an API request: an application, or the user on whose behalf it sends the request."""
    return Viewer(on_behalf_of, trusted=on_behalf_of is None, by_api=True)


ViewerDep = Annotated[Viewer, Depends(api_viewer)]


def viewer_of(request: Request) -> Viewer:
    """Return the viewer of a page: the visitor with their role and all lower roles."""
    visitor = visitor_of(request)
    if visitor.person is None:
        return Viewer()
    roles = frozenset(role for role in ROLES if may_act_as(visitor.role, role))
    return Viewer(visitor.person["_id"], roles)


def author_of(request: Request) -> Author:
    """Return the signed-in visitor as an author, or raise `SignInNeeded`."""
    person = signed_in(request)
    return {"_id": person["_id"], "name": person["name"] or person["login"]}


# Browsers send each newline of a form as two characters, which would count twice towards the length limit.
FormText = Annotated[str, AfterValidator(lambda text: text.replace("\r\n", "\n"))]


def page_html(request: Request, text: str) -> Markup:
    """Return a page's text as sanitised HTML, which templates show without escaping."""
    return _html(request, render.markdown, text)


def comment_html(request: Request, text: str) -> Markup:
    """Return a comment's text as sanitised HTML, which templates show without escaping."""
    return _html(request, render.comment, text)


def _html(request: Request, render_text: Callable[..., str], text: str) -> Markup:
    """Render a text, or show it as it was typed if rendering is too busy now.

    After the first such text, the request's other texts do not wait: a page of 50 comments would wait for minutes.
    """
    is_busy = getattr(request.state, "rendering_is_busy", False)
    try:
        # guard: after one refusal a request does not wait again
        return Markup(render_text(text, offload=_refuse if is_busy else processes_of(request)))  # noqa: S704
    except Unavailable:
        request.state.rendering_is_busy = True
        return Markup(render.as_typed(text))  # noqa: S704


def _refuse(*_: Any) -> str:
    raise Unavailable("the service is too busy to render texts now")
