"""The shapes and collections of the category tree."""

from __future__ import annotations

from typing import TypedDict

from squinney.mongo.schema import Collection, Index
from squinney.patterns.ancestors import Tree


class Ancestor(TypedDict):
    """The copy of an ancestor that a category keeps."""

    _id: str
    slug: str
    name: str


class Category(TypedDict):
    """A node of the category tree. `ancestors` begins with the parent and ends with the root."""

    _id: str
    slug: str
    name: str
    parent: str | None
    ancestors: list[Ancestor]
    position: int
    version: int


CATEGORY_TREE = Tree(copied=("slug", "name"))
MAX_DEPTH = 100

CATEGORY_COLLECTIONS = [
    Collection(
        "commerce.categories",
        formerly="categories",
        indexes=[
            Index([("slug", 1)], unique=True, why="get(), and one category per slug"),
            Index([("ancestors._id", 1), ("_id", 1)], why="the descendants of a category"),
            Index([("parent", 1), ("position", 1), ("_id", 1)], why="children(), in order of position"),
        ],
        unsharded="slugs are unique, and a tree is small: tens of thousands of nodes",
    ),
    Collection(
        "commerce.category_tree",
        formerly="category_tree",
        unsharded="one document, which every change of the tree writes first",
    ),
]
