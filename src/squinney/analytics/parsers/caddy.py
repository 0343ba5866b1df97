"""Caddy's access log: JSON lines with the request in a document of its own."""

from __future__ import annotations

from typing import Any

from squinney.analytics.parsers.fields import as_count, as_time, json_object
from squinney.analytics.parsers.lines import Malformed, put_target, site_of
from squinney.mongo.schema import Document


def parse_caddy(line: str) -> Document:
    """A line that Caddy's `http.log.access` wrote.

    Raises: `Malformed`.
    """
    entry = json_object(line)
    request = entry.get("request")
    if not isinstance(request, dict) or "ts" not in entry:
        raise Malformed("not Caddy's format: it has no request or no ts")
    host = request.get("remote_ip") or str(request.get("remote_addr", "")).rpartition(":")[0]
    event: Document = {"time": as_time(entry["ts"]), "host": str(host)}
    if site := request.get("host"):
        event["site"] = site_of(str(site))
    if user := entry.get("user_id"):
        event["user"] = str(user)
    event["method"] = str(request.get("method", ""))
    put_target(event, str(request.get("uri", "")))
    event["protocol"] = str(request.get("proto", ""))
    event["status"] = as_count(entry.get("status", 0), "status")
    event["bytes"] = as_count(entry.get("size", 0), "size")
    headers = request.get("headers")
    if isinstance(headers, dict):
        _put_header(event, "referer", headers.get("Referer"))
        _put_header(event, "user_agent", headers.get("User-Agent"))
    return event


def _put_header(event: Document, name: str, values: Any) -> None:
    if isinstance(values, list) and values:
        event[name] = str(values[0])
