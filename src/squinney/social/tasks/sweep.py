"""Removes entries that can never be shown again: of posts that are gone, and from before the present relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import DeleteOne

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules

BATCH = 1_000
FIRST = {"u": ""}  # before every entry; a clustered collection finds nothing behind MinKey


def sweep(db: Db, what: str, *, batches: int) -> int:
    """Look at the next batches of `news` or `notices`, from where the last sweep came to; how many were removed.

    Atomic: each entry by itself; none that is removed could be shown, now or later.
    After a crash: the place is that of a batch before; looking twice does no harm.
    """
    collection = db[f"social.{what}"]
    removed = 0
    for _ in range(batches):
        place = db["social.places"].find_one(queries.PLACE(sweep=what)) or {}
        entries = list(queries.ENTRIES_AFTER[what].find(db, after=place.get("after", FIRST), limit=BATCH))
        useless = _useless_news(db, entries) if what == "news" else _useless_notices(db, entries)
        if useless:
            # One by one: for a list of ids the server reads the whole of a clustered collection.
            deletes = [DeleteOne({"_id": one}) for one in useless]
            removed += collection.bulk_write(deletes, ordered=False).deleted_count
        more = len(entries) == BATCH
        after = entries[-1]["_id"] if more else FIRST
        db["social.places"].update_one(queries.PLACE(sweep=what), {"$set": {"after": after}}, upsert=True)
        if not more:
            break
    return removed


def _useless_news(db: Db, entries: Sequence[Document]) -> list[Any]:
    posts = _posts(db, [entry["_id"]["p"] for entry in entries])
    ids = [{"owner": entry["_id"]["u"], "other": entry["b"]} for entry in entries]
    edges = {tuple(edge["_id"].values()): edge for edge in queries.SOME_EDGES.find(db, ids=ids)} if ids else {}
    useless = []
    for entry in entries:
        reader, post = entry["_id"]["u"], posts.get(entry["_id"]["p"])
        # As if nobody had left or blocked anybody: a block may be lifted.
        edge = {**edges.get((reader, entry["b"]), {}), "blocked_at": None, "blocked_by_at": None}
        relation = rules.relation_of({"name": "", "handle": ""}, edge)
        if post is None or not rules.is_news(reader, post, relation):
            useless.append(entry["_id"])
    return useless


def _useless_notices(db: Db, entries: Sequence[Document]) -> list[Any]:
    posts = _posts(db, [entry["post"] for entry in entries if "post" in entry])
    people = sorted({person for entry in entries for person in (entry["by"], entry["_id"]["u"])})
    known = {one["_id"] for one in queries.SOME_USERS.find(db, users=people, projection={"_id": 1})} if people else ()
    return [
        entry["_id"]
        for entry in entries
        if entry["by"] not in known
        or entry["_id"]["u"] not in known
        or ("post" in entry and entry["post"] not in posts)
    ]


def _posts(db: Db, ids: list[str]) -> dict[str, Document]:
    if not ids:
        return {}
    fields = {"by": 1, "to": 1, "circles": 1, "ts": 1}
    return {post["_id"]: post for post in queries.SOME_POSTS.find(db, posts=sorted(set(ids)), projection=fields)}
