"""Rewriting of the URLs in a Markdown text: those of pictures and links, inline, in definitions and in HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

# Fenced code, and code between backticks, which is not rewritten.
CODE = re.compile(
    r"(^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))",
    re.DOTALL | re.MULTILINE,
)
_URL = r"(?:<(?P<framed>[^<>\n]*)>|(?P<bare>[^\s()<>]+(?:\([^\s()<>]*\)[^\s()<>]*)*))"
# CommonMark allows no spaces in a URL, but many people write file names with spaces.
_URL_WITH_SPACES = r"(?:<(?P<framed>[^<>\n]*)>|(?P<bare>[^\s()<>]+(?: [^\s()<>\"']+)*(?:\([^\s()<>]*\)[^\s()<>]*)*))"
INLINE = re.compile(rf"(?P<before>\]\([ \t]*){_URL_WITH_SPACES}(?=[ \t]*\)|[ \t]+[\"'(])")
DEFINITION = re.compile(rf"^(?P<before> {{0,3}}\[[^\]\n]+\]:[ \t]*){_URL}", re.MULTILINE)
HTML = re.compile(
    r"(?P<before><(?:a|img|source|video)\b[^<>]*?\b(?:href|src)[ \t]*=[ \t]*)"
    r"(?P<quote>[\"'])(?P<framed>[^\"'<>]*)(?P=quote)",
    re.IGNORECASE,
)
NOT_LOCAL = re.compile(r"[a-z][a-z0-9+.-]*:|/|#|\?", re.IGNORECASE)


def rewritten(text: str, new_url: Callable[[str], str | None]) -> str:
    """Return the text with each URL replaced by the result of `new_url`; None keeps the URL."""

    def replace(match: re.Match[str]) -> str:
        parts = match.groupdict()
        new = new_url(parts["framed"] if parts["framed"] is not None else parts["bare"])
        if new is None:
            return match[0]
        quote = parts.get("quote") or ""
        return f"{parts['before']}{quote}{new}{quote}"

    pieces: list[str] = []
    at = 0
    for code in CODE.finditer(text):
        pieces += [_replaced(text[at : code.start()], replace), code[0]]
        at = code.end()
    return "".join([*pieces, _replaced(text[at:], replace)])


def _replaced(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    # guard: links in definitions and HTML are rewritten
    for pattern in (INLINE, DEFINITION, HTML):
        text = pattern.sub(replace, text)
    return text


def split(url: str) -> tuple[str, str]:
    """Return the path of a URL, unquoted, and the rest from `?` or `#` on."""
    match = re.search(r"[?#]", url)
    path, rest = (url[: match.start()], url[match.start() :]) if match else (url, "")
    # guard: %20 in a link is a space
    return unquote(path), rest


def is_local(url: str) -> bool:
    """Return whether a URL is a relative path."""
    return bool(url) and not NOT_LOCAL.match(url)
