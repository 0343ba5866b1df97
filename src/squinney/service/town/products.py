"""The 72 products of the record and film shop."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from squinney.commerce.catalog.products import product_from
from squinney.commerce.pictures.documents import picture_document
from squinney.mongo.schema import Document
from squinney.service.town.covers import SIDE, cover

TEXTS = Path(__file__).parent / "texts"
PATHS = [
    *(["Music", genre] for genre in ("Jazz", "Folk", "Rock", "Classical", "Electronic", "Sea songs")),
    *(["Films", genre] for genre in ("Silent", "Noir", "Drama", "Comedy", "Documentary", "Animation")),
]


@dataclass(frozen=True)
class Product:
    """A record or film of the shop. `people` is the artist, or the director and then the actors."""

    kind: str
    genre: str
    title: str
    people: list[str]
    year: int
    retail: int
    list_price: int
    text: str
    tracks: list[str]

    @property
    def sku(self) -> str:
        """The SKU, made from the title."""
        return f"{'lp' if self.kind == 'Audio Album' else 'film'}-{slug_of(self.title)}"

    @property
    def path(self) -> str:
        """The path of the product's page."""
        return f"/shop/products/{self.sku}"


def read_texts(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a file of texts, each with the heading above it, and its cells, which `|` separates."""
    heading = ""
    for line in (TEXTS / name).read_text(encoding="utf-8").splitlines():
        if "|" in line and not line.startswith("#"):
            yield heading, [cell.strip() for cell in line.split("|")]
        elif line.strip():
            heading = line.strip()


def slug_of(title: str) -> str:
    """Return the title as part of a path."""
    return re.sub("[^a-z0-9]+", "-", title.lower().replace("'", "")).strip("-")


def id_from(*parts: object) -> str:
    """Return an id of 26 characters that is the same each time."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:26]


def products() -> list[Product]:
    """Return all products, albums first."""
    products = []
    for name, kind in (("albums.txt", "Audio Album"), ("films.txt", "Film")):
        products += [_product(kind, genre, cells) for genre, cells in read_texts(name)]
    return products


def _product(kind: str, genre: str, cells: list[str]) -> Product:
    title, first, rest = cells[0], cells[1], cells[2:]
    people = [first]
    if kind == "Film":
        people += [name.strip() for name in rest.pop(0).split(";")]
    tracks = [track.strip() for track in rest[4].split(";")] if len(rest) > 4 else []
    return Product(kind, genre, title, people, int(rest[0]), int(rest[1]), int(rest[2]), rest[3], tracks)


def document_of(product: Product, category_id: str) -> Document:
    """Return the product's document, checked like one that an editor adds."""
    details: dict[str, Any] = {"genre": [product.genre], "issue_date": datetime(product.year, 5, 1, tzinfo=UTC)}
    if product.kind == "Film":
        details |= {"director": product.people[:1], "actor": product.people[1:]}
    else:
        details |= {"artist": product.people[0], "tracks": [{"title": track} for track in product.tracks]}
    given = {
        "_id": product.sku,
        "type": product.kind,
        "title": product.title,
        "description": product.text,
        "category_ids": [category_id],
        "pricing": {"list": product.list_price, "retail": product.retail, "currency": "EUR"},
        "details": details,
        "properties": {"Format": "Vinyl" if product.kind == "Audio Album" else "DVD"},
    }
    return {**product_from(given), "version": 1, "added_id": id_from("product", product.sku)}


def picture_of(product: Product, number: int, at: datetime) -> Document:
    """Return the document of the product's cover."""
    drawn = cover(product.title, product.people[0], product.genre, number)
    picture_id = id_from("cover", product.sku)
    alt = f"The cover of “{product.title}” by {product.people[0]}"
    size = ({"width": SIDE, "height": SIDE, "type": "image/svg+xml"}, drawn)
    return picture_document(picture_id, product.sku, id_from("product", product.sku), alt, at, [size])  # type: ignore[list-item]
