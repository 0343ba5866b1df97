"""Removes entries that can never be shown again: of deleted posts, or older than the current relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import DeleteOne

from squinney.mongo.schema import Db, Document
from squinney.social import queries, rules
from squinney.social.posts.notify import ANY_MEMBER

BATCH = 1_000
FIRST = {"u": ""}  # sorts before every entry; a clustered collection finds nothing after MinKey


def remove_outdated(db: Db, what: str, *, batches: int) -> int:
    """Check the next batches of `news` or `notices`, from the last run's position; return how many were removed.

    Atomic: each entry by itself; a removed entry could never be shown again.
    After a crash: the last batch is checked once more, which does no harm.
    """
    collection = db[f"social.{what}"]
    removed = 0
    for _ in range(batches):
        last = queries.SWEEP.find_one(db, sweep=what) or {}
        entries = list(queries.ENTRIES_AFTER[what].find(db, after=last.get("after", FIRST), limit=BATCH))
        useless = _useless_news(db, entries) if what == "news" else _useless_notices(db, entries)
        if useless:
            # One delete per id: for an `$in` the server would scan the whole clustered collection.
            deletes = [DeleteOne({"_id": entry}) for entry in useless]
            removed += collection.bulk_write(deletes, ordered=False).deleted_count
        more = len(entries) == BATCH
        after = entries[-1]["_id"] if more else FIRST
        db["social.sweeps"].update_one(queries.SWEEP(sweep=what), {"$set": {"after": after}}, upsert=True)
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
        edge = edges.get((reader, entry["b"]), {})
        # guard: an older post is kept while its follow holds
        is_kept = rules.is_from_present_follow(entry.get("f"), edge.get("circled_at"))
        if post is None or not (is_kept or rules.is_news(reader, post, rules.relation_of(ANY_MEMBER, edge))):
            useless.append(entry["_id"])
    return useless


def _useless_notices(db: Db, entries: Sequence[Document]) -> list[Any]:
    posts = _posts(db, [entry["post"] for entry in entries if "post" in entry])
    people = sorted({person for entry in entries for person in (entry["by"], entry["_id"]["u"])})
    known = {user["_id"] for user in queries.SOME_USERS.find(db, users=people, projection={"_id": 1})} if people else ()
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
