"""CommonMark rendered to sanitised HTML: only the tags and attributes listed here are kept.

Texts are stored as they were typed. The HTML is sanitised, not the Markdown, so that the lists below also hold for
whatever the renderer, or a browser's repair of broken markup, produces.
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

from squinney.content.markup import limits, nesting

TAGS = {
    "a", "blockquote", "br", "code", "dd", "del", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img",
    "kbd", "li", "ol", "p", "pre", "s", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt", "title"}, "ol": {"start"}, "code": {"class"}}
COMMENT_TAGS = {"a", "blockquote", "br", "code", "em", "li", "ol", "p", "pre", "strong", "ul"}
COMMENT_ATTRIBUTES = {"a": {"href"}}
MAX_NESTING_WORK = 1_000_000
SCHEMES = {"http", "https", "mailto"}
MAX_CACHED_BYTES = 32 << 20
# Calls a function with its arguments without blocking this process, such as `squinney.service.processes.Processes`.
Offload = Callable[..., str]
LANGUAGE = re.compile(r"language-[A-Za-z0-9_+#.-]{1,40}")


# ---- cache ----

Key = tuple[tuple[str, str], bytes]


class RenderCache:
    """An LRU cache of HTML, limited by size, whose keys are digests of the source texts.

    Entries are never stale, because a changed text has another digest. The cache is thread-safe: if several threads
    need the same text at once, one renders and the others wait for its result.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rendered: OrderedDict[Key, str] = OrderedDict()
        self._rendering: dict[Key, Future[str]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, kind: tuple[str, str], text: str, render: Callable[[], str]) -> str:
        """Return the cached HTML of the text, or call `render` for it; `kind` separates different ways to render."""
        key = (kind, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        with self._lock:
            if (cached := self._rendered.get(key)) is not None:
                self._rendered.move_to_end(key)
                return cached
            is_first = key not in self._rendering
            future = self._rendering.setdefault(key, Future())
        if is_first:  # outside the lock, so that threads with other texts do not wait
            self._render(key, future, render)
        return future.result()

    def _render(self, key: Key, future: Future[str], render: Callable[[], str]) -> None:
        try:
            future.set_result(render())
        except BaseException as error:
            future.set_exception(error)
        with self._lock:
            # guard: a text whose rendering failed is rendered again
            del self._rendering[key]
            if not future.exception():
                self._add(key, future.result())

    def _add(self, key: Key, rendered: str) -> None:
        self._rendered[key] = rendered
        self._bytes += _size(rendered)
        while self._bytes > self._max_bytes:
            _, oldest = self._rendered.popitem(last=False)
            self._bytes -= _size(oldest)


def _size(rendered: str) -> int:
    """Return an upper bound in bytes: four per character, and some for the entry itself."""
    return 4 * len(rendered) + 300


CACHE = RenderCache(MAX_CACHED_BYTES)


# ---- parsers ----


@functools.cache
def _pages() -> MarkdownIt:
    return _ready(MarkdownIt("commonmark").enable("table"))


@functools.cache
def _flat_pages() -> MarkdownIt:
    """Return a parser without HTML and emphasis, which can nest to any depth."""
    return _ready(MarkdownIt("commonmark", {"html": False}).enable("table").disable(["emphasis"]))


@functools.cache
def _without_tables() -> MarkdownIt:
    """Return a parser for summaries, without tables: they may have thousands of cells."""
    return _ready(MarkdownIt("commonmark"))


@functools.cache
def _comments() -> MarkdownIt:
    """Return a parser for comments: no HTML, images, headings or tables."""
    parser = MarkdownIt("commonmark", {"html": False})
    return _ready(parser.disable(["image", "heading", "lheading", "html_block", "hr"]))


def _ready(parser: MarkdownIt) -> MarkdownIt:
    """Use the parser once: it compiles its rules on first use, and a second thread would loop forever meanwhile."""
    parser.render("x")
    return parser


def _page(text: str) -> str:
    """Return HTML that is not sanitised yet; markup that takes too long to render or sanitise stays as typed."""
    if not limits.is_simple(text, limits.PAGE):
        return as_typed(text)
    rendered: str = _pages().render(text)
    if nesting.work(rendered) <= MAX_NESTING_WORK:
        return rendered
    flat: str = _flat_pages().render(text)
    return flat


def as_typed(text: str) -> str:
    """Return the text unrendered, as preformatted HTML."""
    return f"<pre>{html.escape(text)}</pre>"


# ---- texts as HTML ----


def markdown(text: str, *, base_url: str | None = None, offload: Offload | None = None) -> str:
    """Return a page's text as safe HTML. With a `base_url`, relative links become absolute, as feeds need it.

    With `offload`, texts that take long to render are rendered by calling it.
    """
    return CACHE.get(("page", base_url or ""), text, lambda: _rendered(offload, _markdown, text, base_url))


def _rendered(offload: Offload | None, render: Callable[..., str], text: str, *args: str | None) -> str:
    # guard: costly texts are rendered in another process
    return offload(render, text, *args) if offload and limits.is_costly(text) else render(text, *args)


def _markdown(text: str, base_url: str | None) -> str:
    return _clean(_page(text), TAGS, ATTRIBUTES, "noopener noreferrer", base_url)


def comment(text: str, *, offload: Offload | None = None) -> str:
    """Return a comment's text as safe HTML; links are marked so that search engines ignore them."""
    return CACHE.get(("comment", ""), text, lambda: _rendered(offload, _comment, text))


def _comment(text: str) -> str:
    rendered = _comments().render(text) if limits.is_simple(text, limits.COMMENT) else as_typed(text)
    return _clean(rendered, COMMENT_TAGS, COMMENT_ATTRIBUTES, "noopener noreferrer nofollow ugc")


def _clean(body: str, tags: set[str], attributes: dict[str, set[str]], rel: str, base_url: str | None = None) -> str:
    keep = functools.partial(_attribute, base_url=base_url)
    return nh3.clean(body, tags=tags, attributes=attributes, attribute_filter=keep, url_schemes=SCHEMES, link_rel=rel)


def summary(text: str, max_length: int = 300) -> str:
    """Return the first words of a text without any markup, at most `max_length` characters."""
    head = text[: 10 * max_length]
    return CACHE.get(("summary", str(max_length)), head, lambda: _summary(head, max_length))


def _summary(text: str, max_length: int) -> str:
    # guard: a summary renders no tables
    rendered = _without_tables().render(text) if limits.is_costly(text) else _page(text)
    words = html.unescape(nh3.clean(rendered, tags=set())).split()
    short = " ".join(words)
    return short if len(short) <= max_length else short[: max_length - 1].rsplit(" ", 1)[0] + "…"


def _attribute(tag: str, name: str, value: str, base_url: str | None) -> str | None:
    """Return the allowed value of an attribute, or None to drop it.

    Control characters in an address must not hide its scheme, and a class may only name a programming language.
    """
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
    except ValueError:  # an invalid address, such as //[
        return None
