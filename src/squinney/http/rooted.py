"""A site under a path of another application. Inside, all addresses are written as if the site were at the root.

`Rooted` is the only place that knows the path: it takes it off each request, and puts it before the addresses of each
answer: links, assets and forms in HTML, redirects, and the paths of cookies. Scripts read it from `data-root`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from starlette._utils import get_route_path
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROOT = "squinney_root"
HOST_SCOPE = "squinney_host_scope"
TAG = re.compile(r"<[a-zA-Z](?:[^>\"']|\"[^\"]*\"|'[^']*')*>")
ADDRESS = re.compile(r"(\s(?:href|src|action|formaction|poster|cite|(?!data-root)data-[a-z-]+)=[\"'])/(?!/)")
SRCSET = re.compile(r"(\ssrcset=[\"'])([^\"']*)")
IN_SRCSET = re.compile(r"(^|,\s*)/(?!/)")
COOKIE_PATH = re.compile(r"(;\s*path=)/(?=;|$)", re.IGNORECASE)


class Rooted:
    """Wraps the application of a site that another application has mounted."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        inner = _without_root(scope)
        await self._app(inner, receive, _with_root(inner[ROOT], HTTPConnection(inner), send))


def root_of(connection: HTTPConnection) -> str:
    """Return the path that the site is mounted at; empty if it is at the root."""
    return str(connection.scope.get(ROOT, ""))


def host_connection(connection: HTTPConnection) -> HTTPConnection:
    """Return the connection as the host application knows it."""
    return HTTPConnection(connection.scope.get(HOST_SCOPE, connection.scope))


def _without_root(scope: Scope) -> dict[str, Any]:
    root, path = scope.get("root_path", "").rstrip("/"), get_route_path(scope) or "/"
    raw = scope.get("raw_path")
    return {
        **scope,
        "path": path,
        "raw_path": raw.removeprefix(root.encode()) if raw else raw,
        "root_path": "",
        "app_root_path": root,  # Starlette builds `request.base_url` from it
        "path_params": {},
        "state": dict(scope.get("state", {})),  # names of ours must not replace those of the host
        "headers": list(_own_headers(scope["headers"], root)),
        ROOT: root,
        HOST_SCOPE: scope,
    }


def _own_headers(headers: Iterable[tuple[bytes, bytes]], root: str) -> Iterable[tuple[bytes, bytes]]:
    """Take the path off the page that a form was sent from, and leave compressing to the host: we change the text."""
    for name, value in headers:
        if name == b"accept-encoding":
            continue
        if name == b"referer" and root:
            scheme, between, rest = value.partition(b"://")
            host, slash, path = rest.partition(b"/")
            value = scheme + between + host + (slash + path).replace(root.encode(), b"", 1)
        yield name, value


def _with_root(root: str, connection: HTTPConnection, send: Send) -> Send:
    started: Message | None = None
    parts: list[bytes] = []

    async def send_rooted(message: Message) -> None:
        nonlocal started
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            _change_headers(headers, root, str(connection.base_url).removesuffix("/").removesuffix(root))
            if headers.get("content-type", "").startswith("text/html") and "content-encoding" not in headers:
                started = message  # sent with the body, whose length changes
                return
        elif message["type"] == "http.response.body" and started is not None:
            parts.append(message.get("body", b""))
            if message.get("more_body", False):
                return
            body = with_root(b"".join(parts).decode(), root).encode()
            headers = MutableHeaders(scope=started)
            if body:  # the answer to HEAD keeps its length
                headers["content-length"] = str(len(body))
            await send(started)
            started = None
            message = {**message, "body": body}
        await send(message)

    return send_rooted


def _change_headers(headers: MutableHeaders, root: str, site: str) -> None:
    location = headers.get("location", "")
    if location.startswith("/") and not location.startswith("//"):
        headers["location"] = root + location
    elif location.startswith(f"{site}/"):  # the framework redirects to absolute addresses
        headers["location"] = f"{site}{root}{location.removeprefix(site)}"
    cookies = [COOKIE_PATH.sub(rf"\g<1>{root or '/'}", cookie) for cookie in headers.getlist("set-cookie")]
    if cookies:
        del headers["set-cookie"]
    for cookie in cookies:
        headers.append("set-cookie", cookie)


def with_root(html: str, root: str) -> str:
    """Return a page with the path before each address of the site. Text that looks like a link stays as it is."""
    return TAG.sub(lambda tag: _rooted(tag[0], root), html) if root else html


def _rooted(tag: str, root: str) -> str:
    tag = ADDRESS.sub(rf"\g<1>{root}/", tag)
    return SRCSET.sub(lambda match: match[1] + IN_SRCSET.sub(rf"\g<1>{root}/", match[2]), tag)
