"""Renders pages, with one Jinja environment for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse

from squinney import __version__
from squinney.clock import utcnow
from squinney.errors import SquinneyError
from squinney.http import problems
from squinney.http.permissions import SAFE_METHODS
from squinney.http.statuses import status_of
from squinney.http.visitor import visitor_of
from squinney.patterns import money
from squinney.patterns.paging import Page
from squinney.system import System

T = TypeVar("T")

FORM = re.compile(r"<form\b[^>]*\bmethod=[\"']?post\b[^>]*>", re.IGNORECASE)
CODE = re.compile(r"`([^`]+)`")
TEMPLATES = Path(__file__).parent / "templates"
LONGEST_NEXT = 500
SIGNING_IN = ("/sign-in", "/sign-up", "/welcome")


def _when(value: datetime) -> Markup:
    return Markup('<time datetime="{0:%Y-%m-%dT%H:%MZ}">{0:%Y-%m-%d %H:%M} UTC</time>').format(value)


def _span(seconds: float) -> str:
    """Format a duration in the largest unit that divides it: `5 s`, `10 min`, `24 h`."""
    for unit, length in (("h", 3_600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _spaced(name: str) -> str:
    """Replace hyphens by spaces: `blog-entry` becomes `blog entry`."""
    return name.replace("-", " ")


def _coded(text: str) -> Markup:
    """Turn back-quoted parts of a docstring into `<code>` elements."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704


def environment_for(folders: Sequence[Path], systems: Mapping[str, Path], menu: Sequence[System]) -> Environment:
    """Return the Jinja environment of a site.

    Templates of this package and of `folders` are found by file name, those of a system under its name, such as
    `ledger/index.html`. `systems` maps names of systems to template folders. `menu` lists the systems in every page's
    menu.
    """
    shared = FileSystemLoader([TEMPLATES, *folders])
    own = PrefixLoader({name: FileSystemLoader(folder) for name, folder in systems.items()})
    environment = Environment(
        loader=ChoiceLoader([shared, own]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(money=money.formatted, when=_when, span=_span, spaced=_spaced, coded=_coded)
    environment.filters.update(is_future=lambda at: at > utcnow())
    environment.globals.update(systems=menu, version=__version__)
    return environment


def without_damaged(page: Page[T], is_whole: Callable[[T], bool]) -> tuple[Page[T], int]:
    """Return the page without its damaged items, and the number of items left out, so that one cannot break a list."""
    kept = [item for item in page.items if is_whole(item)]
    return Page(kept, page.next), len(page.items) - len(kept)


def return_path(request: Request) -> str:
    """Return the path to continue at after signing in.

    That is this page or, for a POST, the page that the form was on, because the target of a form cannot be opened with
    GET. On the pages for signing in and up it is their own `next`.
    """
    if request.method in SAFE_METHODS:
        path, query = request.url.path, request.url.query
    else:
        sent_from = request.headers.get("referer", "").partition(f"://{request.headers.get('host')}/")[2]
        path, _, query = f"/{sent_from}".partition("?")
    if path in SIGNING_IN:
        return dict(parse_qsl(query)).get("next", "/")
    page = f"{path}?{query}" if query else path
    return page if len(page) <= LONGEST_NEXT else "/"


def redirect(request: Request, path: str, message: str = "", kind: str = "good") -> RedirectResponse:
    """Redirect to the page that follows a form, and show a message there."""
    if message:
        visitor_of(request).flash(message, kind)
    return RedirectResponse(path, status_code=303)


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page with its visitor, their flash messages and a CSRF token in each form.

    If `values` has an `error`, the response has the status of that error. If `app.state.page_ads` is set, it is called
    with the request and the values, and its result is shown below the content.
    """
    visitor, error = visitor_of(request), values.get("error")
    if isinstance(error, SquinneyError):
        status = status_of(error)
    page_ads = getattr(request.app.state, "page_ads", None)
    environment: Environment = request.app.state.pages
    page = environment.get_template(template).render(
        request=request,
        path=request.url.path,
        return_path=return_path(request),
        status=status,
        visitor=visitor,
        flashes=visitor.take_flashes(),
        ads=page_ads(request, values) if page_ads and status == 200 else "",
        **values,
    )
    headers = {"Cache-Control": "no-store"}
    if isinstance(error, SquinneyError):
        problems.note_mongodb_state(request, error)
        headers.update(problems.retry_headers(status, error.details))
    return HTMLResponse(_with_tokens(page, visitor.csrf), status_code=status, headers=headers)


def _with_tokens(page: str, csrf: str) -> str:
    """Add the visitor's token to every form with method POST, so that no template can forget it."""
    return FORM.sub(lambda form: f'{form[0]}<input type="hidden" name="csrf" value="{csrf}">', page)
