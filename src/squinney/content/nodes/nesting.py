"""How deep the tags of an HTML text go.

A sanitiser looks through all elements that stand open at each tag, as a browser would: lists in lists in lists take
the square of their number, and 480 kB of them half a minute. So they are counted first, in one pass, without building
anything. Only a tag that is written cleanly, and closed in the right order, counts as closed: whatever a sanitiser
makes of broken markup, no more stands open there than is counted here.
"""

from __future__ import annotations

import re

_SPACE = r"[ \t\n\f\r]"
_ATTRIBUTE = rf"{_SPACE}+[A-Za-z_:][\w:.-]*(?:{_SPACE}*={_SPACE}*(?:\"[^\"]*\"|'[^']*'|[^\"'=<>`\x00-\x20]+))?"
MARKUP = re.compile(
    rf"<!--(?!-?>)[^<>]*?-->|</(?P<end>[A-Za-z][A-Za-z0-9-]*){_SPACE}*>"
    rf"|<(?P<start>[A-Za-z][A-Za-z0-9-]*)(?:{_ATTRIBUTE})*{_SPACE}*/?>|(?P<odd><[A-Za-z/!?])",
    re.ASCII,
)
EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
# What may be left to close to the tag behind it.
CLOSED_BY = {
    "dd": {"dd", "dt"},
    "dt": {"dd", "dt"},
    "li": {"li"},
    "p": {"p"},
    "td": {"td", "th", "tr"},
    "th": {"td", "th", "tr"},
    "tr": {"tr"},
}


def steps(html: str) -> int:
    """How many open elements the tags of the text see above them, all together."""
    seen = 0
    above: list[str] = []
    for found in MARKUP.finditer(html):
        kind, name = found.lastgroup, found[found.lastgroup].lower() if found.lastgroup else ""
        if kind is None:
            continue
        seen += len(above)
        if kind == "end":
            _close(above, name)
        elif name not in EMPTY:
            while above and name in CLOSED_BY.get(above[-1], ()):
                above.pop()
            above.append(name)
    return seen


def _close(above: list[str], name: str) -> None:
    """Close the innermost element, with what may be left to close inside it; a tag that fits nothing closes nothing."""
    inner = -1
    while len(above) + inner > 0 and above[inner] != name and above[inner] in CLOSED_BY and inner > -4:
        inner -= 1
    if above and above[inner] == name:
        del above[inner:]
