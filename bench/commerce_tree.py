"""Moves of a subtree of ten thousand categories, beside the book's way and beside trees in PostgreSQL."""

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
OURS, BOOK = "ours: one update", "the book's: node by node"
PEERS = ("ltree", "treebeard MP", "treebeard NS")
LEAST_AGAINST_BOOK = 20


def run(connection: Connection, *, rounds: int = 3) -> None:
    """Measure and write the page."""
    db = fresh(connection)
    paths, source = _paths()
    categories = Categories(db)
    categories.add_paths(paths)
    below = db["categories"].count_documents(CATEGORY_TREE.below(categories.get("x")["_id"]))
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
    """Seconds by contender, in turns; why others are missing; the peers' versions."""
    times: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    where = {"at": "b"}
    categories.move("x", _turn(where))  # warm
    version = str(trees.ask("version").get("version", ""))
    for _ in range(rounds):
        times.setdefault(OURS, []).append(_timed(lambda: categories.move("x", _turn(where))))
        times.setdefault(BOOK, []).append(_timed(lambda: _node_by_node(db, "x", _turn(where))))
        for name in PEERS:
            said = trees.ask(name)
            if "seconds" in said:
                times.setdefault(name, []).append(said["seconds"])
            else:
                missing[name] = said["missing"]
    return times, missing, version


def _without_the_index(db: Db, categories: Categories, rounds: int) -> float:
    """Where the time goes: the same moves while nothing finds a subtree by index."""
    db["categories"].drop_index("ancestors._id_1__id_1")
    at = categories.get("x")["ancestors"][0]["slug"]
    where = {"at": "a" if at == "b" else "b"}
    return statistics.median(_timed(lambda: categories.move("x", _turn(where))) for _ in range(rounds))


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
    for name, found in times.items():
        ratios[name] = statistics.median(theirs / mine for theirs, mine in zip(found, times[OURS], strict=True))
        rows.append([name, f"{statistics.median(found) * 1000:,.0f}", f"{ratios[name]:.2f}x"])
    rows += [[name, f"missing: {why}", ""] for name, why in missing.items()]
    met = "met" if ratios[BOOK] >= LEAST_AGAINST_BOOK else "missed"
    parts = [
        f"{what} move from one parent to another and back; {rounds} rounds in turns, medians.",
        report.table(["how", "ms", "time against ours"], rows),
        f"Aim: at least {LEAST_AGAINST_BOOK}x the book's way. {ratios[BOOK]:.1f}x: {met}.",
        "Without the index on `ancestors._id`, by which a subtree is found in one query, the same move takes "
        f"{bare * 1000:,.0f} ms, although it then reads the whole tree: the rest of its time is a key taken out of the "
        "index and a key put into it for each node.",
        "What they write differs. Ours rewrites each descendant's array, which has the id, slug and name of every "
        "ancestor, so that a breadcrumb is one read; one transaction, acknowledged by a majority with the journal "
        "flushed. `ltree` and treebeard rewrite a path or two numbers of each row, in a transaction with `fsync` "
        "on, and find the names of a breadcrumb by a second query.",
        f"{report.machine(connection.client.admin.command('buildInfo')['version'])} {version}".strip(),
    ]
    report.write_page("commerce_tree", "The shop: moves of a subtree", parts)
    print("\n\n".join(parts))


def _paths() -> tuple[list[list[str]], str]:
    given = os.environ.get("SQUINNEY_TEST_DATA")
    folders = [Path(given)] if given else [up / "shared" / "data" for up in list(HERE.parents)[1:3]]
    file = next((one for folder in folders if (one := folder / "taxonomy.txt.gz").is_file()), None)
    if file is None:
        made = [[f"n{number % 40}", f"n{number % 40}-{number % 400}", f"n{number}"] for number in range(14_000)]
        return _arranged(made), "a made-up tree of 3 levels"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        real = [line.split(" : ", 1)[1].strip().split(" > ") for line in lines if " : " in line and line[0] != "#"]
    return _arranged(real), "a real product taxonomy"


def _arranged(paths: list[list[str]]) -> list[list[str]]:
    """Ten thousand of them below one node, which has two parents to move between."""
    return [["a"], ["b"], *(["a", "x", *path] for path in paths[: SUBTREE - 1]), *paths[SUBTREE - 1 :]]


def _turn(where: dict[str, str]) -> str:
    target = where["at"]
    where["at"] = "a" if target == "b" else "b"
    return target


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _node_by_node(db: Db, slug: str, parent: str) -> None:
    """As the book does it: each descendant's array is built from its parent's and written by itself."""
    tree = db["categories"]
    above = tree.find_one({"slug": parent}) or {}
    node = tree.find_one({"slug": slug}) or {}
    ancestors = CATEGORY_TREE.under(above)
    tree.update_one({"_id": node["_id"]}, {"$set": {"parent": above["_id"], "ancestors": ancestors}})
    waiting = [{**node, "ancestors": ancestors}]
    while waiting:
        one = waiting.pop()
        for child in tree.find({"parent": one["_id"]}):
            ancestors = CATEGORY_TREE.under(one)
            tree.update_one({"_id": child["_id"]}, {"$set": {"ancestors": ancestors}})
            waiting.append({**child, "ancestors": ancestors})
