"""Finds and repairs inconsistent data of the network.

A member's own circles and blocks, and the comments, are authoritative. The other side of each edge, the last comments
on a post, and all counts are derived from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from pymongo.client_session import ClientSession

from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, read_findings, repair_problems
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Db, Document
from squinney.social import problem_queries, queries
from squinney.social.members.circles import end_circles
from squinney.social.members.edges import MIRRORED, Pair, mirrored, only_blocks, owner_part
from squinney.social.posts.comments import last_comments
from squinney.transactions import in_transaction

TOTALS = 1 << 16  # the number of groups into which pairs of members are hashed


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield everything that breaks an invariant now. Work that is still queued is not a problem.

    Raises: `SnapshotTooOld`.
    """
    yield from problems(pinned(db), CHECKS)


# ---- finding ----


def _one_sided(db: Db) -> Iterator[Document]:
    """Yield pairs of members whose two edge documents differ.

    Comparing two documents for each pair is slow, and nearly all are equal. So pairs are hashed into groups, each with
    a checksum that is 0 if all sides are equal. Only pairs in the other groups are compared.
    """
    unequal = {number for number, total in enumerate(_totals(db)) if total}
    edges = problem_queries.EVERY_EDGE.find(db, projection={"_id": 1}) if unequal else ()
    reported = set()
    for some in _in_batches(edge["_id"] for edge in edges if hash(_pair(edge["_id"])) % TOTALS in unequal):
        swapped = [{"owner": edge_id.get("other"), "other": edge_id.get("owner")} for edge_id in some]
        for finding in read_findings(db, problem_queries.ONE_SIDED, ids=[*some, *swapped]):
            pair = _pair(finding["_id"])
            if pair not in reported:
                reported.add(pair)
                yield finding


def _totals(db: Db) -> list[int]:
    """Return the checksum of each group: hashes of first sides are added, hashes of second sides are subtracted."""
    totals = [0] * TOTALS
    for edge in problem_queries.EVERY_EDGE.find(db):
        pair = _pair(edge["_id"])
        is_first = edge["_id"]["owner"] == pair[0]
        content = hash(repr((pair, [edge.get(name) for name in (MIRRORED if is_first else MIRRORED.values())])))
        # guard: the two sides of an edge are compared
        totals[hash(pair) % TOTALS] += content if is_first else -content
    return totals


def _pair(edge_id: Document) -> tuple[str, str]:
    """Return the two members' ids in an order that is the same for both sides."""
    owner, other = str(edge_id.get("owner")), str(edge_id.get("other"))
    return min(owner, other), max(owner, other)


def _in_batches(ids: Iterator[Document]) -> Iterator[list[Document]]:
    while some := list(islice(ids, problem_queries.AT_ONCE)):
        yield some


def _in_parts(check: Pipeline, every: Query) -> Callable[[Db], Iterator[Document]]:
    return lambda db: (
        finding for part in problem_queries.parts(db, every) for finding in read_findings(db, check, part=part)
    )


# ---- repairing ----


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Make both sides of each edge equal, end circles across blocks, correct counts and comments of posts.

    Atomic: each finding is repaired in one transaction.
    After a crash: run the repair again.
    Raises: `SnapshotTooOld`, `Busy`.
    """
    return +repair_problems(pinned(db), CHECKS)


def _set_both(db: Db, finding: Document) -> int:
    """Write what each of the two members decided to both sides."""
    owner, other = finding["_id"]["owner"], finding["_id"]["other"]
    edges = db["social.edges"]

    def work(session: ClientSession) -> int:
        ids = [{"owner": owner, "other": other}, {"owner": other, "other": owner}]
        mine, theirs = (owner_part(edges.find_one({"_id": _id}, session=session) or {"_id": _id}) for _id in ids)
        edges.delete_many({"_id": {"$in": ids}}, session=session)
        right = {**mirrored(theirs), **mine}
        if len(right) > 1:
            edges.insert_many([right, mirrored(right)], session=session)
        return 1

    return in_transaction(db, work)


def _end_circles(db: Db, finding: Document) -> int:
    def work(session: ClientSession) -> int:
        pair = Pair(db, finding["_id"]["owner"], finding["_id"]["other"], session)
        if "blocked_at" not in pair.edge:
            return 0
        end_circles(db, pair, session)
        pair.write(only_blocks(pair.edge))
        return 1

    return in_transaction(db, work)


def _set_counts(db: Db, finding: Document) -> int:
    unchanged = {"_id": finding["_id"], "circles": finding["circles"], "circled": finding["circled"]}
    circles = [circle for circle in finding["true_circles"] if circle["count"]]
    change = {"$set": {"circles": circles, "circled": finding["true_circled"]}}
    return db["social.users"].update_one(unchanged, change).modified_count


def _set_comments(db: Db, finding: Document) -> int:
    def work(session: ClientSession) -> int:
        count = db["social.comments"].count_documents(queries.COMMENTS(post=finding["_id"]), session=session)
        change = {"$set": {"comments": last_comments(db, finding["_id"], session), "comment_count": count}}
        return db["social.posts"].update_one(queries.POST(post=finding["_id"]), change, session=session).modified_count

    return in_transaction(db, work)


def _remove_comment(db: Db, finding: Document) -> int:
    return db["social.comments"].delete_one({"_id": finding["_id"], "post_id": finding["post_id"]}).deleted_count


CHECKS = [
    Check(
        "one-sided-edge",
        _one_sided,
        "the edge from {_id[owner]} to {_id[other]} differs from the edge in the other direction",
        repair=_set_both,
        counted_as="edges set",
        collection="social.edges",
    ),
    Check(
        "circles-across-block",
        _in_parts(problem_queries.CIRCLES_ACROSS_BLOCKS, problem_queries.EVERY_USER),
        "{_id[owner]} has blocked {_id[other]}, and one of the two is still in a circle of the other",
        repair=_end_circles,
        counted_as="circles ended",
        collection="social.edges",
    ),
    Check(
        "wrong-circle-count",
        _in_parts(problem_queries.WRONG_COUNTS, problem_queries.EVERY_USER),
        "the circles of {_id} count {circled} people, the edges {true_circled}, or the size of one circle is wrong",
        repair=_set_counts,
        counted_as="counts set",
        collection="social.users",
    ),
    Check(
        "wrong-comments",
        _in_parts(problem_queries.WRONG_COMMENTS, problem_queries.EVERY_POST),
        "post {_id} counts {comment_count} comments, but there are {count}, or its last comments are wrong",
        repair=_set_comments,
        counted_as="posts set",
        collection="social.posts",
    ),
    Check(
        "lost-comment",
        _in_parts(problem_queries.LOST_COMMENTS, problem_queries.EVERY_POST),
        "comment {_id} belongs to post {post_id}, which does not exist",
        repair=_remove_comment,
        counted_as="comments removed",
        collection="social.comments",
    ),
]
