"""The server cuts long error messages, even inside a character; they are errors of the system all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bson
import pytest
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument
from pymongo.errors import DuplicateKeyError
from tests.plugins.shelf import Prepared

from squinney import assembly
from squinney.errors import Conflict
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.transactions import Step, Transactions

# The message is cut after a number of bytes: one of three beginnings has the cut inside a character.
LONG = ["a" * number + "日本語" * 60 for number in range(3)]
FIND_ONE_AND: list[Callable[[Any, str], Any]] = [
    lambda jars, long: jars.find_one_and_update({"_id": long, "new": True}, {"$set": {"n": 1}}, upsert=True),
    lambda jars, long: jars.find_one_and_replace({"_id": long, "new": True}, {"n": 1}, upsert=True),
]


@pytest.mark.parametrize("long", LONG, ids=range(3))
@pytest.mark.parametrize("act", FIND_ONE_AND, ids=["update", "replace"])
def test_a_duplicate_is_a_duplicate_for_each_command(db: Db, act: Callable[[Any, str], Any], long: str):
    jars = pinned(db)["jars"]
    jars.insert_one({"_id": long})
    with pytest.raises(DuplicateKeyError) as caught:
        act(jars, long)
    assert caught.value.code == 11000
    with db.client.start_session() as session, pytest.raises(DuplicateKeyError), session.start_transaction():
        jars.find_one_and_update({"_id": long, "new": True}, {"$set": {"n": 1}}, upsert=True, session=session)


@pytest.mark.parametrize("long", LONG, ids=range(3))
def test_a_duplicate_is_a_conflict_in_a_transaction(prepared: Prepared, long: str):
    db = prepared(assembly.CORE_COLLECTIONS)
    db["jars"].insert_one({"_id": long})
    with pytest.raises(Conflict):
        Transactions(db).run("fill", [Step("jars", long, insert={"n": 1})])
    db["jars"].drop()


@pytest.mark.parametrize("long", LONG, ids=range(3))
def test_a_stored_document_is_never_decoded_leniently(db: Db, long: str):
    """Else a damaged text would be stored again, with another character in its place."""
    broken = bson.encode({"_id": "broken", "text": "abc"}).replace(b"abc", b"a\xff\xfe")
    db["jars"].insert_one(RawBSONDocument(broken))
    jars = pinned(db)["jars"]
    with pytest.raises(InvalidBSON):
        jars.find_one_and_update({"_id": "broken"}, {"$set": {"n": 1}})
    assert jars.find_one_and_update({"_id": "none"}, {"$set": {"n": 1}}) is None
    jars.insert_one({"_id": long, "deep": {"list": [{"text": long}]}})
    same: Document | None = jars.find_one_and_delete({"_id": long})
    assert same == {"_id": long, "deep": {"list": [{"text": long}]}}
    assert type(same["deep"]) is dict
