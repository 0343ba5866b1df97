"""Demo data: a small site."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

from squinney.clock import utcnow
from squinney.content.comments.comments import Comments
from squinney.content.documents import Author, Strategy
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.photos.photos import Photos
from squinney.errors import SlugTaken
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
COMMENTS = ["Lovely.", "I had to read this **twice**.", "More of this, please."]
COLOURS = [("dawn", "#e8a87c", "#41436a"), ("forest", "#2d6a4f", "#d8f3dc"), ("lake", "#1d3557", "#a8dadc")]


def demo(db: Db) -> None:
    """Create a few pages, entries, photos and comments; existing ones are not changed.

    Atomic: each node, photo and comment separately.
    After a crash: the next call continues.
    """
    nodes, photos = Nodes(db), Photos(db)
    _page(nodes, None, "welcome", "basic-page", "Welcome", WELCOME, ["about"])
    blog = _page(nodes, None, "blog", "blog", "Our blog", "What happens around here.", [])
    for slug, title, text, strategy in ENTRIES:
        entry = _page(nodes, blog, slug, "blog-entry", title, text, ["nature"] if "snow" in slug else ["life"])
        _post_comments(Comments(db, strategy, only_nodes=True), entry)
    gallery = _page(nodes, None, "gallery", "gallery", "Gallery", "Three small pictures.", [])
    for slug, first, second in COLOURS:
        _photo(photos, gallery, slug, first, second)


def _page(nodes: Nodes, parent: Node | None, slug: str, type_: str, title: str, text: str, tags: list[str]) -> Node:
    try:
        return nodes.create(parent, slug, type_, title, ADA, {"text": text}, tags, published=utcnow())
    except SlugTaken:
        return nodes.get(parent, slug)


def _post_comments(comments: Comments, entry: Node) -> None:
    reply_to = None
    for number, text in enumerate(COMMENTS):
        author = BEN if number % 2 else ADA
        comment = comments.post(entry["_id"], author, text, reply_to, key=Key(f"demo {number}", entry["_id"]))
        reply_to = comment["slug"] if number == 0 and comments.strategy_of(entry) != "paged" else None


def _photo(photos: Photos, gallery: Node, slug: str, first: str, second: str) -> None:
    from PIL import Image, ImageDraw  # imported here, because only photos need Pillow

    image: Any = Image.new("RGB", (960, 640), first)
    draw = ImageDraw.Draw(image)
    for ring in range(8):
        draw.ellipse([280 - ring * 40, 120 - ring * 40, 680 + ring * 40, 520 + ring * 40], outline=second, width=6)
    target = io.BytesIO()
    image.save(target, "PNG")
    target.seek(0)
    with suppress(SlugTaken):
        photos.upload(
            target, gallery, slug, author=ADA, title=slug.title(), tags=["nature"], published=utcnow(),
            detail={"alt": f"Rings in the colours of a {slug}"},
        )  # fmt: skip
