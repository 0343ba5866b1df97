"""The lines of Docker's json-file log driver, which contain a line that a program has written."""

from __future__ import annotations

from squinney.analytics.parsers.json_lines import json_object
from squinney.analytics.parsers.values import Malformed

_BEGINNING = '{"log":'


def unwrapped(line: str) -> str:
    """Return the line within a line of Docker's; any other line is returned as it is.

    Raises: `Malformed` for a part of a line, as Docker splits long lines.
    """
    if not line.startswith(_BEGINNING):
        return line
    entry = json_object(line)
    inner = entry["log"]
    if not isinstance(inner, str) or "stream" not in entry:
        return line
    if not inner.endswith("\n"):
        raise Malformed("only a part of a line: Docker splits lines of more than 16 KiB")
    return inner.rstrip("\r\n")
