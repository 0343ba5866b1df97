"""The parsers for JSON lines: by a map from our field names to those of the log, and for Caddy's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.analytics.parsers.values import Malformed, clf_time, event_of, in_calendar, is_address
from squinney.errors import Invalid
from squinney.mongo.schema import Document

# The names that nginx, Traefik, Elastic's ECS and others use for our fields; the first one that a line has is used. A
# name with dots is that of a nested field.
ALIASES: dict[str, tuple[str, ...]] = {
    # guard: the field names of Traefik and nginx are known
    "time": ("StartUTC", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "ts", "date"),
    "host": (
        "remote_addr",
        "remote_ip",
        "ClientHost",
        "client_ip",
        "clientip",
        "client",
        "remote_host",
        "ip",
        "client.ip",
        "source.ip",
        "client.address",
        "source.address",
        "http_x_real_ip",
        "http_x_forwarded_for",
        "x_forwarded_for",
        "xff",
        "host",
    ),
    "site": ("site", "vhost", "http_host", "server_name", "RequestHost", "url.domain", "host"),
    "user": ("user", "remote_user", "ClientUsername", "user.name"),
    "method": ("method", "request_method", "RequestMethod", "http.request.method"),
    "path": ("path", "request_uri", "RequestPath", "uri", "url", "url.path", "url.original"),
    "query": ("query", "args", "query_string", "url.query"),
    "request": ("request",),
    "protocol": ("protocol", "server_protocol", "RequestProtocol", "proto", "http.version"),
    "status": ("status", "DownstreamStatus", "OriginStatus", "status_code", "http.response.status_code"),
    "bytes": (
        "bytes",
        "body_bytes_sent",
        "DownstreamContentSize",
        "bytes_sent",
        "size",
        "http.response.body.bytes",
        "http.response.bytes",
    ),
    "referer": ("referer", "http_referer", "request_Referer", "referrer", "http.request.referrer"),
    "user_agent": ("user_agent", "http_user_agent", "request_User-Agent", "agent", "user_agent.original"),
    "seconds": ("request_time", "Duration", "event.duration"),
    "country": (
        "http_cf_ipcountry",
        "geoip_country_code",
        "geoip2_data_country_code",
        "request_CF-IPCountry",
        "country_code",
        "client.geo.country_iso_code",
        "source.geo.country_iso_code",
    ),
}
NANOSECONDS = {"Duration", "event.duration"}  # as Traefik and Elastic count them; nginx counts seconds
# Some servers write the visitor here, and others something else: only an address is taken, `host` last of all.
AMBIGUOUS = {"client", "remote_host", "host"}
FIELDS = tuple(ALIASES)
_ABSENT = (None, "", "-")
_VERSION = re.compile(r"\d(\.\d)?")
_URL = re.compile(r"https?://([^/?#]*)(.*)")
_NUMBER = re.compile(r"\d{9,11}(\.\d{1,9})?")


class FieldMap:
    """A parser for JSON lines. A map such as `{"time": "timestamp", "path": "uri"}` overrides names in `ALIASES`."""

    def __init__(self, field_map: Mapping[str, str] | None = None) -> None:
        self._given = given = dict(field_map or {})
        if unknown := given.keys() - ALIASES.keys():
            message = f"field_map: {', '.join(sorted(unknown))} is not one of {', '.join(FIELDS)}"
            raise Invalid(message, field="field_map")
        self._names = {
            name: [given[name]] if name in given else [alias for alias in aliases if alias not in given.values()]
            for name, aliases in ALIASES.items()
        }

    def __call__(self, line: str) -> Document:
        """Parse one line."""
        entry = json_object(line)
        names = {name: self._name_in(entry, name) for name in FIELDS}
        if names["site"] == names["host"]:
            names["site"] = None
        values = {name: value_of(entry, log_name) for name, log_name in names.items() if log_name is not None}
        if "time" not in values:
            tried = ", ".join(self._names["time"])
            raise Malformed(f"it has no time (looked for {tried}); name its field with a field map")
        at = as_time(values["time"])
        # guard: a JSON line without a request is rejected
        self._require_request(entry, values)
        if names["seconds"] in NANOSECONDS and "seconds" not in self._given:
            values["took_nanoseconds"] = values.pop("seconds")
        if "protocol" in values:
            values["protocol"] = _protocol(values["protocol"])
        return event_of(at, _without_url(values))

    def _name_in(self, entry: Document, name: str) -> str | None:
        """Return the first name that the line has; an object is not a value, but may contain one."""
        for alias in self._names[name]:
            value = value_of(entry, alias)
            if value in _ABSENT or isinstance(value, dict):
                continue
            # guard: a name that is not an address is no visitor
            if name == "host" and alias in AMBIGUOUS and name not in self._given and not is_address(value):
                continue
            return alias
        return None

    def _require_request(self, entry: Document, values: Document) -> None:
        """Refuse other lines of a server or program, which may have a path: that of a file, for example."""
        if self._given.keys() & {"path", "request"} & values.keys():
            return
        if "path" in values and values.keys() & {"method", "status"}:
            return
        if " HTTP/" in str(values.get("request")):
            return
        # A client that sends nothing is logged with an empty request and a status.
        names = (*self._names["path"], *self._names["request"])
        if "status" in values and any(isinstance(value_of(entry, name), str) for name in names):
            return
        raise Malformed("it has no request: neither a path with a method or status nor a request line")


def json_object(line: str) -> Document:
    """Return the line's JSON object."""
    try:
        entry = json.loads(line)
        if "\\ud" in line.lower():  # only such an escape can produce a lone surrogate, which cannot be stored
            json.dumps(entry, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Malformed("not Unicode: it has a lone surrogate") from None
    except (ValueError, RecursionError):
        raise Malformed("not JSON") from None
    if not isinstance(entry, dict):
        raise Malformed("not a JSON object")
    return entry


def value_of(entry: Document, name: str) -> Any:
    """Return the value of a field; `a.b` is a field of that name, or the field `b` of the object `a`."""
    if name in entry:
        return entry[name]
    outer, _, inner = name.partition(".")
    nested = entry.get(outer)
    return value_of(nested, inner) if inner and isinstance(nested, dict) else None


def _protocol(value: Any) -> Any:
    """Return `HTTP/1.1` for `1.1`, as text or as a number."""
    number = str(value) if isinstance(value, int | float) else value
    return f"HTTP/{number}" if isinstance(number, str) and _VERSION.fullmatch(number) else value


def _without_url(values: Document) -> Document:
    """Split a whole URL into the site and the path."""
    match = _URL.fullmatch(values["path"]) if isinstance(values.get("path"), str) else None
    if match is None:
        return values
    site, rest = match.groups()
    return {"site": site, **values, "path": rest if rest.startswith("/") else f"/{rest}"}


def as_time(value: Any) -> datetime:
    """Parse seconds since 1970, ISO 8601 or Apache's format, and return the time in UTC.

    Raises: `Malformed`; also for a time without a time zone.
    """
    try:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)  # as nginx writes $msec
        if isinstance(value, int | float) and not isinstance(value, bool):
            at = datetime.fromtimestamp(value, UTC)
        else:
            at = datetime.fromisoformat(value)
    except (ValueError, TypeError, OverflowError, OSError):
        return clf_time(str(value))
    if at.tzinfo is None:
        raise Malformed("the time has no time zone")
    return in_calendar(at)


def parse_caddy(line: str) -> Document:
    """Parse a line of Caddy's `http.log.access`, which has the request in a nested object."""
    entry = json_object(line)
    request = entry.get("request")
    if not isinstance(request, dict) or not request.get("uri") or "ts" not in entry:
        raise Malformed("not Caddy's format: it has no request with a uri or no ts")
    address = request.get("remote_addr")
    values = {
        "host": request.get("remote_ip") or (address.rpartition(":")[0] if isinstance(address, str) else address),
        "site": request.get("host"),
        "user": entry.get("user_id"),
        "method": request.get("method"),
        "path": request.get("uri"),
        "protocol": request.get("proto"),
        "status": entry.get("status"),
        "bytes": entry.get("size"),
        "referer": _header(request, "Referer"),
        "user_agent": _header(request, "User-Agent"),
        "seconds": entry.get("duration"),
        "country": _header(request, "Cf-Ipcountry"),
    }
    return event_of(as_time(entry["ts"]), {name: value for name, value in values.items() if value not in (None, "")})


def _header(request: Document, name: str) -> Any:
    headers = request.get("headers")
    values = headers.get(name) if isinstance(headers, dict) else None
    return values[0] if isinstance(values, list) and values else None
