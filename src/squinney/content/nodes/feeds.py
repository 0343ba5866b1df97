"""Feeds of recent nodes: RSS 2.0 and Atom. What people typed is text in XML, and rendered harmless before that."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import cast
from xml.etree import ElementTree

from squinney.content.nodes import render
from squinney.content.nodes.documents import Node
from squinney.mongo.schema import Document

ATOM = "http://www.w3.org/2005/Atom"
DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"
# XML 1.0 has no way to write these characters.
UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

ElementTree.register_namespace("atom", ATOM)
ElementTree.register_namespace("dc", DUBLIN_CORE)


@dataclass(frozen=True)
class Feed:
    """What a feed is about: its title, where it is read, where it comes from, and each entry with its address.

    `asset_url` says where a photo's or video's bytes are, `elsewhere` where long texts are rendered.
    """

    title: str
    page_url: str
    feed_url: str
    entries: Sequence[tuple[Node, str]]
    asset_url: Callable[[Node], str] = lambda node: f"urn:squinney:node:{node['_id']}"
    elsewhere: render.Elsewhere | None = None

    @property
    def updated(self) -> datetime:
        """When it last changed: the newest of what is in it."""
        times = [_latest(node) for node, _ in self.entries]
        return max(times, default=datetime(2000, 1, 1, tzinfo=UTC))


def rss(feed: Feed) -> bytes:
    """The feed as RSS 2.0."""
    root = ElementTree.Element("rss", version="2.0")
    channel = ElementTree.SubElement(root, "channel")
    _text(channel, "title", feed.title)
    _text(channel, "link", feed.page_url)
    _text(channel, "description", feed.title)
    _text(channel, "lastBuildDate", format_datetime(feed.updated.astimezone(UTC), usegmt=True))
    _text(channel, "docs", "https://www.rssboard.org/rss-specification")
    ElementTree.SubElement(channel, f"{{{ATOM}}}link", href=feed.feed_url, rel="self", type="application/rss+xml")
    for node, url in feed.entries:
        _rss_item(ElementTree.SubElement(channel, "item"), feed, node, url)
    return _written(root)


def _rss_item(item: ElementTree.Element, feed: Feed, node: Node, url: str) -> None:
    metadata = node["metadata"]
    _text(item, "title", metadata["title"])
    _text(item, "link", url)
    _text(item, "description", _html(feed, node, url))
    _text(item, f"{{{DUBLIN_CORE}}}creator", metadata["author"]["name"])
    _text(item, "pubDate", format_datetime(_published(node).astimezone(UTC), usegmt=True))
    _text(item, "guid", f"urn:squinney:node:{node['_id']}").set("isPermaLink", "false")
    for tag in metadata["tags"]:
        _text(item, "category", tag)
    if file := _file(node):
        ElementTree.SubElement(
            item, "enclosure", url=feed.asset_url(node), length=str(file["length"]), type=file["content_type"]
        )


def atom(feed: Feed) -> bytes:
    """The feed as Atom (RFC 4287)."""
    root = ElementTree.Element(f"{{{ATOM}}}feed")
    _text(root, f"{{{ATOM}}}title", feed.title)
    _text(root, f"{{{ATOM}}}id", feed.feed_url)
    _text(root, f"{{{ATOM}}}updated", _iso(feed.updated))
    ElementTree.SubElement(root, f"{{{ATOM}}}link", href=feed.feed_url, rel="self", type="application/atom+xml")
    ElementTree.SubElement(root, f"{{{ATOM}}}link", href=feed.page_url, rel="alternate", type="text/html")
    if not feed.entries:
        _text(ElementTree.SubElement(root, f"{{{ATOM}}}author"), f"{{{ATOM}}}name", feed.title)
    for node, url in feed.entries:
        _atom_entry(ElementTree.SubElement(root, f"{{{ATOM}}}entry"), feed, node, url)
    return _written(root)


def _atom_entry(entry: ElementTree.Element, feed: Feed, node: Node, url: str) -> None:
    metadata = node["metadata"]
    _text(entry, f"{{{ATOM}}}title", metadata["title"])
    _text(entry, f"{{{ATOM}}}id", f"urn:squinney:node:{node['_id']}")
    _text(entry, f"{{{ATOM}}}published", _iso(_published(node)))
    _text(entry, f"{{{ATOM}}}updated", _iso(_latest(node)))
    _text(ElementTree.SubElement(entry, f"{{{ATOM}}}author"), f"{{{ATOM}}}name", metadata["author"]["name"])
    ElementTree.SubElement(entry, f"{{{ATOM}}}link", href=url, rel="alternate", type="text/html")
    if file := _file(node):
        about = {"href": feed.asset_url(node), "length": str(file["length"]), "type": file["content_type"]}
        ElementTree.SubElement(entry, f"{{{ATOM}}}link", rel="enclosure", **about)
    for tag in metadata["tags"]:
        ElementTree.SubElement(entry, f"{{{ATOM}}}category", term=_clean(tag))
    _text(entry, f"{{{ATOM}}}content", _html(feed, node, url)).set("type", "html")


def _written(root: ElementTree.Element) -> bytes:
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _html(feed: Feed, node: Node, url: str) -> str:
    """The picture, if it is one, and the text. Read elsewhere, so its links name the site."""
    text = node["metadata"]["detail"].get("text", "")
    return _picture(feed, node) + render.markdown(text, base_url=url, elsewhere=feed.elsewhere)


def _picture(feed: Feed, node: Node) -> str:
    metadata, file = node["metadata"], _file(node)
    if not file:
        return ""
    where = html.escape(feed.asset_url(node))
    if metadata["type"] != "photo":
        return f'<p><a href="{where}">{html.escape(metadata["title"])}</a></p>\n'
    alt = html.escape(metadata["detail"].get("alt") or metadata["title"])
    return f'<p><img src="{where}" alt="{alt}" width="{file["width"]}" height="{file["height"]}"></p>\n'


def _file(node: Node) -> Document | None:
    """What everyone may have of a photo or video: length, type, and of a photo its size."""
    detail = node["metadata"]["detail"]
    if not detail.get("file_id"):
        return None
    return cast(Document, detail["web"] or detail)


def _published(node: Node) -> datetime:
    return node["metadata"]["published"] or node["metadata"]["created"]


def _latest(node: Node) -> datetime:
    return max(node["metadata"]["updated"], _published(node))


def _iso(at: datetime) -> str:
    utc = at.astimezone(UTC)
    return f"{utc.year:04}-{utc:%m-%dT%H:%M:%SZ}"  # %Y gives a year below 1000 less than the four digits it needs


def _text(parent: ElementTree.Element, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, name)
    element.text = _clean(text)
    return element


def _clean(text: str) -> str:
    return UNSPEAKABLE.sub("\ufffd", text)
