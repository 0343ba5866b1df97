"""What can be wrong in the network's data, found and mended.

An owner's own circles and blocks are the record, and the comments; what others keep of them, and counts, follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from pymongo.client_session import ClientSession

from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, read_findings, repair_problems
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Db, Document
from squinney.social import problem_queries, queries
from squinney.social.graph import SWAPPED, own_part, twin
from squinney.social.posting import last_comments
from squinney.transactions import in_transaction

TOTALS = 1 << 16


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; what is queued is no problem.

    Raises: `SnapshotTooOld`.
    """
    yield from problems(pinned(db), CHECKS)


# ---- reading in parts ----


def _one_sided(db: Db) -> Iterator[Document]:
    """Pairs of people whose sides differ. To compare two documents for each pair takes long, and nearly all are alike:
    what first sides say is added up, what second sides say is taken off, and only where something is left are pairs
    compared."""
    unlike = {number for number, total in enumerate(_totals(db)) if total}
    edges = problem_queries.EVERY_EDGE.find(db, projection={"_id": 1}) if unlike else ()
    told = set()
    for some in _in_batches(edge["_id"] for edge in edges if hash(_pair(edge["_id"])) % TOTALS in unlike):
        swapped = [{"owner": one.get("other"), "other": one.get("owner")} for one in some]
        for one in read_findings(db, problem_queries.ONE_SIDED, ids=[*some, *swapped]):
            pair = _pair(one["_id"])
            if pair not in told:
                told.add(pair)
                yield one


def _totals(db: Db) -> list[int]:
    """What is left of each of many groups of pairs: nothing, where all sides are alike."""
    totals = [0] * TOTALS
    for edge in problem_queries.EVERY_EDGE.find(db):
        pair = _pair(edge["_id"])
        is_first = edge["_id"]["owner"] == pair[0]
        said = hash(repr((pair, [edge.get(name) for name in (SWAPPED if is_first else SWAPPED.values())])))
        totals[hash(pair) % TOTALS] += said if is_first else -said
    return totals


def _pair(edge_id: Document) -> tuple[str, str]:
    """The same for both sides."""
    owner, other = str(edge_id.get("owner")), str(edge_id.get("other"))
    return min(owner, other), max(owner, other)


def _in_batches(ids: Iterator[Document]) -> Iterator[list[Document]]:
    while some := list(islice(ids, problem_queries.AT_ONCE)):
        yield some


def _in_parts(check: Pipeline, every: Query) -> Callable[[Db], Iterator[Document]]:
    return lambda db: (one for part in problem_queries.parts(db, every) for one in read_findings(db, check, part=part))


# ---- mending ----


def repair(db: Db) -> Counter[str]:
    """Make both sides of an edge say the same, and counts what there is to count; remove comments without a post.

    Atomic: each finding in one transaction.
    After a crash: run it again.
    Raises: `SnapshotTooOld`, `Busy`.
    """
    return +repair_problems(pinned(db), CHECKS)


def _set_both(db: Db, found: Document) -> int:
    """What each of the two decided, written on both sides."""
    owner, other = found["_id"]["owner"], found["_id"]["other"]
    edges = db["social.edges"]

    def work(session: ClientSession) -> int:
        ids = [{"owner": owner, "other": other}, {"owner": other, "other": owner}]
        one, two = (own_part(edges.find_one({"_id": _id}, session=session) or {"_id": _id}) for _id in ids)
        edges.delete_many({"_id": {"$in": ids}}, session=session)
        right = {**twin(two), **one}
        if len(right) > 1:
            edges.insert_many([right, twin(right)], session=session)
        return 1

    return in_transaction(db, work)


def _set_counts(db: Db, found: Document) -> int:
    unchanged = {"_id": found["_id"], "circles": found["circles"], "circled": found["circled"]}
    circles = [one for one in found["true_circles"] if one["count"]]
    change = {"$set": {"circles": circles, "circled": found["true_circled"]}}
    return db["social.users"].update_one(unchanged, change).modified_count


def _set_comments(db: Db, found: Document) -> int:
    def work(session: ClientSession) -> int:
        count = db["social.comments"].count_documents(queries.COMMENTS(post=found["_id"]), session=session)
        change = {"$set": {"comments": last_comments(db, found["_id"], session), "comment_count": count}}
        return db["social.posts"].update_one(queries.POST(post=found["_id"]), change, session=session).modified_count

    return in_transaction(db, work)


def _remove_comment(db: Db, found: Document) -> int:
    return db["social.comments"].delete_one({"_id": found["_id"], "post_id": found["post_id"]}).deleted_count


CHECKS = [
    Check(
        "one-sided-edge",
        _one_sided,
        "what {_id[owner]} says of {_id[other]} is not what the other side keeps",
        repair=_set_both,
        counted_as="edges set",
        collection="social.edges",
    ),
    Check(
        "wrong-circle-count",
        _in_parts(problem_queries.WRONG_COUNTS, problem_queries.EVERY_USER),
        "the circles of {_id} say {circled} people, the edges {true_circled}",
        repair=_set_counts,
        counted_as="counts set",
        collection="social.users",
    ),
    Check(
        "wrong-comments",
        _in_parts(problem_queries.WRONG_COMMENTS, problem_queries.EVERY_POST),
        "post {_id} says {comment_count} comments, there are {count}, or it shows other ones",
        repair=_set_comments,
        counted_as="posts set",
        collection="social.posts",
    ),
    Check(
        "lost-comment",
        _in_parts(problem_queries.LOST_COMMENTS, problem_queries.EVERY_POST),
        "comment {_id} belongs to post {post_id}, which is gone",
        repair=_remove_comment,
        counted_as="comments removed",
        collection="social.comments",
    ),
]
