"""The view behind a page, and our source files that it links to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from squinney.errors import NotFound, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import header
from squinney.http.pages import render
from squinney.service.behind.mirror import MAX_ADDRESS_LENGTH, Behind, MadePage
from squinney.service.behind.recording import PACKAGE, Sent
from squinney.system import System

router = APIRouter(include_in_schema=False, route_class=PageRoute)

DOCS = PACKAGE.parents[1] / "docs"  # only in a clone
OPEN_COOKIE = b"squinney-behind="
UNRECORDED = ("/sign-", "/welcome", "/account", "/admin", "/prove", "/api/", "/try")


@dataclass(frozen=True)
class SystemPart:
    """A system that took part in a page: its page in the docs, if it is at hand, and its source files."""

    title: str
    docs: str
    files: Sequence[str]


@router.get("/behind", response_class=HTMLResponse)
async def look_behind(request: Request, page: Annotated[str, Query(max_length=MAX_ADDRESS_LENGTH)] = "/") -> Response:
    """Make a page once more with recording on, and show the commands and documents that made it."""
    behind = _behind_for(request)
    try:
        made = await behind.look(request.scope, visitor_of(request), page)
    except SquinneyError as error:
        return render(request, "behind/behind.html", page=page, made=None, error=error)
    parts = _parts(made, request.app.state.assembled.systems)
    return render(request, "behind/behind.html", page=page, made=made, parts=parts)


@router.get("/behind/source", response_class=HTMLResponse)
def show_source(request: Request, file: Annotated[str, Query(max_length=200)]) -> Response:
    """Show a file of our own source or docs."""
    _behind_for(request)
    path = _own_files().get(file)
    if path is None:
        raise NotFound("there is no such file")
    lines = path.read_text("utf-8").splitlines()
    return render(request, "behind/source.html", file=file, lines=lines)


def _behind_for(request: Request) -> Behind:
    behind: Behind | None = request.app.state.behind
    # guard: who may not look behind pages sees no such page
    if behind is None or not behind.allows(visitor_of(request)):
        raise NotFound("this page does not exist")
    return behind


def _own_files() -> dict[str, Path]:
    source = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    return source | {f"docs/{path.name}": path for path in DOCS.glob("*.md")}


def _parts(made: MadePage, systems: Sequence[System]) -> list[SystemPart]:
    sent = [*made.sent, *(made.action.sent if made.action else ())]
    groups = Counter(_group(command) for command in sent)
    titles = {system.package.rpartition(".")[2]: system.title for system in systems}
    return [
        SystemPart(title, f"docs/{group}.md" if (DOCS / f"{group}.md").exists() else "", _files(sent, group))
        for group, title in titles.items()
        if groups[group]
    ]


def _group(sent: Sent) -> str:
    return sent.file.partition("/")[0] or sent.collection.partition(".")[0]


def _files(sent: Sequence[Sent], group: str) -> list[str]:
    return sorted({command.file for command in sent if command.file.startswith(f"{group}/")})


class BehindMiddleware:
    """Records a form that is sent while its visitor looks behind the pages: a cookie says so."""

    def __init__(self, app: ASGIApp, *, behind: Behind) -> None:
        self._app = app
        self._behind = behind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not _is_open(scope) or not _is_form(scope):
            await self._app(scope, receive, send)
            return
        visitor = scope.get("state", {}).get("visitor")
        messages = None
        if visitor and self._behind.allows(visitor):
            messages = await self._behind.act(scope, receive, visitor)
        if messages is None:
            await self._app(scope, receive, send)
            return
        for message in messages:
            await send(message)


def _is_form(scope: Scope) -> bool:
    """Return whether the request is a short form, and not one with a password."""
    # guard: forms with passwords are not recorded
    is_plain = not scope["path"].startswith(UNRECORDED)
    return is_plain and header(scope, b"content-type").startswith("application/x-www-form-urlencoded")


def _is_open(scope: Scope) -> bool:
    return any(name == b"cookie" and OPEN_COOKIE in value for name, value in scope["headers"])
