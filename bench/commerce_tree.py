"""Moves of a subtree of 10,000 categories, compared with the book's algorithm and with trees in PostgreSQL."""

from __future__ import annotations

import gzip
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import report
from bench._commerce_processes import HERE, Peer, fresh, peer
from squinney.commerce import Categories
from squinney.commerce.categories.documents import CATEGORY_TREE
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

SUBTREE = 10_000
OURS, BOOK = "squinney: one update", "the book: node by node"
PEERS = ("ltree", "treebeard MP", "treebeard NS")
MIN_AGAINST_BOOK = 20


def run(connection: Connection, *, rounds: int = 3) -> None:
    """Run the benchmark and write its page."""
    db = fresh(connection)
    paths, source = _paths()
    categories = Categories(db)
    categories.add_paths(paths)
    below = db["commerce.categories"].count_documents(CATEGORY_TREE.below(categories.get("x")["_id"]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "paths"
        file.write_text("\n".join(json.dumps(path) for path in paths), encoding="utf-8")
        Path(folder).chmod(0o755)
        with peer("_commerce_peers.py", str(file)) as trees:
            times, missing, version = _times(db, categories, trees, rounds)
    bare = _without_the_index(db, categories, rounds)
    connection.client.drop_database(db.name)
    _write(connection, f"{below + 1:,} categories of {source}", times, missing, version, rounds, bare)


def _times(
    db: Db, categories: Categories, trees: Peer, rounds: int
) -> tuple[dict[str, list[float]], dict[str, str], str]:
    """Return the seconds by contender, the reasons for missing contenders, and the versions of the peers."""
    times: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    target = {"slug": "b"}
    categories.move("x", _swap(target))  # warm up
    version = str(trees.ask("version").get("version", ""))
    for _ in range(rounds):
        times.setdefault(OURS, []).append(_timed(lambda: categories.move("x", _swap(target))))
        times.setdefault(BOOK, []).append(_timed(lambda: _node_by_node(db, "x", _swap(target))))
        for name in PEERS:
            result = trees.ask(name)
            if "seconds" in result:
                times.setdefault(name, []).append(result["seconds"])
            else:
                missing[name] = result["missing"]
    return times, missing, version


def _without_the_index(db: Db, categories: Categories, rounds: int) -> float:
    """Return the median time of the same moves without the index on ancestors, which shows the index's cost."""
    db["commerce.categories"].drop_index("ancestors._id_1__id_1")
    parent = categories.get("x")["ancestors"][0]["slug"]
    target = {"slug": "a" if parent == "b" else "b"}
    return statistics.median(_timed(lambda: categories.move("x", _swap(target))) for _ in range(rounds))


def _write(
    connection: Connection,
    what: str,
    times: dict[str, list[float]],
    missing: dict[str, str],
    version: str,
    rounds: int,
    bare: float,
) -> None:
    rows, ratios = [], {}
    for name, seconds in times.items():
        ratios[name] = statistics.median(theirs / mine for theirs, mine in zip(seconds, times[OURS], strict=True))
        rows.append([name, f"{statistics.median(seconds) * 1000:,.0f}", f"{ratios[name]:.2f}x"])
    rows += [[name, f"missing: {why}", ""] for name, why in missing.items()]
    met = "met" if ratios[BOOK] >= MIN_AGAINST_BOOK else "missed"
    parts = [
        f"{what} move from one parent to another and back; medians of {rounds} alternating rounds.",
        report.table(["contender", "ms", "time relative to squinney"], rows),
        f"Goal: at least {MIN_AGAINST_BOOK}x as fast as the book's algorithm. {ratios[BOOK]:.1f}x: {met}.",
        "The index on `ancestors._id` makes a subtree one query. Without it, the same move takes "
        f"{bare * 1000:,.0f} ms, although it reads the whole tree: most of the time of a move is spent on removing an "
        "old key from this index and adding a new key for each node.",
        "The contenders do not write the same. Squinney rewrites each descendant's array with the id, slug and name of "
        "every ancestor, so that a breadcrumb is one read; it uses one transaction, acknowledged by a majority with "
        "the journal flushed. `ltree` and treebeard rewrite a path or two numbers in each row, in a transaction with "
        "`fsync` on, and need a second query for the names of a breadcrumb.",
        f"{report.machine(connection.client.admin.command('buildInfo')['version'])} {version}".strip(),
    ]
    report.write_page("commerce_tree", "The shop: moves of a subtree", parts)
    print("\n\n".join(parts))


def _paths() -> tuple[list[list[str]], str]:
    given = os.environ.get("SQUINNEY_TEST_DATA")
    folders = [Path(given)] if given else [up / "shared" / "data" for up in list(HERE.parents)[1:3]]
    file = next((path for folder in folders if (path := folder / "taxonomy.txt.gz").is_file()), None)
    if file is None:
        made = [[f"n{number % 40}", f"n{number % 40}-{number % 400}", f"n{number}"] for number in range(14_000)]
        return _arranged(made), "a made-up tree of 3 levels"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        real = [line.split(" : ", 1)[1].strip().split(" > ") for line in lines if " : " in line and line[0] != "#"]
    return _arranged(real), "a real product taxonomy"


def _arranged(paths: list[list[str]]) -> list[list[str]]:
    """Put 10,000 of the paths below the node `x`, and add the two parents `a` and `b` between which it moves."""
    return [["a"], ["b"], *(["a", "x", *path] for path in paths[: SUBTREE - 1]), *paths[SUBTREE - 1 :]]


def _swap(target: dict[str, str]) -> str:
    """Return the slug of the next parent, and set `target` to the other one."""
    slug = target["slug"]
    target["slug"] = "a" if slug == "b" else "b"
    return slug


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _node_by_node(db: Db, slug: str, parent: str) -> None:
    """Move a subtree as the book does: build each descendant's array from its parent's, and write it separately."""
    tree = db["commerce.categories"]
    above = tree.find_one({"slug": parent}) or {}
    node = tree.find_one({"slug": slug}) or {}
    ancestors = CATEGORY_TREE.under(above)
    tree.update_one({"_id": node["_id"]}, {"$set": {"parent": above["_id"], "ancestors": ancestors}})
    waiting = [{**node, "ancestors": ancestors}]
    while waiting:
        category = waiting.pop()
        for child in tree.find({"parent": category["_id"]}):
            ancestors = CATEGORY_TREE.under(category)
            tree.update_one({"_id": child["_id"]}, {"$set": {"ancestors": ancestors}})
            waiting.append({**child, "ancestors": ancestors})
