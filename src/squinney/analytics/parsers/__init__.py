"""Parsers for log lines: `parser_for(format)` returns one, and `detect(lines)` finds the format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from squinney.analytics.errors import UnknownFormat
from squinney.analytics.parsers.docker import unwrapped
from squinney.analytics.parsers.json_lines import FIELDS, FieldMap, json_object, parse_caddy
from squinney.analytics.parsers.layouts import LAYOUTS, Layout, is_layout, parse_elb
from squinney.analytics.parsers.values import Malformed
from squinney.analytics.parsers.w3c import FIELDS as W3C_FIELDS
from squinney.analytics.parsers.w3c import W3C
from squinney.mongo.schema import Document

# Returns an event, or None for a line that is not an event by design, such as a directive. Raises `Malformed`.
Parser = Callable[[str], Document | None]

# guard: AWS's formats are detected
FORMATS: dict[str, Parser] = {**LAYOUTS, "elb": parse_elb, "caddy": parse_caddy, "json": FieldMap()}
DETECTED = tuple(FORMATS)
# nginx's default format is combined, and its `main` format is combined with one more field; Traefik's is JSON.
NAMES = (*FORMATS, "w3c", "nginx", "traefik")

__all__ = ["FIELDS", "FORMATS", "NAMES", "FieldMap", "Malformed", "Parser", "detect", "parser_for", "tried"]


def parser_for(format: str, field_map: Mapping[str, str] | None = None) -> Parser:
    """Return the parser for the name of a format, a `log_format` or `LogFormat` string, or a `#Fields:` line.

    `field_map` maps our field names to those of JSON lines. The format "auto" tries all formats on every line. Lines of
    Docker's json-file driver are parsed like the lines within them.

    Raises: `UnknownFormat`, and `Invalid` for a bad field map or format string.
    """
    parse = _parser_for(format, field_map)

    def parse_unwrapped(line: str) -> Document | None:
        # guard: Docker's lines are read as the lines within them
        inner = unwrapped(line)
        return parse(inner) if inner.strip() else None

    return parse_unwrapped


def tried(format: str, field_map: Mapping[str, str] | None = None) -> str:
    """Return the formats that `parser_for` tries with these arguments, for people."""
    if field_map:
        return f"json with {', '.join(f'{ours}={theirs}' for ours, theirs in sorted(field_map.items()))}"
    return ", ".join((*DETECTED, "w3c")) if format == "auto" else format


def _parser_for(format: str, field_map: Mapping[str, str] | None) -> Parser:
    if field_map:
        return FieldMap(field_map)
    if format.startswith(W3C_FIELDS) or format == "w3c":
        return W3C(format)
    if is_layout(format):
        return Layout(format)
    if format == "auto":
        return parse_any
    if format not in NAMES:
        message = f"format must be one of auto, {', '.join(NAMES)}, or a log_format or LogFormat string"
        raise UnknownFormat(message, field="format")
    return FORMATS[{"nginx": "combined", "traefik": "json"}.get(format, format)]


def detect(lines: Iterable[str]) -> str | None:
    """Return the first format that can parse any of these lines, or None.

    For a W3C log the result is its `#Fields:` line, followed by its `#Date:` line if the fields have no date.
    """
    sample = list(_unwrapped(lines))
    return W3C("\n".join(sample)).header or next(
        (name for name in DETECTED if any(_parsed(name, line) for line in sample)), None
    )


def _unwrapped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        with suppress(Malformed):
            yield unwrapped(line)


def parse_any(line: str) -> Document:
    """Parse a line with the first format that fits.

    Raises: `Malformed`, with the formats that were tried.
    """
    event = next(filter(None, (_parsed(name, line) for name in DETECTED)), None)
    if event is None:
        # guard: a line in no known format is rejected with the formats tried
        raise Malformed(_why_none(line))
    return event


def _why_none(line: str) -> str:
    try:
        json_object(line)
    except Malformed:
        return f"in none of the formats {', '.join(DETECTED)}, w3c; give a format string for another format"
    try:
        FORMATS["json"](line)
    except Malformed as error:
        return f"JSON, but {error}"
    return "JSON"


def _parsed(format: str, line: str) -> Document | None:
    with suppress(Malformed):
        return FORMATS[format](line)
    return None
