"""Rendering: one Jinja environment for all pages."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse

from squinney import __version__
from squinney.assembly import SYSTEMS
from squinney.patterns import money

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
    environment.globals.update(systems=SYSTEMS, version=__version__)
    return environment


environment = _environment()


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page, with what every page needs."""
    page = environment.get_template(template).render(request=request, path=request.url.path, status=status, **values)
    return HTMLResponse(page, status_code=status)
