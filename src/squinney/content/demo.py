"""A small site to look at on the first start."""

from __future__ import annotations

import io
from typing import Any

from squinney.clock import utcnow
from squinney.content.comments.comments import Comments
from squinney.content.comments.documents import Strategy
from squinney.content.documents import Author
from squinney.content.errors import SlugTaken
from squinney.content.files.photos import Photos
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.mongo.schema import Db
from squinney.transactions import Key

ADA: Author = {"_id": "demo-ada", "name": "Ada"}
BEN: Author = {"_id": "demo-ben", "name": "Ben"}

WELCOME = """\
This site is a tree of *nodes*: pages, blog entries, photos. Every edit keeps a version, and two people who edit the
same page get a **merge** instead of a lost hour.

- [The blog](/site/blog), with comments
- [The gallery](/site/gallery)
"""
ENTRIES: list[tuple[str, str, str, Strategy]] = [
    ("ground-squirrels", "Thirteen lines", "A ground squirrel sleeps through *six months* of the year.", "separate"),
    ("bread", "Bread, again", "Flour, water, salt, and a long night.\n\n> Patience is an ingredient.", "embedded"),
    ("first-snow", "First snow", "It came on a Sunday and stayed.", "paged"),
]
TALK = ["Lovely.", "I had to read this **twice**.", "More of this, please."]
COLOURS = [("dawn", "#e8a87c", "#41436a"), ("forest", "#2d6a4f", "#d8f3dc"), ("lake", "#1d3557", "#a8dadc")]


def demo(db: Db) -> None:
    """Make a few pages, entries, photos and comments, once: what is there already is left alone.

    Atomic: each node, photo and comment by itself.
    After a crash: the next call goes on.
    """
    nodes, photos = Nodes(db), Photos(db)
    _made(nodes, None, "welcome", "basic-page", "Welcome", WELCOME, ["about"])
    blog = _made(nodes, None, "blog", "blog", "Our blog", "What happens around here.", [])
    for slug, title, text, strategy in ENTRIES:
        entry = _made(nodes, blog, slug, "blog-entry", title, text, ["nature"] if "snow" in slug else ["life"])
        _talk(Comments(db, strategy), entry)
    gallery = _made(nodes, None, "gallery", "gallery", "Gallery", "Three small pictures.", [])
    for slug, first, second in COLOURS:
        _photo(photos, gallery, slug, first, second)


def _made(nodes: Nodes, parent: Node | None, slug: str, type_: str, title: str, text: str, tags: list[str]) -> Node:
    try:
        return nodes.create(parent, slug, type_, title, ADA, {"text": text}, tags, published=utcnow())
    except SlugTaken:
        return nodes.get(parent, slug)


def _talk(comments: Comments, entry: Node) -> None:
    """Keys make a second call say nothing new."""
    reply_to = None
    for number, text in enumerate(TALK):
        author = BEN if number % 2 else ADA
        comment = comments.post(entry["_id"], author, text, reply_to, key=Key(f"demo {number}", entry["_id"]))
        reply_to = comment["slug"] if number == 0 and comments.strategy_of(entry) != "paged" else None


def _photo(photos: Photos, gallery: Node, slug: str, first: str, second: str) -> None:
    from PIL import Image, ImageDraw  # which only photos need

    image: Any = Image.new("RGB", (960, 640), first)
    draw = ImageDraw.Draw(image)
    for ring in range(8):
        draw.ellipse([280 - ring * 40, 120 - ring * 40, 680 + ring * 40, 520 + ring * 40], outline=second, width=6)
    target = io.BytesIO()
    image.save(target, "PNG")
    target.seek(0)
    try:
        photos.upload(
            target, gallery, slug, author=ADA, title=slug.title(), tags=["nature"], published=utcnow(),
            detail={"alt": f"Rings in the colours of a {slug}"},
        )  # fmt: skip
    except SlugTaken:
        return
