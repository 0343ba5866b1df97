"""Rendering: one Jinja environment for all pages."""

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
from starlette.responses import HTMLResponse

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
    """A span of time in the largest unit that it fills: `5 s`, `10 min`, `24 h`."""
    for unit, length in (("h", 3_600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _spaced(name: str) -> str:
    """A name in our code as people read it: `blog entry`."""
    return name.replace("-", " ")


def _coded(text: str) -> Markup:
    """Text with code in back-quotes, as docstrings have it."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704


def environment_for(folders: Sequence[Path], systems: Mapping[str, Path], menu: Sequence[System]) -> Environment:
    """Renders our templates and those of `folders` by their names, and a system's as `ledger/index.html`.

    `systems` are the systems' folders of templates, by name. `menu` lists those that each page leads to.
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
    environment.filters.update(is_to_come=lambda at: at > utcnow())
    environment.globals.update(systems=menu, version=__version__)
    return environment


def whole_page(page: Page[T], is_whole: Callable[[T], bool]) -> tuple[Page[T], int]:
    """The page without items that are damaged, and how many these are: one of them ends no list."""
    kept = [item for item in page.items if is_whole(item)]
    return Page(kept, page.next), len(page.items) - len(kept)


def way_back(request: Request) -> str:
    """Where to go on after signing in: this page, or the one that a form was on. What a form is sent to is no page.

    From the pages on which one signs in it is where these lead.
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


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page, with what every page needs: who looks at it, what they are to be told, and a token in each form.

    One that shows an `error` has its status.
    Below its content comes what `app.state.beside` makes of the request and the values, if there is such a function.
    """
    visitor, error = visitor_of(request), values.get("error")
    if isinstance(error, SquinneyError):
        status = status_of(error)
    beside = getattr(request.app.state, "beside", None)
    environment: Environment = request.app.state.pages
    page = environment.get_template(template).render(
        request=request,
        path=request.url.path,
        way_back=way_back(request),
        status=status,
        visitor=visitor,
        flashes=visitor.take_flashes(),
        beside=beside(request, values) if beside and status == 200 else "",
        **values,
    )
    headers = {"Cache-Control": "no-store"}
    if isinstance(error, SquinneyError):
        problems.learn(request, error)
        headers.update(problems.waiting_headers(status, error.details))
    return HTMLResponse(_with_tokens(page, visitor.csrf), status_code=status, headers=headers)


def _with_tokens(page: str, csrf: str) -> str:
    """Every form that writes carries the visitor's token, so that no template can forget it."""
    return FORM.sub(lambda form: f'{form[0]}<input type="hidden" name="csrf" value="{csrf}">', page)
