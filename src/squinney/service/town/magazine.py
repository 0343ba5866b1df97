"""The magazine with its pictures and comments, and the pages of the town's businesses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from squinney.content import Comments, Moderation, Nodes, Photos
from squinney.content.documents import Author
from squinney.content.nodes.documents import Node
from squinney.errors import SlugTaken
from squinney.service.town.parts import Town
from squinney.service.town.people import people
from squinney.service.town.products import TEXTS
from squinney.service.town.scenes import scene
from squinney.transactions import Key

STRANGERS: dict[str, Author] = {
    "anna-sells": {"_id": "demo-anna-sells", "name": "anna_sells_boots"},
    "wet-boots": {"_id": "demo-wet-boots", "name": "a man with wet boots"},
}
ALT = {
    "lighthouse": "The lighthouse at dusk, with its beam over the sea",
    "harbour": "Houses along the quay, and boats in front of them",
    "forest": "Firs in the fog, row behind row",
    "street": "A street by night, with lamps on one side",
    "night": "The lights of the town in the dark water",
    "shore": "Sand and pools at low water",
    "workshop": "Shelves, a window and a bench in a workshop",
    "library": "Shelves up to the ceiling, and a lamp on a table",
    "train": "A train with lit windows along the shore",
    "winter": "Ice floes in the harbour",
}


@dataclass
class Said:
    """A comment. `depth` is 1 for a comment on the entry; `flag` is the reason for which June has flagged it."""

    depth: int
    author: str
    text: str
    flag: str = ""


@dataclass
class Article:
    """An entry of the magazine, or a page."""

    slug: str
    title: str
    author: str
    days_ago: float
    tags: list[str]
    place: str
    paragraphs: list[str] = field(default_factory=list)
    comments: list[Said] = field(default_factory=list)


def articles(name: str) -> list[Article]:
    """Read a file of texts, whose articles begin with `===`, and their comments with `@` or, if flagged, with `!`."""
    articles: list[Article] = []
    for line in (TEXTS / name).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("==="):
            slug, title, author, days, tags, place = cells
            tagged = [tag.strip() for tag in tags.split(",") if tag.strip()]
            articles.append(Article(slug.removeprefix("=== "), title, author, float(days), tagged, place))
        elif line.startswith("@"):
            depth = len(line) - len(line.lstrip("@"))
            articles[-1].comments.append(Said(depth, cells[0].lstrip("@ "), cells[1]))
        elif line.startswith("!"):
            articles[-1].comments.append(Said(1, cells[0].lstrip("! "), cells[1], cells[2]))
        elif articles:
            articles[-1].paragraphs.append(line)
    return articles


def load(town: Town) -> None:
    """Load the pages, the gallery with a picture for each, and the magazine with its comments.

    Atomic: each page, picture, comment and flag by itself.
    After a crash: the next call continues.
    """
    june = people()["june"].author
    nodes = _nodes(town, 361)
    gallery = _created(nodes, None, "gallery", "gallery", "Places", june, town.ago(361), "Where all this happens.")
    for page in articles("pages.txt"):
        _load_article(town, page, None, gallery, "basic-page")
    intro = "What people write in Saltmere, and what others answer."
    magazine = _created(nodes, None, "magazine", "blog", "The magazine", june, town.ago(361), intro)
    for entry in sorted(articles("magazine.txt"), key=lambda article: -article.days_ago):
        node = _load_article(town, entry, magazine, gallery, "blog-entry")
        _load_comments(town, entry, node)


def _nodes(town: Town, days_ago: float) -> Nodes:
    return Nodes(town.db, clock=partial(town.ago, days_ago))


def _created(
    nodes: Nodes,
    parent: Node | None,
    slug: str,
    kind: str,
    title: str,
    author: Author,
    at: datetime,
    text: str,
    tags: list[str] | None = None,
) -> Node:
    with suppress(SlugTaken):
        return nodes.create(parent, slug, kind, title, author, {"text": text}, tags or [], published=at)
    return nodes.get(parent, slug)


def _load_article(town: Town, article: Article, parent: Node | None, gallery: Node, kind: str) -> Node:
    author, at = people()[article.author].author, town.ago(article.days_ago)
    nodes = _nodes(town, article.days_ago)
    picture = _picture(town, nodes, article, gallery, author, at)
    alt = ALT[article.place]
    text = f"![{alt}](/site/-/asset/{picture['_id']})\n\n" + "\n".join(article.paragraphs).strip() + "\n"
    return _created(nodes, parent, article.slug, kind, article.title, author, at, text, article.tags)


def _picture(town: Town, nodes: Nodes, article: Article, gallery: Node, author: Any, at: datetime) -> Node:
    photos = Photos(town.db, nodes=nodes, clock=partial(town.ago, article.days_ago))
    with suppress(SlugTaken):
        return photos.upload(
            scene(article.place, article.slug),
            gallery,
            article.slug,
            author=author,
            title=article.title,
            detail={"alt": ALT[article.place]},
            tags=[article.place],
            published=at,
        )
    return nodes.get(gallery, article.slug)


def _load_comments(town: Town, article: Article, node: Node) -> None:
    slugs: list[str] = []
    for number, said in enumerate(article.comments):
        at = town.ago(article.days_ago) + timedelta(hours=1.7 * (number + 1))
        comments = Comments(town.db, clock=lambda at=at: at)  # type: ignore[misc]
        author = STRANGERS[said.author] if said.flag else people()[said.author].author
        slugs = slugs[: said.depth - 1]
        reply_to = slugs[-1] if slugs else None
        key = Key(f"demo {number}", node["_id"])
        slugs.append(comments.post(node["_id"], author, said.text, reply_to, key=key)["slug"])
        if said.flag:
            moderation = Moderation(town.db, comments, clock=lambda at=at: at)  # type: ignore[misc]
            moderation.flag(node["_id"], slugs[-1], people()["june"].id, said.flag)


def paths() -> Iterator[tuple[str, float]]:
    """Yield the path of each page, and how many days ago it was published."""
    for name, above in (("pages.txt", "/site"), ("magazine.txt", "/site/magazine")):
        for article in articles(name):
            yield f"{above}/{article.slug}", article.days_ago
