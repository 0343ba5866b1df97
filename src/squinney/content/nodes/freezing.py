"""The freeze of a discussion, during which no comment is written. It has a time limit, and any writer lifts it then."""

from __future__ import annotations

from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now


@operation(5)
def thaw(db: Db, collection: str, node_id: str, token: str) -> None:
    """Lift the freeze with this token."""
    where = {"_id": node_id, "metadata.discussion.frozen.token": token}
    db[collection].update_one(where, {"$unset": {"metadata.discussion.frozen": ""}})


def thaw_if_expired(db: Db, collection: str, node_id: str, frozen: Document) -> None:
    """Lift the freeze of a conversion that died; without its token the conversion cannot switch any more."""
    # guard: a freeze is not lifted before it expires
    # guard: an expired freeze is lifted
    if frozen["until"] < server_now(db):
        thaw(db, collection, node_id, frozen["token"])
