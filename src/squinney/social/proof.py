"""The network's part of `squinney prove`: the load for workers that are killed, and the promises to check."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping

from squinney.errors import Conflict, Forbidden, LimitReached, NotFound, Unavailable
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import all_items
from squinney.social import queries, rules
from squinney.social.documents import CIRCLES, PUBLIC
from squinney.social.members.relations import relations
from squinney.social.network import Network
from squinney.social.repair import find_problems

# Many, because a worker killed inside a transaction locks its members until the server aborts the transaction.
PEOPLE = 60
CIRCLE = "proof"
AUDIENCES = [PUBLIC, CIRCLES, CIRCLE]
VISIBILITY_SECONDS = 2
DRAIN_SECONDS = 30
REFUSED = (Conflict, Forbidden, LimitReached, NotFound, Unavailable)


def _network(db: Db) -> Network:
    """Merge posts by authors with more than ten followers, so that both ways of delivery are used."""
    return Network(db, merge_above=10, settle_seconds=65, visibility_seconds=VISIBILITY_SECONDS)


def prepare(db: Db) -> None:
    """Create members who have some of the others in a circle."""
    names = [f"p{number}" for number in range(PEOPLE)]
    pairs = [(me, names[(number + step) % PEOPLE]) for number, me in enumerate(names) for step in (1, 2, 5, 7)]
    for _ in _network(db).load(pairs, circle=CIRCLE):
        pass


def work(db: Db, seed: int) -> None:
    """Run random operations without end. Each post is recorded in `intents` before it is written."""
    network = _network(db)
    chance = random.Random(seed)
    while True:
        me, other = (f"p{number}" for number in chance.sample(range(PEOPLE), 2))
        try:
            _act(db, network, chance, me, other)
        except REFUSED:
            continue


def _act(db: Db, network: Network, chance: random.Random, me: str, other: str) -> None:
    act = chance.choice(["post", "post", "post", "comment", "circle", "uncircle", "block", "unblock", "deliver"])
    if act == "post":
        intent = {"_id": uuid.uuid4().hex}
        db["intents"].insert_one(intent)
        audience = chance.choice(AUDIENCES)
        for _ in range(chance.choice([1, 2])):
            network.post(me, "status", {"text": intent["_id"]}, [audience], key=intent["_id"])
        db["intents"].update_one(intent, {"$set": {"acknowledged": True}})
    elif act == "comment":
        for post in network.news(me, limit=3).items:
            network.comment(me, post["id"], "oh")
    elif act in ("circle", "uncircle"):
        getattr(network, act)(me, other, CIRCLE)
    elif act in ("block", "unblock"):
        getattr(network, act)(me, other)
    else:
        network.deliver()


def settle(db: Db) -> Mapping[str, int]:
    """Deliver what is queued, as the background job does."""
    return _network(db).deliver()


def progress(db: Db) -> int:
    """Return the number of posts that were acknowledged so far."""
    return db["intents"].count_documents({"acknowledged": True})


def check(db: Db) -> dict[str, str]:
    """Return each promise with a description of what breaks it, or an empty string if it holds."""
    left = _drain(db)
    posts = list(db["social.posts"].find())
    written = Counter(post["detail"]["text"] for post in posts)
    lost = [intent["_id"] for intent in db["intents"].find({"acknowledged": True}) if intent["_id"] not in written]
    twice = [text for text, times in written.items() if times > 1]
    problems = [str(problem) for problem in find_problems(db)]
    return {
        "every task is done": "" if not left else f"{left} tasks are left",
        "no acknowledged post is lost": "" if not lost else f"{len(lost)} posts",
        "no post was written twice": "" if not twice else f"{len(twice)} posts",
        "the news of every member have the posts that the rules allow, in order, each once": _wrong_news(db, posts),
        "find_problems is empty": "; ".join(problems[:3]),
    }


def _drain(db: Db) -> int:
    """Process the queue and return the number of tasks left. Tasks that start merging run later and do not count."""
    until = time.monotonic() + DRAIN_SECONDS
    waiting = {"queue": "social", "body.do": {"$ne": "merge"}}
    while (left := db["squinney.tasks"].count_documents(waiting)) and time.monotonic() < until:
        settle(db)
        time.sleep(0.2)
    return left


def _wrong_news(db: Db, posts: list[Document]) -> str:
    network = _network(db)
    newest_first = sorted(posts, key=lambda post: (post["ts"], post["_id"]), reverse=True)
    wrong = []
    for number in range(PEOPLE):
        me = f"p{number}"
        people = relations(pinned(db), me, {post["by"] for post in posts})
        brought = {entry["_id"]["p"]: entry.get("f") for entry in queries.NEWS_OF.find(db, user=me)}
        expected = [
            post["_id"]
            for post in newest_first
            if rules.is_news(me, post, people[post["by"]], brought.get(post["_id"]))
        ]
        if _all_news(network, me) != expected:
            wrong.append(me)
    return ", ".join(wrong)


def _all_news(network: Network, me: str) -> list[str]:
    return [post["id"] for post in all_items(lambda cursor: network.news(me, cursor=cursor, limit=100))]
