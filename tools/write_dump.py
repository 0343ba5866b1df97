"""Write what this version stores into `tests/upgrades`, once for each release: `python -m tools.write_dump`.

The dump has the demo data of every system in a database of its own: collections with their options, indexes and
documents, and what must be found again. Every later version must read it, so a dump of a release is never written anew.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bson import json_util
from bson.json_util import CANONICAL_JSON_OPTIONS

import squinney
from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.schema import Db

FOLDER = Path(__file__).parents[1] / "tests/upgrades"
DATABASE = "write_dump"
# What the server adds to its answers about a collection or an index.
ADDED = {"v", "ns", "background", "uuid"}


def totals(db: Db) -> dict[str, Any]:
    """Return what a later version must find: the number of documents, the money, and what was sold."""
    sums = db["ledger.accounts"].aggregate([{"$group": {"_id": "$currency", "sum": {"$sum": "$balance"}}}])
    counted = {name: db[name].count_documents({}) for name in sorted(db.list_collection_names())}
    return {
        "documents": {name: count for name, count in counted.items() if not name.startswith(("system.", "squinney."))},
        "balances": {total["_id"]: int(total["sum"]) for total in sums},
        "orders": sorted(order["_id"] for order in db["commerce.orders"].find({}, {"_id": 1})),
    }


def lines(db: Db) -> Iterator[str]:
    """Yield a line with the totals, then one per collection, each followed by one per document."""
    yield json_util.dumps({"version": squinney.__version__, "totals": totals(db)})
    for collection in sorted(db.list_collections(), key=lambda listed: listed["name"]):
        name = collection["name"]
        if name.startswith("system."):
            continue
        indexes = [
            {key: value for key, value in index.items() if key not in ADDED} for index in db[name].list_indexes()
        ]
        made = {"collection": name, "options": collection.get("options", {}), "indexes": indexes}
        yield json_util.dumps(made, json_options=CANONICAL_JSON_OPTIONS)
        for document in db[name].find().sort("_id", 1):
            yield json_util.dumps(document, json_options=CANONICAL_JSON_OPTIONS)


def main() -> None:
    """Make the data and write the dump."""
    target = FOLDER / f"{squinney.__version__}.jsonl.gz"
    if target.exists() and "--replace" not in sys.argv:
        sys.exit(f"{target.name} exists: a dump of a release is never written anew (--replace before the release)")
    with squinney.connect(database=DATABASE) as connection:
        connection.client.drop_database(DATABASE)
        schema.apply(connection.db, assembly.collections())
        assembly.load_demo(connection.db)
        text = "\n".join(lines(connection.db)).encode()
        connection.client.drop_database(DATABASE)
    target.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{target.name}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
