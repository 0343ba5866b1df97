"""The audit reports queries without an index, and those that it cannot judge."""

from __future__ import annotations

import pytest

from squinney.mongo.schema import Document
from squinney.testing import Audit


def _fill(audit: Audit) -> None:
    audit.db["jars"].insert_many([{"_id": number, "shelf": number % 3} for number in range(20)])
    audit.db["shelves"].insert_many([{"_id": number} for number in range(3)])


def test_a_query_by_id_is_not_reported_and_a_scan_is(audit: Audit) -> None:
    _fill(audit)
    audit.db["jars"].find_one({"_id": 1})
    audit.db["jars"].update_one({"_id": 1}, {"$set": {"shelf": 2}})
    audit.db["new_jars"].update_one({"_id": 1}, {"$set": {"shelf": 2}}, upsert=True)
    assert audit.slow_queries() == []
    audit.db["jars"].find_one({"shelf": 1})
    assert audit.slow_queries() == ['collection scan: find jars {"shelf": "?"}']


def test_a_misspelt_collection_is_reported(audit: Audit) -> None:
    _fill(audit)
    audit.db["jasr"].find_one({"shelf": 1})
    audit.db["jasr"].update_one({"shelf": 1}, {"$set": {"shelf": 2}})
    audit.db["jasr"].delete_one({"_id": 1})
    audit.db["jasr"].find_one_and_update({"_id": 1}, {"$set": {"shelf": 2}})
    audit.db["jasr"].distinct("shelf")
    audit.db["jasr"].count_documents({"shelf": 1})
    found = audit.slow_queries()
    assert len(found) == 6
    assert all(problem.startswith("no such collection: jasr: ") for problem in found)


LOOKUP = {"from": "shelfs", "localField": "shelf", "foreignField": "_id", "as": "on"}
GRAPH = {"from": "shelfs", "startWith": "$shelf", "connectFromField": "shelf", "connectToField": "_id", "as": "on"}


@pytest.mark.parametrize(
    "stage",
    [
        {"$lookup": LOOKUP},
        {"$graphLookup": GRAPH},
        {"$unionWith": "shelfs"},
        {"$unionWith": {"coll": "shelfs", "pipeline": []}},
        {"$unionWith": {"coll": "shelves", "pipeline": [{"$match": {"_id": 1}}, {"$lookup": LOOKUP}]}},
    ],
)
def test_a_misspelt_collection_inside_a_pipeline_is_reported(audit: Audit, stage: Document) -> None:
    _fill(audit)
    list(audit.db["jars"].aggregate([{"$match": {"_id": 1}}, stage]))
    (problem,) = audit.slow_queries()
    assert problem.startswith("no such collection: shelfs: aggregate jars")
