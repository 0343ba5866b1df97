"""Text as people type it, made harmless on the way out: CommonMark to HTML, then only what is on the list survives.

The text is stored as it was typed. Sanitising the HTML, not the Markdown, is what counts: the list below holds
whatever the renderer, or a browser's repair of broken markup, makes of it.
"""

from __future__ import annotations

import functools
import hashlib
import html
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from urllib.parse import urljoin

import nh3
from markdown_it import MarkdownIt

from squinney.content import markup
from squinney.content.nodes import nesting

TAGS = {
    "a", "blockquote", "br", "code", "dd", "del", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img",
    "kbd", "li", "ol", "p", "pre", "s", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt", "title"}, "ol": {"start"}, "code": {"class"}}
COMMENT_TAGS = {"a", "blockquote", "br", "code", "em", "li", "ol", "p", "pre", "strong", "ul"}
COMMENT_ATTRIBUTES = {"a": {"href"}}
MOST_STEPS = 1_000_000
SCHEMES = {"http", "https", "mailto"}
MOST_KEPT_BYTES = 32 << 20
# Calls a function with its arguments where it holds nobody up, such as `squinney.service.processes.Processes`.
Elsewhere = Callable[..., str]
LANGUAGE = re.compile(r"language-[A-Za-z0-9_+#.-]{1,40}")


# ---- what was rendered a moment ago ----

Key = tuple[tuple[str, str], bytes]


class Kept:
    """HTML, found again by the text that it was made of; the least recently used forgotten first.

    A text that changes is another text, so nothing here can be out of date. Several threads may use it:
    those who want the same at once wait for one of them.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._made: OrderedDict[Key, str] = OrderedDict()
        self._making: dict[Key, Future[str]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, kind: tuple[str, str], text: str, make: Callable[[], str]) -> str:
        """What `make` made of the text before, or makes now; `kind` tells apart what is made in different ways."""
        key = (kind, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        with self._lock:
            if (known := self._made.get(key)) is not None:
                self._made.move_to_end(key)
                return known
            is_first = key not in self._making
            making = self._making.setdefault(key, Future())
        if is_first:  # not under the lock: who waits for another text need not wait for this one
            self._make(key, making, make)
        return making.result()

    def _make(self, key: Key, making: Future[str], make: Callable[[], str]) -> None:
        """Make it for all who ask for it meanwhile."""
        try:
            making.set_result(make())
        except BaseException as error:
            making.set_exception(error)
        with self._lock:
            del self._making[key]
            if not making.exception():
                self._keep(key, making.result())

    def _keep(self, key: Key, made: str) -> None:
        self._made[key] = made
        self._bytes += _size(made)
        while self._bytes > self._most:
            _, oldest = self._made.popitem(last=False)
            self._bytes -= _size(oldest)


def _size(made: str) -> int:
    """At most four bytes a character, and some for the entry."""
    return 4 * len(made) + 300


KEPT = Kept(MOST_KEPT_BYTES)


# ---- parsers ----


@functools.cache
def _pages() -> MarkdownIt:
    return _ready(MarkdownIt("commonmark").enable("table"))


@functools.cache
def _flat_pages() -> MarkdownIt:
    """Without what nests to any depth."""
    return _ready(MarkdownIt("commonmark", {"html": False}).enable("table").disable(["emphasis"]))


@functools.cache
def _without_tables() -> MarkdownIt:
    """For the first words of a text: its tables may have thousands of cells."""
    return _ready(MarkdownIt("commonmark"))


@functools.cache
def _comments() -> MarkdownIt:
    """A subset: no HTML, images, headings or tables."""
    parser = MarkdownIt("commonmark", {"html": False})
    return _ready(parser.disable(["image", "heading", "lheading", "html_block", "hr"]))


def _ready(parser: MarkdownIt) -> MarkdownIt:
    """A parser puts its rules together when it is first used, where a second thread finds none and never ends."""
    parser.render("x")
    return parser


def _page(text: str) -> str:
    """HTML, not sanitised yet. What would take long to render or to sanitise shows its marks as they were typed."""
    if not markup.is_simple(text, markup.PAGE):
        return as_typed(text)
    rendered: str = _pages().render(text)
    if nesting.steps(rendered) <= MOST_STEPS:
        return rendered
    flat: str = _flat_pages().render(text)
    return flat


def as_typed(text: str) -> str:
    """A text that cannot be rendered in time, with its marks."""
    return f"<pre>{html.escape(text)}</pre>"


# ---- texts as HTML ----


def markdown(text: str, *, base_url: str | None = None, elsewhere: Elsewhere | None = None) -> str:
    """A page's text as HTML that can be shown; with a `base_url`, also where other pages are around it.

    A text that takes long is rendered `elsewhere`, where that is given.
    """
    return KEPT.get(("page", base_url or ""), text, lambda: _made(elsewhere, _markdown, text, base_url))


def _made(elsewhere: Elsewhere | None, make: Callable[..., str], text: str, *args: str | None) -> str:
    return elsewhere(make, text, *args) if elsewhere and markup.is_costly(text) else make(text, *args)


def _markdown(text: str, base_url: str | None) -> str:
    return nh3.clean(
        _page(text),
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=functools.partial(_attribute, base_url=base_url) if base_url else _attribute,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer",
    )


def comment(text: str, *, elsewhere: Elsewhere | None = None) -> str:
    """A comment's text as HTML that can be shown; links carry no weight with search engines."""
    return KEPT.get(("comment", ""), text, lambda: _made(elsewhere, _comment, text))


def _comment(text: str) -> str:
    simple = markup.is_simple(text, markup.COMMENT)
    return nh3.clean(
        _comments().render(text) if simple else as_typed(text),
        tags=COMMENT_TAGS,
        attributes=COMMENT_ATTRIBUTES,
        attribute_filter=_attribute,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow ugc",
    )


def plain(text: str, most: int = 300) -> str:
    """The first words of a text without any markup, for summaries."""
    head = text[: 10 * most]
    return KEPT.get(("plain", str(most)), head, lambda: _plain(head, most))


def _plain(text: str, most: int) -> str:
    rendered = _without_tables().render(text) if markup.is_costly(text) else _page(text)
    words = html.unescape(nh3.clean(rendered, tags=set())).split()
    short = " ".join(words)
    return short if len(short) <= most else short[: most - 1].rsplit(" ", 1)[0] + "…"


def _attribute(tag: str, name: str, value: str, base_url: str | None = None) -> str | None:
    """An address may not hide its scheme behind control characters; a class only names a language."""
    if name in ("href", "src"):
        squeezed = re.sub(r"[\x00-\x20\u00a0\u200b-\u200f\u2028\u2029\ufeff]", "", value)
        scheme = re.match(r"([^/?#]*?):", squeezed)
        if scheme:
            return value if scheme.group(1).lower() in SCHEMES else None
        return _absolute(base_url, value) if base_url else value
    if name == "class":
        return value if LANGUAGE.fullmatch(value) else None
    return value


def _absolute(base_url: str, value: str) -> str | None:
    try:
        return urljoin(base_url, value)
    except ValueError:  # such as //[ , which is no address
        return None
