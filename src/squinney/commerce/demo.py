"""A small demo shop for the first start."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from squinney.commerce.catalog.catalog import Catalog
from squinney.commerce.categories.categories import Categories
from squinney.commerce.inventory.inventory import Inventory
from squinney.errors import NotFound
from squinney.mongo.schema import Db
from squinney.transactions import AlreadyExists, Key

PATHS = [
    ["Music", "Jazz", "Bebop"],
    ["Music", "Jazz", "Modal"],
    ["Music", "Rock"],
    ["Films", "Silent"],
    ["Films", "Noir"],
]
ALBUMS = [
    ("Blue Tuesday", "The Ground Squirrels", "jazz", ["Jazz"], "1961-03-02", 1_499, 1_099, 12),
    ("Thirteen Lines", "The Ground Squirrels", "modal", ["Jazz"], "1963-09-13", 1_799, 1_799, 3),
    ("Burrow Bop", "Nell Prairie", "bebop", ["Jazz", "Bop"], "1955-05-05", 1_299, 899, 1),
    ("Prairie Fire", "Dust & Thunder", "rock", ["Rock"], "1974-07-21", 1_599, 1_199, 20),
]
FILMS = [
    ("The Long Winter Sleep", ["Ida Marmot"], "silent", ["Drama"], "1926-11-01", 999, 799, 8),
    ("Night on the Prairie", ["Ida Marmot", "Tom Badger"], "noir", ["Crime", "Drama"], "1947-02-14", 1_299, 1_299, 5),
    ("Seeds of Doubt", ["Tom Badger"], "noir", ["Crime"], "1949-10-10", 1_299, 649, 0),
]


def demo(db: Db) -> None:
    """Add a category tree and a few products with stock; a second call adds nothing.

    Atomic: each category path, product and delivery separately.
    After a crash: the next call adds what is missing.
    """
    Categories(db).add_paths(PATHS)
    for number, (title, artist, slug, genre, date, listed, retail, units) in enumerate(ALBUMS):
        details = {"artist": artist, "genre": genre, "issue_date": date, "tracks": ["Side one", "Side two"]}
        _add_product(db, f"album-{number}", "Audio Album", title, slug, details, (listed, retail), units)
    for number, (title, actors, slug, genre, date, listed, retail, units) in enumerate(FILMS):
        details = {"actor": actors, "genre": genre, "issue_date": date}
        _add_product(db, f"film-{number}", "Film", title, slug, details, (listed, retail), units)


def _add_product(
    db: Db,
    sku: str,
    kind: str,
    title: str,
    slug: str,
    details: dict[str, Any],
    prices: tuple[int, int],
    units: int,
) -> None:
    try:
        category_ids = [Categories(db).get(slug)["_id"]]
    except NotFound:  # a user has changed the tree since the first call
        category_ids = []
    product = {
        "_id": sku,
        "type": kind,
        "title": title,
        "category_ids": category_ids,
        "pricing": {"list": prices[0], "retail": prices[1], "currency": "EUR"},
        "details": details,
        "properties": {"Format": "Vinyl" if kind == "Audio Album" else "DVD"},
    }
    with suppress(AlreadyExists):
        Catalog(db).add(product)
    if units:
        Inventory(db).receive(sku, units, reason="first delivery", key=Key(f"demo {sku}", "demo"))
