"""Every declared query is served by an index, in its order, without a sort in memory."""

from __future__ import annotations

from squinney.content import QUERIES
from squinney.mongo.queries import stages
from squinney.mongo.schema import Db


def test_every_query_is_indexed(site: Db) -> None:
    for query in QUERIES:
        found = stages(query.explain(site))
        assert found & {"IXSCAN", "IDHACK"}, query.name
        assert not found & {"COLLSCAN", "SORT"}, query.name
