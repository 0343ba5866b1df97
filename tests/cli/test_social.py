"""The commands of the social network."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.cli.conftest import Squinney

from squinney.mongo.schema import Db


def test_a_graph_is_imported_and_a_post_is_delivered(squinney: Squinney, ready_db: Db, tmp_path: Path) -> None:
    file = tmp_path / "graph.txt.gz"
    file.write_bytes(gzip.compress(b"# who follows whom\n1 2\n3\t2\n\n2 1\n"))
    loaded = squinney("social", "load-graph", str(file), "--prefix", "g")
    assert (loaded.returncode, loaded.stdout.strip()) == (0, "3 edges read, 3 new"), loaded.stderr
    assert squinney("social", "post", "g2", "hello there").returncode == 0
    fed = squinney("social", "feed", "g1", "--json")
    assert [one["detail"]["text"] for one in json.loads(fed.stdout)["items"]] == ["hello there"]
    assert "hello there" in squinney("social", "feed", "g3").stdout
    assert json.loads(squinney("social", "stats", "--json").stdout)["deliveries"] == 2
    bad = tmp_path / "bad.txt"
    bad.write_text("1 2\nonly-one\n")
    refused = squinney("social", "load-graph", str(bad))
    assert "line 2" in refused.stderr
    assert squinney("social", "feed", "nobody").returncode == 3
