"""The graph, posts and deliveries for measuring the social network."""

from __future__ import annotations

import gzip
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from squinney import assembly, social
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.social.members import graph_import
from squinney.social.members.accounts import new_member

T = TypeVar("T")

NAME = "wiki-vote.txt.gz"
START = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = "About as much as people write when they have something to say, and no more. " * 2
AT_ONCE = 20_000


def fresh(connection: Connection) -> Db:
    """Return an empty database with the network's collections."""
    db = pinned(connection.client["bench_social"])
    connection.client.drop_database(db.name)
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *social.COLLECTIONS])
    return db


def graph() -> Iterator[tuple[str, str]]:
    """Yield the pairs of the sample graph: the first follows the second."""
    given = os.environ.get("SQUINNEY_TEST_DATA")
    folders = [Path(given)] if given else [up / "shared" / "data" for up in Path(__file__).resolve().parents]
    archive = next((folder / NAME for folder in folders if (folder / NAME).exists()), None)
    if archive is None:
        raise SystemExit(f"the sample graph is missing: set SQUINNEY_TEST_DATA to the folder with {NAME}")
    with gzip.open(archive, "rt") as lines:
        for number, line in enumerate(lines, 1):
            if pair := graph_import.parse_pair(line, number):
                yield pair


def followers_in(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the followers of each member."""
    followers: dict[str, list[str]] = defaultdict(list)
    for me, other in dict.fromkeys(pairs):
        if me != other:
            followers[other].append(me)
    return followers


def new_post(number: int, author: str) -> Document:
    """Return a public post as it is stored."""
    return {
        "_id": f"{number:026}",
        "by": author,
        "to": None,
        "circles": ["*public*"],
        "type": "status",
        "ts": START + timedelta(seconds=number + 1),
        "detail": {"text": TEXT},
        "mentions": [],
        "merged": False,
        "comments": [],
        "comment_count": 0,
    }


def entry(post: Document, reader: str) -> Document:
    """Return a delivery as it is stored."""
    return {"_id": {"u": reader, "t": post["ts"], "p": post["_id"]}, "b": post["by"]}


def add_star(db: Db, name: str, readers: Sequence[str]) -> None:
    """Insert an author whom all readers follow: only the side of the edges that deliveries read."""
    db["social.users"].insert_one(new_member(name, name.title(), name, START))
    since = {"in_circles": [{"name": "following", "at": START}], "follower_at": START}
    for some in batches(readers):
        db["social.edges"].insert_many(
            [{"_id": {"owner": name, "other": person}, **since} for person in some], ordered=False
        )


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in batches for `insert_many`."""
    return (items[first : first + AT_ONCE] for first in range(0, len(items), AT_ONCE))
