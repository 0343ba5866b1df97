"""Log lines to events: `parser_for(format)`, or `detect(lines)` where the format is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from squinney.analytics.errors import UnknownFormat
from squinney.analytics.parsers.caddy import parse_caddy
from squinney.analytics.parsers.fields import FIELDS, FieldMap, json_object
from squinney.analytics.parsers.layouts import LAYOUTS, Layout, is_layout, parse_elb
from squinney.analytics.parsers.lines import Malformed
from squinney.analytics.parsers.w3c import FIELDS as W3C_FIELDS
from squinney.analytics.parsers.w3c import W3C
from squinney.mongo.schema import Document

# None is for a line that is no event and not meant to be one.
Parser = Callable[[str], Document | None]

FORMATS: dict[str, Parser] = {**LAYOUTS, "elb": parse_elb, "caddy": parse_caddy, "json": FieldMap()}
DETECTED = tuple(FORMATS)
# The combined format by another name, for which people look: nginx's default, and its `main` with one field more.
NAMES = (*FORMATS, "w3c", "nginx", "traefik")

__all__ = ["FIELDS", "FORMATS", "NAMES", "FieldMap", "Malformed", "Parser", "detect", "parser_for"]


def parser_for(format: str, field_map: Mapping[str, str] | None = None) -> Parser:
    """The parser of a format's name, of a `log_format` or `LogFormat` string, or of a `#Fields:` line.

    `field_map` says which JSON field holds which of ours, for "json". "auto" tries all on every line.

    Raises: `UnknownFormat`, and `Invalid` for a bad field map or format string.
    """
    if field_map:
        return FieldMap(field_map)
    if format.startswith(W3C_FIELDS) or format == "w3c":
        return W3C(format)
    if is_layout(format):
        return Layout(format)
    if format == "auto":
        return parse_any
    if format not in NAMES:
        known = f"format must be one of auto, {', '.join(NAMES)}, or a log_format or LogFormat string"
        raise UnknownFormat(known, field="format")
    return FORMATS[{"nginx": "combined", "traefik": "json"}.get(format, format)]


def detect(lines: Iterable[str]) -> str | None:
    """The first format that understands any of these lines; None where none does.

    Of the W3C's it is the `#Fields:` line, and where lines have no date, the `#Date:` line.
    """
    sample = list(lines)
    return W3C("\n".join(sample)).header or next(
        (name for name in DETECTED if any(_understands(FORMATS[name], line) for line in sample)), None
    )


def parse_any(line: str) -> Document | None:
    """A line of a log whose format is not known yet.

    Raises: `Malformed`, which names what was tried.
    """
    for name in DETECTED:
        try:
            return FORMATS[name](line)
        except Malformed:
            continue
    raise Malformed(_why_none(line))


def _why_none(line: str) -> str:
    try:
        json_object(line)
    except Malformed:
        return f"in none of the formats {', '.join(DETECTED)}, w3c; a format string may say how to read it"
    try:
        FORMATS["json"](line)
    except Malformed as error:
        return f"JSON, but {error}"
    return "JSON"


def _understands(parse: Parser, line: str) -> bool:
    try:
        parse(line)
    except Malformed:
        return False
    return True
