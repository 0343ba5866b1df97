"""The guarantees of a connection, and what becomes of the driver's errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from squinney.mongo.connect import operation, server_now


def test_the_servers_time_is_aware_and_in_whole_milliseconds(db):
    now = server_now(db)
    assert now.tzinfo is UTC or now.utcoffset() == timedelta(0)
    assert now.microsecond % 1000 == 0
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_operation_in_time_is_left_alone(db):
    with operation():
        db.things.insert_one({"_id": 1})
    assert db.things.find_one() == {"_id": 1}
