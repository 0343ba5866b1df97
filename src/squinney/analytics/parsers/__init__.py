"""Log lines to events: `parser_for(format)`, or `detect(lines)` where the format is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from squinney.analytics.errors import UnknownFormat
from squinney.analytics.parsers.apache import parse_combined, parse_common
from squinney.analytics.parsers.caddy import parse_caddy
from squinney.analytics.parsers.fields import FIELDS, FieldMap
from squinney.analytics.parsers.lines import Malformed
from squinney.mongo.schema import Document

Parser = Callable[[str], Document]

# nginx's default format is Apache's combined one; its name is kept because people look for it.
FORMATS: dict[str, Parser] = {
    "combined": parse_combined,
    "common": parse_common,
    "nginx": parse_combined,
    "caddy": parse_caddy,
    "json": FieldMap(),
}
DETECTED = ("combined", "common", "caddy", "json")

__all__ = ["FIELDS", "FORMATS", "FieldMap", "Malformed", "Parser", "detect", "parser_for"]


def parser_for(format: str, field_map: Mapping[str, str] | None = None) -> Parser:
    """The parser of that name; `field_map` says which JSON field holds which of ours, for "json".

    Raises: `UnknownFormat`, and `Invalid` for a bad field map.
    """
    if field_map:
        return FieldMap(field_map)
    if format not in FORMATS:
        raise UnknownFormat(f"format must be one of auto, {', '.join(FORMATS)}", field="format")
    return FORMATS[format]


def detect(lines: Iterable[str]) -> str | None:
    """The first format that understands any of these lines; None where none does."""
    sample = list(lines)
    return next((name for name in DETECTED if any(_understands(FORMATS[name], line) for line in sample)), None)


def _understands(parse: Parser, line: str) -> bool:
    try:
        parse(line)
    except Malformed:
        return False
    return True
