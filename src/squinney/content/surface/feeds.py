"""The feed of a node over HTTP, for the API and for the pages, with conditional requests."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Literal

from fastapi import Request
from starlette.responses import Response

from squinney.content import Nodes, Viewer
from squinney.content.surface import rss_and_atom
from squinney.content.surface.assets import matches
from squinney.http.dependencies import processes_of


def feed_for(request: Request, nodes: Nodes, node_id: str, kind: Literal["rss", "atom"]) -> Response:
    """Return the response with a node's feed, for the API and for the pages."""
    node = nodes.by_id(node_id, viewer=Viewer())
    site = str(request.base_url).rstrip("/")
    path = nodes.path_of(node)
    recent = nodes.recent(node, limit=30, viewer=Viewer()).items
    entries = [(entry, f"{site}/site{path}/{entry['metadata']['slug']}") for entry in recent]
    feed = rss_and_atom.Feed(
        node["metadata"]["title"],
        f"{site}/site{path}",
        site + request.url.path,
        entries,
        f"urn:squinney:feed:{node['_id']}",
        asset_url=lambda entry: f"{site}/site/-/asset/{entry['_id']}?v={entry['metadata']['nonce']}",
        offload=processes_of(request),
    )
    body = rss_and_atom.rss(feed) if kind == "rss" else rss_and_atom.atom(feed)
    return _response(request, body, f"application/{kind}+xml", feed.updated)


def _response(request: Request, body: bytes, media_type: str, updated: datetime) -> Response:
    """Return a feed, or 304 if the caller already has this version."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {
        "ETag": etag,
        "Last-Modified": format_datetime(updated.astimezone(UTC), usegmt=True),
        "Cache-Control": "no-cache",
    }
    if matches(request.headers.get("if-none-match"), etag) or _is_unchanged(request, updated):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def _is_unchanged(request: Request, updated: datetime) -> bool:
    """Return whether the caller has a version of that time. With an ETag, only the ETag counts (RFC 9110)."""
    since = request.headers.get("if-modified-since")
    if since is None or "if-none-match" in request.headers:
        return False
    try:
        return updated.replace(microsecond=0) <= parsedate_to_datetime(since)
    except (TypeError, ValueError):  # no date, or one without a time zone
        return False
