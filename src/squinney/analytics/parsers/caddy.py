"""The parser for Caddy's access log: JSON lines with the request in a nested object."""

from __future__ import annotations

from typing import Any

from squinney.analytics.parsers.fields import as_time, json_object
from squinney.analytics.parsers.lines import Malformed, event_of
from squinney.mongo.schema import Document


def parse_caddy(line: str) -> Document:
    """Parse a line of Caddy's `http.log.access`."""
    entry = json_object(line)
    request = entry.get("request")
    if not isinstance(request, dict) or "ts" not in entry:
        raise Malformed("not Caddy's format: it has no request or no ts")
    found = {
        "host": request.get("remote_ip") or str(request.get("remote_addr", "")).rpartition(":")[0],
        "site": request.get("host"),
        "user": entry.get("user_id"),
        "method": request.get("method"),
        "path": request.get("uri"),
        "protocol": request.get("proto"),
        "status": entry.get("status"),
        "bytes": entry.get("size"),
        "referer": _header(request, "Referer"),
        "user_agent": _header(request, "User-Agent"),
    }
    return event_of(as_time(entry["ts"]), {name: value for name, value in found.items() if value not in (None, "")})


def _header(request: Document, name: str) -> Any:
    headers = request.get("headers")
    values = headers.get(name) if isinstance(headers, dict) else None
    return values[0] if isinstance(values, list) and values else None
