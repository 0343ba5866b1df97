"""Files over HTTP: conditional requests, ranges, and a request's body as a stream."""

from __future__ import annotations

import re

import anyio.from_thread
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from squinney.content.photos.photos import Asset

RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
# Whatever an uploaded file contains, a browser may show it but runs no script in it.
POLICY = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox"


class BodyStream:
    """A request's body, which a worker thread reads in pieces; only one piece is in memory."""

    def __init__(self, request: Request) -> None:
        self._pieces = request.stream()
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""
        while not self._rest:
            piece = anyio.from_thread.run(self._next)
            if piece is None:
                return b""
            self._rest = piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    async def _next(self) -> bytes | None:
        return await anext(self._pieces, None)


def asset_response(request: Request, asset: Asset, *, cache: str) -> Response:
    """Return the whole asset or the requested range, or 304 if the caller already has this version."""
    etag = f'"{asset.sha256[:32]}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": cache,
        "Content-Security-Policy": POLICY,
        "Content-Disposition": "inline",
    }
    if matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    requested = _range(request, asset.length, etag)
    if requested is None:
        return _stream(request, asset, 0, asset.length, 200, headers)
    start, end = requested
    if start >= end:
        headers["Content-Range"] = f"bytes */{asset.length}"
        return Response(status_code=416, headers=headers)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{asset.length}"
    return _stream(request, asset, start, end, 206, headers)


def _stream(request: Request, asset: Asset, start: int, end: int, status: int, headers: dict[str, str]) -> Response:
    headers["Content-Length"] = str(end - start)
    if getattr(request.state, "head", False):
        return Response(status_code=status, headers=headers, media_type=asset.content_type)
    return StreamingResponse(asset.read(start, end), status, headers, media_type=asset.content_type)


def _range(request: Request, length: int, etag: str) -> tuple[int, int] | None:
    """Return the requested range; None is the whole file, also for several ranges or a range of another version."""
    match = RANGE.fullmatch(request.headers.get("range", "").strip())
    if not match or request.headers.get("if-range", etag) != etag:
        return None
    first, last = match.groups()
    if not first:
        return (max(length - int(last), 0), length) if last else None
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, length) if last else length


def matches(header: str | None, etag: str) -> bool:
    """Return whether an `If-None-Match` names this version."""
    if header is None:
        return False
    return header.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in header.split(",")]
