"""The addresses in a Markdown text: of pictures and links, in brackets, definitions and HTML, but not in code."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

# Text of no interest: fenced code, and code between backticks.
CODE = re.compile(
    r"(^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))",
    re.DOTALL | re.MULTILINE,
)
_ADDRESS = r"(?:<(?P<framed>[^<>\n]*)>|(?P<bare>[^\s()<>]+(?:\([^\s()<>]*\)[^\s()<>]*)*))"
# Many write a name with spaces in brackets, which is no link to a browser, but means one here.
_NAME = r"(?:<(?P<framed>[^<>\n]*)>|(?P<bare>[^\s()<>]+(?: [^\s()<>\"']+)*(?:\([^\s()<>]*\)[^\s()<>]*)*))"
INLINE = re.compile(rf"(?P<before>\]\([ \t]*){_NAME}(?=[ \t]*\)|[ \t]+[\"'(])")
DEFINITION = re.compile(rf"^(?P<before> {{0,3}}\[[^\]\n]+\]:[ \t]*){_ADDRESS}", re.MULTILINE)
HTML = re.compile(
    r"(?P<before><(?:a|img|source|video)\b[^<>]*?\b(?:href|src)[ \t]*=[ \t]*)"
    r"(?P<quote>[\"'])(?P<framed>[^\"'<>]*)(?P=quote)",
    re.IGNORECASE,
)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|/|#|\?", re.IGNORECASE)


def rewritten(text: str, address_for: Callable[[str], str | None]) -> str:
    """The text with each address that `address_for` knows another for; None leaves it as it is."""

    def change(found: re.Match[str]) -> str:
        parts = found.groupdict()
        new = address_for(parts["framed"] if parts["framed"] is not None else parts["bare"])
        if new is None:
            return found[0]
        quote = parts.get("quote") or ""
        return f"{parts['before']}{quote}{new}{quote}"

    pieces: list[str] = []
    at = 0
    for code in CODE.finditer(text):
        pieces += [_changed(text[at : code.start()], change), code[0]]
        at = code.end()
    return "".join([*pieces, _changed(text[at:], change)])


def _changed(text: str, change: Callable[[re.Match[str]], str]) -> str:
    for pattern in (INLINE, DEFINITION, HTML):
        text = pattern.sub(change, text)
    return text


def split(address: str) -> tuple[str, str]:
    """An address without what is behind `?` or `#`, written plainly; and that."""
    found = re.search(r"[?#]", address)
    path, rest = (address[: found.start()], address[found.start() :]) if found else (address, "")
    return unquote(path), rest


def is_local(address: str) -> bool:
    """Whether it names a file near the text."""
    return bool(address) and not ELSEWHERE.match(address)
