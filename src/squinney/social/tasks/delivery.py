"""Brings posts into the news of those whom they are for, many posts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import BulkWriteError

from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.patterns.queue import Task
from squinney.social import queries
from squinney.social.documents import CIRCLES, PUBLIC

START, FAR = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
# So many, and then it is the others' turn: nobody waits for an account with a million followers. Fewer would wait for
# the journal more often than for the entries.
BATCH = 10_000
LEAST_SHARE = 0.1  # of a batch, for each of many posts: a hundred large ones at once must not fill the memory


@dataclass(frozen=True)
class Turn:
    """The next receivers of a post, how many it will then have reached, and what is left of its task."""

    task: Task
    post: Document = field(default_factory=lambda: {"circles": []})  # of one that is gone nothing is left to do
    readers: Sequence[str] = ()
    delivered: int = 0
    rest: Document | None = None


def turns_of(db: Db, tasks: Sequence[Task]) -> list[Turn]:
    """For each task the next ones whom its post has to reach. Most are read together: those of posts to all followers,
    or to all circles, whose lists are short."""
    posts = _posts(db, tasks)
    begun = [(task, posts[task["body"]["post"]]) for task in tasks if task["body"]["post"] in posts]
    lists = _short_lists(db, [post for task, post in begun if _takes_all(task, post)])
    share = int(max(BATCH / max(len(tasks), 1), BATCH * LEAST_SHARE, 1))
    turns = [Turn(task) for task in tasks if task["body"]["post"] not in posts]
    for task, post in begun:
        short = lists.get((_receiving(post), post["by"])) if _takes_all(task, post) else None
        if short is not None and short["latest"] <= post["ts"]:
            turns.append(Turn(task, post, short["readers"], len(short["readers"])))
        else:
            turns.append(_next_turn(db, task, post, share))
    return turns


def _takes_all(task: Task, post: Document) -> bool:
    """Whether it is for all followers, or all in circles, and has reached none of them yet."""
    return "place" not in task["body"] and post["circles"][0] in (PUBLIC, CIRCLES)


def _posts(db: Db, tasks: Sequence[Task]) -> dict[str, Document]:
    if not tasks:
        return {}
    fields = {"by": 1, "ts": 1, "circles": 1}
    wanted = sorted({task["body"]["post"] for task in tasks})
    return {post["_id"]: post for post in queries.SOME_POSTS.find(db, posts=wanted, projection=fields)}


def _receiving(post: Document) -> str:
    """Which of the author's people a post reaches: those who follow, or those in circles."""
    return "followers" if PUBLIC in post["circles"] else "circled"


def _short_lists(db: Db, posts: Sequence[Document]) -> dict[tuple[str, str], Document]:
    """All the receivers of these authors, and since when the latest of them is one; who has many is left out."""
    found: dict[tuple[str, str], Document] = {}
    for what, query in queries.RECEIVERS_OF_SOME.items():
        owners = {post["by"] for post in posts if _receiving(post) == what}
        if not owners:
            continue
        lists = {one["_id"]: one for one in db[query.collection].aggregate(query(owners=sorted(owners), limit=BATCH))}
        if sum(len(one["readers"]) for one in lists.values()) == BATCH:
            del lists[max(lists)]
            owners = {owner for owner in owners if owner <= max(lists, default="")}
        nobody = {"readers": [], "latest": START}
        found.update({(what, owner): lists.get(owner, nobody) for owner in owners})
    return found


def _next_turn(db: Db, task: Task, post: Document, share: int) -> Turn:
    body = task["body"]
    named = None if post["circles"][0] in (PUBLIC, CIRCLES) else post["circles"]
    query = queries.RECEIVERS[_receiving(post)]
    related = {"owner": post["by"], "until": post["ts"], "circles": named}
    readers, place = _next(db, query, body.get("place"), share, **related)
    delivered = body.get("delivered", 0) + len(readers)
    rest = None if place is None else {**body, "place": place, "delivered": delivered}
    return Turn(task, post, readers, delivered, rest)


def _next(
    db: Db, query: Pipeline, place: Document | None, limit: int, **arguments: Any
) -> tuple[list[str], Document | None]:
    """People behind a place, longest related first, and the place behind these; None where there are no more."""
    behind = (place["at"], place["other"]) if place else None
    found = next(db[query.collection].aggregate(query(limit=limit, place=behind, **arguments)), None)
    if found is None:
        return [], None
    readers: list[str] = found["readers"]
    return readers, {"at": found["at"], "other": readers[-1]} if len(readers) == limit else None


def followers_from(db: Db, author: str, place: Document | None) -> tuple[list[str], Document | None]:
    """A batch of somebody's followers behind a place, and the place behind these."""
    return _next(db, queries.RECEIVERS["followers"], place, BATCH, owner=author, until=FAR)


def in_batches(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The turns in groups that have about a batch of readers."""
    some: list[Turn] = []
    readers = 0
    for turn in turns:
        some.append(turn)
        readers += len(turn.readers)
        if readers >= BATCH:
            yield some
            some, readers = [], 0
    if some:
        yield some


def insert_entries(db: Db, turns: Sequence[Turn]) -> None:
    """One entry for each reader of each post; those that are there already stay."""
    by_time = sorted((turn for turn in turns if turn.readers), key=lambda turn: (turn.post["ts"], turn.post["_id"]))
    # In the order in which they are stored: the server needs less than half as long.
    places = sorted((reader, number) for number, turn in enumerate(by_time) for reader in turn.readers)
    said = [(turn.post["ts"], turn.post["_id"], turn.post["by"]) for turn in by_time]
    entries = []
    for reader, number in places:
        at, post, author = said[number]
        entries.append({"_id": {"u": reader, "t": at, "p": post}, "b": author})
    insert_new(db, "social.news", entries)


def insert_new(db: Db, collection: str, new: Sequence[Document]) -> None:
    """Insert those documents whose ids are not there yet."""
    if not new:
        return
    try:
        db[collection].insert_many(new, ordered=False)
    except BulkWriteError as error:
        if any(one["code"] != DUPLICATE_KEY for one in (error.details or {}).get("writeErrors", ())):
            raise
