"""All nouns of content on one database."""

from __future__ import annotations

from typing import Any

from squinney.content.comments import Comments
from squinney.content.moderation import Moderation
from squinney.content.nodes import Nodes
from squinney.content.people import People
from squinney.content.photos import Photos
from squinney.mongo.schema import Db
from squinney.patterns.transactions import Transactions


def build(db: Db, transactions: Transactions) -> dict[str, Any]:
    """The nouns, by name."""
    nodes = Nodes(db, transactions=transactions)
    comments = Comments(db, transactions=transactions)
    return {
        "nodes": nodes,
        "photos": Photos(db, nodes=nodes, transactions=transactions),
        "comments": comments,
        "moderation": Moderation(db, comments),
        "people": People(db, comments),
    }
