"""Rendering: one Jinja environment for all pages."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse

from squinney import __version__
from squinney.assembly import SYSTEMS
from squinney.patterns import money
from squinney.web.visitor import visitor_of

FORM = re.compile(r"<form\b[^>]*\bmethod=[\"']?post\b[^>]*>", re.IGNORECASE)
TEMPLATES = Path(__file__).parent / "templates"


def _when(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M}"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(money=money.shown, when=_when)
    environment.globals.update(systems=[system for system in SYSTEMS if system.listed], version=__version__)
    return environment


environment = _environment()


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page, with what every page needs: who looks at it, what they are to be told, and a token in each form."""
    visitor = visitor_of(request)
    page = environment.get_template(template).render(
        request=request,
        path=request.url.path,
        status=status,
        visitor=visitor,
        flashes=visitor.take_flashes(),
        **values,
    )
    return HTMLResponse(_with_tokens(page, visitor.csrf), status_code=status, headers={"Cache-Control": "no-store"})


def _with_tokens(page: str, csrf: str) -> str:
    """Every form that writes carries the visitor's token, so that no template can forget it."""
    return FORM.sub(lambda form: f'{form[0]}<input type="hidden" name="csrf" value="{csrf}">', page)
