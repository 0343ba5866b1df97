"""RSS 2.0 and Atom feeds of recent nodes. Texts are rendered to sanitised HTML first and then escaped as XML text."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import cast
from xml.etree import ElementTree

from squinney.content.markup import render
from squinney.content.nodes.documents import Node
from squinney.mongo.schema import Document

ATOM = "{http://www.w3.org/2005/Atom}"
DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
INVALID_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

ElementTree.register_namespace("atom", ATOM.strip("{}"))
ElementTree.register_namespace("dc", DUBLIN_CORE.strip("{}"))


@dataclass(frozen=True)
class Feed:
    """The content of a feed: its title, the URL of its page, its own URL, and the entries, each with its URL.

    `identity` is the same whatever address the feed was read at. `asset_url` returns the URL of a photo's or video's
    bytes. `offload` renders long texts (see `render.markdown`).
    """

    title: str
    page_url: str
    feed_url: str
    entries: Sequence[tuple[Node, str]]
    identity: str
    asset_url: Callable[[Node], str] = lambda node: f"urn:squinney:node:{node['_id']}"
    offload: render.Offload | None = None

    @property
    def updated(self) -> datetime:
        """The time of the newest change of an entry."""
        times = [_last_changed(node) for node, _ in self.entries]
        return max(times, default=datetime(2000, 1, 1, tzinfo=UTC))


def rss(feed: Feed) -> bytes:
    """Return the feed as RSS 2.0."""
    root = ElementTree.Element("rss", version="2.0")
    channel = _add(root, "channel")
    _add(channel, "title", feed.title)
    _add(channel, "link", feed.page_url)
    _add(channel, "description", feed.title)
    _add(channel, "lastBuildDate", format_datetime(feed.updated.astimezone(UTC), usegmt=True))
    _add(channel, "docs", "https://www.rssboard.org/rss-specification")
    _add(channel, f"{ATOM}link", href=feed.feed_url, rel="self", type="application/rss+xml")
    for node, url in feed.entries:
        _rss_item(_add(channel, "item"), feed, node, url)
    return _to_bytes(root)


def _rss_item(item: ElementTree.Element, feed: Feed, node: Node, url: str) -> None:
    metadata = node["metadata"]
    _add(item, "title", metadata["title"])
    _add(item, "link", url)
    _add(item, "description", _html(feed, node, url))
    _add(item, f"{DUBLIN_CORE}creator", metadata["author"]["name"])
    _add(item, "pubDate", format_datetime(_published(node).astimezone(UTC), usegmt=True))
    _add(item, "guid", f"urn:squinney:node:{node['_id']}", isPermaLink="false")
    for tag in metadata["tags"]:
        _add(item, "category", tag)
    if file := _file(node):
        _add(item, "enclosure", url=feed.asset_url(node), length=str(file["length"]), type=file["content_type"])


def atom(feed: Feed) -> bytes:
    """Return the feed as Atom (RFC 4287)."""
    root = ElementTree.Element(f"{ATOM}feed")
    _add(root, f"{ATOM}title", feed.title)
    _add(root, f"{ATOM}id", feed.identity)
    _add(root, f"{ATOM}updated", _iso(feed.updated))
    _add(root, f"{ATOM}link", href=feed.feed_url, rel="self", type="application/atom+xml")
    _add(root, f"{ATOM}link", href=feed.page_url, rel="alternate", type="text/html")
    if not feed.entries:
        _add(_add(root, f"{ATOM}author"), f"{ATOM}name", feed.title)
    for node, url in feed.entries:
        _atom_entry(_add(root, f"{ATOM}entry"), feed, node, url)
    return _to_bytes(root)


def _atom_entry(entry: ElementTree.Element, feed: Feed, node: Node, url: str) -> None:
    metadata = node["metadata"]
    _add(entry, f"{ATOM}title", metadata["title"])
    _add(entry, f"{ATOM}id", f"urn:squinney:node:{node['_id']}")
    _add(entry, f"{ATOM}published", _iso(_published(node)))
    _add(entry, f"{ATOM}updated", _iso(_last_changed(node)))
    _add(_add(entry, f"{ATOM}author"), f"{ATOM}name", metadata["author"]["name"])
    _add(entry, f"{ATOM}link", href=url, rel="alternate", type="text/html")
    if file := _file(node):
        enclosure = {"href": feed.asset_url(node), "length": str(file["length"]), "type": file["content_type"]}
        _add(entry, f"{ATOM}link", rel="enclosure", **enclosure)
    for tag in metadata["tags"]:
        _add(entry, f"{ATOM}category", term=tag)
    _add(entry, f"{ATOM}content", _html(feed, node, url), type="html")


def _to_bytes(root: ElementTree.Element) -> bytes:
    encoded: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return encoded


def _html(feed: Feed, node: Node, url: str) -> str:
    """Return an entry's picture or link to its video, then its text, with absolute links for use on other sites."""
    text = node["metadata"]["detail"].get("text", "")
    # guard: a feed's entry has its photo
    return _picture(feed, node) + render.markdown(text, base_url=url, offload=feed.offload)


def _picture(feed: Feed, node: Node) -> str:
    metadata, file = node["metadata"], _file(node)
    if not file:
        return ""
    address = html.escape(feed.asset_url(node))
    if metadata["type"] != "photo":
        return f'<p><a href="{address}">{html.escape(metadata["title"])}</a></p>\n'
    alt = html.escape(metadata["detail"].get("alt") or metadata["title"])
    return f'<p><img src="{address}" alt="{alt}" width="{file["width"]}" height="{file["height"]}"></p>\n'


def _file(node: Node) -> Document | None:
    """Return the length, type and size of the public file of a photo or video; None for other nodes."""
    detail = node["metadata"]["detail"]
    if not detail.get("file_id"):
        return None
    return cast(Document, detail["web"] or detail)


def _published(node: Node) -> datetime:
    return node["metadata"]["published"] or node["metadata"]["created"]


def _last_changed(node: Node) -> datetime:
    return max(node["metadata"]["updated"], _published(node))


def _iso(at: datetime) -> str:
    utc = at.astimezone(UTC)
    # guard: a year in a feed has four digits
    return f"{utc.year:04}-{utc:%m-%dT%H:%M:%SZ}"  # %Y writes a year below 1000 with fewer than four digits


def _add(parent: ElementTree.Element, name: str, text: str = "", **attributes: str) -> ElementTree.Element:
    valid = {key: INVALID_IN_XML.sub("\ufffd", value) for key, value in attributes.items()}
    element = ElementTree.SubElement(parent, name, valid)
    element.text = INVALID_IN_XML.sub("\ufffd", text)
    return element
