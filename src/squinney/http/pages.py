"""Renders pages, with one Jinja environment for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import Request
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse

from squinney.clock import utcnow
from squinney.errors import SquinneyError
from squinney.http import error_responses
from squinney.http.access.permissions import SAFE_METHODS
from squinney.http.access.visitor import visitor_of
from squinney.http.access.visitor_lookup import visitors_of
from squinney.http.appearance import Appearance
from squinney.http.rooted import root_of
from squinney.http.static_files import with_versions
from squinney.http.statuses import status_of
from squinney.patterns import money
from squinney.system import System

FORM = re.compile(r"<form\b[^>]*\bmethod=[\"']?post\b[^>]*>", re.IGNORECASE)
CODE = re.compile(r"`([^`]+)`")
TEMPLATES = Path(__file__).parent / "templates"
MAX_NEXT_LENGTH = 500
UNITS = (("second", 1, 60), ("minute", 60, 60), ("hour", 3_600, 24), ("day", 86_400, 7))
SIGNING_IN = ("/sign-in", "/sign-up", "/welcome")


def _exact(value: datetime) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _when(value: datetime) -> Markup:
    """Show how long ago a time was, or a date if that is longer than a week; the exact time is shown on hover."""
    shown = Markup('<time datetime="{0:%Y-%m-%dT%H:%MZ}" title="{1}">{2}</time>')
    return shown.format(value.astimezone(UTC), _exact(value), _ago(value, utcnow()))


def _ago(value: datetime, now: datetime) -> str:
    seconds = (now - value).total_seconds()
    for unit, length, limit in UNITS:
        number = int(abs(seconds) // length)
        if number < limit:
            amount = f"{number} {unit}{'' if number == 1 else 's'}"
            return "now" if unit == "second" else f"in {amount}" if seconds < 0 else f"{amount} ago"
    return f"{value.astimezone(UTC):%Y-%m-%d}"


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


def environment_for(
    folders: Sequence[Path], systems: Mapping[str, Path], menu: Sequence[System], site: Appearance | None = None
) -> Environment:
    """Return the Jinja environment of a site.

    Templates of this package and of `folders` are found by file name, those of a system under its name, such as
    `ledger/index.html`. `systems` maps names of systems to template folders. `menu` lists the systems in every page's
    menu. Templates of `site` replace those of the same name, and can extend them as `squinney/base.html`.
    """
    site = site or Appearance()
    shared = FileSystemLoader([TEMPLATES, *folders])
    own = PrefixLoader({name: FileSystemLoader(folder) for name, folder in systems.items()})
    ours = ChoiceLoader([shared, own])
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(site.templates), ours, PrefixLoader({"squinney": ours})]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        money=money.formatted, when=_when, exact=_exact, span=_span, spaced=_spaced, coded=_coded
    )
    environment.filters.update(is_future=lambda at: at > utcnow())
    environment.globals.update(systems=menu, site=site)
    return environment


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
        return own_path(dict(parse_qsl(query)).get("next", "/"))
    page = f"{path}?{query}" if query else path
    # guard: the page that a form was on is a page of this site
    return own_path(page) if len(page) <= MAX_NEXT_LENGTH else "/"


def sign_in_address(request: Request) -> str:
    """Return where visitors sign in, to come back to this page: on this site, or on the host's."""
    visitors, root = visitors_of(request.app), root_of(request)
    address = f"{visitors.sign_in}?next={quote(root + return_path(request))}"
    if visitors.has_accounts or not root:
        return address
    return f"//{request.headers.get('host', '')}{address}"  # not below the path that this site is mounted at


def own_path(target: str) -> str:
    """Return the target if it is a path of this site, else `/`: a link from outside must not redirect to another site.

    Browsers read `//host` and `/\\host` as the address of another host.
    """
    is_own = target.startswith("/") and not target.startswith("//") and "\\" not in target
    return target if is_own and target.isprintable() else "/"


def redirect(request: Request, path: str, message: str = "", kind: str = "good") -> RedirectResponse:
    """Redirect to the page of this site that follows a form, and show a message there."""
    if message:
        visitor_of(request).flash(message, kind)
    # guard: a redirect stays on this site
    return RedirectResponse(own_path(path), status_code=303)


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page with its visitor, their flash messages and a CSRF token in each form.

    If `values` has an `error`, the response has the status of that error. If `app.state.page_ads` is set, it is called
    with the request and the values, and its result is shown below the content.
    """
    visitor, error = visitor_of(request), values.get("error")
    if isinstance(error, SquinneyError):
        status = status_of(error)
    visitors, here = visitors_of(request.app), return_path(request)
    csrf = visitor.csrf
    page_ads = getattr(request.app.state, "page_ads", None)
    try_as = getattr(request.app.state, "try_as", None)
    count_in_cart = getattr(request.app.state, "count_in_cart", None)
    environment: Environment = request.app.state.pages
    page = environment.get_template(template).render(
        request=request,
        path=request.url.path,
        return_path=here,
        root=root_of(request),
        sign_in=sign_in_address(request) if visitors.sign_in else "",
        has_accounts=visitors.has_accounts,
        status=status,
        visitor=visitor,
        csrf=csrf,
        flashes=visitor.take_flashes(),
        tries=try_as.choices(request) if try_as else [],
        in_cart=count_in_cart(request) if count_in_cart and status == 200 else 0,
        ads=page_ads(request, values) if page_ads and status == 200 else "",
        **values,
    )
    headers = {"Cache-Control": "no-store"}
    if isinstance(error, SquinneyError):
        error_responses.note_mongodb_state(request, error)
        headers.update(error_responses.retry_headers(status, error.details))
    page = with_versions(_with_tokens(page, csrf), getattr(request.app.state, "static_version", ""))
    return HTMLResponse(page, status_code=status, headers=headers)


def _with_tokens(page: str, csrf: str) -> str:
    """Add the visitor's token to every form with method POST, so that no template can forget it."""
    return FORM.sub(lambda form: f'{form[0]}<input type="hidden" name="csrf" value="{csrf}">', page)
