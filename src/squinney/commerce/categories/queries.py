"""Every query on the category tree, declared once."""

from __future__ import annotations

from squinney.commerce.categories.documents import CATEGORY_TREE
from squinney.mongo.queries import Pipeline, Query, declared

CATEGORY = Query("commerce.category", "commerce.categories", where=lambda slug: {"slug": slug}, example={"slug": "s"})
CATEGORIES_BY_ID = Query(
    "commerce.categories-by-id",
    "commerce.categories",
    where=lambda category_ids: {"_id": {"$in": category_ids}},
    example={"category_ids": ["c", "d"]},
)
CHILDREN = Query(
    "commerce.children",
    "commerce.categories",
    where=lambda parent: {"parent": parent},
    example={"parent": "c"},
    sort=[("position", 1), ("_id", 1)],
)
DESCENDANTS = Query(
    "commerce.descendants",
    "commerce.categories",
    where=lambda category_id: CATEGORY_TREE.below(category_id),
    example={"category_id": "c"},
    sort=[("_id", 1)],
)
TREE = Query(
    "commerce.tree",
    "commerce.categories",
    where=dict,
    sort=[("parent", 1), ("position", 1), ("_id", 1)],
)
DEPTH_BELOW = Pipeline(
    "commerce.deepest",
    "commerce.categories",
    stages=CATEGORY_TREE.deepest,
    example={"node_id": "c"},
)

QUERIES = declared(globals())
