"""All services of content on one database."""

from __future__ import annotations

from typing import Any

from squinney.content.comments.comments import Comments
from squinney.content.comments.moderation import Moderation
from squinney.content.comments.people import People
from squinney.content.files.photos import Photos
from squinney.content.nodes.nodes import Nodes
from squinney.mongo.schema import Db
from squinney.transactions import Transactions


def build(db: Db, transactions: Transactions) -> dict[str, Any]:
    """The services, by name."""
    nodes = Nodes(db, transactions=transactions)
    comments = Comments(db, transactions=transactions)
    return {
        "nodes": nodes,
        "photos": Photos(db, nodes=nodes, transactions=transactions),
        "comments": comments,
        "moderation": Moderation(db, comments, nodes=nodes),
        "people": People(db, comments),
    }
