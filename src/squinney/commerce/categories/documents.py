"""The shapes and collections of the category tree."""

from __future__ import annotations

from typing import TypedDict

from squinney.mongo.schema import Collection, Index
from squinney.patterns.ancestors import Tree


class Ancestor(TypedDict):
    """What a category keeps of each category above it."""

    _id: str
    slug: str
    name: str


class Category(TypedDict):
    """A node of the category tree; `ancestors` has the nearest first."""

    _id: str
    slug: str
    name: str
    parent: str | None
    ancestors: list[Ancestor]
    position: int
    version: int


CATEGORY_TREE = Tree(copied=("slug", "name"))
MOST_DEPTH = 100

CATEGORY_COLLECTIONS = [
    Collection(
        "categories",
        indexes=[
            Index([("slug", 1)], unique=True, why="get(), and one category per slug"),
            Index([("ancestors._id", 1), ("_id", 1)], why="everything below a category"),
            Index([("parent", 1), ("position", 1), ("_id", 1)], why="children(), in their order"),
        ],
        unsharded="slugs are unique, and a tree is small: tens of thousands of nodes",
    ),
    Collection("category_tree", unsharded="one document, which every change of the tree touches first"),
]
