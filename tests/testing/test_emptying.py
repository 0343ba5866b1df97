"""What the sweep and the explorer empty between two runs."""

from __future__ import annotations

from squinney.mongo.schema import Db
from squinney.testing.emptying import collection_names, empty


def test_a_view_is_emptied_with_its_collection(db: Db) -> None:
    db["jars"].insert_one({"_id": 1})
    db.create_collection("full_jars", viewOn="jars", pipeline=[])
    assert collection_names(db) == ["jars"]
    empty(db, collection_names(db))
    assert list(db["full_jars"].find()) == []
