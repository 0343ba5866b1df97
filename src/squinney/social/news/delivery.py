"""Delivers posts: inserts an entry into the news of each reader, for many posts at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.patterns.queue import Task
from squinney.social import queries
from squinney.social.documents import CIRCLES, PUBLIC

START, FAR = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
# A post to a million followers is delivered in chunks of this size, so that other posts need not wait for all of it.
# With smaller chunks, waiting for the journal would take longer than inserting the entries.
BATCH = 10_000
MIN_SHARE = 0.1  # of a batch, for each of many posts; a hundred large posts at once must still fit into memory


@dataclass(frozen=True)
class ReaderChunk:
    """The next readers of a post: `delivered` counts all readers so far, and `rest` is the task for the others."""

    task: Task
    post: Document = field(default_factory=lambda: {"circles": []})  # the default stands for a deleted post
    readers: Sequence[str] = ()
    delivered: int = 0
    rest: Document | None = None


def next_chunks(db: Db, tasks: Sequence[Task]) -> list[ReaderChunk]:
    """Return the next chunk of each task's post.

    The readers of posts to all followers, or to all circles, are read together for all authors with short lists.
    """
    posts = _posts(db, tasks)
    begun = [(task, posts[task["body"]["post"]]) for task in tasks if task["body"]["post"] in posts]
    lists = _short_lists(db, [post for task, post in begun if _is_whole_list(task, post)])
    share = int(max(BATCH / max(len(tasks), 1), BATCH * MIN_SHARE, 1))
    chunks = [ReaderChunk(task) for task in tasks if task["body"]["post"] not in posts]
    for task, post in begun:
        short = lists.get((_reader_kind(post), post["by"])) if _is_whole_list(task, post) else None
        # guard: a post is not delivered to later followers
        if short is not None and short["latest"] <= post["ts"]:
            chunks.append(ReaderChunk(task, post, short["readers"], len(short["readers"])))
        else:
            chunks.append(_next_chunk(db, task, post, share))
    return chunks


def _is_whole_list(task: Task, post: Document) -> bool:
    """Return whether the post still has to reach all followers, or all people in circles, of its author."""
    # guard: a post to named circles is not delivered to all circles
    return "position" not in task["body"] and post["circles"][0] in (PUBLIC, CIRCLES)


def _posts(db: Db, tasks: Sequence[Task]) -> dict[str, Document]:
    if not tasks:
        return {}
    fields = {"by": 1, "ts": 1, "circles": 1}
    wanted = sorted({task["body"]["post"] for task in tasks})
    return {post["_id"]: post for post in queries.SOME_POSTS.find(db, posts=wanted, projection=fields)}


def _reader_kind(post: Document) -> str:
    """Return which people of the author the post is for: a key of `queries.READERS`."""
    return "followers" if PUBLIC in post["circles"] else "circled"


def _short_lists(db: Db, posts: Sequence[Document]) -> dict[tuple[str, str], Document]:
    """Return all readers of each author, and when the latest became one. Authors with long lists are left out."""
    short: dict[tuple[str, str], Document] = {}
    for kind, query in queries.READERS_OF_SOME.items():
        owners = {post["by"] for post in posts if _reader_kind(post) == kind}
        if not owners:
            continue
        lists = {listed["_id"]: listed for listed in query.run(db, owners=sorted(owners), limit=BATCH)}
        if sum(len(listed["readers"]) for listed in lists.values()) == BATCH:  # the last list may be cut off
            # guard: a list that was cut off is read in chunks
            del lists[max(lists)]
            owners = {owner for owner in owners if owner <= max(lists, default="")}
        nobody = {"readers": [], "latest": START}
        short.update({(kind, owner): lists.get(owner, nobody) for owner in owners})
    return short


def _next_chunk(db: Db, task: Task, post: Document, share: int) -> ReaderChunk:
    body = task["body"]
    named = None if post["circles"][0] in (PUBLIC, CIRCLES) else post["circles"]
    query = queries.READERS[_reader_kind(post)]
    arguments = {"owner": post["by"], "until": post["ts"], "circles": named}
    readers, position = _next_readers(db, query, body.get("position"), share, **arguments)
    delivered = body.get("delivered", 0) + len(readers)
    rest = None if position is None else {**body, "position": position, "delivered": delivered}
    return ReaderChunk(task, post, readers, delivered, rest)


def _next_readers(
    db: Db, query: Pipeline, position: Document | None, limit: int, **arguments: Any
) -> tuple[list[str], Document | None]:
    """Return readers after the position, longest related first, and the position of the last; None at the end."""
    after = (position["at"], position["other"]) if position else None
    # guard: a large delivery is split into chunks
    chunk = next(query.run(db, limit=limit, position=after, **arguments), None)
    if chunk is None:
        return [], None
    readers: list[str] = chunk["readers"]
    return readers, {"at": chunk["at"], "other": readers[-1]} if len(readers) == limit else None


def next_followers(db: Db, author: str, position: Document | None) -> tuple[list[str], Document | None]:
    """Return a batch of the author's followers after the position, and the position of the last; None at the end."""
    return _next_readers(db, queries.READERS["followers"], position, BATCH, owner=author, until=FAR)


def in_batches(chunks: Sequence[ReaderChunk]) -> Iterator[list[ReaderChunk]]:
    """Yield the chunks in groups of about `BATCH` readers."""
    some: list[ReaderChunk] = []
    readers = 0
    for chunk in chunks:
        some.append(chunk)
        readers += len(chunk.readers)
        if readers >= BATCH:
            yield some
            some, readers = [], 0
    if some:
        yield some


def insert_entries(db: Db, chunks: Sequence[ReaderChunk]) -> None:
    """Insert one news entry per post and reader. Entries that exist are left as they are."""
    by_time = sorted((chunk for chunk in chunks if chunk.readers), key=_time_of_post)
    # In storage order: the server inserts such entries in less than half the time.
    in_order = sorted((reader, number) for number, chunk in enumerate(by_time) for reader in chunk.readers)
    posts = [(chunk.post["ts"], chunk.post["_id"], chunk.post["by"]) for chunk in by_time]
    entries = []
    for reader, number in in_order:
        at, post, author = posts[number]
        entries.append({"_id": {"u": reader, "t": at, "p": post}, "b": author})
    insert_new(db, entries)


def _time_of_post(chunk: ReaderChunk) -> tuple[datetime, str]:
    return chunk.post["ts"], chunk.post["_id"]


# ---- posts written while a reader began to follow ----


def catch_up(db: Db, pairs: Sequence[Sequence[str]], since: datetime, older: Sequence[Document] = ()) -> None:
    """Deliver the posts of both members of each pair that the first put into a circle at `since`, and `older` posts.

    A post written at that moment or later may have been delivered before the new edge could be seen. If there are more
    than `BATCH` posts, the others were written long after the edge, and are delivered by their own tasks.
    """
    ids = [{"owner": owner, "other": other} for owner, other in pairs]
    # guard: who is no longer in a circle does not catch up
    edges = [edge for edge in queries.SOME_EDGES.find(db, ids=ids) if "circled_at" in edge]
    if not edges:
        return
    _bring_older(db, edges[0], since, older)
    authors = sorted({member for edge in edges for member in edge["_id"].values()})
    fields = {"by": 1, "ts": 1, "circles": 1, "merged": 1}
    posts: dict[str, list[Document]] = {}
    for post in queries.POSTS_SINCE.find(db, authors=authors, since=since, projection=fields, limit=BATCH):
        posts.setdefault(post["by"], []).append(post)
    insert_new(db, [_entry(reader, post) for edge in edges for reader, post in _missed(edge, posts)])


def _bring_older(db: Db, edge: Document, since: datetime, older: Sequence[Document]) -> None:
    """Mark the entries of older posts with the follow that brings them, also entries of an earlier follow."""
    owner, author = edge["_id"]["owner"], edge["_id"]["other"]
    # `$max`, because the task of an earlier follow may run later.
    changes = [
        UpdateOne(
            {"_id": {"u": owner, "t": post["ts"], "p": post["_id"]}},
            {"$max": {"f": since}, "$setOnInsert": {"b": author}},
            upsert=True,
        )
        for post in older
    ]
    if changes:
        db["social.news"].bulk_write(changes, ordered=False)


def _missed(edge: Document, posts: Mapping[str, Sequence[Document]]) -> Iterator[tuple[str, Document]]:
    """Yield each post by one end of the edge that is news for the other end, and its reader."""
    owner, other, circles = edge["_id"]["owner"], edge["_id"]["other"], edge.get("circles", ())
    for post in posts.get(other, ()):
        # A damaged post, without an audience, must not fail the task, which delivers other posts too.
        if PUBLIC in post.get("circles", ()) and not post["merged"] and edge["circled_at"] <= post["ts"]:
            yield owner, post
    for post in posts.get(owner, ()):
        if any(
            circle["at"] <= post["ts"] and {circle["name"], CIRCLES} & {*post.get("circles", ())} for circle in circles
        ):
            yield other, post


def _entry(reader: str, post: Document) -> Document:
    return {"_id": {"u": reader, "t": post["ts"], "p": post["_id"]}, "b": post["by"]}


def insert_new(db: Db, entries: Sequence[Document]) -> None:
    """Insert the news entries whose ids do not exist yet."""
    if not entries:
        return
    try:
        db["social.news"].insert_many(entries, ordered=False)
    except BulkWriteError as error:
        details = error.details or {}
        # Without enough members' confirmation the entries could be lost: the task must not end yet.
        # guard: entries that too few members have confirmed are an error
        # guard: entries that exist are not an error
        if details.get("writeConcernErrors") or any(bad["code"] != DUPLICATE_KEY for bad in details["writeErrors"]):
            raise
